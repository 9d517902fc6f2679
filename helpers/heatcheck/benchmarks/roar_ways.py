"""Cheaper ways to judge a condition than full retraining, and whether they rank estimators alike."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from heatcheck.benchmarks.image_changes import Mode
from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_conditions import is_model_based
from heatcheck.benchmarks.roar_tables import Array, Bits, bits_of
from heatcheck.metrics.agreement import RankAgreement, agreement_of_draws
from heatcheck.metrics.paired_runs import resampled_run_means
from heatcheck.metrics.retraining_curves import area_between, whole_curves


class Judged(NamedTuple):
    """A way to judge conditions: the network and what stands where units are removed."""

    way: str
    fill: str
    text: str


class _Grid(NamedTuple):
    """What was judged in one way: kind of removal, model-based estimators, percentages."""

    mode: Mode
    names: Sequence[str]
    percents: Sequence[int]


def ways(results: Results) -> list[Judged]:
    """Ways to judge a condition that a run has, full retraining first."""
    fill = results.settings.fill
    found = [
        Judged("scratch", fill, "retrained"),
        Judged("finetune", fill, "fine-tuned"),
        Judged("evaluator", fill, "one evaluator"),
        Judged("none", fill, "not retrained"),
    ]
    if fill != "road":
        found += [
            Judged("scratch", "road", "imputed, retrained"),
            Judged("none", "road", "imputed, not retrained"),
        ]
    present = {(key.way, key.fill) for key in results.outcomes}
    return [one for one in found if (one.way, one.fill) in present]


def ways_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Do cheaper ways rank the model-based estimators as full retraining does, and what do they cost?

    Estimators are scored by the area of their curves over the percentages that both ways were run at.

    Returns:
        Columns ``way, fill, text, mode``, those of ``RankAgreement`` against full retraining (missing for
        fewer than three estimators), ``percents``, ``trainings`` and ``seconds`` (CPU seconds of both modes).
    """
    rows = []
    full, *cheap = ways(results)
    for judged in (full, *cheap):
        for mode in results.settings.modes:
            grid = _shared(results, judged, mode)
            if len(grid.names) < 3:
                found = RankAgreement(*(np.nan,) * 6, n=len(grid.names))
            else:
                scores = [_areas(results, one, grid, seed) for one in (full, judged)]
                values, draws = zip(*scores, strict=True)
                found = agreement_of_draws(*values, *draws)
            cost = _cost(results, judged)
            rows.append((*judged, mode, *found, ", ".join(map(str, grid.percents)), *cost))
    columns = ["way", "fill", "text", "mode", *RankAgreement._fields, "percents", "trainings", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def way_accuracies(results: Results, table: pd.DataFrame) -> pd.DataFrame:
    """Accuracies of all ways at the largest percentage that all of them were run at.

    Args:
        results: Of a run.
        table: Its ``condition_table``.

    Returns:
        Rows of the table with the column ``text`` of the way; no row where no percentage is shared.
    """
    found = ways(results)
    plain = table[~table["ranking"].str.contains("/") & (table["percent"] > 0) & (table["checkpoint"] == 0)]
    parts = [
        plain[(plain["way"] == one.way) & (plain["fill"] == one.fill)].assign(text=one.text) for one in found
    ]
    shared = set.intersection(*(set(part["percent"]) for part in parts))
    rows = pd.concat(parts, ignore_index=True)
    return rows[rows["percent"] == max(shared, default=-1)]


def _shared(results: Results, judged: Judged, mode: Mode) -> _Grid:
    """Model-based estimators and percentages that were judged so."""
    keys = [
        key
        for key in results.outcomes
        if (key.way, key.fill, key.mode) == (judged.way, judged.fill, mode) and is_model_based(key.ranking)
    ]
    names = list(dict.fromkeys(key.ranking for key in keys))
    return _Grid(mode, names, sorted({key.percent for key in keys}))


def _areas(results: Results, judged: Judged, grid: _Grid, seed: int) -> tuple[Array, Array]:
    """Areas ``(M,)`` of estimators, more is better, and resamples ``(B, M)``.

    The ends of the curves are the same for all estimators and do not change their order.
    """
    asked: Mapping[str, Any] = {"way": judged.way, "fill": judged.fill}
    bits = [
        [_in_all_runs(results, bits_of(results, name, grid.mode, place, **asked)) for place in grid.percents]
        for name in grid.names
    ]
    values = np.array(bits)  # (M, P, S, N)
    draws = resampled_run_means(values, seed=seed)
    sign = -1.0 if grid.mode == "roar" else 1.0

    def area(accuracies: Array) -> Array:
        x, curves = whole_curves(accuracies, 0.0, 0.0, grid.percents)
        return sign * area_between(x, curves, np.zeros_like(curves))

    return area(values.mean((-2, -1))), area(draws)


def _in_all_runs(results: Results, bits: Bits) -> Bits:
    """Bits of every run; a network that was not retrained answers the same in all."""
    return np.broadcast_to(bits, (results.settings.n_runs, bits.shape[1]))


def _cost(results: Results, judged: Judged) -> tuple[int, float]:
    keys = [key for key in results.outcomes if (key.way, key.fill) == (judged.way, judged.fill)]
    trained = {"none": 0, "evaluator": results.settings.n_runs}.get(judged.way, len(keys))
    return trained, sum(results.outcomes[key].seconds for key in keys)
