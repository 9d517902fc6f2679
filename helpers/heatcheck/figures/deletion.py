"""Figures of the deletion chapter: tidy tables in, figures out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from heatcheck.figures.common import check_columns, notice, order
from heatcheck.figures.images import boxes_figure, gallery_figure, strip_figure
from heatcheck.figures.style import ACCENT, INK, MUTED, PAGE, is_control, look, size, styled

__all__ = [
    "alpha_figure",
    "boxes_figure",
    "curves_figure",
    "fill_figure",
    "gallery_figure",
    "scores_figure",
    "strip_figure",
]

_ARROWS = {"lower": "← lower is better", "higher": "higher is better →"}


@styled
def curves_figure(curves: pd.DataFrame) -> Figure:
    """Mean probability of the target against the share of pixels changed, one line per method with its band.

    One row of panels per data set and one column per direction and fill. The legend is ordered by the area
    under the first panel's curves, controls are dotted gray.

    Args:
        curves: Columns ``data, method, direction, fill, fraction, mean, low, high``; ``direction`` is
            ``deletion`` or ``insertion``, ``fraction`` and the probabilities are in [0, 1].

    Raises:
        ValueError: A column is missing or the table is empty.
    """
    _check(curves, ("data", "method", "direction", "fill", "fraction", "mean", "low", "high"))
    data_sets = order(curves["data"])
    panels = list(dict.fromkeys(zip(curves["direction"], curves["fill"], strict=True)))
    # High enough for the panels, and for the legend beside them.
    height = max(0.35 + 2.1 * len(data_sets), 0.25 + 0.137 * curves["method"].nunique())
    figure = Figure(figsize=size(PAGE, height), layout="constrained")
    axes = figure.subplots(len(data_sets), len(panels), sharex=True, sharey=True, squeeze=False)
    for row, data in enumerate(data_sets):
        for column, (direction, fill) in enumerate(panels):
            rows = (curves["data"] == data) & (curves["direction"] == direction) & (curves["fill"] == fill)
            title = f"{direction.capitalize()}, {fill}" + (f" · {data}" if len(data_sets) > 1 else "")
            _curves_panel(axes[row, column], curves[rows], title)
    for axis in axes[-1]:
        axis.set_xlabel("pixels changed")
    figure.supylabel("probability of the target")
    first = curves[(curves["direction"] == panels[0][0]) & (curves["fill"] == panels[0][1])]
    areas = first.groupby("method")["mean"].mean().sort_values()
    _legend(figure, [str(method) for method in areas.index])
    return figure


@styled
def scores_figure(summary: pd.DataFrame) -> Figure:
    """Mean score of each method with its interval, one panel per data set and metric, best method on top.

    Controls are hollow and gray. To the right of a method with flagged maps stands how many of how many.

    Args:
        summary: Columns ``data, method, metric, mean, low, high, n, flagged, is_control, better``; ``better``
            is ``lower`` or ``higher``.

    Raises:
        ValueError: A column is missing, the table is empty or ``better`` is something else.
    """
    _check(
        summary, ("data", "method", "metric", "mean", "low", "high", "n", "flagged", "is_control", "better")
    )
    panels = list(summary.groupby(["data", "metric"], sort=False))
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    height = 0.62 + 0.165 * summary["method"].nunique()
    figure = Figure(figsize=size(PAGE, height * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    several = summary["data"].nunique() > 1
    for axis, ((data, metric), rows) in zip(axes, panels, strict=False):
        _scores_panel(axis, rows, f"{metric} · {data}" if several else str(metric))
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    return figure


@styled
def alpha_figure(localization: pd.DataFrame) -> Figure:
    """Localization error against the threshold that turns a heatmap into a box; a dot marks the chosen one.

    Args:
        localization: Columns ``method, alpha, error, low, high, chosen``; ``error`` is a fraction.

    Without rows, as for a data set without boxes, the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if localization.empty:
        return notice("this data set has no boxes to localize")
    _check(localization, ("method", "alpha", "error", "low", "high", "chosen"))
    height = max(2.7, 0.16 * localization["method"].nunique())  # room for the legend
    figure = Figure(figsize=size(PAGE, height), layout="constrained")
    axis = figure.subplots()
    faint = _faint(localization)
    for method, rows in _by_method(localization, "alpha"):
        style = look(method)
        axis.fill_between(
            rows["alpha"], rows["low"], rows["high"], color=style.color, alpha=faint, linewidth=0
        )
        axis.plot(rows["alpha"], rows["error"], **_line(method))
        chosen = rows[rows["chosen"].astype(bool)]
        axis.plot(
            chosen["alpha"],
            chosen["error"],
            "o",
            color=style.color,
            markersize=5,
            markeredgecolor="white",
            zorder=5,
        )
    axis.set_xlabel("threshold $\\alpha$, as a fraction of the heatmap's maximum")
    axis.set_ylabel("localization error")
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.grid(axis="y")
    best = localization.groupby("method")["error"].min().sort_values()
    _legend(figure, [str(method) for method in best.index])
    return figure


@styled
def fill_figure(summary: pd.DataFrame) -> Figure:
    """Deletion score of each method by what replaces the deleted pixels: the scores, and the ranks they give.

    Lines that cross on the right are methods whose order depends on the fill.

    Args:
        summary: Columns ``method, fill, mean, low, high``, for one data set; lower is better.

    Raises:
        ValueError: A column is missing, the table is empty, or a method has two scores for one fill.
    """
    _check(summary, ("method", "fill", "mean", "low", "high"))
    if summary.duplicated(["method", "fill"]).any():
        raise ValueError(
            "a method has several scores for one fill; pass the rows of one data set and one metric"
        )
    fills = order(summary["fill"])
    scores = summary.pivot(index="method", columns="fill", values="mean")[fills]
    ranks = scores.rank(method="average")
    figure = Figure(figsize=size(PAGE, max(2.4, 0.9 + 0.16 * len(scores))), layout="constrained")
    left, right = figure.subplots(1, 2)
    for method in scores.index:
        style = look(str(method))
        shared = {
            "color": style.color,
            "linestyle": style.line,
            "marker": style.marker,
            **_weight(str(method)),
        }
        left.plot(range(len(fills)), scores.loc[method], **shared)
        right.plot(range(len(fills)), ranks.loc[method], **shared)
        right.annotate(
            str(method),
            (len(fills) - 1, ranks.loc[method].iloc[-1]),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            color=style.color,
            fontsize=7,
        )
    for axis in (left, right):
        axis.set_xticks(range(len(fills)), fills)
        axis.set_xlabel("what replaces a deleted pixel")
    left.set(title="Deletion score (lower is better)", ylim=(0, None))
    left.grid(axis="y")
    right.set(title="Rank (1 is best)")
    right.set_ylim(len(scores) + 0.5, 0.5)
    right.yaxis.set_major_locator(MaxNLocator(integer=True))
    right.spines["left"].set_visible(False)
    return figure


def _curves_panel(axis: Axes, rows: pd.DataFrame, title: str) -> None:
    faint = _faint(rows)
    for method, line in _by_method(rows, "fraction"):
        style = look(method)
        axis.fill_between(
            line["fraction"], line["low"], line["high"], color=style.color, alpha=faint, linewidth=0
        )
        axis.plot(line["fraction"], line["mean"], **_line(method))
    axis.set(title=title, xlim=(0, 1), ylim=(0, None))
    axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.grid(axis="y")


def _scores_panel(axis: Axes, rows: pd.DataFrame, title: str) -> None:
    better = str(rows["better"].iloc[0])
    if better not in _ARROWS:
        raise ValueError(f"column 'better' says {better!r}; allowed: lower, higher")
    # The best method ends on top; methods without a score come last.
    rows = rows.sort_values("mean", ascending=better == "higher", na_position="first", kind="stable")
    for place, row in enumerate(rows.to_dict("records")):
        style = look(str(row["method"]))
        color = MUTED if row["is_control"] else style.color
        axis.plot(
            [row["low"], row["high"]],
            [place, place],
            color=color,
            linewidth=1.6,
            alpha=0.55,
            solid_capstyle="butt",
        )
        face = "white" if row["is_control"] else color
        axis.plot(row["mean"], place, "o", color=color, markerfacecolor=face, markersize=4.5)
        if row["flagged"]:
            axis.annotate(
                f"{int(row['flagged'])} of {int(row['n'] + row.get('n_excluded', 0))}",
                (1.015, place),
                xycoords=("axes fraction", "data"),
                ha="left",
                va="center",
                fontsize=5.5,
                color=ACCENT,
            )
    axis.set_yticks(range(len(rows)), [str(method) for method in rows["method"]])
    for label, control in zip(axis.get_yticklabels(), rows["is_control"], strict=True):
        label.set(color=MUTED if control else INK, style="italic" if control else "normal")
    axis.set(title=title, ylim=(-0.6, len(rows) - 0.4))
    axis.set_xlabel(_ARROWS[better], color=MUTED, fontsize=7, loc="left" if better == "lower" else "right")
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="both")
    axis.set_axisbelow(True)


def _legend(figure: Figure, methods: Sequence[str]) -> None:
    handles = [Line2D([], [], label=method, **_line(method) | {"markevery": None}) for method in methods]
    figure.legend(handles=handles, loc="outside right center")


def _weight(method: str) -> dict[str, Any]:
    return {"linewidth": 1.0, "alpha": 0.9} if is_control(method) else {"linewidth": 1.5}


def _line(method: str) -> dict[str, Any]:
    """Look of a method's curve; controls, all gray, carry markers to tell them apart."""
    style = look(method)
    marks = {"marker": style.marker, "markevery": 4, "markersize": 3.5} if is_control(method) else {}
    return {"color": style.color, "linestyle": style.line, **_weight(method), **marks}


def _faint(table: pd.DataFrame) -> float:
    """Opacity of the bands: the more methods overlap, the fainter, lest they mix to mud."""
    return min(0.12, 0.9 / max(1, table["method"].nunique()))


def _by_method(table: pd.DataFrame, along: str) -> list[tuple[str, pd.DataFrame]]:
    """Rows of each method sorted by column ``along``, controls first so that they lie beneath."""
    groups = [(str(method), rows.sort_values(along)) for method, rows in table.groupby("method", sort=False)]
    return sorted(groups, key=lambda group: not is_control(group[0]))


def _check(table: pd.DataFrame, columns: Sequence[str]) -> None:
    check_columns(table, columns)
    if (
        table.empty
        or not np.isfinite(table.select_dtypes("number").to_numpy(dtype=float, na_value=np.nan)).any()
    ):
        raise ValueError("table is empty or holds no finite number; nothing to draw")
