"""Differences on the same questions: between methods, between settings, and to control experiments."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from heatcheck.attribution.registry import get_method
from heatcheck.benchmarks.clevr_xai import Results
from heatcheck.benchmarks.clevr_xai_controls import EXPERIMENTS, SIMILARITIES
from heatcheck.benchmarks.clevr_xai_scores import METRICS
from heatcheck.benchmarks.clevr_xai_tables import (
    Choice,
    Cut,
    best_poolings,
    cuts,
    is_control,
    paper_values,
    pooled_values,
    select,
)
from heatcheck.metrics.resampling import mean_intervals

_INTERVAL = ("difference", "low", "high")
_VARIANT = (
    *("pooling", "mean", "low", "high"),
    *("difference", "difference_low", "difference_high", "n", "is_main"),
)


def pair_table(results: Results, cut: Cut, *, choice: Choice = "best", seed: int = 0) -> pd.DataFrame:
    """Paired bootstrap intervals of the differences between the paper's methods, the best method first.

    Returns:
        Columns ``first, second, difference, low, high, n, neighbors``; all pairs, and ``neighbors`` marks
        those of methods that follow each other in the ranking.
    """
    values = paper_values(results, cut, choice)
    order = list(values.mean().sort_values(ascending=False, na_position="last").index)
    rows = []
    for place, first in enumerate(order):
        for step, second in enumerate(order[place + 1 :]):
            found = _difference(values[first] - values[second], seed)
            rows.append({"first": first, "second": second, **found, "neighbors": step == 0})
    return pd.DataFrame(rows, columns=["first", "second", *_INTERVAL, "n", "neighbors"])


def all_variants(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Every compared setting beside the main setting of its method, on the same questions.

    Returns:
        Columns ``group, method, label, kind, ground_truth, metric, pooling, mean, low, high, difference,
        difference_low, difference_high, n, is_main``; the difference is to the main setting where that was
        run. Each has its best pooling, the main one that of all questions.
    """
    rows = []
    keys = ["group", "method", "label"]
    for named, part in results.variants.groupby(keys, sort=False, observed=True):
        for cut in cuts(results.settings):
            own = select(part, cut)
            if len(own):
                fixed = dict(zip(keys, map(str, named), strict=True))
                rows.append({**fixed, **cut._asdict(), **_variant(results, cut, own, seed)})
    return pd.DataFrame(rows, columns=[*keys, *Cut._fields, *_VARIANT])


def control_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Control experiments: what is lost when a map is made for something else, how alike both maps are.

    Returns:
        Columns ``experiment, method, measure, mean, low, high, n, is_control``. Measures ``relevance-mass``
        and ``relevance-rank`` are paired differences, the map of the question minus the exchanged one, with
        the common pooling and the first ground truth; ``spearman``, ``pearson`` and ``difference`` compare
        the two maps.
    """
    rows = []
    for experiment in EXPERIMENTS:
        for measure in (*METRICS, *SIMILARITIES):
            values = control_values(results, experiment, measure)
            for method in values.columns:
                found = _difference(values[method], seed)
                mean, low, high = (found[name] for name in _INTERVAL)
                fixed = {"experiment": experiment, "method": method, "measure": measure}
                rows.append({**fixed, "mean": mean, "low": low, "high": high, "n": found["n"]})
    table = pd.DataFrame(rows, columns=["experiment", "method", "measure", "mean", "low", "high", "n"])
    return table.assign(is_control=[is_control(str(method)) for method in table["method"]])


def control_values(results: Results, experiment: str, measure: str) -> pd.DataFrame:
    """Values of questions by methods of one measure of ``control_table``; empty where it was not run."""
    controls, pooling = results.controls, results.settings.fixed_pooling
    if controls.empty or not (controls["experiment"] == experiment).any():
        return pd.DataFrame()
    mine = controls[controls["experiment"] == experiment]
    poolings = {method: pooling for method in results.settings.methods if method in set(mine["method"])}
    if measure in SIMILARITIES:
        return pooled_values(mine[mine["metric"] == measure], poolings)
    cut = next(item for item in cuts(results.settings) if item.metric == measure)
    other = pooled_values(select(mine, cut), poolings)
    return pooled_values(select(results.scores, cut), poolings).loc[other.index] - other


def _variant(results: Results, cut: Cut, own: pd.DataFrame, seed: int) -> dict[str, object]:
    """Accuracy of one setting, and its difference to the main one of its method."""
    (method,) = own["method"].unique()
    pooling = best_poolings(own)
    values = pooled_values(own, pooling)[method]
    mean, low, high = (float(part[0]) for part in mean_intervals(values.to_numpy()[:, None], seed=seed))
    main = select(results.scores, cut)
    # A variant that was not run itself is set against the method it is a variant of.
    base = method if (main["method"] == method).any() else get_method(method).variant_of
    main = main[main["method"] == base]
    found: Mapping[str, object] = dict.fromkeys(_INTERVAL, np.nan)
    if len(main):
        best = pooled_values(main, best_poolings(main))[base]
        found = _difference(values - best.loc[values.index], seed)
    return {
        "pooling": pooling[method],
        "mean": mean,
        "low": low,
        "high": high,
        "difference": found["difference"],
        "difference_low": found["low"],
        "difference_high": found["high"],
        "n": int(values.notna().sum()),
        "is_main": base == method and len(main) > 0 and own["setting"].iloc[0] == main["setting"].iloc[0],
    }


def _difference(values: pd.Series, seed: int) -> dict[str, object]:
    """Mean of paired differences with its 95 % interval over questions."""
    column = values.to_numpy(dtype=float)[:, None]
    found = [float(part[0]) for part in mean_intervals(column, seed=seed)] if len(column) else [np.nan] * 3
    return {**dict(zip(_INTERVAL, found, strict=True)), "n": int((~np.isnan(column)).sum())}
