"""Figures of the comparison: ranks of all methods under all metrics, and how far the metrics agree."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import offset_copy

from heatcheck.figures.common import check_columns, notice
from heatcheck.figures.style import ACCENT, DIVERGING, INK, MUTED, PAGE, is_control, size, styled

Groups = Mapping[str, Sequence[str]]
MEAN_RANK = "mean rank"
# Cells are squares of one unit; headings of the groups need some room between them.
_GAP = 0.28
_EDGE = 1e-9
_AGREED, _UNDECIDED = "#7c8aa5", "#ececf0"
# Letters of a heading that fit above one cell.
_LETTERS = 7
# Dark is good; the ends are left out, where shades can hardly be told apart.
RANKS = ListedColormap(colormaps["mako"](np.linspace(0.15, 0.98, 256)))


class _Cell(NamedTuple):
    """Where a metric's cells stand, and what it is called."""

    label: str
    left: float


@styled
def rank_figure(ranks: pd.DataFrame, groups: Groups) -> Figure:
    """Rank of every method under every metric: the darker a cell, the better; hatched where there is none.

    Methods stand in the order of their mean rank, the best on top, controls below a gap.

    Args:
        ranks: Methods by metrics, 1 is best, and a column ``mean rank``.
        groups: Metrics of each benchmark by its title, as columns of ``ranks``.

    Raises:
        ValueError: A column is missing, or no method has a rank.
    """
    labels = [label for group in groups.values() for label in group]
    check_columns(ranks, [*labels, MEAN_RANK])
    if not np.isfinite(ranks[labels].to_numpy(dtype=float)).any():
        raise ValueError("no method has a rank; nothing to draw")
    rows = ranks.sort_values(MEAN_RANK, kind="stable", na_position="last")
    control = np.array([is_control(str(name)) for name in rows.index])
    rows, control = pd.concat([rows[~control], rows[control]]), np.sort(control)
    tops = np.arange(len(rows)) + np.where(control & ~control.all(), _GAP, 0.0)
    cells = _places(groups)
    figure = Figure(figsize=size(PAGE, 1.15 + 0.2 * len(rows)), layout="constrained")
    axis = figure.subplots()
    norm = Normalize(1, max(2.0, float(np.nanmax(rows[labels].to_numpy(dtype=float)))))
    for cell in cells:
        for top, rank in zip(tops, rows[cell.label].to_numpy(dtype=float), strict=True):
            _rank_cell(axis, cell.left, float(top), rank, norm)
    mean_left = cells[-1].left + 1 + _GAP
    for top, mean, muted in zip(tops, rows[MEAN_RANK].to_numpy(dtype=float), control, strict=True):
        text = "\N{EN DASH}" if np.isnan(mean) else f"{mean:.1f}"
        _write(axis, (mean_left, float(top)), text, MUTED if muted else INK, bold=not muted)
    _above(axis, mean_left + 0.5, "mean\nrank", 3, fontsize=6.5)
    _headings(figure, axis, cells, groups)
    axis.set_xlim(0, mean_left + 1.1)
    axis.set_ylim(tops[-1] + 1, 0)
    axis.set_yticks(tops + 0.5, [str(name) for name in rows.index], fontsize=6.5)
    for tick, muted in zip(axis.get_yticklabels(), control, strict=True):
        tick.set(color=MUTED if muted else INK, style="italic" if muted else "normal")
    _bare(axis)
    return figure


@styled
def agreement_figure(square: pd.DataFrame, groups: Groups, band: Any) -> Figure:
    """Kendall's tau of every two metrics: red where they rank alike, blue where the other way round.

    Within the band of chance, cells are pale and numbers gray.

    Args:
        square: Metrics by metrics.
        groups: Metrics of each benchmark by its title, as rows and columns of ``square``.
        band: Its ends ``(low, high)``, for all cells; or two such squares of ends.

    With fewer than two metrics the figure says so.

    Raises:
        ValueError: A metric is missing from ``square``.
    """
    labels = [label for group in groups.values() for label in group]
    if len(labels) < 2:
        return notice("there are no two metrics to compare")
    check_columns(square, labels)
    check_columns(square.T, labels)
    low, high = (_square(end, labels) for end in band)
    tau = square.loc[labels, labels].to_numpy(dtype=float)
    cells = _places(groups)
    figure = Figure(figsize=size(PAGE, 1.0 + 0.3 * len(labels)), layout="constrained")
    axis = figure.subplots()
    norm, colors = Normalize(-1, 1), colormaps[DIVERGING]
    for i, j in np.ndindex(*tau.shape):
        corner = cells[j].left, cells[i].left
        if i == j or np.isnan(tau[i, j]):
            _plain(axis, corner, hatched=i != j)
            continue
        chance = bool(low[i, j] - _EDGE <= tau[i, j] <= high[i, j] + _EDGE)
        color = _faded(colors(norm(tau[i, j]))) if chance else colors(norm(tau[i, j]))
        axis.add_patch(Rectangle(corner, 1, 1, facecolor=color, edgecolor="white", linewidth=0.6))
        _write(
            axis,
            corner,
            f"{tau[i, j]:+.2f}".replace("-", "\N{MINUS SIGN}"),
            MUTED if chance else readable_ink(color),
            bold=not chance,
        )
    end = cells[-1].left + 1
    axis.set_xlim(0, end)
    axis.set_ylim(end, 0)
    _headings(figure, axis, cells, groups)
    axis.set_yticks([cell.left + 0.5 for cell in cells], labels)
    _bare(axis)
    bar = figure.colorbar(ScalarMappable(norm, colors), ax=axis, shrink=0.8, aspect=30, pad=0.02)
    bar.set_label("Kendall's tau", fontsize=7, color=MUTED)
    axis.set_xlabel("pale, number in gray: as random rankings agree", fontsize=7, color=MUTED, loc="right")
    bar.outline.set_visible(False)
    return figure


@styled
def contradiction_figure(table: pd.DataFrame) -> Figure:
    """Of the pairs of methods that two benchmarks both decide, how many they order alike and oppositely.

    Args:
        table: Columns ``first_label, second_label, pairs, decided, contradicted``, one row per bar.

    Without rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if table.empty:
        return notice("there are no two benchmarks to compare")
    check_columns(table, ("first_label", "second_label", "pairs", "decided", "contradicted"))
    figure = Figure(figsize=size(PAGE, 0.85 + 0.3 * len(table)), layout="constrained")
    axis = figure.subplots()
    rows = table.iloc[::-1].reset_index(drop=True)
    places = np.arange(len(rows))
    whole = rows["pairs"].to_numpy(dtype=float)
    decided, against = (rows[name].to_numpy(dtype=float) for name in ("decided", "contradicted"))
    parts = (
        (against, "ordered oppositely", ACCENT),
        (decided - against, "ordered alike", _AGREED),
        (whole - decided, "not decided by both", _UNDECIDED),
    )
    left = np.zeros(len(rows))
    for count, label, color in parts:
        width = 100 * np.divide(count, whole, out=np.zeros(len(rows)), where=whole > 0)
        axis.barh(places, width, 0.62, left=left, color=color, label=label)
        left = left + width
    for place, part, both in zip(places, against, decided, strict=True):
        text = f"{part:.0f} of {both:.0f} oppositely ({part / both:.0%})" if both else "none decided by both"
        axis.annotate(text, (100, place), xytext=(5, 0), textcoords="offset points", va="center",
                      fontsize=6.5)  # fmt: skip
    names = zip(rows["first_label"], rows["second_label"], strict=True)
    axis.set_yticks(places, [f"{first}\nand {second}" for first, second in names], fontsize=6.5)
    axis.set_xlim(0, 100)
    axis.set_xlabel("percent of all pairs of methods", color=MUTED, fontsize=7, loc="right")
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper left", ncols=3)
    return figure


def _places(groups: Groups) -> list[_Cell]:
    """Left edge of every metric's cells, with a gap between groups."""
    return [
        _Cell(label, place + _GAP * number)
        for place, (number, label) in enumerate(
            (number, label) for number, group in enumerate(groups.values()) for label in group
        )
    ]


def _rank_cell(axis: Axes, left: float, top: float, rank: float, norm: Normalize) -> None:
    if np.isnan(rank):
        _plain(axis, (left, top), hatched=True)
        return
    color = RANKS(norm(rank))
    axis.add_patch(Rectangle((left, top), 1, 1, facecolor=color, edgecolor="white", linewidth=0.6))
    _write(axis, (left, top), f"{rank:g}", readable_ink(color), bold=rank == 1)


def _headings(figure: Figure, axis: Axes, cells: Sequence[_Cell], groups: Groups) -> None:
    """Names of metrics above their cells, and above a line the name of each group; the top edge is at 0."""
    names = [cell.label.replace(" ", "\n") for cell in cells]
    for cell, name in zip(cells, names, strict=True):
        _above(axis, cell.left + 0.5, name, 3, fontsize=6.5)
    line = 6 + 8.5 * max(name.count("\n") + 1 for name in names)
    raised = offset_copy(axis.transData, figure, 0, line, units="points")
    left = iter(cells)
    for title, group in groups.items():
        mine = [next(left).left for _ in group]
        if not mine:
            continue
        ends = mine[0] + 0.05, mine[-1] + 0.95
        axis.plot(ends, (0, 0), color=INK, linewidth=0.8, clip_on=False, transform=raised)
        folded = textwrap.fill(title, max(12, _LETTERS * len(mine)), break_long_words=False)
        _above(axis, sum(ends) / 2, folded, line + 3, fontsize=7, fontweight="bold")


def _above(axis: Axes, place: float, text: str, points: float, **how: Any) -> None:
    axis.annotate(text, (place, 0), xytext=(0, points), textcoords="offset points", ha="center", va="bottom",
                  annotation_clip=False, **how)  # fmt: skip


def _write(axis: Axes, corner: tuple[float, float], text: str, color: Any, *, bold: bool = False) -> None:
    """Text in the middle of a cell."""
    weight = "bold" if bold else "normal"
    place = corner[0] + 0.5, corner[1] + 0.5
    axis.text(*place, text, ha="center", va="center_baseline", fontsize=6.5, color=color, fontweight=weight)


def _plain(axis: Axes, corner: tuple[float, float], *, hatched: bool) -> None:
    """A cell without a number."""
    hatch, edge = ("/////", "#c4c4cb") if hatched else (None, "white")
    face = "white" if hatched else "#ececf0"
    axis.add_patch(Rectangle(corner, 1, 1, facecolor=face, edgecolor=edge, hatch=hatch, linewidth=0.4))


def _faded(color: Any) -> Any:
    """``color`` mixed with white, so that gray text reads well on it."""
    return tuple(0.4 * np.asarray(color[:3]) + 0.6)


def readable_ink(color: Any) -> str:
    """Color of text that reads well on ``color``, by its luminance (weights of Rec. 709)."""
    return "white" if float(np.dot(color[:3], (0.2126, 0.7152, 0.0722))) < 0.5 else INK


def _bare(axis: Axes) -> None:
    axis.set_xticks([])
    axis.tick_params(axis="y", length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)


def _square(end: Any, labels: Sequence[str]) -> np.ndarray:
    """One end of the band of chance for every two metrics."""
    table = end.loc[list(labels), list(labels)] if isinstance(end, pd.DataFrame) else end
    return np.broadcast_to(np.asarray(table, dtype=float), (len(labels), len(labels)))
