"""What agreement to expect: families of metrics, metrics beside themselves and beside facts about maps."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from heatcheck.figures.common import check_columns, named_rows, notice, order
from heatcheck.figures.style import ACCENT, MUTED, PAGE, size, styled

_BAND = "#e6e6ea"
# Color and marker of each benchmark, in the order in which they come.
_BENCHMARKS = (("#0173b2", "o"), ("#de8f05", "s"), ("#029e73", "D"), ("#8a3f7b", "^"), ("#5b7f00", "v"))
# How each kind of agreement is drawn, from top to bottom in the lane of a metric.
_KINDS: Mapping[str, tuple[str, str]] = {
    "other images": ("#01436a", "o"),
    "other classifier": ("#0173b2", "s"),
    "other training run": ("#56b4e9", "D"),
    "other seed": ("#8fb8d0", "v"),
    "same benchmark": ("#029e73", "P"),
    "other benchmark": (ACCENT, "X"),
}


class Tree(Protocol):
    """A tree of metrics: names of its leaves from top to bottom, its joins, and the cluster of each name."""

    @property
    def order(self) -> Sequence[str]:
        """Names in the order of the leaves."""

    @property
    def linkage(self) -> NDArray[np.float64]:
        """Joins ``(K - 1, 4)`` as SciPy has them, of leaves numbered in the order of ``labels``."""

    @property
    def labels(self) -> Mapping[str, int]:
        """Cluster of each name when the tree is cut in two."""


@styled
def dendrogram_figure(
    clusters: Tree,
    labels: Mapping[str, str] | None = None,
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """Tree of metrics by how alike they rank methods: the further left two are joined, the more alike.

    Both sides of the last join, drawn dashed, have a color each. At the dotted line pairs of methods are
    ordered alike as often as oppositely.

    Args:
        clusters: The tree; its heights are shares of pairs ordered oppositely, in [0, 1].
        labels: Text of each name in the figure; None: the names.
        groups: Title of each benchmark and the names of its metrics, which have a marker each; None: none.

    Raises:
        ValueError: A name has no text or no group.
    """
    names = list(clusters.order)
    texts = dict(labels) if labels is not None else {name: name for name in names}
    marks = _marks(groups or {})
    if missing := [name for name in names if name not in texts or (groups and name not in marks)]:
        raise ValueError(f"no label or no group of {', '.join(missing)}")
    figure = Figure(figsize=size(PAGE, 0.95 + 0.22 * len(names)), layout="constrained")
    axis = figure.subplots()
    rows = {name: len(names) - 1.0 - place for place, name in enumerate(names)}
    _draw_tree(axis, clusters, rows)
    for name in names if groups else []:
        color, marker = marks[name]
        axis.plot(0, rows[name], marker, color=color, markersize=5.5, clip_on=False, zorder=4)
    axis.axvline(0.5, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    axis.set_yticks([rows[name] for name in names], [texts[name] for name in names])
    axis.set_ylim(-0.7, len(names) - 0.3)
    axis.set_xlim(0, max(0.55, 1.06 * float(clusters.linkage[:, 2].max())))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0, pad=8)
    axis.set_xlabel("pairs of methods ordered oppositely, mean over the metrics joined")
    if groups:
        _legend(figure, [_marker(title, *marks[members[0]]) for title, members in groups.items() if members])
    return figure


@styled
def stability_figure(table: pd.DataFrame) -> Figure:
    """Agreement of each metric with itself and with other metrics, one lane per metric, a line per kind.

    The large mark is the mean of a kind, small ones its members; a single member has its interval. The gray
    field holds tau of two random rankings 95 times in 100.

    Args:
        table: Columns ``metric, label, benchmark, kind, kendall, low, high, chance_low, chance_high``; kinds
            are ``other images``, ``other classifier``, ``other training run``, ``other seed``,
            ``same benchmark`` and ``other benchmark``.

    Without a finite number the figure says so.

    Raises:
        ValueError: A column is missing or a kind is unknown.
    """
    needed = ("metric", "label", "benchmark", "kind", "kendall", "low", "high", "chance_low", "chance_high")
    check_columns(table, needed)
    if unknown := [kind for kind in order(table["kind"]) if kind not in _KINDS]:
        raise ValueError(f"unknown kind {', '.join(unknown)}; allowed: {', '.join(_KINDS)}")
    rows = table[np.isfinite(table["kendall"].to_numpy(dtype=float))]
    if rows.empty:
        return notice("no metric was compared with anything")
    kinds = [kind for kind in _KINDS if kind in set(rows["kind"])]
    metrics = order(rows["label"])
    height = 0.7 + len(metrics) * (0.16 + 0.075 * len(kinds))
    figure = Figure(figsize=size(PAGE, height), layout="constrained")
    axis = figure.subplots()
    for place, label in enumerate(reversed(metrics)):
        mine = rows[rows["label"] == label]
        _band(axis, mine, place)
        for line, kind in enumerate(kinds):
            lane = place + 0.36 - 0.72 * (line + 0.5) / len(kinds)
            _kind(axis, mine[mine["kind"] == kind], lane, *_KINDS[kind])
    axis.set_yticks(range(len(metrics)), metrics[::-1])
    _tau_axis(axis, len(metrics))
    _between_benchmarks(axis, rows, metrics)
    axis.set_xlabel("Kendall's tau over methods")
    _legend(figure, [*(_marker(kind, *_KINDS[kind]) for kind in kinds), _chance()])
    return figure


@styled
def smoothness_figure(table: pd.DataFrame) -> Figure:
    """Does a metric rank methods by a plain fact about their maps? One panel per fact, one row per metric.

    Marks are hollow within the gray field, which holds tau of two random rankings 95 times in 100.

    Args:
        table: Columns ``metric, label, benchmark, fact, kendall, low, high, chance_low, chance_high,
            beyond_chance``.

    Without a finite number the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    needed = ("label", "benchmark", "fact", "kendall", "low", "high", "chance_low", "chance_high")
    check_columns(table, (*needed, "beyond_chance"))
    rows = table[np.isfinite(table["kendall"].to_numpy(dtype=float))]
    if rows.empty:
        return notice("no metric was compared with facts about maps")
    facts, metrics = order(rows["fact"]), order(rows["label"])
    looks = dict(zip(order(rows["benchmark"]), _BENCHMARKS, strict=False))
    figure = Figure(figsize=size(PAGE, 0.75 + 0.2 * len(metrics)), layout="constrained")
    axes = figure.subplots(1, len(facts), sharey=True, squeeze=False)[0]
    for axis, fact in zip(axes, facts, strict=True):
        mine = rows[rows["fact"] == fact]
        for place, label in enumerate(reversed(metrics)):
            one = mine[mine["label"] == label]
            _band(axis, one, place)
            for row in one.to_dict("records"):
                _dot(axis, row, place, *looks[row["benchmark"]], hollow=not row["beyond_chance"])
        axis.set_yticks(range(len(metrics)), metrics[::-1])
        axis.set_title(fact)
        _tau_axis(axis, len(metrics))
        _between_benchmarks(axis, rows, metrics)
    figure.supxlabel("Kendall's tau between metric and fact, over methods", fontsize=8)
    return figure


def _draw_tree(axis: Axes, clusters: Tree, rows: Mapping[str, float]) -> None:
    """Brackets of the joins, leaves at x = 0."""
    names = list(clusters.labels)
    colors = {1: "#4a5568", 2: ACCENT}
    heights, middles = [0.0] * len(names), [rows[name] for name in names]
    sides = [colors[clusters.labels[name]] for name in names]
    for place, (first, second, height, _) in enumerate(clusters.linkage):
        last = place == len(clusters.linkage) - 1
        for node in (int(first), int(second)):
            axis.plot([heights[node], height], [middles[node]] * 2, color=sides[node], linewidth=1.4,
                      solid_capstyle="butt")  # fmt: skip
        ends = [middles[int(first)], middles[int(second)]]
        color = MUTED if last else sides[int(first)]
        axis.plot(
            [height, height], ends, color=color, linewidth=1.4, linestyle=(0, (3, 1.5)) if last else "-"
        )
        heights.append(float(height))
        middles.append(sum(ends) / 2)
        sides.append(color)


def _marks(groups: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, str]]:
    """Color and marker of each name by its group."""
    looks = [_BENCHMARKS[place % len(_BENCHMARKS)] for place in range(len(groups))]
    return {name: look for look, members in zip(looks, groups.values(), strict=True) for name in members}


def _kind(axis: Axes, rows: pd.DataFrame, lane: float, color: str, marker: str) -> None:
    """One line of a metric's lane: its members, and their mean."""
    taus = rows["kendall"].to_numpy(dtype=float)
    if not len(taus):
        return
    if len(taus) == 1:
        ends = [float(rows["low"].iloc[0]), float(rows["high"].iloc[0])]
        axis.plot(ends, [lane] * 2, color=color, linewidth=1.2, alpha=0.6, solid_capstyle="butt")
    else:
        axis.plot(taus, np.full(len(taus), lane), "|", color=color, alpha=0.55, markersize=3.6)
    axis.plot(taus.mean(), lane, marker, color=color, markersize=4.4, markeredgecolor="white",
              markeredgewidth=0.4, zorder=4)  # fmt: skip


def _dot(axis: Axes, row: dict[Any, Any], place: float, color: str, marker: str, *, hollow: bool) -> None:
    axis.plot([row["low"], row["high"]], [place] * 2, color=color, linewidth=1.6, alpha=0.55,
              solid_capstyle="butt")  # fmt: skip
    face = "white" if hollow else color
    axis.plot(row["kendall"], place, marker, color=color, markerfacecolor=face, markersize=4.4)


def _band(axis: Axes, rows: pd.DataFrame, place: float) -> None:
    """Field of chance in a metric's lane: the widest, where its comparisons are of unequally many methods."""
    low, high = rows["chance_low"].min(), rows["chance_high"].max()
    if np.isfinite(low) and np.isfinite(high):
        axis.add_patch(
            Rectangle((low, place - 0.42), high - low, 0.84, facecolor=_BAND, linewidth=0, zorder=0)
        )


def _tau_axis(axis: Axes, n_rows: int) -> None:
    axis.axvline(0, color=MUTED, linewidth=0.7, zorder=1)
    named_rows(axis, n_rows)
    axis.grid(visible=False, axis="y")
    axis.set_xlim(-1.05, 1.05)
    axis.set_xticks([-1, -0.5, 0, 0.5, 1])


def _between_benchmarks(axis: Axes, rows: pd.DataFrame, metrics: Sequence[str]) -> None:
    """Lines between the metrics of different benchmarks."""
    benchmark = dict(zip(rows["label"], rows["benchmark"], strict=True))
    for place, (above, below) in enumerate(pairwise(metrics)):
        if benchmark[above] != benchmark[below]:
            axis.axhline(len(metrics) - 1.5 - place, color=MUTED, linewidth=0.5, linestyle=(0, (1, 2)))


def _marker(text: str, color: str, marker: str) -> Line2D:
    return Line2D([], [], linestyle="", color=color, marker=marker, label=text, markeredgecolor="white",
                  markeredgewidth=0.4, markersize=5)  # fmt: skip


def _chance() -> Patch:
    return Patch(facecolor=_BAND, label="95 % of random rankings")


def _legend(figure: Figure, handles: Sequence[Line2D | Patch]) -> None:
    figure.legend(handles=list(handles), loc="outside upper center", ncols=min(len(handles), 4),
                  handlelength=1.2, columnspacing=1.4)  # fmt: skip
