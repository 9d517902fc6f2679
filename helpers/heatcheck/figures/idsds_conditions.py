"""Figures of the single-deletion chapter about what a score depends on: tidy tables in, figures out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from heatcheck.figures.common import check_means, order
from heatcheck.figures.style import DIVERGING, INK, MUTED, PAGE, look, size, styled


@styled
def conditions_figure(table: pd.DataFrame) -> Figure:
    """Mean scores as colored cells: one row per method, one column per way of deleting.

    Args:
        table: Columns ``row, condition, mean``; both in the order they are drawn.

    Raises:
        ValueError: A column is missing or the table is empty.
    """
    check_means(table, ("row", "condition", "mean"))
    rows, conditions = order(table["row"]), order(table["condition"])
    grid = table.pivot(index="row", columns="condition", values="mean").loc[rows, conditions]
    return cells_figure(grid, highest=1.0)


def cells_figure(grid: pd.DataFrame, *, highest: float) -> Figure:
    """Numbers in a grid of cells, red above and blue below zero.

    Args:
        grid: One row and column per line of cells; NaN stays blank.
        highest: Value that is fully red, its negative fully blue.
    """
    height = 0.9 + 0.16 * len(grid)
    figure = Figure(figsize=size(PAGE, height), layout="constrained")
    axis = figure.subplots()
    sns.heatmap(
        grid, ax=axis, vmin=-highest, vmax=highest, cmap=sns.color_palette(DIVERGING, as_cmap=True),
        annot=grid.map(lambda value: "" if np.isnan(value) else f"{value:z.2f}"), fmt="",
        annot_kws={"fontsize": 6}, linewidths=0.4, cbar=False,
    )  # fmt: skip
    axis.set(xlabel="", ylabel="")
    axis.tick_params(axis="both", length=0, labelsize=6.5)
    axis.xaxis.tick_top()
    axis.tick_params(axis="x", rotation=30, top=False)
    for label in axis.get_xticklabels():
        label.set(ha="left", rotation_mode="anchor")
    return figure


@styled
def degradation_figure(table: pd.DataFrame) -> Figure:
    """Score of maps that noise makes worse, one line per method.

    Args:
        table: Columns ``method, row, noise, mean, low, high``.

    Raises:
        ValueError: A column is missing or the table is empty.
    """
    check_means(table, ("method", "row", "noise", "mean", "low", "high"))
    figure = Figure(figsize=size(PAGE * 0.6, 2.4), layout="constrained")
    axis = figure.subplots()
    for row in order(table["row"]):
        part = table[table["row"] == row]
        style = _style(str(part["method"].iloc[0]))
        axis.fill_between(
            part["noise"], part["low"], part["high"], color=style["color"], alpha=0.12, linewidth=0
        )
        axis.plot(part["noise"], part["mean"], label=row, marker="o", **style)
    axis.axhline(0, color=MUTED, linewidth=0.7, zorder=0)
    axis.set_xlabel("noise, as a multiple of the spread of the image's patch sums")
    axis.set_ylabel("mean rank correlation")
    axis.legend()
    return figure


@styled
def breakdown_figure(parts: Sequence[tuple[str, pd.DataFrame]]) -> Figure:
    """Scores within groups of images: one panel per way of grouping, one line per method.

    Args:
        parts: Title and table of each panel, with columns ``method, row, group, mean, low, high, n``.

    Raises:
        ValueError: There is no panel, a column is missing or a table is empty.
    """
    if not parts:
        raise ValueError("no panel given; pass at least one title and table")
    for _, table in parts:
        check_means(table, ("method", "row", "group", "mean", "low", "high", "n"))
    widths = [len(order(table["group"])) for _, table in parts]
    figure = Figure(figsize=size(PAGE, 2.9), layout="constrained")
    axes = figure.subplots(1, len(parts), sharey=True, squeeze=False, width_ratios=widths)[0]
    handles: dict[str, Line2D] = {}
    for axis, (title, table) in zip(axes, parts, strict=True):
        groups, rows = order(table["group"]), order(table["row"])
        for number, row in enumerate(rows):
            line = table[table["row"] == row].set_index("group").reindex(groups)
            style = _style(str(line["method"].dropna().iloc[0]))
            x = np.arange(len(groups)) + 0.5 * ((number + 0.5) / len(rows) - 0.5)
            axis.vlines(x, line["low"], line["high"], color=style["color"], linewidth=0.8, alpha=0.5)
            (handles[row],) = axis.plot(x, line["mean"], marker="o", markersize=3, label=row, **style)
        counts = table.groupby("group", sort=False)["n"].max().reindex(groups)
        labels = [f"{name}\n{int(count)}" for name, count in counts.items()]
        axis.set_xticks(range(len(groups)), labels, fontsize=6, rotation=40 if len(groups) > 2 else 0)
        axis.axhline(0, color=MUTED, linewidth=0.6, zorder=0)
        axis.set_title(title)
        axis.grid(axis="y")
    axes[0].set_ylabel("mean rank correlation")
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=4)
    return figure


def _style(method: str) -> dict[str, Any]:
    """Line of a method; what is no method, such as the true drops, is black."""
    if method.startswith("true drops"):
        return {"color": INK, "linestyle": "-"}
    return {"color": look(method).color, "linestyle": look(method).line}
