"""Columns of known means, for tests of what the comparison computes from them."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pytest

from heatcheck.benchmarks.comparison_columns import METRICS, Column

N_IMAGES = 24


class MakeColumn(Protocol):
    def __call__(
        self,
        key: str,
        goodness: Mapping[str, float],
        *,
        noise: float = ...,
        runs: int = ...,
        classifier: str = ...,
        seed: int = ...,
        why: Mapping[str, str] | None = ...,
    ) -> Column: ...


@pytest.fixture
def make_column() -> MakeColumn:
    """Builds a column of a metric from the wanted goodness of each method; NaN is a refused method.

    Noise differs from image to image and sums to zero over them, so that means are as asked for. Metrics of
    one benchmark share their images.
    """

    def make(
        key: str,
        goodness: Mapping[str, float],
        *,
        noise: float = 0.01,
        runs: int = 1,
        classifier: str = "first",
        seed: int = 0,
        why: Mapping[str, str] | None = None,
    ) -> Column:
        metric = METRICS[key]
        random = np.random.default_rng([seed, *key.encode()])
        shaken = noise * random.normal(size=(runs, N_IMAGES, len(goodness)))
        shaken -= shaken.mean((0, 1))
        values = metric.sign * (np.array(list(goodness.values()), dtype=float) + shaken)
        images = tuple(f"{metric.benchmark}-{number}" for number in range(N_IMAGES))
        return Column(metric, classifier, tuple(goodness), images, values, why or {}, seed)

    return make
