"""Incremental deletion: the mean probability while pixels go in the order of their relevance.

The protocol that Hesse et al. (2024) compare single deletion with; deletion proper is in ``curves``.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from heatcheck.metrics.composites import Composer
from heatcheck.metrics.flags import NONFINITE, Flags, check_heatmaps, is_flagged, map_flags, override
from heatcheck.metrics.ordering import Order
from heatcheck.metrics.running import Orderings, ordered_scores
from heatcheck.metrics.scoring import Scorer, ask_all, check_explained
from heatcheck.removal.fills import Fill
from heatcheck.runtime.seeds import CounterGenerator

Direction = Literal["ascending", "descending"]
Update = Callable[[Tensor], Tensor]
# Orders of equal pixels are stable, so no random number is drawn.
_NO_NUMBERS = CounterGenerator(0, ())


class IncrementalScores(NamedTuple):
    """Curves of ``N`` images over ``T`` steps.

    Attributes:
        values: ``(N,)`` float64 mean of the curve; ascending: higher is better, descending: lower is better.
        curves: ``(N, T)`` float64 probability of the target; the first point is the intact image.
        deleted: ``(T,)`` int64 number of deleted pixels at each step.
        flags: ``(N,)`` flag of each row.
    """

    values: Tensor
    curves: Tensor
    deleted: Tensor
    flags: Flags


class _Question(NamedTuple):
    """What is asked: ``(N,)`` targets of the composer's images at ``counts`` ``(T,)`` deleted pixels."""

    probabilities: Scorer
    composer: Composer
    targets: Tensor
    counts: Tensor


def deleted_pixels(n_pixels: int, n_steps: int) -> Tensor:
    """Number of deleted pixels ``(T,)`` int64 at steps 0 to ``T - 1``: ``floor(n_pixels * t / T)``.

    Raises:
        ValueError: Fewer than one step.
    """
    if n_steps < 1:
        raise ValueError(f"n_steps must be at least 1, got {n_steps}")
    return n_pixels * torch.arange(n_steps) // n_steps


def incremental_deletion(
    probabilities: Scorer,
    images: Tensor,
    heatmaps: Tensor,
    targets: Tensor,
    *,
    n_steps: int = 32,
    direction: Direction = "ascending",
    fill: str | Fill | Tensor = "zero",
    update: Update | None = None,
    channels_last: bool = False,
) -> IncrementalScores:
    """Probability of the target while more and more pixels are deleted.

    Equal pixels go in row-major order. All images weigh the same, whatever the batches.

    Args:
        probabilities: Class probabilities ``(B, K)`` of images ``(B, C, H, W)``; see ``softmax_of``.
        images: ``(N, C, H, W)`` normalized.
        heatmaps: ``(N, H, W)`` signed.
        targets: ``(N,)`` int64 classes.
        n_steps: Number of points ``T``, the intact image among them; the empty image is not.
        direction: ``ascending`` deletes the smallest relevance first, ``descending`` the largest.
        fill: What replaces deleted pixels: a fill, or the filled images ``(N, C, H, W)`` themselves.
        update: Makes the maps ``(N, H, W)`` of the images as they are at a step, and pixels are ordered anew;
            deleted ones stay deleted. By default the maps of the intact images decide.
        channels_last: Give the model images in channels-last memory; faster for convolutions on a CPU.

    Raises:
        ValueError: Shapes do not fit, or a choice is not allowed; with ``update``, a fill that depends on the
            mask.
    """
    images = images.detach()
    _check(probabilities, images, heatmaps, targets, direction)
    counts = deleted_pixels(images.shape[2] * images.shape[3], n_steps)
    composer = Composer.of(images, fill, False, channels_last)
    question = _Question(probabilities, composer, targets.to(images.device), counts)
    flags = map_flags(heatmaps)
    maps = heatmaps.detach().to(images.device).double()
    if update is None:
        curves = _fixed_curves(question, _signed(maps, direction), flags)
    else:
        curves = _updated_curves(question, update, direction)
    curves[is_flagged(flags, NONFINITE, device=curves.device)] = torch.nan
    broken = ~torch.isfinite(curves).all(1)
    return IncrementalScores(curves.mean(1), curves, counts, override(flags, NONFINITE, broken))


def _signed(maps: Tensor, direction: Direction) -> Tensor:
    """Maps whose largest values go first; equal ones stay in row-major order."""
    return -maps if direction == "ascending" else maps


def _fixed_curves(question: _Question, maps: Tensor, flags: Flags) -> Tensor:
    """Curves ``(N, T)``; rows whose map is not finite stay NaN."""
    probabilities, composer, targets, counts = question
    curves = maps.new_full((len(maps), len(counts)), torch.nan)
    rows = (~is_flagged(flags, NONFINITE)).nonzero()[:, 0].tolist()
    if not rows:
        return curves
    orders = [Order(row, None) for row in rows]
    orderings = Orderings(maps, orders, targets[rows], counts.tolist(), _NO_NUMBERS)
    curves[rows] = ordered_scores(probabilities, composer, orderings)
    return curves


def _updated_curves(question: _Question, update: Update, direction: Direction) -> Tensor:
    """Curves ``(N, T)`` with the pixels ordered anew at every step."""
    probabilities, composer, targets, counts = question
    shape = composer.images.shape
    intact, behind = composer.images.flatten(2), composer.behind_of(list(range(len(targets)))).flatten(2)
    gone = torch.zeros((len(targets), intact.shape[2]), dtype=torch.bool, device=intact.device)
    current, points = intact, []
    for count in counts.tolist():
        if count:
            maps = _signed(update(current.view(shape)), direction).to(current.device)
            # What is deleted already is at the front of the order.
            values = maps.double().flatten(1).masked_fill(gone, torch.inf)
            places = torch.sort(values, dim=1, descending=True, stable=True).indices[:, :count]
            gone.scatter_(1, places, True)
            current = torch.where(gone[:, None], behind, intact)
        points.append(ask_all(probabilities, current.view(shape)).gather(1, targets[:, None]))
    return torch.cat(points, 1)


def _check(
    probabilities: Scorer, images: Tensor, heatmaps: Tensor, targets: Tensor, direction: Direction
) -> None:
    if images.ndim != 4 or not images.is_floating_point() or not len(images):
        raise ValueError(
            f"images must be (N, C, H, W) floating with N > 0, got {tuple(images.shape)} {images.dtype}"
        )
    check_heatmaps(heatmaps)
    expected = (len(images), *images.shape[2:])
    if heatmaps.shape != expected:
        raise ValueError(f"heatmaps must be {expected} as the images, got {tuple(heatmaps.shape)}")
    if direction not in ("ascending", "descending"):
        raise ValueError(f"unknown direction {direction!r}; allowed: ascending, descending")
    check_explained(probabilities, targets, len(images))
