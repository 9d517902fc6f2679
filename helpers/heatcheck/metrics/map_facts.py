"""What a heatmap looks like, whatever it explains: how rough it is, how concentrated, and how central.

No model and no ground truth enter. Where methods rank by such a fact as they rank by a benchmark, the
benchmark may have measured the fact.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.metrics.flags import check_heatmaps

Array = NDArray[np.float64]


def roughness(maps: Tensor) -> Tensor:
    """How much neighbors differ beside any two pixels, ``(N,)`` float64 on the maps' device, 0 or more.

    Mean absolute difference of pixels that share an edge over that of all pairs of pixels: 1 is what pixels
    in random order have, whatever their values; smooth maps are near 0, a checkerboard near 2. The form is
    that of Geary's contiguity ratio (Geary 1954), with absolute differences in place of squared ones, so that
    single extreme pixels do not decide; this change is ours. Scale and shift of a map do not matter.

    Args:
        maps: ``(N, H, W)`` floating. NaN is returned for a map that is constant or not finite.

    Raises:
        ValueError: Maps are not ``(N, H, W)`` floating.
    """
    return _each(maps, _roughness)


def concentration(maps: Tensor) -> Tensor:
    """Gini index of the absolute values, ``(N,)`` float64 on the maps' device, in [0, 1).

    0 where all pixels are equally large, ``1 - 1 / (H W)`` where one pixel has everything. ``1 - 2 sum_k
    v_k (P - k + 1/2) / (P sum v)`` of the ``P`` ascending absolute values ``v_1 <= ... <= v_P`` (Hurley and
    Rickard 2009), the sparseness of Chalasani et al. (2020). Scale and sign do not matter, shift does.

    Args:
        maps: ``(N, H, W)`` floating. NaN is returned for a map that is zero everywhere or not finite.

    Raises:
        ValueError: Maps are not ``(N, H, W)`` floating.
    """
    return _each(maps, _concentration)


def centrality(maps: Tensor) -> Tensor:
    """Share of the absolute values in the central quarter, ``(N,)`` float64 on the maps' device, in [0, 1].

    The quarter has half the height and half the width; pixels on its border count by the part of their area
    within it, so that a map without preference has exactly 1/4. The measure is ours.

    Args:
        maps: ``(N, H, W)`` floating. NaN is returned for a map that is zero everywhere or not finite.

    Raises:
        ValueError: Maps are not ``(N, H, W)`` floating.
    """
    return _each(maps, _centrality)


def _each(maps: Tensor, fact: Callable[[Array], float]) -> Tensor:
    """``fact`` of each map, computed on the CPU so that devices and batches do not matter."""
    facts = torch.full((len(check_heatmaps(maps)),), torch.nan, dtype=torch.float64)
    for row, heatmap in enumerate(maps.detach()):
        values = heatmap.double().cpu().numpy()
        largest = np.abs(values).max()
        if np.isfinite(largest) and largest > 0:
            facts[row] = fact(values / largest)
    return facts.to(maps.device)


def _roughness(values: Array) -> float:
    if values.min() == values.max():
        return float("nan")
    steps = [np.abs(np.diff(values, axis=axis)).ravel() for axis in (0, 1)]
    n = values.size
    ascending = np.sort(values, axis=None) - values.min()
    # Value k of n, ascending, is the larger one in k of its pairs and the smaller one in n - 1 - k.
    total = float((2 * np.arange(n) - (n - 1)) @ ascending)
    return float(np.concatenate(steps).mean()) / (total / (n * (n - 1) / 2))


def _concentration(values: Array) -> float:
    ascending = np.sort(np.abs(values), axis=None)
    n = values.size
    return float(1 - 2 * (ascending @ (n - np.arange(n) - 0.5)) / (n * ascending.sum()))


def _centrality(values: Array) -> float:
    sizes = np.abs(values)
    rows, columns = (_inner(length) for length in values.shape)
    return float(rows @ sizes @ columns / sizes.sum())


def _inner(length: int) -> Array:
    """Part ``(length,)`` of each pixel between the first and the last quarter of a side."""
    edges = np.clip(np.arange(length + 1), length / 4, 3 * length / 4)
    return np.diff(edges)
