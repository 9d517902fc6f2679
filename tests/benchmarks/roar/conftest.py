"""One run on digits that has everything in it but takes seconds, for all tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from heatcheck.benchmarks import roar
from heatcheck.benchmarks.roar_data import load_data
from heatcheck.runtime.store import ResultsStore

N_TRAIN, N_TEST = 96, 40
ESTIMATORS = ["random", "sobel", "grad", "sq-grad", "sg-sq-gb", "leaky", "random-redrawn", "input-x-gradient"]
EXTRAS = ("matched", "probes", "leaks", "road", "finetuned", "recursive", "extra_percents")
# A run without anything beyond the two grids.
PLAIN: dict[str, Any] = {**{name: [] for name in EXTRAS}, "evaluator": False}


class DigitsRun(NamedTuple):
    """Results with the store they came from."""

    results: roar.Results
    store: ResultsStore


def digits_settings(**changes: object) -> roar.Settings:
    """Settings of a tiny run on digits."""
    values: dict[str, object] = {
        "preset": "test",
        "estimators": ESTIMATORS,
        "data": "digits",
        "n_train": N_TRAIN,
        "n_test": N_TEST,
        "epochs": 1,
        "percents": [30, 70],
        "n_runs": 2,
        "n_samples": 2,
        "extra_percents": [70],
        "matched": ["grad"],
        "probes": ["sq-grad"],
        "leaks": ["leaky"],
        "road": ["grad"],
        "finetuned": ["grad"],
        "evaluator": True,
        "recursive": ["grad"],
    }
    return roar.Settings(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def digits_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Cache folder of the run."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("roar-cache")
        patch.setenv("HEATCHECK_CACHE", str(folder))
        load_data.cache_clear()
        yield folder


@pytest.fixture(scope="session")
def digits_run(digits_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> DigitsRun:
    """The run, once."""
    store = ResultsStore(tmp_path_factory.mktemp("roar-store"))
    return DigitsRun(roar.run(digits_settings(), store), store)
