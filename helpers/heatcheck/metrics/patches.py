"""Single deletion: does a map rank the patches of an image as the drop of the logit does?

Hesse, Schaub-Meyer and Roth (2024), "Benchmarking the Attribution Quality of Vision Models".
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from heatcheck.metrics.flags import CONSTANT, NONFINITE, Flags, choose_flags
from heatcheck.metrics.similarity import average_ranks as average_ranks
from heatcheck.metrics.similarity import pearson

Transform = Literal["raw", "abs", "relu"]
TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "raw": lambda maps: maps,
    "abs": torch.abs,
    "relu": torch.relu,
}


class PatchScores(NamedTuple):
    """Score of each image.

    Attributes:
        values: ``(N,)`` float64 in [-1, 1]; NaN where undefined.
        flags: ``(N,)``; ``nonfinite`` where a patch sum or drop is NaN, ``constant`` where all of them are
            equal, so that there is no ranking.
    """

    values: Tensor
    flags: Flags


class Aggregate(NamedTuple):
    """Score of a data set.

    Attributes:
        mean: Mean over the images with a defined score; NaN if there are none.
        standard_error: Sample standard deviation divided by the root of ``n``.
        n: Number of images used.
        n_excluded: Number of images whose score is undefined.
    """

    mean: float
    standard_error: float
    n: int
    n_excluded: int


def patch_side(shape: tuple[int, int], n_patches: int) -> int:
    """Side in pixels of the square patches of a grid of ``n_patches`` rows and columns.

    Args:
        shape: Height and width of the images.
        n_patches: Patches per side ``P``.

    Raises:
        ValueError: The image is not square, or ``P`` does not divide its side.
    """
    height, width = shape
    if height != width or n_patches < 1 or height % n_patches:
        divisors = [count for count in range(2, min(height, 32) + 1) if height % count == 0]
        raise ValueError(
            f"{n_patches} x {n_patches} patches do not tile {height} x {width} pixels; images must be "
            f"square, allowed counts per side: {', '.join(map(str, divisors)) or 'none'}"
        )
    return height // n_patches


def patch_sums(maps: Tensor, n_patches: int, transform: Transform = "raw") -> Tensor:
    """Relevance ``(N, P * P)`` float64 of each patch, row-major: the sum of its pixels.

    Channels are added up first, then every pixel is transformed, then the pixels of a patch are added up.

    Args:
        maps: ``(N, C, H, W)`` raw and signed.
        n_patches: Patches per side ``P``.
        transform: ``raw``, ``abs`` or ``relu`` of every pixel.

    Raises:
        ValueError: Maps are not ``(N, C, H, W)`` floating, the grid does not tile them, or the transform is
            unknown.
    """
    if maps.ndim != 4 or not maps.is_floating_point():
        raise ValueError(f"maps must be (N, C, H, W) floating, got {tuple(maps.shape)} {maps.dtype}")
    if transform not in TRANSFORMS:
        raise ValueError(f"unknown transform {transform!r}; allowed: {', '.join(TRANSFORMS)}")
    side = patch_side((maps.shape[2], maps.shape[3]), n_patches)
    pixels = TRANSFORMS[transform](maps.detach().double().sum(1))
    grid = pixels.view(len(maps), n_patches, side, n_patches, side)
    return grid.sum((2, 4)).flatten(1)


def spearman(first: Tensor, second: Tensor) -> Tensor:
    """Rank correlation ``(N,)`` float64 of each row of two tables ``(N, M)`` (Spearman 1904).

    The linear correlation of average ranks. Infinities are ranked as extremes; a row with NaN, or whose
    values are all equal, has no correlation: NaN.

    Raises:
        ValueError: The tables are not ``(N, M)`` of the same shape.
    """
    _check_tables(first, second)
    unknown = torch.isnan(first).any(1) | torch.isnan(second).any(1)
    return pearson(average_ranks(first), average_ranks(second)).masked_fill(unknown, torch.nan)


def single_deletion_scores(sums: Tensor, drops: Tensor) -> PatchScores:
    """Single-deletion score of each image: rank correlation of patch relevance and drop of the logit.

    Args:
        sums: ``(N, M)`` relevance of each patch.
        drops: ``(N, M)`` score of the intact image minus that without the patch; signs count.

    Raises:
        ValueError: The shapes differ.
    """
    _check_tables(sums, drops)
    drops = drops.to(sums.device)
    flat = [(table == table[:, :1]).all(1) for table in (sums, drops)]
    unknown = torch.isnan(sums).any(1) | torch.isnan(drops).any(1)
    flags = choose_flags({NONFINITE: unknown, CONSTANT: flat[0] | flat[1]})
    return PatchScores(spearman(sums, drops), flags)


def positive_drop_scores(sums: Tensor, drops: Tensor) -> PatchScores:
    """Single-deletion score over the patches alone whose deletion lowers the logit.

    An extension: a method that is made for positive evidence is not judged by patches that speak against the
    class. Fewer than two such patches have no ranking.

    Args:
        sums: ``(N, M)`` relevance of each patch.
        drops: ``(N, M)`` drop of the logit.

    Raises:
        ValueError: The shapes differ.
    """
    _check_tables(sums, drops)
    drops = drops.to(sums.device)
    kept = drops > 0
    count = kept.sum(1, keepdim=True)
    centered = []
    for table in (sums, drops):
        # Patches that do not count are ranked last, so the ranks of the others are those among themselves.
        ranks = average_ranks(average_ranks(table).masked_fill(~kept, torch.inf)).masked_fill(~kept, 0)
        centered.append((ranks - ranks.sum(1, keepdim=True) / count).masked_fill(~kept, 0))
    spread = [torch.linalg.vector_norm(ranks, dim=1) for ranks in centered]
    flat = (count[:, 0] < 2) | (spread[0] == 0) | (spread[1] == 0)
    unknown = torch.isnan(sums).any(1) | torch.isnan(drops).any(1)
    values = ((centered[0] * centered[1]).sum(1) / (spread[0] * spread[1])).clamp(-1, 1)
    flags = choose_flags({NONFINITE: unknown, CONSTANT: flat})
    return PatchScores(values.masked_fill(flat | unknown, torch.nan), flags)


def linear_scores(sums: Tensor, drops: Tensor) -> PatchScores:
    """Linear instead of rank correlation of patch relevance and drop, of each image (Pearson).

    An extension: ranks count a patch whose drop is next to nothing like one that decides, and images with
    much empty ground have many such patches. Infinite sums have no linear correlation.

    Args:
        sums: ``(N, M)`` relevance of each patch.
        drops: ``(N, M)`` drop of the logit.

    Raises:
        ValueError: The shapes differ.
    """
    _check_tables(sums, drops)
    drops = drops.to(sums.device)
    flat = [(table == table[:, :1]).all(1) for table in (sums, drops)]
    unknown = ~(torch.isfinite(sums).all(1) & torch.isfinite(drops).all(1))
    flags = choose_flags({NONFINITE: unknown, CONSTANT: flat[0] | flat[1]})
    return PatchScores(pearson(sums.double(), drops.double()), flags)


def aggregate(values: Tensor, mask: Tensor | None = None) -> Aggregate:
    """Mean of the defined scores ``(N,)`` with its standard error; undefined ones are counted.

    Args:
        values: NaN where undefined.
        mask: ``(N,)`` bool, which images count; by default all.
    """
    chosen = values.detach().double() if mask is None else values.detach().double()[mask]
    used = chosen[~torch.isnan(chosen)]
    n = len(used)
    error = float(used.std() / n**0.5) if n > 1 else float("nan")
    return Aggregate(float(used.mean()) if n else float("nan"), error, n, len(chosen) - n)


def rescale_to_unit(correlations: Tensor) -> Tensor:
    """``0.5 + 0.5 rho``, in [0, 1]: the scale of FunnyBirds (Hesse et al. 2023); NaN stays NaN."""
    return 0.5 + 0.5 * correlations


def _check_tables(first: Tensor, second: Tensor) -> None:
    if first.shape != second.shape or first.ndim != 2 or not first.shape[1]:
        raise ValueError(
            f"both tables must be (N, M) of one shape, got {tuple(first.shape)} and {tuple(second.shape)}"
        )
