"""From scores per image to the chapter's tables: means with paired intervals, ranks, chosen thresholds."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from heatcheck.attribution.registry import get_method
from heatcheck.benchmarks.deletion import DEFAULT_ALPHA, Results, Settings
from heatcheck.metrics.localization import choose_alpha
from heatcheck.metrics.resampling import mean_intervals
from heatcheck.metrics.statistics import average_ranks

LOCALIZATION = "localization error"
# Which direction of each score is better; every table and axis says so.
BETTER: dict[str, Literal["lower", "higher"]] = {
    "deletion": "lower",
    "deletion/first": "lower",
    "deletion/max": "lower",
    "insertion": "higher",
    "insertion/first": "higher",
    "insertion/max": "higher",
    LOCALIZATION: "lower",
    "saliency-metric": "lower",
    "pointing-game": "higher",
    "relevance-mass": "higher",
    "relevance-rank": "higher",
}
# An object counts as found from this overlap on (Russakovsky et al. 2015).
MIN_IOU = 0.5


class Score(NamedTuple):
    """One column of numbers to compare methods by.

    Attributes:
        data: Data set.
        metric: One of ``BETTER``.
        fill: What replaces pixels, for deletion and insertion.
        values: Images by methods, NaN where undefined.
        flags: The same, why a value is not an ordinary one.
        settings: For each method, the threshold or pooling it was scored with.
    """

    data: str
    metric: str
    fill: str | None
    values: pd.DataFrame
    flags: pd.DataFrame
    settings: dict[str, str]


def all_scores(results: Results) -> list[Score]:
    """Every score of a run, data set by data set, each with the methods in the order of the settings."""
    return [score for data in _data_sets(results) for score in _data_scores(results, data)]


def find_score(scores: list[Score], data: str, metric: str, fill: str | None = None) -> Score:
    """The score of ``metric`` on ``data``; the first fill there is when none is named.

    Raises:
        ValueError: There is none; the message lists those there are.
    """
    for score in scores:
        if (score.data, score.metric) == (data, metric) and fill in (None, score.fill):
            return score
    known = sorted({f"{score.metric} on {score.data}" for score in scores})
    raise ValueError(f"no score {metric!r} on {data!r} with fill {fill!r}; there are: {', '.join(known)}")


def score_table(scores: list[Score], *, seed: int = 0) -> pd.DataFrame:
    """Means of all methods with 95 % bootstrap intervals over images.

    Returns:
        Columns ``data, metric, fill, method, setting, mean, low, high, rank, n, flagged, is_control,
        better``; ``n`` images have a defined score, ``flagged`` maps were degenerate. Equal means share a
        rank.
    """
    return pd.concat([_summary(score, seed) for score in scores], ignore_index=True)


def headline(table: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """Rows of ``table`` that a first look needs: counted images, deletion with the first fill, raw areas.

    Args:
        table: Of ``score_table`` or ``curve_table``.
        settings: Settings of the run.
    """
    kind = "metric" if "metric" in table else "direction"
    counted = table[table["data"] == settings.counted]
    other_fill = (counted[kind] == "deletion") & (counted["fill"] != settings.fills[0])
    return counted[~other_fill & ~counted[kind].str.contains("/")]


def curve_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Mean deletion and insertion curves with 95 % intervals.

    Returns:
        Columns ``data, method, direction, fill, fraction, mean, low, high``.
    """
    table = results.scores[results.scores["metric"].str.endswith(" curve")]
    parts = []
    for (data, metric, fill), rows in table.groupby(["data", "metric", "fill"], sort=False):
        for method in results.settings.methods:
            points = rows[rows["method"] == method].pivot(index="image", columns="fraction", values="value")
            mean, low, high = mean_intervals(points.to_numpy(dtype=float), n_resamples=500, seed=seed)
            direction = str(metric).removesuffix(" curve")
            fixed = {"data": data, "method": method, "direction": direction, "fill": fill}
            columns = {"fraction": points.columns.to_numpy(dtype=float), "mean": mean, "low": low}
            parts.append(pd.DataFrame({**fixed, **columns, "high": high}))
    return pd.concat(parts, ignore_index=True)


def alpha_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Localization error of the counted images at every threshold.

    Returns:
        Columns ``method, alpha, error, low, high, chosen``; ``chosen`` marks the threshold that was best on
        the held-out images, or the default without any. Empty for a data set without boxes.
    """
    ious = _rows(results.scores, results.settings.counted, "iou")
    if ious.empty:
        return pd.DataFrame(columns=["method", "alpha", "error", "low", "high", "chosen"])
    chosen = _chosen_alphas(results, results.settings.counted, "iou")
    parts = []
    for method in results.settings.methods:
        errors = _errors(ious[ious["method"] == method]).pivot(index="image", columns="alpha", values="value")
        mean, low, high = mean_intervals(errors.to_numpy(dtype=float), seed=seed)
        alphas = errors.columns.to_numpy(dtype=float)
        columns = {"alpha": alphas, "error": mean, "low": low, "high": high}
        parts.append(pd.DataFrame({"method": method, **columns, "chosen": alphas == chosen[method]}))
    return pd.concat(parts, ignore_index=True)


def best_method(scores: list[Score], data: str, metric: str) -> str | None:
    """Method with the best mean of ``metric``, controls left out; None where it is nowhere defined."""
    known = [score for score in scores if (score.data, score.metric) == (data, metric)]
    means = known[0].values.mean().dropna() if known else pd.Series(dtype=float)
    means = means[[method for method in means.index if not is_control(method)]]
    if means.empty:
        return None
    return str(means.idxmin() if BETTER[metric] == "lower" else means.idxmax())


def quotable(results: Results, scores: list[Score]) -> dict[str, Any]:
    """Numbers and names that the chapter's prose quotes, all of the counted images.

    Returns:
        Counts of images and methods, ``best`` method by metric, and ``beaten_by_control``: by metric, how
        many methods have a worse mean than the best control.
    """
    data, settings = results.settings.counted, results.settings
    counted = [score for score in scores if score.data == data]
    metrics = list(dict.fromkeys(score.metric for score in counted))
    methods = [method for method in settings.methods if not is_control(method)]
    best = {metric: best_method(counted, data, metric) or "no method (not measured)" for metric in BETTER}
    beaten = {metric: _beaten(find_score(counted, data, metric), methods) for metric in metrics}
    return {
        "n_images": len(find_score(counted, data, "deletion").values),
        "n_heldout": results.heldout["image"].nunique() if len(results.heldout) else 0,
        "n_wrong": results.n_wrong,
        "n_methods": len(methods),
        "default_alpha": DEFAULT_ALPHA,
        "best": best,
        "beaten_by_control": beaten,
        "best_localizer": best_localizer(scores, data),
    }


def best_localizer(scores: list[Score], data: str) -> str:
    """Method with the smallest localization error on ``data``; without boxes, the best one by deletion."""
    best = best_method(scores, data, LOCALIZATION) or best_method(scores, data, "deletion")
    return best or str(scores[0].values.columns[0])


def is_control(method: str) -> bool:
    """Whether ``method`` looks at no model."""
    return get_method(method).family == "control"


def _beaten(score: Score, methods: list[str]) -> int:
    """How many of ``methods`` have a worse mean than the best control; 0 without controls."""
    sign = 1 if BETTER[score.metric] == "lower" else -1
    means = sign * score.values.mean()
    controls = [method for method in means.index if is_control(str(method))]
    return int((means[methods] > means[controls].min()).sum()) if controls else 0


def _data_sets(results: Results) -> list[str]:
    return list(dict.fromkeys([results.settings.shown, results.settings.counted]))


def _data_scores(results: Results, data: str) -> Iterator[Score]:
    table = results.scores[results.scores["data"] == data]
    for metric in (
        "deletion",
        "deletion/first",
        "deletion/max",
        "insertion",
        "insertion/first",
        "insertion/max",
    ):
        rows = table[table["metric"] == metric]
        for fill in dict.fromkeys(rows["fill"]):
            yield _score(results, data, metric, rows[rows["fill"] == fill], fill=str(fill))
    for metric, column in ((LOCALIZATION, "iou"), ("saliency-metric", "saliency-metric")):
        rows = table[table["metric"] == column]
        if rows["value"].notna().any():
            chosen = _chosen_alphas(results, data, column)
            kept = rows[rows["alpha"] == rows["method"].map(chosen)]
            settings = {method: f"alpha {alpha:.2f}" for method, alpha in chosen.items()}
            yield _score(results, data, metric, _errors(kept) if column == "iou" else kept, settings=settings)
    if len(rows := table[table["metric"] == "pointing-game"]):
        yield _score(results, data, "pointing-game", rows)
    for metric in ("relevance-mass", "relevance-rank"):
        rows = table[table["metric"] == metric]
        if len(rows):
            best = _best_poolings(rows)
            kept = rows[rows["pooling"] == rows["method"].map(best)]
            yield _score(results, data, metric, kept, settings=best)


def _score(
    results: Results,
    data: str,
    metric: str,
    rows: pd.DataFrame,
    *,
    fill: str | None = None,
    settings: dict[str, str] | None = None,
) -> Score:
    methods = results.settings.methods
    values, flags = (
        rows.pivot(index="image", columns="method", values=column)[methods] for column in ("value", "flag")
    )
    return Score(data, metric, fill, values.astype(float), flags, settings or {})


def _summary(score: Score, seed: int) -> pd.DataFrame:
    mean, low, high = mean_intervals(score.values.to_numpy(), seed=seed)
    better = BETTER[score.metric]
    methods = list(score.values.columns)
    return pd.DataFrame(
        {
            "data": score.data,
            "metric": score.metric,
            "fill": score.fill,
            "method": methods,
            "setting": [score.settings.get(method, "") for method in methods],
            "mean": mean,
            "low": low,
            "high": high,
            "rank": average_ranks(mean, best="low" if better == "lower" else "high"),
            "n": score.values.notna().sum().to_numpy(),
            "flagged": (score.flags != "ok").sum().to_numpy(),
            "is_control": [is_control(method) for method in methods],
            "better": better,
        }
    )


def _chosen_alphas(results: Results, data: str, column: str) -> dict[str, float]:
    """Threshold of each method: best on the held-out images, or the default where there are none."""
    methods = results.settings.methods
    if data != results.settings.counted or not len(results.heldout):
        return dict.fromkeys(methods, DEFAULT_ALPHA)
    rows = results.heldout[results.heldout["metric"] == column]
    means = (_errors(rows) if column == "iou" else rows).groupby(["method", "alpha"])["value"].mean()
    return {
        method: choose_alpha(means[method].index.tolist(), means[method].tolist()).alpha for method in methods
    }


def _best_poolings(rows: pd.DataFrame) -> dict[str, str]:
    """Pooling with the highest mean, per method (the best one is reported, as Arras et al. 2022 do)."""
    means = rows.groupby(["method", "pooling"], sort=False)["value"].mean().unstack("pooling")
    # A method without any defined score keeps the first pooling; its row then says how many were flagged.
    best = means.fillna(-np.inf).idxmax(axis="columns")
    return {str(method): str(pooling) for method, pooling in best.items()}


def _errors(ious: pd.DataFrame) -> pd.DataFrame:
    """Overlaps turned into errors: 1 where the object is not found, NaN where that is undefined."""
    value = ious["value"].to_numpy(dtype=float)
    return ious.assign(value=np.where(np.isnan(value), np.nan, (value < MIN_IOU).astype(float)))


def _rows(scores: pd.DataFrame, data: str, metric: str) -> pd.DataFrame:
    return scores[(scores["data"] == data) & (scores["metric"] == metric)]
