"""Fills written plainly, one image at a time: what ours are compared with where no library has the same."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage, sparse
from scipy.sparse.linalg import spsolve
from torch import Tensor

Array = NDArray[np.float64]
Holes = NDArray[np.bool_]
Stencil = Mapping[tuple[int, int], float]

# Every missing pixel is the mean of its four neighbors: the equations of our diffusion.
FOUR: Stencil = dict.fromkeys(((-1, 0), (1, 0), (0, -1), (0, 1)), 1 / 4)
# Noisy linear imputation of Rong et al. (2022), ROAD: direct neighbors count twice the diagonal ones.
ROAD: Stencil = {
    (down, across): 1 / 6 if 0 in (down, across) else 1 / 12
    for down in (-1, 0, 1)
    for across in (-1, 0, 1)
    if (down, across) != (0, 0)
}


def impute(images: Tensor, holes: Tensor, stencil: Stencil, *, noise: float = 0.0) -> Tensor:
    """Images ``(N, C, H, W)`` whose holes solve a sparse linear system each, by a direct solve of SciPy.

    Args:
        images: ``(N, C, H, W)``.
        holes: ``(N, 1, H, W)`` bool.
        stencil: Weight of each neighbor in the mean; beyond the border there is none.
        noise: Standard deviation of what is added to the filled pixels.
    """
    numbers = np.random.default_rng(0)
    filled = images.double().numpy().copy()
    for image, hole in zip(filled, holes[:, 0].numpy(), strict=True):
        matrix, right = equations(image, hole, stencil)
        found = spsolve(matrix, right)
        image[:, hole] = (found + noise * numbers.standard_normal(found.shape)).T
    return torch.from_numpy(filled).to(images.dtype)


def equations(image: Array, hole: Holes, stencil: Stencil) -> tuple[sparse.csc_matrix, Array]:
    """Matrix ``(n, n)``, right sides ``(n, C)`` for the ``n`` missing pixels of an image ``(C, H, W)``."""
    rows, columns = np.nonzero(hole)
    number = np.zeros(hole.shape, dtype=np.int64)
    number[hole] = np.arange(len(rows))
    diagonal, right = np.zeros(len(rows)), np.zeros((len(rows), len(image)))
    entries = [(np.arange(len(rows)), np.arange(len(rows)), diagonal)]
    for (down, across), weight in stencil.items():
        row, column = rows + down, columns + across
        own = np.flatnonzero((row >= 0) & (row < hole.shape[0]) & (column >= 0) & (column < hole.shape[1]))
        row, column = row[own], column[own]
        diagonal[own] += weight
        missing = hole[row, column]
        right[own[~missing]] += weight * image[:, row[~missing], column[~missing]].T
        others = number[row[missing], column[missing]]
        entries.append((own[missing], others, np.full(len(others), -weight)))
    first, second, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return sparse.csc_matrix((values, (first, second)), shape=(len(rows), len(rows))), right


def pyramid(images: Tensor, holes: Tensor) -> Tensor:
    """Images ``(N, C, H, W)`` with ``holes`` ``(N, 1, H, W)`` pull-push filled in NumPy and SciPy."""
    filled = [
        _level(image, (~hole[0]).astype(np.float64))
        for image, hole in zip(images.double().numpy(), holes.numpy(), strict=True)
    ]
    return torch.from_numpy(np.stack(filled)).to(images.dtype)


def _level(color: Array, coverage: Array) -> Array:
    """One level and all coarser ones: color ``(C, H, W)`` where covered, else what lies below."""
    known = np.where(coverage > 0, color, 0)
    if coverage.size == 1:
        return known
    weight = _halve(coverage)
    coarse = _level(_halve(known * coverage) / np.maximum(weight, np.finfo(np.float64).tiny), weight)
    factors = [side / half for side, half in zip(known.shape, coarse.shape, strict=True)]
    behind = ndimage.zoom(coarse, factors, order=1, mode="nearest", grid_mode=True)
    return np.where(coverage > 0, known, behind)


def _halve(values: Array) -> Array:
    """Means of 2 x 2 blocks of ``(..., H, W)``; the last ones are narrower if a side is odd."""
    for axis in (-2, -1):
        starts = np.arange(0, values.shape[axis], 2)
        counts = np.diff(starts, append=values.shape[axis])
        shape = (-1, 1) if axis == -2 else (-1,)
        values = np.add.reduceat(values, starts, axis=axis) / counts.reshape(shape)
    return values
