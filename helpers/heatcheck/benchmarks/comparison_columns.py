"""Columns of the comparison: what one metric of one benchmark says of every method, image by image."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heatcheck.metrics.paired_runs import resampled_run_means
from heatcheck.metrics.resampling import defined_means, resampled_means

Array = NDArray[np.float64]
Benchmark = Literal["clevr_xai", "deletion", "idsds", "roar"]
BENCHMARKS: tuple[Benchmark, ...] = ("clevr_xai", "deletion", "idsds", "roar")
N_RESAMPLES = 1000


class Metric(NamedTuple):
    """A metric of one of the benchmarks.

    Attributes:
        key: Name in tables of numbers.
        label: Name in figures and on pages.
        benchmark: Benchmark it belongs to.
        better: Which direction is better.
        asks: The question it asks of a heatmap.
    """

    key: str
    label: str
    benchmark: Benchmark
    better: Literal["lower", "higher"]
    asks: str

    @property
    def sign(self) -> int:
        """1 where more is better, else -1."""
        return 1 if self.better == "higher" else -1


_ALL = (
    Metric("mass", "mass", "clevr_xai", "higher", "how much relevance lies on the deciding object"),
    Metric("rank", "rank", "clevr_xai", "higher", "how many of the top pixels lie on the deciding object"),
    Metric("deletion", "deletion", "deletion", "lower", "how soon confidence falls without the top pixels"),
    Metric("insertion", "insertion", "deletion", "higher", "how soon confidence rises with the top pixels"),
    Metric("localization-error", "box error", "deletion", "lower", "how often its box misses the object"),
    Metric("saliency-metric", "saliency metric", "deletion", "lower", "how tight a crop keeps confidence"),
    Metric("idsds", "IDSDS", "idsds", "higher", "whether patches rank as the tuned model's logit drops do"),
    Metric("sds", "SDS", "idsds", "higher", "whether patches rank as the original model's logit drops do"),
    Metric("ids", "IDS", "idsds", "higher", "how long confidence stays without the least relevant pixels"),
    Metric("roar", "ROAR", "roar", "higher", "how much accuracy is lost without the top pixels, retrained"),
    Metric("kar", "KAR", "roar", "higher", "how much accuracy is kept by the top pixels alone, retrained"),
)
METRICS: Mapping[str, Metric] = MappingProxyType({metric.key: metric for metric in _ALL})
# The same metrics of absolute maps, for what signs are worth; no metrics of the comparison themselves.
UNSIGNED: Mapping[str, Metric] = MappingProxyType(
    {
        key: METRICS[key]._replace(key=f"{key}-abs", label=f"{METRICS[key].label}, absolute")
        for key in ("idsds", "sds", "ids")
    }
)
TITLES: Mapping[Benchmark, str] = MappingProxyType(
    {
        "clevr_xai": "CLEVR-XAI",
        "deletion": "Deletion and localization",
        "idsds": "Single deletion",
        "roar": "Remove and retrain",
    }
)


@dataclass(frozen=True)
class Column:
    """One metric's scores of all methods of a comparison, of one classifier.

    Attributes:
        metric: The metric.
        classifier: Classifier that is explained.
        methods: All ``M`` methods of the comparison, controls among them.
        images: Names of the ``N`` images.
        values: ``(S, N, M)`` scores, one per image, of ``S`` training runs (1 where nothing is retrained);
            NaN is no score. The mean over runs and images is the metric's score of a method.
        why: For methods without any score, the reason.
        seed: Seed of everything random in the heatmaps.
    """

    metric: Metric
    classifier: str
    methods: tuple[str, ...]
    images: tuple[str, ...]
    values: Array
    why: Mapping[str, str]
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values that do not belong to the methods and images."""
        wanted = (len(self.images), len(self.methods))
        if self.values.ndim != 3 or self.values.shape[1:] != wanted:
            raise ValueError(f"values must be (runs, {wanted[0]}, {wanted[1]}), got {self.values.shape}")

    @property
    def key(self) -> str:
        """Name of the metric."""
        return self.metric.key

    @property
    def n_runs(self) -> int:
        """Training runs."""
        return len(self.values)

    def means(self) -> Array:
        """Score ``(M,)`` of every method as the benchmark reports it; NaN where there is none."""
        return defined_means(self.values.reshape(-1, len(self.methods)))

    def goodness(self) -> Array:
        """Score ``(M,)`` of every method, turned so that more is better."""
        return self.metric.sign * self.means()

    def draws(self, *, n_resamples: int = N_RESAMPLES, seed: int = 0) -> Array:
        """Resamples ``(R, M)`` of ``goodness`` over images, and runs where there are several.

        Columns of the same images get the same draws, so that functions of several columns are paired. They
        are drawn once for all tables that ask for them, and cannot be written to.
        """
        key = n_resamples, seed
        if key not in self._drawn:
            self._drawn[key] = self._draw(n_resamples, seed)
            self._drawn[key].flags.writeable = False
        return self._drawn[key]

    @cached_property
    def _drawn(self) -> dict[tuple[int, int], Array]:
        return {}

    def _draw(self, n_resamples: int, seed: int) -> Array:
        stream = seed + (zlib.crc32("\n".join(self.images).encode()) << 16)
        scored = ~np.isnan(self.values).all((0, 1))
        found = np.full((n_resamples, len(self.methods)), np.nan)
        some = self.values[:, :, scored]  # (S, N, M')
        if self.n_runs == 1:
            found[:, scored] = resampled_means(some[0], n_resamples=n_resamples, seed=stream)
        else:
            found[:, scored] = resampled_run_means(
                np.ascontiguousarray(some.transpose(2, 0, 1)), n_resamples=n_resamples, seed=stream
            )
        drawn: Array = self.metric.sign * found
        return drawn

    def take(self, methods: Sequence[str]) -> "Column":
        """The same scores of some methods, in the order asked for.

        Raises:
            ValueError: A method is not in the column.
        """
        if missing := [name for name in methods if name not in self.methods]:
            raise ValueError(f"no scores of {', '.join(missing)}; there are: {', '.join(self.methods)}")
        places = [self.methods.index(name) for name in methods]
        why = {name: text for name, text in self.why.items() if name in methods}
        return Column(
            self.metric,
            self.classifier,
            tuple(methods),
            self.images,
            self.values[:, :, places],
            why,
            self.seed,
        )


def find_column(columns: Sequence[Column], key: str, classifier: str | None = None) -> Column:
    """The column of a metric; the first classifier's where none is named.

    Raises:
        ValueError: There is none; the message lists those there are.
    """
    for column in columns:
        if column.key == key and classifier in (None, column.classifier):
            return column
    known = ", ".join(f"{column.key} of {column.classifier}" for column in columns)
    raise ValueError(f"no column {key!r} of classifier {classifier!r}; there are: {known or 'none'}")


def main_columns(columns: Sequence[Column]) -> list[Column]:
    """One column per metric, of the first classifier and seed that has it, in the order of ``METRICS``."""
    first: dict[str, Column] = {}
    for column in columns:
        first.setdefault(column.key, column)
    return [first[key] for key in METRICS if key in first]
