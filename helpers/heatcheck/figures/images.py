"""Figures that show photographs: heatmaps over images, one deletion as a strip, boxes on images."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from heatcheck.figures.style import ACCENT, DIVERGING, INK, MUTED, PAGE, SEQUENTIAL, size, styled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_COLUMNS = 7  # panels side by side at page width that are still large enough to see
_TITLE = 20  # letters of a name that fit over a panel
_CLIP = 99.5  # percentile of |heatmap| shown in full color; single extreme pixels would hide the rest
_TRUE, _PREDICTED = "#ffffff", "#ffd23f"


@styled
def gallery_figure(
    images: "ArrayLike", heatmaps: "Mapping[str, ArrayLike]", titles: Sequence[str] | None = None
) -> Figure:
    """Heatmaps over their images: one row per image, one column per method; many methods wrap into more rows.

    Each map is scaled by itself. Signed maps are red above and blue below zero, symmetric about zero; maps
    without a negative value run from light to dark. Maps that are not finite or constant stay blank and
    say so.

    Args:
        images: ``(N, H, W, 3)`` in [0, 1].
        heatmaps: For each method ``(N, H, W)``; a pooled map, signed or not.
        titles: ``N`` names of the images, by default none.

    Raises:
        ValueError: Shapes do not fit together.
    """
    photos = _photos(images)
    maps = {method: _maps(method, values, photos.shape[:3]) for method, values in heatmaps.items()}
    if not maps:
        raise ValueError("no heatmaps given; pass at least one method")
    names = list(titles) if titles is not None else [""] * len(photos)
    if len(names) != len(photos):
        raise ValueError(f"{len(names)} titles for {len(photos)} images; give one each")
    blocks = _blocks(list(maps))
    across = 1 + max(len(block) for block in blocks)
    margin = 0.2 if any(names) else 0.0  # for the images' names
    cell = (PAGE - margin) / max(across, 5)
    ratio = photos.shape[1] / photos.shape[2]
    height = sum(0.22 + cell * ratio * len(photos) for _ in blocks)
    figure = Figure(figsize=size(cell * across + margin, height), layout=_tight())
    axes = figure.subplots(len(blocks) * len(photos), across, squeeze=False)
    for number, block in enumerate(blocks):
        _gallery_block(axes[number * len(photos) : (number + 1) * len(photos)], photos, block, maps, names)
    return figure


@styled
def strip_figure(frames: "ArrayLike", probabilities: "ArrayLike", fractions: "ArrayLike") -> Figure:
    """One deletion on one photograph: frames in a strip, the falling probability of the target under them.

    Args:
        frames: ``(S, H, W, 3)`` in [0, 1], from the untouched image on.
        probabilities: ``(S,)`` probability of the target for each frame.
        fractions: ``(S,)`` fraction of pixels deleted in each frame.

    Raises:
        ValueError: Shapes do not fit together.
    """
    photos = _photos(frames)
    p = np.asarray(probabilities, dtype=float)
    gone = np.asarray(fractions, dtype=float)
    if p.shape != (len(photos),) or gone.shape != p.shape:
        raise ValueError(
            f"{len(photos)} frames need as many probabilities and fractions, got {p.shape} and {gone.shape}"
        )
    ratio = photos.shape[1] / photos.shape[2]
    strip = PAGE / len(photos) * ratio
    figure = Figure(figsize=size(PAGE, strip + 1.25), layout=_tight())
    grid = figure.add_gridspec(2, len(photos), height_ratios=[strip, 1.0])
    for column, photo in enumerate(photos):
        axis = figure.add_subplot(grid[0, column])
        show(axis, photo)
        axis.set_title(
            f"{gone[column]:.0%}", loc="center", fontweight="normal", fontsize=7, color=MUTED, pad=2
        )
    axis = figure.add_subplot(grid[1, :])
    places = np.arange(len(photos)) + 0.5  # the middle of each frame
    axis.fill_between(places, 0, p, color=ACCENT, alpha=0.12, linewidth=0)
    axis.plot(places, p, "o-", color=ACCENT, markersize=4)
    for place, value in zip(places, p, strict=True):
        axis.annotate(
            f"{value:.2f}", (place, value), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=7
        )
    axis.set(xlim=(0, len(photos)), ylim=(0, max(1e-6, float(np.nanmax(p))) * 1.28), yticks=[])
    axis.set_xticks([])
    axis.set_xlabel(
        "probability of the target after this share of the pixels is deleted", color=MUTED, fontsize=7
    )
    axis.spines["left"].set_visible(False)
    return figure


@styled
def boxes_figure(
    images: "ArrayLike",
    boxes_true: "Sequence[ArrayLike]",
    boxes_predicted: "Sequence[ArrayLike | None]",
    ious: "ArrayLike",
    titles: Sequence[str] | None = None,
) -> Figure:
    """True boxes (white, solid) and the heatmap's box (yellow, dashed) on each image, with their overlap.

    Args:
        images: ``(N, H, W, 3)`` in [0, 1].
        boxes_true: For each image ``(n, 4)`` half-open ``[x0, y0, x1, y1)`` in pixels.
        boxes_predicted: For each image one box ``(4,)``, or None where the heatmap gives none.
        ious: ``(N,)`` intersection over union; NaN where undefined.
        titles: ``N`` names, by default none.

    Raises:
        ValueError: Counts do not fit together.
    """
    photos = _photos(images)
    overlap = np.asarray(ious, dtype=float)
    names = list(titles) if titles is not None else [""] * len(photos)
    counts = {len(photos), len(boxes_true), len(boxes_predicted), len(overlap), len(names)}
    if len(counts) != 1:
        raise ValueError(
            f"images, boxes, overlaps and titles differ in number: {sorted(counts)}; give one each per image"
        )
    across = min(len(photos), 6)
    down = -(-len(photos) // across)
    cell = PAGE / max(across, 3)
    figure = Figure(
        figsize=size(cell * across, down * (cell * photos.shape[1] / photos.shape[2] + 0.36) + 0.22),
        layout="constrained",
    )
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis in axes[len(photos) :]:
        axis.set_axis_off()
    for axis, photo, true, predicted, value, name in zip(
        axes, photos, boxes_true, boxes_predicted, overlap, names, strict=False
    ):
        show(axis, photo)
        for box in np.asarray(true, dtype=float).reshape(-1, 4):
            _draw_box(axis, box, _TRUE, "-")
        if predicted is not None:
            _draw_box(axis, np.asarray(predicted, dtype=float), _PREDICTED, (0, (3.0, 1.5)))
        verdict = (
            "no box" if predicted is None else "IoU undefined" if np.isnan(value) else f"IoU {value:.2f}"
        )
        axis.set_title(f"{name}\n{verdict}" if name else verdict, fontsize=6.5, fontweight="normal", pad=3)
    _box_legend(figure)
    return figure


def _gallery_block(
    axes: "NDArray[Any]",
    photos: "NDArray[np.float64]",
    block: Sequence[str],
    maps: "Mapping[str, NDArray[np.float64]]",
    names: Sequence[str],
) -> None:
    for row, photo in enumerate(photos):
        show(axes[row, 0], photo)
        axes[row, 0].set_ylabel(names[row], fontsize=6.5, color=INK, labelpad=3)
        for column in range(1, axes.shape[1]):
            axis = axes[row, column]
            if column > len(block):
                axis.set_axis_off()
                continue
            show_heatmap(axis, photo, maps[block[column - 1]][row])
            if row == 0:
                axis.set_title(
                    _wrapped(block[column - 1]), loc="center", fontsize=6.5, fontweight="normal", pad=3
                )


def show_heatmap(axis: Axes, photo: "NDArray[np.float64]", heatmap: "NDArray[np.float64]") -> None:
    """Draw ``heatmap`` ``(H, W)`` over ``photo`` ``(H, W, 3)``, or what is wrong with it."""
    fault = _fault(heatmap)
    if fault:
        show(axis, np.full_like(photo, 0.93))
        axis.text(
            0.5, 0.5, fault, transform=axis.transAxes, ha="center", va="center", fontsize=6.5, color=MUTED
        )
        return
    show(axis, overlay(photo, heatmap))


def overlay(photo: "NDArray[np.float64]", heatmap: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """``(H, W, 3)`` in [0, 1]: the heatmap in color over a pale gray copy of the photograph.

    Args:
        photo: ``(H, W, 3)`` in [0, 1].
        heatmap: ``(H, W)``, finite.
    """
    limit = float(np.percentile(np.abs(heatmap), _CLIP)) or float(np.abs(heatmap).max()) or 1.0
    strength = np.clip(heatmap / limit, -1.0, 1.0)
    signed = bool((heatmap < 0).any())
    colors = _colormap(DIVERGING)((strength + 1) / 2) if signed else _colormap(SEQUENTIAL)(strength)
    gray = (photo @ np.array([0.299, 0.587, 0.114]))[..., None]
    pale = 0.62 + 0.38 * gray
    # Strong values cover the photograph, weak ones let it through.
    alpha = np.clip(1.15 * np.abs(strength) ** 0.7, 0.0, 0.95)[..., None]
    mixed: NDArray[np.float64] = alpha * colors[..., :3] + (1 - alpha) * pale
    return mixed


def _fault(heatmap: "NDArray[np.float64]") -> str:
    if not np.isfinite(heatmap).all():
        return "not finite"
    if heatmap.min() == heatmap.max():
        return "constant"
    return ""


def _colormap(name: str) -> Any:
    return sns.color_palette(name, as_cmap=True)


def show(axis: Axes, picture: "NDArray[np.float64]") -> None:
    """Draw ``picture`` ``(H, W, 3)`` without ticks or frame."""
    height, width = picture.shape[:2]
    axis.imshow(np.clip(picture, 0, 1), extent=(0, width, height, 0), interpolation="antialiased")
    axis.set(xticks=[], yticks=[], xlim=(0, width), ylim=(height, 0))
    for spine in axis.spines.values():
        spine.set(visible=False)


def _draw_box(axis: Axes, box: "NDArray[np.float64]", color: str, line: Any) -> None:
    x0, y0, x1, y1 = box
    patch = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=color, linewidth=1.4, linestyle=line)
    patch.set_path_effects([withStroke(linewidth=2.6, foreground="#00000099")])
    axis.add_patch(patch)


def _box_legend(figure: Figure) -> None:
    halo = [withStroke(linewidth=3.0, foreground="#00000099")]
    true = Line2D([], [], color=_TRUE, linewidth=1.4, path_effects=halo, label="true box")
    predicted = Line2D(
        [], [], color=_PREDICTED, linewidth=1.4, linestyle="--", path_effects=halo, label="heatmap's box"
    )
    figure.legend(handles=[true, predicted], loc="outside lower left", ncols=2)


def _wrapped(name: str) -> str:
    """A long name on several lines, broken at its hyphens."""
    return "\n".join(textwrap.wrap(name, _TITLE)) or name


def _tight() -> ConstrainedLayoutEngine:
    return ConstrainedLayoutEngine(w_pad=0.015, h_pad=0.015, wspace=0.0, hspace=0.0)


def _blocks(methods: list[str]) -> list[list[str]]:
    """Methods in as few blocks as fit the page, of nearly equal length."""
    count = -(-len(methods) // (_COLUMNS - 1))
    length = -(-len(methods) // count) if count else 1
    return [methods[start : start + length] for start in range(0, len(methods), length)]


def _photos(images: "ArrayLike") -> "NDArray[np.float64]":
    photos = np.asarray(images, dtype=float)
    if photos.ndim != 4 or photos.shape[-1] != 3 or len(photos) == 0:
        raise ValueError(f"images must be (N, H, W, 3) with at least one image, got {photos.shape}")
    return photos


def _maps(method: str, values: "ArrayLike", shape: tuple[int, ...]) -> "NDArray[np.float64]":
    maps = np.asarray(values, dtype=float)
    if maps.shape != shape:
        raise ValueError(f"heatmaps of {method!r} have shape {maps.shape}; the images need {shape}")
    return maps
