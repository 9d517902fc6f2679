"""Figures of the CLEVR-XAI chapter: tidy tables in, figures out."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from heatcheck.figures.common import check_means, named_rows, notice, order
from heatcheck.figures.images import gallery_figure
from heatcheck.figures.questions import questions_figure
from heatcheck.figures.style import INK, MUTED, PAGE, SEQUENTIAL, look, size, styled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "accuracy_figure",
    "answers_figure",
    "controls_figure",
    "pooling_figure",
    "questions_figure",
    "subsets_figure",
    "variants_figure",
]

_NAMES = {"relevance-mass": "mass", "relevance-rank": "rank"}
_FRAME = "#17a2b8"  # stands out from every shade of the map
_MASKS = {
    "single": "single object",
    "all": "all objects",
    "unique": "unique",
    "unique-first-nonempty": "first non-empty",
    "union": "union",
}
_MEASURES = {"spearman": "likeness of the maps", "relevance-mass": "mass, own minus exchanged"}


@styled
def answers_figure(images: "ArrayLike", heatmaps: "Mapping[str, ArrayLike]", titles: Sequence[str]) -> Figure:
    """Heatmaps over scenes, one row per question; see ``gallery_figure``. Without questions it says so."""
    if not len(np.asarray(images)):
        return notice("there is no such question in this run")
    return gallery_figure(images, heatmaps, titles)


@styled
def accuracy_figure(table: pd.DataFrame) -> Figure:
    """Mean accuracy of each method with its interval: one column per ground truth, one row per metric.

    The order of the methods is that of the first panel, the best on top. Controls are hollow and gray, a
    dashed line marks the share of the image that the masks cover.

    Args:
        table: Columns ``ground_truth, metric, method, paper_method, mean, low, high, chance, is_control``,
            one kind of questions; a row per paper's method and panel.

    Without rows, as for a kind of questions that was left out, the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if table.empty:
        return notice("this kind of questions was not asked")
    names = ("ground_truth", "metric", "method", "paper_method", "chance", "is_control")
    check_means(table, (*names, "mean", "low", "high"))
    metrics, truths = order(table["metric"]), order(table["ground_truth"])
    first = table[(table["metric"] == metrics[0]) & (table["ground_truth"] == truths[0])]
    first = first.sort_values("mean", na_position="first", kind="stable").set_index("paper_method")
    figure = Figure(figsize=size(PAGE, (0.5 + 0.155 * len(first)) * len(metrics)), layout="constrained")
    axes = figure.subplots(len(metrics), len(truths), sharey=True, squeeze=False)
    for row, metric in enumerate(metrics):
        for column, truth in enumerate(truths):
            part = table[(table["metric"] == metric) & (table["ground_truth"] == truth)]
            axis = axes[row, column]
            _dots(axis, part.set_index("paper_method").reindex(first.index))
            chance = float(part["chance"].iloc[0])
            axis.axvline(chance, color=MUTED, linestyle=(0, (3, 2)), linewidth=0.8, zorder=0)
            axis.set_xlim(0, 1.04 * max(chance, float(part["high"].max())))
            axis.set_title(f"{_NAMES.get(metric, metric)}, {_MASKS.get(truth, truth)}", fontsize=7)
    for axis in axes[:, 0]:
        axis.set_yticks(range(len(first)), [str(name) for name in first.index])
        for label, control in zip(axis.get_yticklabels(), first["is_control"], strict=True):
            label.set(color=MUTED if control else INK, style="italic" if control else "normal", fontsize=6.5)
    figure.supxlabel("higher is better →", color=MUTED, fontsize=7)
    return figure


@styled
def pooling_figure(table: pd.DataFrame) -> Figure:
    """Mean accuracy of every method with every pooling, one panel per metric; the best ones framed.

    Args:
        table: Columns ``metric, method, pooling, mean, best``, one ground truth.

    Raises:
        ValueError: A column is missing or the table is empty.
    """
    check_means(table, ("metric", "method", "pooling", "mean", "best"))
    metrics, poolings = order(table["metric"]), order(table["pooling"])
    methods = order(table["method"])
    figure = Figure(figsize=size(PAGE, 1.35 + 0.175 * len(methods)), layout="constrained")
    axes = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    top = float(table["mean"].max())
    for axis, metric in zip(axes, metrics, strict=True):
        rows = table[table["metric"] == metric]
        grid = rows.pivot(index="method", columns="pooling", values="mean").loc[methods, poolings]
        best = rows.pivot(index="method", columns="pooling", values="best").loc[methods, poolings]
        sns.heatmap(
            grid,
            ax=axis,
            vmin=0,
            vmax=top,
            cmap=sns.color_palette(SEQUENTIAL, as_cmap=True),
            annot=grid.map(lambda value: "" if np.isnan(value) else f"{100 * value:.0f}"),
            fmt="",
            annot_kws={"fontsize": 5.5},
            linewidths=0.4,
            cbar=False,
        )
        for row, column in np.argwhere(best.to_numpy(dtype=bool)):
            axis.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor=_FRAME, linewidth=1.3))
        axis.set(title=f"{_NAMES.get(metric, metric)}, in percent", xlabel="", ylabel="")
        axis.tick_params(axis="both", length=0, labelsize=6.5)
        axis.tick_params(axis="x", rotation=50)
        for label in axis.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    return figure


@styled
def subsets_figure(table: pd.DataFrame, *, ylabel: str) -> Figure:
    """Accuracy of each method on subsets of the questions: one panel per kind of subset, with intervals.

    Args:
        table: Columns ``by, subset, method, n, mean, low, high``; subsets in the order they are drawn.
        ylabel: What is measured.

    Raises:
        ValueError: A column is missing or the table is empty.
    """
    check_means(table, ("by", "subset", "method", "n", "mean", "low", "high"))
    kinds = order(table["by"])
    figure = Figure(figsize=size(PAGE, 3.1), layout="constrained")
    axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    methods = order(table["method"])
    for axis, kind in zip(axes, kinds, strict=True):
        rows = table[table["by"] == kind]
        subsets = order(rows["subset"])
        for place, method in enumerate(methods):
            line = rows[rows["method"] == method].set_index("subset").reindex(subsets)
            style = look(method)
            # Side by side, so that intervals do not hide each other.
            x = np.arange(len(subsets)) + 0.5 * ((place + 0.5) / len(methods) - 0.5)
            axis.vlines(x, line["low"], line["high"], color=style.color, linewidth=0.8, alpha=0.5)
            axis.plot(
                x,
                line["mean"],
                color=style.color,
                linestyle=style.line,
                marker=style.marker,
                markersize=3,
                linewidth=0.9,
            )
        counts = rows.groupby("subset", sort=False)["n"].max().reindex(subsets)
        labels = [f"{subset}\n{int(count)}" for subset, count in counts.items()]
        axis.set_xticks(range(len(subsets)), labels, fontsize=6, rotation=35 if len(subsets) > 3 else 0)
        axis.set_title(kind)
        axis.grid(axis="y")
    axes[0].set_ylabel(ylabel)
    axes[0].set_ylim(bottom=0)
    handles = [
        Line2D(
            [],
            [],
            label=method,
            color=look(method).color,
            linestyle=look(method).line,
            marker=look(method).marker,
            markersize=3,
        )
        for method in methods
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


@styled
def controls_figure(table: pd.DataFrame, measures: Sequence[str] = ("spearman", "relevance-mass")) -> Figure:
    """Control experiments: one column each, how alike the two maps are above, what is lost below.

    Args:
        table: Columns ``experiment, method, measure, mean, low, high``.
        measures: Which measures, one row of panels each.

    Without rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if table.empty:
        return notice("no control experiments were run")
    check_means(table, ("experiment", "method", "measure", "mean", "low", "high"))
    experiments = order(table["experiment"])
    methods = order(table["method"])[::-1]
    height = 0.5 + 0.16 * len(methods)
    figure = Figure(figsize=size(PAGE, height * len(measures)), layout="constrained")
    axes = figure.subplots(len(measures), len(experiments), sharey=True, sharex="row", squeeze=False)
    for row, measure in enumerate(measures):
        for column, experiment in enumerate(experiments):
            axis = axes[row, column]
            part = table[(table["experiment"] == experiment) & (table["measure"] == measure)]
            _dots(axis, part.set_index("method").reindex(methods))
            axis.axvline(0, color=MUTED, linewidth=0.7, zorder=0)
            axis.set_title(experiment if row == 0 else "", fontsize=7.5)
        name = _MEASURES.get(measure, measure)
        axes[row, 0].set_xlabel(f"{name} →", loc="left", color=MUTED, fontsize=7)
    for axis in axes[:, 0]:
        axis.set_yticks(range(len(methods)), methods, fontsize=6.5)
    return figure


@styled
def variants_figure(table: pd.DataFrame) -> Figure:
    """Accuracy of the settings of each method, one panel per metric; the main setting is filled.

    Args:
        table: Columns ``method, label, metric, mean, low, high, is_main``, one ground truth.

    Without rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if table.empty:
        return notice("no settings were compared")
    check_means(table, ("method", "label", "metric", "mean", "low", "high", "is_main"))
    metrics = order(table["metric"])
    pairs = list(dict.fromkeys(zip(table["method"], table["label"], strict=True)))[::-1]
    figure = Figure(figsize=size(PAGE, 0.62 + 0.155 * len(pairs)), layout="constrained")
    axes = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    for axis, metric in zip(axes, metrics, strict=True):
        rows = table[table["metric"] == metric].set_index(["method", "label"]).reindex(pairs)
        _dots(axis, rows)
        axis.set_title(_NAMES.get(metric, metric))
        axis.set_xlim(left=0)
    names = [label if label == method else f"{method}, {label}" for method, label in pairs]
    axes[0].set_yticks(range(len(pairs)), names, fontsize=6.5)
    figure.supxlabel("higher is better →", color=MUTED, fontsize=7)
    return figure


def _dots(axis: Axes, rows: pd.DataFrame) -> None:
    """Means with intervals, the first row at the bottom; controls and other than main settings are hollow."""
    named = rows.reset_index()
    for place, row in enumerate(named.to_dict("records")):
        method = str(row["method"])
        control = bool(row.get("is_control", False) is True)
        color = MUTED if control else look(method).color
        hollow = control or row.get("is_main", True) is False
        axis.plot(
            [row["low"], row["high"]],
            [place, place],
            color=color,
            linewidth=1.6,
            alpha=0.55,
            solid_capstyle="butt",
        )
        axis.plot(
            row["mean"], place, "o", color=color, markerfacecolor="white" if hollow else color, markersize=4
        )
    named_rows(axis, len(rows))
