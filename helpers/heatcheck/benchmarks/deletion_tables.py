"""From scores per image to the chapter's tables: means with paired intervals, ranks, chosen thresholds."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from heatcheck.attribution.registry import is_control as is_control
from heatcheck.benchmarks.deletion import Results, Settings
from heatcheck.benchmarks.deletion_settings import default_alpha
from heatcheck.metrics.flags import FLAGS, OK
from heatcheck.metrics.localization import choose_alpha
from heatcheck.metrics.resampling import Intervals, defined_means, mean_intervals, stratified_intervals
from heatcheck.metrics.statistics import average_ranks, summarize

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
        classes: Class of each image where the score is a mean over classes, as in the pointing game; else
            None.
    """

    data: str
    metric: str
    fill: str | None
    values: pd.DataFrame
    flags: pd.DataFrame
    settings: dict[str, str]
    classes: pd.Series | None = None

    def intervals(self, seed: int = 0) -> Intervals:
        """Mean of every method with its 95 % interval over images."""
        values = self.values.to_numpy()
        if self.classes is None:
            return mean_intervals(values, seed=seed)
        return stratified_intervals(values, self.classes.loc[self.values.index].to_numpy(), seed=seed)

    def means(self) -> pd.Series:
        """Mean of every method."""
        values = self.values.to_numpy()
        if self.classes is not None:
            classes = self.classes.loc[self.values.index].to_numpy()
            values = np.stack([defined_means(values[classes == label]) for label in np.unique(classes)])
        return pd.Series(defined_means(values), index=self.values.columns)


def all_scores(results: Results) -> list[Score]:
    """Every score of a run, each with the methods in the order of the settings."""
    return list(_data_scores(results, results.settings.counted))


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
        Columns ``data, metric, fill, method, setting, mean, low, high, median, rank, n, n_excluded,
        flagged``, one count per flag, ``is_control, better``; ``n`` images have a defined score,
        ``n_excluded`` have none, ``flagged`` maps were degenerate. Equal means share a rank.
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
    chosen = chosen_alphas(results, results.settings.counted, "iou")
    parts = []
    for method in results.settings.methods:
        errors = errors_of(ious[ious["method"] == method], results.settings.strict)
        errors = errors.pivot(index="image", columns="alpha", values="value")
        mean, low, high = mean_intervals(errors.to_numpy(dtype=float), seed=seed)
        alphas = errors.columns.to_numpy(dtype=float)
        columns = {"alpha": alphas, "error": mean, "low": low, "high": high}
        parts.append(pd.DataFrame({"method": method, **columns, "chosen": alphas == chosen[method]}))
    return pd.concat(parts, ignore_index=True)


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
            chosen = chosen_alphas(results, data, column)
            kept = rows[rows["alpha"] == rows["method"].map(chosen)]
            settings = {method: f"alpha {alpha:.2f}" for method, alpha in chosen.items()}
            if column == "iou":
                kept = errors_of(kept, results.settings.strict)
            yield _score(results, data, metric, kept, settings=settings)
    if len(rows := table[table["metric"] == "pointing-game"]):
        classes = rows.drop_duplicates("image").set_index("image")["target"]
        yield _score(results, data, "pointing-game", rows)._replace(classes=classes)
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
    mean, low, high = score.intervals(seed)
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
            "median": [summarize(score.values[method]).median for method in methods],
            "rank": average_ranks(mean, best="low" if better == "lower" else "high"),
            "n": score.values.notna().sum().to_numpy(),
            "n_excluded": score.values.isna().sum().to_numpy(),
            "flagged": (score.flags != "ok").sum().to_numpy(),
            **{f"n_{flag}": (score.flags == flag).sum().to_numpy() for flag in FLAGS if flag != OK},
            "is_control": [is_control(method) for method in methods],
            "better": better,
        }
    )


def chosen_alphas(results: Results, data: str, column: str = "iou") -> dict[str, float]:
    """Threshold of each method: best on the held-out images, or the default where there are none.

    Args:
        results: Of a run.
        data: Data set of the scores.
        column: What it is chosen by: ``iou`` for the localization error, or ``saliency-metric``.
    """
    methods = results.settings.methods
    default = default_alpha(results.settings)
    if data != results.settings.counted or not len(results.heldout):
        return dict.fromkeys(methods, default)
    rows = results.heldout[results.heldout["metric"] == column]
    if column == "iou":
        rows = errors_of(rows, results.settings.strict)
    means = rows.groupby(["method", "alpha"])["value"].mean()
    chosen = dict.fromkeys(methods, default)
    # A data set without boxes has no overlaps to choose by.
    for method in methods if len(means) else ():
        if means[method].notna().any():
            chosen[method] = choose_alpha(means[method].index.tolist(), means[method].tolist()).alpha
    return chosen


def _best_poolings(rows: pd.DataFrame) -> dict[str, str]:
    """Pooling with the highest mean, per method (the best one is reported, as Arras et al. 2022 do)."""
    means = rows.groupby(["method", "pooling"], sort=False)["value"].mean().unstack("pooling")
    # A method without any defined score keeps the first pooling; its row then says how many were flagged.
    best = means.fillna(-np.inf).idxmax(axis="columns")
    return {str(method): str(pooling) for method, pooling in best.items()}


def errors_of(ious: pd.DataFrame, strict: bool) -> pd.DataFrame:
    """Overlaps turned into errors: 1 where the object is not found, NaN where that is undefined."""
    value = ious["value"].to_numpy(dtype=float)
    lost = value <= MIN_IOU if strict else value < MIN_IOU
    return ious.assign(value=np.where(np.isnan(value), np.nan, lost.astype(float)))


def _rows(scores: pd.DataFrame, data: str, metric: str) -> pd.DataFrame:
    return scores[(scores["data"] == data) & (scores["metric"] == metric)]
