"""Figures of the single-deletion chapter about images and models: tables and arrays in, figures out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from heatcheck.figures.common import check_columns, notice, order
from heatcheck.figures.images import show, show_heatmap
from heatcheck.figures.style import ACCENT, DIVERGING, INK, MUTED, PAGE, look, size, styled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_GRID = "#ffffff"
_LINE = 0.046  # height of a name, as a share of the panel's
_LINEAR = 0.05  # loss of accuracy from which the axis is logarithmic


@styled
def example_figure(image: "ArrayLike", explained: Sequence[Any]) -> Figure:
    """One image patch by patch: image, map, sums of the map, true drops, ranks against ranks; a row each.

    Args:
        image: ``(H, W, 3)`` in [0, 1].
        explained: One entry per method, with the attributes ``method``, ``heatmap`` ``(H, W)``, ``sums``,
            ``drops``, ``sum_ranks``, ``drop_ranks`` ``(P, P)`` each and ``rho``.

    Raises:
        ValueError: There is no method.
    """
    if not explained:
        raise ValueError("no method given; pass at least one")
    photo = np.asarray(image, dtype=float)
    cell = PAGE / 5.25
    figure = Figure(figsize=size(PAGE, 0.3 + (cell + 0.16) * len(explained)), layout="constrained")
    axes = figure.subplots(len(explained), 5, squeeze=False)
    for row, one in zip(axes, explained, strict=True):
        show(row[0], photo)
        show_heatmap(row[1], photo, np.asarray(one.heatmap, dtype=float))
        for axis in row[:2]:
            _draw_grid(axis, photo.shape, len(one.sums))
        _cells(row[2], one.sums)
        _cells(row[3], one.drops)
        _ranks(row[4], one)
        row[0].set_ylabel(one.method, fontsize=6.5)
    titles = ("image", "map", "map, summed", "true drop", "ranks")
    for axis in axes[:-1, 4]:
        axis.set_xlabel("")
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, loc="center", fontsize=7, fontweight="normal")
    return figure


@styled
def alignment_figure(table: pd.DataFrame) -> Figure:
    """Accuracy that one deleted patch costs each model: hollow before fine-tuning, filled after.

    The axis is logarithmic above 5 %.

    Args:
        table: Columns ``model, stage, split, gap, low, high``; fractions.

    Raises:
        ValueError: A column is missing or the table is empty.
    """
    check_columns(table, ("model", "stage", "split", "gap", "low", "high"))
    if table.empty:
        raise ValueError("table is empty; nothing to draw")
    models, splits = order(table["model"])[::-1], order(table["split"])
    figure = Figure(figsize=size(PAGE, 0.75 + 0.16 * len(models)), layout="constrained")
    axes = figure.subplots(1, len(splits), sharey=True, sharex=True, squeeze=False)[0]
    for axis, split in zip(axes, splits, strict=True):
        for row in table[table["split"] == split].to_dict("records"):
            before = row["stage"] == "original"
            place = models.index(str(row["model"])) + (0.14 if before else -0.14)
            color = MUTED if before else ACCENT
            axis.plot([row["low"], row["high"]], [place] * 2, color=color, linewidth=1.5, alpha=0.5)
            face = "white" if before else color
            axis.plot(row["gap"], place, "o", color=color, markerfacecolor=face, markersize=4)
        axis.axvline(0, color=MUTED, linewidth=0.7, zorder=0)
        axis.set_title(f"{split} images")
        # A network that stumbles over holes must not squeeze the others together.
        axis.set_xscale("symlog", linthresh=_LINEAR, linscale=2)
        axis.set_xticks([0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.2, 0.5])
        axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axis.minorticks_off()
        axis.tick_params(axis="x", labelsize=6)
        axis.grid(axis="both")
        axis.set_axisbelow(True)
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        axis.set_ylim(-0.7, len(models) - 0.3)
    axes[0].set_yticks(range(len(models)), [name.rsplit("/", 1)[-1] for name in models], fontsize=6.5)
    figure.supxlabel("accuracy lost when one random patch is deleted", fontsize=7, color=MUTED)
    return figure


@styled
def design_figure(table: pd.DataFrame) -> Figure:
    """Scores along each design factor: one panel per factor, models in order, one line per method.

    Maps that a model computes itself are marked by a star.

    Args:
        table: Columns ``factor, place, model, method, row, mean, low, high, is_own``, a row per factor,
            model and method.

    Without rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if table.empty:
        return notice("no factor has two models in this run")
    check_columns(table, ("factor", "place", "model", "method", "row", "mean", "low", "high", "is_own"))
    factors = order(table["factor"])
    across = min(4, len(factors))
    down = -(-len(factors) // across)
    figure = Figure(figsize=size(PAGE, 1.95 * down + 0.5), layout="constrained")
    axes = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    handles: dict[str, Line2D] = {}
    for axis, factor in zip(axes, factors, strict=False):
        handles |= _factor_panel(axis, table[table["factor"] == factor], factor)
    for axis in axes[len(factors) :]:
        axis.set_axis_off()
    for axis in axes[::across]:
        axis.set_ylabel("mean rank correlation")
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=6)
    return figure


@styled
def quality_figure(table: pd.DataFrame, published: pd.DataFrame) -> Figure:
    """Accuracy against the score of the best method: ours left, published right.

    Args:
        table: Columns ``model, accuracy, source, method, mean, low, high``; ``source`` is ``general`` or
            ``own map``.
        published: Columns ``model, accuracy, mean``.

    Raises:
        ValueError: A column is missing or a table is empty.
    """
    check_columns(table, ("model", "accuracy", "source", "method", "mean", "low", "high"))
    check_columns(published, ("model", "accuracy", "mean"))
    if table.empty or published.empty:
        raise ValueError("a table is empty; nothing to draw")
    figure = Figure(figsize=size(PAGE, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for row in table.to_dict("records"):
        own = row["source"] == "own map"
        color = look(str(row["method"])).color
        left.plot([row["accuracy"]] * 2, [row["low"], row["high"]], color=color, linewidth=1.2, alpha=0.5)
        left.plot(
            row["accuracy"], row["mean"], "*" if own else "o", color=color, markersize=8 if own else 4.5
        )
    right.plot(published["accuracy"], published["mean"], "o", color=MUTED, markerfacecolor="white")
    own = table["source"] == "own map"
    names = np.where(own, table["model"] + ", own map", table["model"])
    _names(left, table["accuracy"], table["mean"], [str(name) for name in names])
    _names(right, published["accuracy"], published["mean"], list(published["model"]))
    left.set_title("Here, small networks")
    right.set_title("Published, ImageNet")
    for axis in (left, right):
        axis.set_xlabel("top-1 accuracy after fine-tuning")
        # Whole percents: a tick at 72.5 would be labelled 72 or 73.
        axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axis.grid(axis="both")
        axis.set_axisbelow(True)
    left.set_ylabel("mean rank correlation of the best method")
    return figure


def _factor_panel(axis: Axes, table: pd.DataFrame, factor: str) -> dict[str, Line2D]:
    models, rows, handles = order(table["model"]), order(table["row"]), {}
    for number, row in enumerate(rows):
        part = table[table["row"] == row].set_index("model").reindex(models)
        known = part.dropna(subset=["mean"])
        if known.empty:
            continue
        style, own = look(str(known["method"].iloc[0])), bool(known["is_own"].iloc[0])
        x = np.arange(len(models)) + 0.4 * ((number + 0.5) / len(rows) - 0.5)
        axis.vlines(x, part["low"], part["high"], color=style.color, linewidth=0.8, alpha=0.5)
        (handles[row],) = axis.plot(
            x, part["mean"], color=style.color, linestyle=style.line, marker="*" if own else style.marker,
            markersize=7 if own else 3, linewidth=1.0, label=row,
        )  # fmt: skip
    axis.axhline(0, color=MUTED, linewidth=0.6, zorder=0)
    axis.set_xticks(range(len(models)), models, fontsize=6, rotation=25)
    for label in axis.get_xticklabels():
        label.set(ha="right", rotation_mode="anchor")
    axis.set_title(factor)
    axis.grid(axis="y")
    axis.set_xlim(-0.5, len(models) - 0.5)
    return handles


def _names(axis: Axes, x: pd.Series, y: pd.Series, names: Sequence[str]) -> None:
    """Names of points in a column beside the panel, in the points' order, each with a thread to its own."""
    low, high = axis.get_ylim()
    step = _LINE * (high - low)
    free = high
    for place in np.argsort(-y.to_numpy(dtype=float), kind="stable"):
        # Further down only if the name above is in the way.
        text = min(float(y.iloc[place]), free)
        free = text - step
        axis.annotate(
            names[place], (float(x.iloc[place]), float(y.iloc[place])), (1.03, text),
            textcoords=("axes fraction", "data"), fontsize=5.5, color=INK, va="center",
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.25},
        )  # fmt: skip


def _draw_grid(axis: Axes, shape: tuple[int, ...], n_patches: int) -> None:
    for line in range(1, n_patches):
        axis.axvline(line * shape[1] / n_patches, color=_GRID, linewidth=0.6)
        axis.axhline(line * shape[0] / n_patches, color=_GRID, linewidth=0.6)


def _cells(axis: Axes, values: "NDArray[np.float64]") -> None:
    """Values of patches as colored cells with their numbers."""
    limit = float(np.nanmax(np.abs(values))) or 1.0
    digits = max(0, 1 - int(np.floor(np.log10(limit)))) if np.isfinite(limit) else 2
    sns.heatmap(
        values, ax=axis, vmin=-limit, vmax=limit, cmap=sns.color_palette(DIVERGING, as_cmap=True), annot=True,
        fmt=f"z.{digits}f", annot_kws={"fontsize": 5}, linewidths=0.4, cbar=False, square=True,
        xticklabels=False, yticklabels=False,
    )  # fmt: skip


def _ranks(axis: Axes, one: Any) -> None:
    x, y = np.ravel(one.drop_ranks), np.ravel(one.sum_ranks)
    last = len(x)
    axis.plot([1, last], [1, last], color=MUTED, linewidth=0.6, linestyle=(0, (2, 2)))
    axis.plot(x, y, "o", color=look(one.method).color, markersize=3.5)
    text = "undefined" if np.isnan(one.rho) else f"$\\rho$ = {one.rho:.2f}"
    axis.annotate(text, (0.04, 0.97), xycoords="axes fraction", va="top", fontsize=6.5, color=INK)
    axis.set_xlabel("rank of the drop", fontsize=6, labelpad=1)
    axis.set_ylabel("rank of the sum", fontsize=6, labelpad=1)
    axis.set(xticks=[1, last], yticks=[1, last], xlim=(0, last + 1), ylim=(0, last + 1), aspect="equal")
    axis.tick_params(labelsize=5.5, length=2)
