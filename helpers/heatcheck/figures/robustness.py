"""Figures of the robustness experiment: each method against its generative variant, sweep by sweep."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from heatcheck.figures.common import check_columns
from heatcheck.figures.style import INK, MUTED, PAGE, look, size, styled

__all__ = ["measures_figure", "robustness_figure", "spread_figure"]

_COLUMNS = (
    *("sweep", "method", "generative", "values"),
    *("base_mean", "base_low", "base_high", "g_mean", "g_low", "g_high"),
    *("difference", "difference_low", "difference_high"),
)
_MEASURES = {"spearman": "rank correlation", "ssim": "SSIM", "hog": "correlation of HOG"}
_PANELS = {"spearman": "Rank correlation", "ssim": "SSIM", "hog": "HOG correlation"}
_METRICS = {"deletion": "deletion score", "iou": "overlap with the box"}
_OFFSET = 0.16  # how far a method and its variant stand from the row's middle


@styled
def robustness_figure(table: pd.DataFrame, *, measure: str = "spearman") -> Figure:
    """Similarity to the reference setting of each method and its variant, and their paired difference.

    One row per sweep. On the left the method is filled and its generative variant hollow, with 95 % intervals
    over images; on the right the variant minus the method, a diamond that is filled where its interval leaves
    out zero.

    Args:
        table: Of ``robustness_table``: columns ``sweep, method, generative, values, measure``, means and ends
            of intervals for ``base`` and ``g``, and ``difference``; NaN where there is no variant.
        measure: ``spearman``, ``ssim`` or ``hog``.

    Raises:
        ValueError: A column is missing or there is no row of that measure.
    """
    rows = _chosen(table, "measure", measure)
    figure = Figure(figsize=size(PAGE, _height(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    _rows_down(left, rows)
    _dumbbells(left, rows)
    left.set_title(f"Similarity to the reference ({_MEASURES.get(measure, measure)})")
    left.set_xlabel("higher is more robust →")
    _differences(right, rows)
    right.set_title("Variant minus method")
    right.set_xlabel("variant more robust →")
    _legend(figure, rows)
    return figure


@styled
def measures_figure(table: pd.DataFrame) -> Figure:
    """Similarity to the reference setting by every measure, one panel each, one row per sweep.

    The method is filled, its generative variant hollow, with 95 % intervals over images.

    Args:
        table: As for ``robustness_figure``.

    Raises:
        ValueError: A column is missing or the table is empty.
    """

    def finish(axis: Axes, measure: str) -> None:
        axis.set_title(_PANELS.get(measure, measure))
        axis.set_xlabel("higher is more robust →")

    return _panels(table, "measure", finish)


@styled
def spread_figure(table: pd.DataFrame) -> Figure:
    """Standard deviation of an image's score over the settings, of each method and its variant.

    One panel per metric, one row per sweep; the method is filled, its generative variant hollow, with 95 %
    intervals over images.

    Args:
        table: Of ``spread_table``: as for ``robustness_figure``, with ``metric`` for ``measure``.

    Raises:
        ValueError: A column is missing or the table is empty.
    """

    def finish(axis: Axes, metric: str) -> None:
        axis.set_title(f"Spread of the {_METRICS.get(metric, metric)}")
        axis.set_xlabel("← lower is more robust")
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(MaxNLocator(5))

    return _panels(table, "metric", finish)


def _panels(table: pd.DataFrame, column: str, finish: Callable[[Axes, str], None]) -> Figure:
    """A panel for each value of ``column``, a row per sweep in each; ``finish`` writes its title and axis."""
    _check(table, (*_COLUMNS, column))
    names = [str(name) for name in dict.fromkeys(table[column])]
    rows = [_chosen(table, column, name) for name in names]
    figure = Figure(figsize=size(PAGE, _height(rows[0])), layout="constrained")
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    _rows_down(axes[0], rows[0])
    for axis, name, panel in zip(axes, names, rows, strict=True):
        _dumbbells(axis, panel)
        finish(axis, name)
    _legend(figure, rows[0])
    return figure


def _dumbbells(axis: Axes, rows: pd.DataFrame) -> None:
    """Method above, variant below, a line between their means; the first sweep on top."""
    for place, row in enumerate(rows.to_dict("records")):
        ends = {"base": (place - _OFFSET, str(row["method"])), "g": (place + _OFFSET, str(row["generative"]))}
        known = [prefix for prefix in ends if not np.isnan(row[f"{prefix}_mean"])]
        means = [row[f"{prefix}_mean"] for prefix in known]
        axis.plot(means, [ends[prefix][0] for prefix in known], color=MUTED, linewidth=0.7, alpha=0.6)
        for prefix in known:
            height, method = ends[prefix]
            color, interval = look(method).color, [row[f"{prefix}_low"], row[f"{prefix}_high"]]
            axis.plot(
                interval, [height, height], color=color, linewidth=1.6, alpha=0.55, solid_capstyle="butt"
            )
            axis.plot(row[f"{prefix}_mean"], height, **_dot(method, hollow=prefix == "g"))
    _guides(axis, rows)


def _differences(axis: Axes, rows: pd.DataFrame) -> None:
    axis.axvline(0, color=MUTED, linewidth=0.7, zorder=0)
    for place, row in enumerate(rows.to_dict("records")):
        if np.isnan(row["difference"]):
            axis.annotate(
                "no variant" if pd.isna(row["generative"]) else "undefined",
                (0, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=6,
                color=MUTED,
            )
            continue
        low, high = row["difference_low"], row["difference_high"]
        color = look(str(row["method"])).color
        axis.plot([low, high], [place, place], color=color, linewidth=1.6, alpha=0.55, solid_capstyle="butt")
        axis.plot(
            row["difference"], place, **{**_dot(str(row["method"]), hollow=low <= 0 <= high), "marker": "D"}
        )
    _guides(axis, rows)
    reach = max(abs(end) for end in axis.get_xlim())
    axis.set_xlim(-reach, reach)


def _rows_down(axis: Axes, rows: pd.DataFrame) -> None:
    """Names and settings of the sweeps at the left of ``axis``, which shares them with those beside it."""
    pairs = zip(rows["sweep"], rows["values"], strict=True)
    names = [f"{str(sweep).replace('-', ' ')}\n{values}" for sweep, values in pairs]
    axis.set_yticks(range(len(rows)), names)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    for label, method in zip(axis.get_yticklabels(), rows["method"], strict=True):
        label.set_color(look(str(method)).color)


def _guides(axis: Axes, rows: pd.DataFrame) -> None:
    axis.grid(axis="x")
    axis.tick_params(axis="y", length=0)
    # A line where the next method's sweeps begin.
    methods = [str(method) for method in rows["method"]]
    for place in range(1, len(methods)):
        if methods[place] != methods[place - 1]:
            axis.axhline(place - 0.5, color=MUTED, linewidth=0.5, alpha=0.6, zorder=0)


def _dot(method: str, *, hollow: bool) -> dict[str, Any]:
    color = look(method).color
    face = "white" if hollow else color
    return {"color": color, "marker": "o", "linestyle": "none", "markerfacecolor": face, "markersize": 4.5}


def _legend(figure: Figure, rows: pd.DataFrame) -> None:
    handles = []
    pairs = dict.fromkeys(zip(rows["method"], rows["generative"], strict=True))
    for base in dict.fromkeys(str(method) for method, _ in pairs):
        variants = [str(variant) for method, variant in pairs if method == base and not pd.isna(variant)]
        for name in (base, *variants):
            handles.append(Line2D([], [], label=name, **_dot(name, hollow=name != base)))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)), labelcolor=INK)


def _height(rows: pd.DataFrame) -> float:
    return 1.1 + 0.34 * len(rows)


def _chosen(table: pd.DataFrame, column: str, value: str) -> pd.DataFrame:
    """Rows of one measure, the sweeps of a method together, in the order the methods first appear."""
    _check(table, (*_COLUMNS, column))
    rows = table[table[column] == value]
    if rows.empty:
        known = ", ".join(str(item) for item in dict.fromkeys(table[column]))
        raise ValueError(f"table has no {column} {value!r}; there are: {known}")
    order = {method: place for place, method in enumerate(dict.fromkeys(rows["method"]))}
    return rows.sort_values("method", key=lambda names: names.map(order), kind="stable")


def _check(table: pd.DataFrame, columns: Sequence[str]) -> None:
    check_columns(table, columns)
    if table.empty:
        raise ValueError("table is empty; nothing to draw")
