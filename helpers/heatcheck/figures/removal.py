"""Figures about what methods remove: image, fill and map side by side, and a mask on its way."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from heatcheck.figures.common import check_columns, notice
from heatcheck.figures.images import show, show_heatmap
from heatcheck.figures.style import ACCENT, INK, MUTED, PAGE, look, size, styled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["mask_paths_figure", "removal_figure"]

_PATHS = ("path", "method", "iteration", "probability", "low", "high", "removed")
# Lines of one method are told apart by their dashes.
_DASHES: tuple[object, ...] = ("-", (0, (5.0, 1.6)), (0, (1.2, 1.2)), (0, (5.0, 1.4, 1.2, 1.4)))


class Removal(Protocol):
    """One removal of a method: what the network sees, the share removed, its probability, and the map."""

    @property
    def seen(self) -> "NDArray[np.float64]":
        """``(N, H, W, 3)`` in [0, 1]."""

    @property
    def removed(self) -> "NDArray[np.float64]":
        """``(N,)`` in [0, 1]."""

    @property
    def probabilities(self) -> "NDArray[np.float64]":
        """``(N,)``."""

    @property
    def heatmaps(self) -> "NDArray[np.float64]":
        """``(N, H, W)``."""


@styled
def removal_figure(
    images: "NDArray[np.float64]",
    probabilities: "NDArray[np.float64]",
    removals: Mapping[str, Removal],
    titles: Sequence[str],
) -> Figure:
    """A row per image: the image, then for each method one removal and the heatmap.

    Under each picture stands the probability of the class, and how much is removed. Without a method the
    figure says so.

    Args:
        images: ``(N, H, W, 3)`` in [0, 1].
        probabilities: ``(N,)`` of the class on the whole images.
        removals: By method.
        titles: ``N`` names of the images.

    Raises:
        ValueError: Numbers of images differ.
    """
    if not removals:
        return notice("neither this method nor its variant was run")
    counts = {len(images), len(probabilities), len(titles), *(len(one.seen) for one in removals.values())}
    if len(counts) != 1:
        raise ValueError(f"images, probabilities, titles and removals differ in number: {sorted(counts)}")
    across = 1 + 2 * len(removals)
    cell = (PAGE - 0.2) / across
    height = 0.3 + len(images) * (cell * images.shape[1] / images.shape[2] + 0.16)
    layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02, wspace=0.0, hspace=0.0)
    figure = Figure(figsize=size(PAGE, height), layout=layout)
    axes = figure.subplots(len(images), across, squeeze=False)
    for row, image in enumerate(images):
        show(axes[row, 0], image)
        axes[row, 0].set_ylabel(titles[row], fontsize=6.5, color=INK, labelpad=3)
        _below(axes[row, 0], f"p = {probabilities[row]:.2f}")
        for number, one in enumerate(removals.values()):
            left, right = axes[row, 1 + 2 * number], axes[row, 2 + 2 * number]
            show(left, one.seen[row])
            _below(left, f"p = {one.probabilities[row]:.2f}, {one.removed[row]:.0%} removed")
            show_heatmap(right, image, one.heatmaps[row])
    for number, method in enumerate(removals):
        for place, text in ((1 + 2 * number, f"{method}\nremoval"), (2 + 2 * number, "\nheatmap")):
            axes[0, place].set_title(text, loc="left", fontsize=6.5, fontweight="normal", pad=3)
    return figure


@styled
def mask_paths_figure(paths: pd.DataFrame) -> Figure:
    """Probability of the class seen through the mask (left), and the share removed (right), by iteration.

    Args:
        paths: Columns ``path, method, iteration, probability, low, high, removed``. Without rows the figure
            says so.

    Raises:
        ValueError: A column is missing.
    """
    check_columns(paths, _PATHS)
    if paths.empty:
        return notice("no mask was searched in this run")
    figure = Figure(figsize=size(PAGE, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    handles, used = [], set()
    lines = dict.fromkeys(zip(paths["path"], paths["method"], strict=True))
    spare = iter((INK, MUTED, ACCENT))
    for number, (path, method) in enumerate(lines):
        rows = paths[paths["path"] == path].sort_values("iteration")
        # The first path of a method has its color, further ones have others.
        color = next(spare, INK) if method in used else look(str(method)).color
        used.add(method)
        dashes = _DASHES[number % len(_DASHES)]
        shared: dict[str, Any] = {"color": color, "linestyle": dashes, "marker": "o", "markersize": 3}
        left.fill_between(rows["iteration"], rows["low"], rows["high"], color=color, alpha=0.12, linewidth=0)
        left.plot(rows["iteration"], rows["probability"], **shared)
        right.plot(rows["iteration"], rows["removed"], **shared)
        handles.append(Line2D([], [], label=str(path), **shared))
    left.set(title="Probability through the mask", ylim=(0, 1.03))
    right.set(title="Share of the image removed", ylim=(-0.03, 1))
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    for axis in (left, right):
        _by_iteration(axis, sorted(set(paths["iteration"])))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
    return figure


def _by_iteration(axis: Axes, points: Sequence[int]) -> None:
    # Linear up to the first iteration, so that the start has a place beside powers of ten.
    axis.set_xscale("symlog", linthresh=1, linscale=0.5)
    axis.set_xticks(points, [str(point) for point in points])
    axis.set_xlabel("iterations")
    axis.minorticks_off()
    axis.set_xlim(-0.2, 1.25 * max(points) + 0.2)
    axis.grid(axis="y")


def _below(axis: Axes, text: str) -> None:
    axis.set_xlabel(text, fontsize=6, color=MUTED, labelpad=2)
