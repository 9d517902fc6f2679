"""Pictures of scenes with a question each, and the objects that decide its answer in outline."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import AbstractPathEffect, withStroke

from heatcheck.figures.style import INK, PAGE, size, styled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_ACROSS = 3
_CHARACTERS = 46  # of a question's line under a picture a third of the page wide
_LINES: tuple[dict[str, Any], ...] = (
    {"color": "#ffd23f", "linestyle": "-"},
    {"color": "#ffffff", "linestyle": (0, (2.5, 1.5))},
    {"color": "#7fe7ff", "linestyle": (0, (1, 1))},
)
_HALO: list[AbstractPathEffect] = [withStroke(linewidth=2.6, foreground="#000000aa")]


@styled
def questions_figure(
    images: "Sequence[ArrayLike]",
    masks: "Sequence[Mapping[str, ArrayLike]]",
    questions: Sequence[str],
    answers: Sequence[str],
) -> Figure:
    """Scenes with a question and its answer below each, and its ground truths outlined.

    Args:
        images: ``n`` pictures ``(H, W, 3)`` in [0, 1].
        masks: For each picture its ground truths ``(H, W)`` by name.
        questions: Text of each question.
        answers: What is written after it.

    Raises:
        ValueError: Counts or shapes do not fit together.
    """
    counts = {len(images), len(masks), len(questions), len(answers)}
    if len(counts) != 1 or not images:
        raise ValueError(
            f"pictures, masks, questions and answers differ in number or are none: {sorted(counts)}"
        )
    texts = [
        "\n".join([*textwrap.wrap(question, _CHARACTERS), f"→ {answer}"])
        for question, answer in zip(questions, answers, strict=True)
    ]
    names = list(dict.fromkeys(name for each in masks for name in each))
    cell = PAGE / _ACROSS * 2 / 3
    parts = [texts[start : start + _ACROSS] for start in range(0, len(texts), _ACROSS)]
    heights = [cell + 0.125 * max(text.count("\n") + 1 for text in part) for part in parts]
    figure = Figure(figsize=size(PAGE, sum(heights) + 0.1 * len(parts) + 0.25), layout="constrained")
    axes = figure.subplots(len(parts), _ACROSS, squeeze=False).ravel()
    for axis in axes[len(images) :]:
        axis.set_axis_off()
    for axis, image, each, text in zip(axes, images, masks, texts, strict=False):
        _draw(
            axis,
            np.asarray(image, dtype=float),
            {name: np.asarray(mask) for name, mask in each.items()},
            names,
        )
        axis.set_xlabel(text, fontsize=6.2, color=INK, loc="left", labelpad=3, linespacing=1.25)
    handles = [
        Line2D(
            [], [], **_LINES[names.index(name) % len(_LINES)], linewidth=1.4, path_effects=_HALO, label=name
        )
        for name in names
    ]
    if handles:
        figure.legend(handles=handles, loc="outside lower left", ncols=len(handles))
    return figure


def _draw(
    axis: Axes, image: "NDArray[np.float64]", masks: "Mapping[str, NDArray[np.bool_]]", names: Sequence[str]
) -> None:
    height, width = image.shape[:2]
    # Scenes are squashed to a square for the network; they are shown as they were rendered, 3 to 2.
    axis.imshow(np.clip(image, 0, 1), extent=(0, width, height, 0), aspect=2 / 3 * width / height)
    for name, mask in masks.items():
        if mask.shape != (height, width):
            raise ValueError(
                f"mask {name!r} is {mask.shape}, its picture {(height, width)}; they must be alike"
            )
        style = _LINES[names.index(name) % len(_LINES)]
        outline = axis.contour(
            np.arange(width) + 0.5,
            np.arange(height) + 0.5,
            mask.astype(float),
            levels=[0.5],
            colors=[style["color"]],
            linestyles=[style["linestyle"]],
            linewidths=1.2,
        )
        outline.set_path_effects(_HALO)
    axis.set(xticks=[], yticks=[], xlim=(0, width), ylim=(height, 0))
    for spine in axis.spines.values():
        spine.set(visible=False)
