"""Relevance mass and rank accuracy: does the relevance fall inside the ground-truth mask?

Arras et al. (2022), CLEVR-XAI, section 3; the tie rule and the tie interval make the ranks reproducible.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.metrics.flags import (
    CONSTANT,
    EMPTY,
    NO_MASK,
    NONFINITE,
    Flags,
    check_heatmaps,
    choose_flags,
    extremes,
    is_flagged,
)
from heatcheck.runtime.memory import chunk_size, map_chunks

Array = NDArray[np.float64]


class MassAccuracy(NamedTuple):
    """Relevance mass accuracy ``(N,)`` float64 in [0, 1], NaN where undefined, with a flag per row."""

    values: Tensor
    flags: Flags


class RankAccuracy(NamedTuple):
    """Relevance rank accuracy of ``N`` maps, all in [0, 1], NaN where undefined.

    Attributes:
        values: ``(N,)`` float64 by the tie rule; for a constant map the expected value.
        lowest: ``(N,)`` smallest value any order of equal pixels can give.
        expected: ``(N,)`` mean over all orders of equal pixels.
        highest: ``(N,)`` largest value any order can give.
        flags: ``(N,)`` flags.
    """

    values: Tensor
    lowest: Tensor
    expected: Tensor
    highest: Tensor
    flags: Flags


def relevance_mass(heatmaps: Tensor, masks: Tensor) -> MassAccuracy:
    """Share of the relevance that lies inside the mask.

    A constant map scores the mask's share of the image and is flagged; an all-zero map, an empty mask and a
    map that is not finite are undefined.

    Args:
        heatmaps: ``(N, H, W)`` pooled, never negative.
        masks: ``(N, H, W)`` bool ground truth.

    Raises:
        ValueError: Shapes differ or a value is negative.
    """
    flags = _flags(heatmaps, masks)

    values = _in_chunks(_mass, heatmaps, masks, columns=1)[0]
    values[is_flagged(flags, NONFINITE, NO_MASK, EMPTY, device=values.device)] = torch.nan
    return MassAccuracy(values, flags)


def relevance_rank(heatmaps: Tensor, masks: Tensor) -> RankAccuracy:
    """Share of the ``K`` most relevant pixels that lie inside a mask of ``K`` pixels.

    Among equal pixels the one with the larger row-major index comes first, as a reversed stable sort gives.
    A constant map scores the mask's share of the image, which is what a random order of its pixels gives on
    average, wherever the mask lies; it is flagged. Undefined rows are those of ``relevance_mass``.

    Args:
        heatmaps: ``(N, H, W)`` pooled, never negative.
        masks: ``(N, H, W)`` bool ground truth.

    Raises:
        ValueError: Shapes differ or a value is negative.
    """
    flags = _flags(heatmaps, masks)

    table = _in_chunks(_rank, heatmaps, masks, columns=4)
    constant = is_flagged(flags, CONSTANT, device=table.device)
    table[0] = torch.where(constant, table[2], table[0])
    table[:, is_flagged(flags, NONFINITE, NO_MASK, EMPTY, device=table.device)] = torch.nan
    return RankAccuracy(table[0], table[1], table[2], table[3], flags)


def top_candidates(values: Array, k: int) -> NDArray[np.intp]:
    """Indices, in increasing order, of values ``(M,)`` that are among the ``k`` largest, and some more.

    All values as large as the ``k``-th largest are included. A sample tells how large that one is about
    (Floyd & Rivest 1975), so that most values are looked at once only, and nothing is sorted.
    """
    stride = 16
    sample = values[::stride]
    # Four standard deviations of the sampled rank, so that a second look is rarely needed.
    place = len(sample) - math.ceil(k / stride + 4 * math.sqrt(k / stride) + 4)
    if place > 0:
        found = np.flatnonzero(values >= np.partition(sample, place)[place])
        if len(found) >= k:
            return found
    return np.arange(len(values))


def _mass(maps: Array, masks: NDArray[np.bool_]) -> Array:
    """Share inside ``(1, n)`` of maps ``(n, M)``."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # undefined rows are flagged
        total = maps.sum(1)
        if np.isinf(total).any():  # finite values whose sum overflows
            maps = maps / maps.max(1, keepdims=True)
            total = maps.sum(1)
        return np.asarray(np.sum(maps, axis=1, where=masks) / total)[None]


def _rank(maps: Array, masks: NDArray[np.bool_]) -> Array:
    """Accuracy by the tie rule, lowest, expected and highest, ``(4, n)``, of maps ``(n, M)``."""
    counts = np.count_nonzero(masks, axis=1).tolist()
    rows = [_rank_row(values, mask, k) for values, mask, k in zip(maps, masks, counts, strict=True)]
    return np.array(rows, dtype=np.float64).T


def _rank_row(values: Array, mask: NDArray[np.bool_], k: int) -> tuple[float, float, float, float]:
    if k == 0:
        return (math.nan,) * 4
    found = top_candidates(values, k)
    top, inside = values[found], mask[found]
    level = np.partition(top, len(top) - k)[len(top) - k]
    above = top > level
    tied = inside[top == level]
    needed = k - int(np.count_nonzero(above))
    sure = int(np.count_nonzero(inside[above]))
    tied_inside = int(np.count_nonzero(tied))
    tied_outside = len(tied) - tied_inside
    # Of the tied pixels, those with the largest index are taken.
    taken = int(np.count_nonzero(tied[len(tied) - needed :]))
    lowest = sure + max(0, needed - tied_outside)
    expected = sure + needed * tied_inside / max(1, len(tied))
    highest = sure + min(needed, tied_inside)
    return (sure + taken) / k, lowest / k, expected / k, highest / k


def _flags(heatmaps: Tensor, masks: Tensor) -> Flags:
    check_heatmaps(heatmaps)
    if masks.shape != heatmaps.shape or masks.dtype != torch.bool:
        raise ValueError(
            f"masks must be bool {tuple(heatmaps.shape)}, got {masks.dtype} {tuple(masks.shape)}"
        )
    low, high = extremes(heatmaps.detach())
    finite = torch.isfinite(low) & torch.isfinite(high)
    if bool((finite & (low < 0)).any()):
        rows = (finite & (low < 0)).nonzero()[:, 0].tolist()
        raise ValueError(
            f"heatmaps {rows[:5]} hold negative values; pool them first, for example pool(maps, 'max-norm')"
        )
    missing = masks.flatten(1).view(torch.uint8).amax(1) == 0 if len(masks) else masks.new_zeros(0)
    return choose_flags({NONFINITE: ~finite, NO_MASK: missing, EMPTY: high == 0, CONSTANT: low == high})


def _in_chunks(
    compute: Callable[[Array, NDArray[np.bool_]], Array], heatmaps: Tensor, masks: Tensor, *, columns: int
) -> Tensor:
    """Results ``(columns, N)`` float64 of all maps, a few at a time.

    Computed on the CPU whatever the device, so that no score depends on it; selection is too small a work
    for a GPU to pay.
    """
    n, height, width = heatmaps.shape
    result = torch.empty((columns, n), dtype=torch.float64)

    def on_cpu(part: slice) -> Array:
        maps = heatmaps[part].detach().to("cpu", torch.float64).flatten(1).numpy()
        return compute(maps, masks[part].cpu().flatten(1).numpy())

    for part, found in map_chunks(on_cpu, n, chunk_size(32 * height * width, torch.device("cpu"))):
        result[:, part] = torch.from_numpy(found)
    return result.to(heatmaps.device)
