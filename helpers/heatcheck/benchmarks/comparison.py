"""Do the benchmarks agree? The same methods, with the same options, through all four of them.

Each benchmark runs as its own chapter does and fills the same results store, so that whatever a chapter has
computed with equal settings is not computed again.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from heatcheck.benchmarks import clevr_xai, deletion, idsds, roar
from heatcheck.benchmarks.comparison_columns import METRICS, Benchmark, Column
from heatcheck.benchmarks.comparison_fit import Fit, fit
from heatcheck.benchmarks.comparison_scores import (
    Asked,
    clevr_columns,
    deletion_columns,
    idsds_columns,
    map_facts,
    roar_columns,
)
from heatcheck.benchmarks.comparison_settings import (
    Settings,
    check,
    clevr_settings,
    deletion_settings,
    idsds_settings,
    roar_settings,
)
from heatcheck.runtime.store import ResultsStore

__all__ = ["Results", "Settings", "check", "run"]


class Results(NamedTuple):
    """What a comparison gives.

    Attributes:
        settings: Settings, the methods of plug-ins included.
        columns: Scores by metric, classifier and seed; the main classifier and seed first.
        unsigned: The same of absolute maps, for the metrics of ``UNSIGNED``.
        refused: By benchmark, why it cannot take a method.
        maps: Facts about the heatmaps; see ``map_facts``. Empty where deletion was not run.
        pictures: Results of the deletion benchmark for the main classifier, with its images and heatmaps;
            None where it was not run.
    """

    settings: Settings
    columns: tuple[Column, ...]
    unsigned: tuple[Column, ...]
    refused: Mapping[Benchmark, Mapping[str, str]]
    maps: pd.DataFrame
    pictures: deletion.Results | None


class _Part(NamedTuple):
    """One benchmark with one classifier, its own one where that is empty, and one seed."""

    settings: Settings
    benchmark: Benchmark
    classifier: str
    fit: Fit
    seed: int

    @property
    def asked(self) -> Asked:
        """All methods of the comparison, and why this benchmark refuses some."""
        return Asked(self.settings.methods, self.fit.refused)


def run(settings: Settings, store: ResultsStore) -> Results:
    """Scores of every method by every benchmark; finished cells come from ``store``.

    Raises:
        ValueError: A method, option, model or setting is unknown, or a method fits no benchmark; nothing has
            been computed then.
        PluginError: A plug-in cannot be used.
    """
    settings = check(settings)
    parts = _parts(settings)
    found: list[Column] = []
    pictures = None
    for part in parts:
        made = _RUN[part.benchmark](part, store)
        found += _COLUMNS[part.benchmark](made, part.asked)
        if part.benchmark == "deletion" and pictures is None:
            pictures = made
    columns = tuple(column for column in found if column.key in METRICS)
    unsigned = tuple(column for column in found if column.key not in METRICS)
    refused = {part.benchmark: part.fit.refused for part in reversed(parts)}
    maps = pd.DataFrame() if pictures is None else map_facts(pictures, store)
    return Results(settings, columns, unsigned, refused, maps, pictures)


def _parts(settings: Settings) -> list[_Part]:
    """All parts of a comparison that take a method, the main classifier and seed first."""
    fits = {
        (benchmark, classifier): fit(settings, benchmark, classifier or settings.classifiers[0])
        for benchmark in settings.benchmarks
        for classifier in (settings.classifiers if benchmark in _CHOOSING else [""])
    }
    for name in settings.methods:
        reasons = [f"{key[0]}: {found.refused[name]}" for key, found in fits.items() if name in found.refused]
        if len(reasons) == len(fits):
            raise ValueError(f"method {name!r} fits none of the benchmarks ({'; '.join(reasons)})")
    return [
        _Part(settings, *key, found, seed)
        for seed in settings.seeds
        for key, found in fits.items()
        # Retrained networks differ from run to run anyway.
        if found.methods and (seed == settings.seeds[0] or key[0] != "roar")
    ]


def _clevr(part: _Part, store: ResultsStore) -> clevr_xai.Results:
    return clevr_xai.run(clevr_settings(part.settings, part.fit.methods, seed=part.seed), store)


def _deletion(part: _Part, store: ResultsStore) -> deletion.Results:
    own = deletion_settings(part.settings, part.classifier, part.fit.methods, seed=part.seed)
    return deletion.run(own, store)


def _idsds(part: _Part, store: ResultsStore) -> idsds.Results:
    own = idsds_settings(part.settings, part.classifier, part.fit.methods, seed=part.seed)
    return idsds.run(own, store)


def _roar(part: _Part, store: ResultsStore) -> roar.Results:
    return roar.run(roar_settings(part.settings, part.fit.methods), store)


_RUN: Mapping[Benchmark, Callable[[_Part, ResultsStore], Any]] = {
    "clevr_xai": _clevr,
    "deletion": _deletion,
    "idsds": _idsds,
    "roar": _roar,
}
_COLUMNS: Mapping[Benchmark, Callable[[Any, Asked], Iterator[Column]]] = {
    "clevr_xai": clevr_columns,
    "deletion": deletion_columns,
    "idsds": idsds_columns,
    "roar": roar_columns,
}
# Benchmarks that explain the classifiers of the settings.
_CHOOSING: tuple[Benchmark, ...] = ("deletion", "idsds")
