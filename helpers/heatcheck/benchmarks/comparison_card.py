"""A card of one method: what every metric of the comparison says of it, among the built-in methods."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import is_control
from heatcheck.benchmarks.comparison_columns import METRICS, TITLES, Column
from heatcheck.benchmarks.comparison_tables import interval_of
from heatcheck.metrics.rank_stability import rank_intervals

Array = NDArray[np.float64]
Row = dict[str, Any]
COLUMNS = (
    "benchmark", "title", "metric", "label", "better", "classifier", "main", "n_images", "n_runs",
    "value", "low", "high", "rank", "rank_low", "rank_high", "n_methods", "best", "best_value",
    "control", "control_value", "control_place", "control_low", "control_high",
    "n_controls", "n_beaten", "beats_controls",
    "median", "median_low", "median_high", "versus_median", "why",
)  # fmt: skip
_BLANK: Row = {
    **{"best": "", "control": "", "n_controls": 0, "n_beaten": 0, "beats_controls": ""},
    **{"versus_median": "", "why": ""},
}


class _Field(NamedTuple):
    """The method among others in one column: more is better in ``means`` and resampled ``draws``."""

    method: str
    against: list[str]
    controls: list[str]
    means: dict[str, float]
    draws: dict[str, Array]
    sign: int


def card_table(
    columns: Sequence[Column], method: str, *, rivals: Sequence[str] | None = None, seed: int = 0
) -> pd.DataFrame:
    """One row per metric and classifier with what it says of ``method``; see ``COLUMNS``.

    ``value`` is in the metric's own direction and ``rank`` 1 the best among ``n_methods``: the method and
    its rivals, no controls. ``control`` is the control with the best score and ``control_place`` where it
    would stand among them; ``control_low`` to ``control_high`` is the paired interval of the method's lead
    over it. ``beats_controls`` is ``yes`` where the intervals of the lead over every control lie above 0,
    ``no`` where one lies below. ``versus_median`` says so of the lead over the rivals' median, ``better`` or
    ``worse``. Intervals are 95 % percentile intervals of the bootstrap over images (and training runs).
    Without a score all numbers are NaN and ``why`` has the reason.

    Args:
        columns: Of the comparison; of several seeds, the first counts.
        method: The method.
        rivals: Methods it is ranked among; by default all that are no controls.
        seed: Seed of the resamples.

    Raises:
        ValueError: A column lacks the method.
    """
    load_catalog()
    chosen: dict[tuple[str, str], Column] = {}
    for column in columns:
        if method not in column.methods:
            raise ValueError(f"no scores of {method!r}; there are: {', '.join(column.methods)}")
        chosen.setdefault((column.key, column.classifier), column)
    order = list(METRICS)
    ordered = sorted(chosen.values(), key=lambda column: order.index(column.key))  # stable: classifiers stay
    rows, seen = [], set[str]()
    for column in ordered:
        rows.append(_facts(column, column.key not in seen) | _row(column, method, rivals, seed))
        seen.add(column.key)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _facts(column: Column, main: bool) -> Row:
    metric = column.metric
    return {
        "benchmark": metric.benchmark,
        "title": TITLES[metric.benchmark],
        "metric": metric.key,
        "label": metric.label,
        "better": metric.better,
        "classifier": column.classifier,
        "main": main,
        "n_images": len(column.images),
        "n_runs": column.n_runs,
    }


def _row(column: Column, method: str, rivals: Sequence[str] | None, seed: int) -> Row:
    """What a column says of the method."""
    field = _field(column, method, rivals, seed)
    if np.isnan(field.means[method]):
        why = column.why.get(method, "no image has a score")
        return _BLANK | {"n_methods": len(field.against), "why": why}
    low, high = interval_of(field.sign * field.draws[method])
    value = {"value": field.sign * field.means[method], "low": low, "high": high}
    return {**_BLANK, **value, **_ranked(field), **_against_controls(field), **_against_median(field)}


def _field(column: Column, method: str, rivals: Sequence[str] | None, seed: int) -> _Field:
    means = dict(zip(column.methods, column.goodness().tolist(), strict=True))
    scored = [name for name in column.methods if name != method and not np.isnan(means[name])]
    against = [name for name in scored if not is_control(name) and (rivals is None or name in rivals)]
    controls = [name for name in scored if is_control(name)]
    draws = dict(zip(column.methods, column.draws(seed=seed).T, strict=True))
    return _Field(method, against, controls, means, draws, column.metric.sign)


def _ranked(field: _Field) -> Row:
    ranked = [field.method, *field.against]
    scores = np.array([field.means[name] for name in ranked])
    draws = np.stack([field.draws[name] for name in ranked], axis=1)
    found = rank_intervals(scores, draws, best="high")
    best = max(field.against, key=field.means.__getitem__, default=None)
    return {
        "rank": found.rank[0],
        "rank_low": found.low[0],
        "rank_high": found.high[0],
        "n_methods": len(ranked),
        "best": best or "",
        "best_value": np.nan if best is None else field.sign * field.means[best],
    }


def _against_controls(field: _Field) -> Row:
    """The method's leads over every control; to beat all is to beat each, so no correction is needed."""
    if not field.controls:
        return {}
    hardest = max(field.controls, key=field.means.__getitem__)
    leads = {name: interval_of(field.draws[field.method] - field.draws[name]) for name in field.controls}
    n_beaten = sum(low > 0 for low, _ in leads.values())
    lost = any(high < 0 for _, high in leads.values())
    ranked = np.array([field.means[name] for name in (field.method, *field.against)])
    top = field.means[hardest]
    return {
        "control": hardest,
        "control_value": field.sign * top,
        # Between those that are better and those that are worse, in the middle of those that are equal.
        "control_place": 0.5 + (ranked > top).sum() + (ranked == top).sum() / 2,
        "control_low": leads[hardest][0],
        "control_high": leads[hardest][1],
        "n_controls": len(leads),
        "n_beaten": n_beaten,
        "beats_controls": "no" if lost else "yes" if n_beaten == len(leads) else "undecided",
    }


def _against_median(field: _Field) -> Row:
    if not field.against:
        return {}
    middle = np.median(np.stack([field.draws[name] for name in field.against]), axis=0)
    low, high = interval_of(field.draws[field.method] - middle)
    return {
        "median": field.sign * float(np.median([field.means[name] for name in field.against])),
        "median_low": low,
        "median_high": high,
        "versus_median": "better" if low > 0 else "worse" if high < 0 else "undecided",
    }
