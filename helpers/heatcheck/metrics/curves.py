"""Deletion and insertion: how the explained class's probability moves as pixels are changed.

Petsiuk et al. (2018), RISE, section 4; step, fill, spacing, ties and normalization are explicit choices.
"""

import math
from itertools import groupby
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from heatcheck.metrics.composites import Composer
from heatcheck.metrics.flags import NONFINITE, Flags, is_flagged, map_flags, override
from heatcheck.metrics.ordering import Ties, orders_of
from heatcheck.metrics.pooling import resize_heatmaps
from heatcheck.metrics.running import Orderings, ordered_scores
from heatcheck.metrics.scoring import Scorer, ask_all, check_explained, explained_classes
from heatcheck.removal.fills import Fill
from heatcheck.runtime.seeds import CounterGenerator, content_ids

Direction = Literal["deletion", "insertion"]
Spacing = Literal["uniform", "exact"]


class Curves(NamedTuple):
    """Curves of ``N`` images over ``S`` steps; areas have unit total width and are fractions, not percent.

    Attributes:
        scores: ``(N, S + 1)`` float64 probability of the explained class; NaN for an invalid row.
        fractions: ``(S + 1,)`` float64 position of each score on the horizontal axis, in [0, 1].
        auc: ``(N,)`` area under the curve. Deletion: lower is better. Insertion: higher is better.
        auc_over_first: ``(N,)`` area divided by the curve's first score.
        auc_over_max: ``(N,)`` area divided by the curve's largest score.
        targets: ``(N,)`` int64 explained classes.
        flags: ``(N,)`` flag of each row.
    """

    scores: Tensor
    fractions: Tensor
    auc: Tensor
    auc_over_first: Tensor
    auc_over_max: Tensor
    targets: Tensor
    flags: Flags


class _Choices(NamedTuple):
    direction: Direction
    step: int | None
    fill: str | Fill | Tensor
    ties: Ties
    spacing: Spacing
    max_fraction: float
    seed: int
    n_orders: int
    channels_last: bool


def deletion(
    probabilities: Scorer,
    images: Tensor,
    heatmaps: Tensor,
    *,
    targets: Tensor | None = None,
    step: int | None = None,
    fill: str | Fill | Tensor = "zero",
    ties: Ties = "stable",
    spacing: Spacing = "uniform",
    max_fraction: float = 1.0,
    seed: int = 0,
    n_orders: int = 10,
    channels_last: bool = False,
) -> Curves:
    """Deletion curves: pixels of the highest relevance are replaced first; a lower area is better.

    Args:
        probabilities: Class probabilities ``(B, K)`` of images ``(B, C, H, W)``; see ``softmax_of``.
        images: ``(N, C, H, W)`` normalized, finite.
        heatmaps: ``(N, h, w)`` signed; another resolution is resized bilinearly. Signs count.
        targets: ``(N,)`` int64 explained classes; by default the most probable one.
        step: Pixels changed per step; by default ``max(1, H * W // 28)``, which is 1792 at 224 x 224.
        fill: Name of a fill, a ``Fill``, or the filled images ``(N, C, H, W)`` themselves.
        ties: Order of equal pixels: ``stable`` (row-major), ``random``, or ``mean`` over ``n_orders`` random
            orders.
        spacing: ``uniform`` gives every step the same width, also a shorter last one; ``exact`` uses the
            fraction of pixels changed.
        max_fraction: Stop after this fraction of the pixels, in (0, 1]; the axis then ends there.
        seed: Seed of the random orders.
        n_orders: Number of orders of ``ties="mean"``.
        channels_last: Give the model images in channels-last memory; faster for convolutions on a CPU.

    Raises:
        ValueError: Shapes do not fit, an image is not finite, or a choice is not allowed.
    """
    choices = _Choices("deletion", step, fill, ties, spacing, max_fraction, seed, n_orders, channels_last)
    return _curves(probabilities, images, heatmaps, targets, choices)


def insertion(
    probabilities: Scorer,
    images: Tensor,
    heatmaps: Tensor,
    *,
    targets: Tensor | None = None,
    step: int | None = None,
    fill: str | Fill | Tensor = "blur",
    ties: Ties = "stable",
    spacing: Spacing = "uniform",
    max_fraction: float = 1.0,
    seed: int = 0,
    n_orders: int = 10,
    channels_last: bool = False,
) -> Curves:
    """Insertion curves: pixels of the highest relevance return first; a higher area is better.

    Starts from the filled image (by default blurred). Arguments and errors are those of ``deletion``.
    """
    choices = _Choices("insertion", step, fill, ties, spacing, max_fraction, seed, n_orders, channels_last)
    return _curves(probabilities, images, heatmaps, targets, choices)


def area_under_curve(scores: Tensor, fractions: Tensor | None = None) -> Tensor:
    """Trapezoid area ``(...)`` under scores ``(..., S + 1)``, divided by the width of the axis.

    Args:
        scores: At least two points.
        fractions: ``(S + 1,)`` increasing positions; by default equally spaced.

    Raises:
        ValueError: Fewer than two points.
    """
    if scores.shape[-1] < 2:
        raise ValueError(f"a curve needs at least 2 points, got {scores.shape[-1]}")
    if fractions is None:
        fractions = torch.linspace(0, 1, scores.shape[-1], dtype=torch.float64, device=scores.device)
    return torch.trapezoid(scores.double(), fractions) / (fractions[-1] - fractions[0])


def changed_pixels(n_pixels: int, step: int | None = None, max_fraction: float = 1.0) -> Tensor:
    """Number of changed pixels ``(S + 1,)`` int64 at each point of a curve, from 0 to all.

    Args:
        n_pixels: ``H * W``.
        step: Pixels per step; by default ``max(1, n_pixels // 28)``. The last step may be shorter.
        max_fraction: Fraction of the pixels changed in the end, in (0, 1].

    Raises:
        ValueError: The step is not positive or the fraction outside (0, 1].
    """
    size = max(1, n_pixels // 28) if step is None else step
    if size < 1:
        raise ValueError(f"step must be at least 1 pixel, got {step}")
    if not 0 < max_fraction <= 1:
        raise ValueError(f"max_fraction must lie in (0, 1], got {max_fraction}")
    last = max(1, round(max_fraction * n_pixels))
    return (torch.arange(math.ceil(last / size) + 1) * size).clamp(max=last)


def _curves(
    probabilities: Scorer, images: Tensor, heatmaps: Tensor, targets: Tensor | None, choices: _Choices
) -> Curves:
    _check(probabilities, images, heatmaps, targets, choices)
    images = images.detach()
    size = (images.shape[2], images.shape[3])
    counts = changed_pixels(size[0] * size[1], choices.step, choices.max_fraction)
    flags = map_flags(heatmaps)
    maps = resize_heatmaps(heatmaps.to(images.device), size)
    rows = is_flagged(flags, NONFINITE).logical_not().nonzero()[:, 0].tolist()
    orders = orders_of(maps, rows, choices.ties, choices.n_orders)
    composer = Composer.of(images, choices.fill, choices.direction == "insertion", choices.channels_last)

    found = ask_all(probabilities, composer.images)
    classes = explained_classes(found, targets)
    # The unmodified image has just been asked about, so its point of the curve costs no second call.
    known = _unmodified_point(choices.direction, counts, size[0] * size[1])
    ids = () if choices.ties == "stable" else content_ids(images)
    points = [point for point in range(len(counts)) if point != known]
    curves = maps.new_full((len(orders), len(counts)), torch.nan)
    generator = CounterGenerator(choices.seed, ids)
    wanted = classes[[order.row for order in orders]]
    orderings = Orderings(maps, orders, wanted, counts[points].tolist(), generator)
    curves[:, points] = ordered_scores(probabilities, composer, orderings)
    owners = [order.row for order in orders]
    if known is not None:
        curves[:, known] = found.gather(1, classes[:, None])[owners, 0]
    fractions = _positions(counts, choices.spacing) * (int(counts[-1]) / (size[0] * size[1]))
    return _summary(curves, owners, fractions.to(images.device), classes, flags)


def _unmodified_point(direction: Direction, counts: Tensor, n_pixels: int) -> int | None:
    if direction == "deletion":
        return 0
    return len(counts) - 1 if int(counts[-1]) == n_pixels else None


def _positions(counts: Tensor, spacing: Spacing) -> Tensor:
    """Positions ``(S + 1,)`` float64 of the points, from 0 to 1."""
    steps = torch.arange(len(counts), dtype=torch.float64) if spacing == "uniform" else counts.double()
    return steps / steps[-1]


def _summary(curves: Tensor, rows: list[int], fractions: Tensor, classes: Tensor, flags: Flags) -> Curves:
    """Curves of all images from those of the orderings; several orderings of an image are averaged."""
    area = area_under_curve(curves, fractions)
    first, top = curves[:, 0], curves.amax(1)
    ratios = [torch.where(divisor > 0, area / divisor, torch.nan) for divisor in (first, top)]
    columns = torch.cat([curves, area[:, None], *(ratio[:, None] for ratio in ratios)], 1)
    table = columns.new_full((len(classes), columns.shape[1]), torch.nan)
    start = 0
    for row, group in groupby(rows):
        end = start + len(list(group))
        table[row] = columns[start:end].mean(0)
        start = end
    scores = table[:, :-3]
    broken = ~torch.isfinite(scores).all(1)
    return Curves(
        scores,
        fractions,
        table[:, -3],
        table[:, -2],
        table[:, -1],
        classes,
        override(flags, NONFINITE, broken),
    )


def _check(
    probabilities: Scorer, images: Tensor, heatmaps: Tensor, targets: Tensor | None, choices: _Choices
) -> None:
    if images.ndim != 4 or not images.is_floating_point() or not len(images):
        raise ValueError(
            f"images must be (N, C, H, W) floating with N > 0, got {tuple(images.shape)} {images.dtype}"
        )
    if not torch.isfinite(images).all():
        raise ValueError("images hold NaN or infinity; every pixel must be finite")
    if len(heatmaps) != len(images):
        raise ValueError(
            f"there are {len(images)} images but {len(heatmaps)} heatmaps; give one heatmap per image"
        )
    if choices.spacing not in ("uniform", "exact"):
        raise ValueError(f"unknown spacing {choices.spacing!r}; allowed: uniform, exact")
    check_explained(probabilities, targets, len(images))
