"""How alike two heatmaps of the same image are: SSIM, rank correlation, and correlation of HOG vectors."""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from skimage.feature import hog
from torch import Tensor

from heatcheck.metrics.flags import CONSTANT, NONFINITE, OK, Flags, choose_flags, extremes, map_flags
from heatcheck.metrics.pooling import resize_heatmaps
from heatcheck.runtime.memory import chunk_size, map_chunks

SIMILARITIES = ("spearman", "ssim", "hog")
# Bansal et al. (2020): side of the SSIM window; orientations, cells and blocks of HOG.
_WINDOW = 5
_ORIENTATIONS, _CELL, _BLOCK = 9, 16, 3
# Tensors of a map's size that live at once, in float64.
_TENSORS = 20


class Similarities(NamedTuple):
    """Similarities of ``N`` pairs of heatmaps, each 1 for equal ones.

    Attributes:
        spearman: ``(N,)`` float64 rank correlation over pixels, in [-1, 1]: the headline figure.
        ssim: ``(N,)`` structural similarity, in [-1, 1]; depends on the data range.
        hog: ``(N,)`` Pearson correlation of HOG vectors, in [-1, 1]; blind to the sign of a map.
        flags: ``(N,)``; ``nonfinite`` where one map holds NaN or infinity, ``constant`` where one has no
            contrast. All three are NaN there.
    """

    spearman: Tensor
    ssim: Tensor
    hog: Tensor
    flags: Flags


def compare_heatmaps(
    first: Tensor, second: Tensor, *, signed: bool = True, size: tuple[int, int] | None = (224, 224)
) -> Similarities:
    """Similarities of pairs of heatmaps ``(N, H, W)``, as in Bansal, Agarwal and Nguyen (2020).

    Both are resized, and each is divided by its largest absolute value, whatever the method. There, maps of
    the sliding patch and meaningful perturbation are not, so that SSIM saw their scale.

    Args:
        first: ``(N, H, W)`` floating.
        second: ``(N, h, w)`` floating, of the same images.
        signed: Whether values may be negative: the data range of SSIM is 2, or 1 for masks in [0, 1].
        size: Resolution to compare at; HOG needs 48 x 48 at least. None: as they are, at one resolution.

    Raises:
        ValueError: Shapes differ or are too small.
    """
    left, right = [maps if size is None else resize_heatmaps(maps, size) for maps in (first, second)]
    _check_pair(left, right)
    flags = pair_flags(left, right)
    rows = torch.from_numpy(np.flatnonzero(flags == OK)).to(left.device)

    def compare(part: slice) -> Tensor:
        pair = [rescale_heatmaps(maps[rows[part]]) for maps in (left, right)]
        structure = ssim(*pair, data_range=2.0 if signed else 1.0)
        return torch.stack([spearman(*pair), structure, hog_pearson(*pair)])

    scores = torch.full((3, len(left)), torch.nan, dtype=torch.float64, device=left.device)
    pixels = left.shape[1] * left.shape[2]
    for part, values in map_chunks(compare, len(rows), chunk_size(8 * _TENSORS * pixels, left.device)):
        scores[:, rows[part]] = values
    return Similarities(scores[0], scores[1], scores[2], flags)


def rescale_heatmaps(heatmaps: Tensor) -> Tensor:
    """Heatmaps ``(N, H, W)`` float64 divided by their largest absolute value; zero maps stay zero."""
    maps = heatmaps.detach().double()
    low, high = extremes(maps)
    largest = torch.maximum(-low, high).view(-1, 1, 1)
    return maps / torch.where(largest == 0, 1, largest)


def ssim(first: Tensor, second: Tensor, *, data_range: float) -> Tensor:
    """Mean structural similarity ``(N,)`` float64 over all windows inside the maps (Wang et al. 2004).

    Windows are 5 x 5 and uniform, variances are those of a sample, and the constants are
    ``(0.01 * data_range)**2`` and ``(0.03 * data_range)**2``, as in scikit-image.

    Args:
        first: ``(N, H, W)`` with sides of 5 at least.
        second: Like ``first``.
        data_range: Distance of the largest and smallest possible value: 2 for signed maps, 1 for masks.

    Raises:
        ValueError: Shapes differ or are too small, or the range is not positive.
    """
    if not data_range > 0:
        raise ValueError(f"data_range must be positive, got {data_range}")
    left, right = _check_pair(first, second, side=_WINDOW)
    if not len(left):
        return left.new_zeros(0)
    mean_left, mean_right = _window_means(left), _window_means(right)
    to_sample = _WINDOW**2 / (_WINDOW**2 - 1)
    variance_left = to_sample * (_window_means(left.square()) - mean_left.square())
    variance_right = to_sample * (_window_means(right.square()) - mean_right.square())
    covariance = to_sample * (_window_means(left * right) - mean_left * mean_right)
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    level = (2 * mean_left * mean_right + c1) / (mean_left.square() + mean_right.square() + c1)
    structure = (2 * covariance + c2) / (variance_left + variance_right + c2)
    return (level * structure).mean((1, 2))


def spearman(first: Tensor, second: Tensor) -> Tensor:
    """Rank correlation ``(N,)`` float64 over all values of each row of ``(N, ...)`` (Spearman 1904).

    Equal values share their mean rank. NaN where a row is constant or not finite.

    Raises:
        ValueError: Shapes differ.
    """
    left, right = _check_rows(first, second)
    finite = torch.isfinite(left).all(1) & torch.isfinite(right).all(1)
    return pearson(average_ranks(left), average_ranks(right)).masked_fill(~finite, torch.nan)


def hog_pearson(first: Tensor, second: Tensor) -> Tensor:
    """Pearson correlation ``(N,)`` float64 of histograms of oriented gradients (Dalal and Triggs 2005).

    9 orientations, cells of 16 x 16 pixels, blocks of 3 x 3 cells normalized by L2-Hys. Gradients have no
    sign, so a map and its negative score 1: never use it alone. NaN where a map has no gradient.

    Args:
        first: ``(N, H, W)`` with sides of 48 at least.
        second: Like ``first``.

    Raises:
        ValueError: Shapes differ or are too small.
    """
    left, right = _check_pair(first, second, side=_CELL * _BLOCK)
    return pearson(hog_vectors(left), hog_vectors(right))


def hog_vectors(heatmaps: Tensor) -> Tensor:
    """HOG vectors ``(N, D)`` float64 of heatmaps ``(N, H, W)``, by scikit-image."""
    vectors = [
        hog(image, _ORIENTATIONS, (_CELL, _CELL), (_BLOCK, _BLOCK), block_norm="L2-Hys")
        for image in heatmaps.detach().double().cpu().numpy()
    ]
    stacked = np.stack(vectors) if vectors else np.zeros((0, 1))
    return torch.from_numpy(stacked).to(heatmaps.device)


def pearson(first: Tensor, second: Tensor) -> Tensor:
    """Linear correlation ``(N,)`` float64 of the rows of ``(N, D)``; NaN where one is constant or not finite.

    Raises:
        ValueError: Shapes differ.
    """
    left, right = _check_rows(first, second)
    centered = [rows - rows.mean(1, keepdim=True) for rows in (left, right)]
    # Rounding of the mean must not make a correlation of a row whose values are all the same.
    flat = (left == left[:, :1]).all(1) | (right == right[:, :1]).all(1)
    unit = [rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True) for rows in centered]
    correlation: Tensor = (unit[0] * unit[1]).sum(1).clamp(-1, 1)
    return correlation.masked_fill(flat, torch.nan)


def average_ranks(rows: Tensor) -> Tensor:
    """Rank of every value within its row of ``(N, D)``, from 1; equal values share a mean rank; float64."""
    ordered, order = rows.double().sort(dim=1, stable=True)
    places = torch.arange(1, rows.shape[1] + 1, device=rows.device).expand_as(order)
    differs = ordered[:, 1:] != ordered[:, :-1]
    edge = differs.new_ones(len(rows), 1)
    # First and last place of the run of equal values that a place belongs to.
    first = torch.where(torch.cat([edge, differs], 1), places, 0).cummax(1).values
    last = torch.where(torch.cat([differs, edge], 1), places, places.shape[1] + 1)
    last = last.flip(1).cummin(1).values.flip(1)
    return torch.empty_like(ordered).scatter_(1, order, (first + last).double() / 2)


def pair_flags(first: Tensor, second: Tensor) -> Flags:
    """One flag per pair of maps ``(N, H, W)``: ``nonfinite``, ``constant`` or ``ok``; either map counts."""
    both = [map_flags(maps) for maps in (first, second)]
    conditions = {
        name: torch.from_numpy((both[0] == name) | (both[1] == name)) for name in (NONFINITE, CONSTANT)
    }
    return choose_flags(conditions)


def _window_means(maps: Tensor) -> Tensor:
    return F.avg_pool2d(maps[:, None], _WINDOW, stride=1)[:, 0]


def _check_rows(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    if first.shape != second.shape or first.ndim < 2 or 0 in first.shape[1:]:
        raise ValueError(
            f"both must have the same shape (N, ...), got {tuple(first.shape)} and {tuple(second.shape)}"
        )
    return first.detach().double().flatten(1), second.detach().double().flatten(1)


def _check_pair(first: Tensor, second: Tensor, *, side: int = 1) -> tuple[Tensor, Tensor]:
    if first.shape != second.shape or first.ndim != 3 or min(first.shape[1:]) < side:
        raise ValueError(
            f"both heatmaps must be (N, H, W) of the same shape with sides of {side} at least, got "
            f"{tuple(first.shape)} and {tuple(second.shape)}; resize_heatmaps brings them to one"
        )
    return first.detach().double(), second.detach().double()
