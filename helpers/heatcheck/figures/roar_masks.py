"""Figures of masks in the remove-and-retrain chapter: what goes, what a mask tells, what controls say."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from heatcheck.figures.common import check_columns, notice, order
from heatcheck.figures.images import show
from heatcheck.figures.roar import MODE_TITLES
from heatcheck.figures.roar_looks import ranking_look
from heatcheck.figures.style import ACCENT, INK, MUTED, PAGE, size, styled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["controls_figure", "leak_figure", "masks_figure", "removal_figure"]

_LEAKS = ("ranking", "label", "mode", "percent", "quantity", "estimate", "low", "high")
_CONTROLS = ("estimator", "label", "control", "mode", "percent", "mean", "low", "high")
_NAMES = {
    "itself": "itself",
    "roll": "rolled",
    "shuffle-class": "shuffled in class",
    "shuffle": "shuffled",
    "random": "random",
    "max-filter": "maximum filter",
    "gaussian": "Gaussian filter",
}


@styled
def removal_figure(
    image: "ArrayLike",
    labels: Sequence[str],
    percents: Sequence[int],
    removed: "ArrayLike",
    kept: "ArrayLike",
) -> Figure:
    """One image in steps, a row per ranking: what is left when the top goes (left), and the top alone.

    Args:
        image: ``(H, W, 3)`` in [0, 1], untouched.
        labels: Names of ``E`` rankings.
        percents: ``P`` percentages.
        removed: ``(E, P, H, W, 3)``.
        kept: ``(E, P, H, W, 3)``.

    Raises:
        ValueError: Shapes do not fit together.
    """
    whole, gone, left = (np.asarray(part, dtype=float) for part in (image, removed, kept))
    shape = (len(labels), len(percents), *whole.shape)
    if gone.shape != shape or left.shape != shape:
        raise ValueError(f"need removed and kept images {shape}, got {gone.shape} and {left.shape}")
    n = len(percents)
    cell = (PAGE - 1.0) / (2 * n + 1.2)
    figure = Figure(figsize=size(PAGE, 0.5 + cell * len(labels)), layout=_tight(0.01))
    ratios = [1.0] * (n + 1) + [0.2] + [1.0] * n
    axes = figure.subplots(len(labels), len(ratios), squeeze=False, width_ratios=ratios)
    for row, label in enumerate(labels):
        axes[row, n + 1].set_axis_off()
        pictures = [whole, *gone[row], *left[row]]
        places = [*range(n + 1), *range(n + 2, 2 * n + 2)]
        for place, picture in zip(places, pictures, strict=True):
            show(axes[row, place], picture)
        axes[row, 0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=6.5)
        if row == 0:
            for place, percent in zip(places, (0, *percents, *percents), strict=True):
                title = f"{percent} %"
                axes[row, place].set_title(title, loc="center", fontweight="normal", fontsize=6.5, pad=2)
    for place, text in ((n // 2, MODE_TITLES["roar"]), (n + 2 + n // 2, MODE_TITLES["kar"])):
        axes[-1, place].set_xlabel(text, fontsize=8)
    return figure


@styled
def masks_figure(
    images: "ArrayLike", titles: Sequence[str], labels: Sequence[str], kept: "ArrayLike"
) -> Figure:
    """Masks alone, a row per ranking, a column per image: white is kept, black is removed.

    Args:
        images: ``(N, H, W, 3)`` in [0, 1].
        titles: ``N`` classes.
        labels: Names of ``E`` rankings.
        kept: ``(E, N, H, W)`` in [0, 1].

    Raises:
        ValueError: Shapes do not fit together.
    """
    photos, parts = np.asarray(images, dtype=float), np.asarray(kept, dtype=float)
    if parts.shape != (len(labels), *photos.shape[:3]) or len(titles) != len(photos):
        raise ValueError(
            f"need masks {(len(labels), *photos.shape[:3])} and {len(photos)} titles, got {parts.shape} and "
            f"{len(titles)}"
        )
    cell = min(0.95, (PAGE - 1.0) / len(photos))
    width = min(PAGE, cell * len(photos) + 1.0)
    figure = Figure(figsize=size(width, 0.35 + cell * (1 + len(labels))), layout=_tight(0.02))
    axes = figure.subplots(1 + len(labels), len(photos), squeeze=False)
    for column, (photo, title) in enumerate(zip(photos, titles, strict=True)):
        show(axes[0, column], photo)
        axes[0, column].set_title(title, loc="center", fontweight="normal", fontsize=7, pad=2)
        for row, part in enumerate(parts, start=1):
            show(axes[row, column], np.repeat(part[column][..., None], 3, axis=2))
    for row, label in enumerate(("", *labels)):
        axes[row, 0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=7)
    return figure


@styled
def leak_figure(leaks: pd.DataFrame, *, chance: float) -> Figure:
    """Accuracy from masks alone (filled) and from masked images (hollow), a row per ranking and condition.

    Args:
        leaks: Columns ``ranking, label, mode, percent, quantity, estimate, low, high`` with the quantities
            ``accuracy`` and ``retrained``. Without rows the figure says so.
        chance: Accuracy of a guess, a dashed line.

    Raises:
        ValueError: A column is missing.
    """
    if leaks.empty:
        return notice("no masks were learned from")
    check_columns(leaks, _LEAKS)
    groups = list(leaks.groupby(["ranking", "label", "mode", "percent"], sort=False))[::-1]
    figure = Figure(figsize=size(PAGE, 0.85 + 0.2 * len(groups)), layout="constrained")
    axis = figure.subplots()
    for place, ((ranking, *_), rows) in enumerate(groups):
        color = ranking_look(str(ranking)).color
        found = rows.set_index("quantity")[["estimate", "low", "high"]].astype(float)
        for quantity, face in (("accuracy", color), ("retrained", "white")):
            mean, low, high = found.loc[quantity].to_numpy()
            axis.plot([low, high], [place, place], color=color, linewidth=1.0)
            axis.plot(mean, place, "o", color=color, markerfacecolor=face, markersize=5)
    names = [f"{name}, {str(mode).upper()} {percent} %" for (_, name, mode, percent), _ in groups]
    axis.set_yticks(range(len(groups)), names)
    axis.axvline(chance, color=MUTED, linestyle=(0, (4, 2)), linewidth=0.9, zorder=0)
    axis.set(xlim=(-0.02, 1.04), ylim=(-0.6, len(groups) - 0.4))
    axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.set_xlabel("accuracy on test images")
    handles = [
        Line2D([], [], marker="o", linestyle="none", color=INK, label="masks alone"),
        Line2D(
            [], [], marker="o", linestyle="none", color=INK, markerfacecolor="white", label="masked images"
        ),
        Line2D([], [], color=MUTED, linestyle=(0, (4, 2)), label="chance"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=3)
    return figure


@styled
def controls_figure(accuracies: pd.DataFrame, *, intact: float) -> Figure:
    """Accuracy under estimators and under rankings made from their maps, one panel per kind of removal.

    Args:
        accuracies: Columns ``estimator, label, control, mode, percent, mean, low, high``. Without rows the
            figure says so.
        intact: Accuracy with nothing removed, a dashed line.

    Raises:
        ValueError: A column is missing.
    """
    if accuracies.empty:
        return notice("no controls were made from an estimator's maps")
    check_columns(accuracies, _CONTROLS)
    pairs = list(dict.fromkeys(zip(accuracies["label"], accuracies["control"], strict=True)))[::-1]
    modes = [mode for mode in MODE_TITLES if mode in set(accuracies["mode"])]
    figure = Figure(figsize=size(PAGE, 0.75 + 0.19 * len(pairs)), layout="constrained")
    axes = figure.subplots(1, len(modes), sharey=True, squeeze=False)[0]
    for axis, mode in zip(axes, modes, strict=True):
        rows = accuracies[accuracies["mode"] == mode]
        _controls(axis, rows, pairs)
        axis.axvline(intact, color=MUTED, linestyle=(0, (4, 2)), linewidth=0.9, zorder=0)
        axis.set_title(f"{MODE_TITLES[mode]}, {int(rows['percent'].iloc[0])} %")
        axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axis.set(xlim=(0, 1.04), xlabel="accuracy")
    several = len(order(accuracies["label"])) > 1
    names = [
        f"{label}, {_NAMES.get(control, control)}" if several else _NAMES.get(str(control), str(control))
        for label, control in pairs
    ]
    axes[0].set_yticks(range(len(pairs)), names, fontsize=6.5)
    return figure


def _controls(axis: Axes, rows: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> None:
    for row in rows.to_dict("records"):
        place = pairs.index((row["label"], row["control"]))
        color = {"itself": ACCENT, "random": MUTED}.get(str(row["control"]), INK)
        axis.plot([row["low"], row["high"]], [place, place], color=color, linewidth=1.0)
        axis.plot(row["mean"], place, "o", color=color, markersize=4.5)


def _tight(pad: float) -> ConstrainedLayoutEngine:
    """Layout of pictures that nearly touch."""
    return ConstrainedLayoutEngine(w_pad=pad, h_pad=pad, wspace=0, hspace=0)
