"""Sliding windows over an image: where they lie, and how values per window become a map."""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Place = Literal["stretch", "centre"]
Upsample = Literal["bilinear", "nearest"]


class Windows(NamedTuple):
    """Windows along one axis of ``side`` pixels: number ``i`` covers ``starts[i]`` to ``stops[i] - 1``."""

    starts: list[int]
    stops: list[int]
    side: int


def make_windows(side: int, patch: int, stride: int, *, cover: bool) -> Windows:
    """``floor((side - patch) / stride) + 1`` windows of ``patch`` pixels, ``stride`` apart.

    Where the stride does not divide ``side - patch``, up to ``stride - 1`` pixels at the end lie in no
    window; ``cover`` adds one more window there, cut at the border.

    Raises:
        ValueError: The patch is larger than the image, or the stride larger than the patch.
    """
    if patch > side:
        raise ValueError(f"patch {patch} is larger than the image, {side} pixels; use 1 to {side}")
    if stride > patch:
        raise ValueError(
            f"stride {stride} is larger than the patch, {patch}: pixels between would never be hidden"
        )
    count = (side - patch) // stride + 1
    if cover and (count - 1) * stride + patch < side:
        count += 1
    starts = [index * stride for index in range(count)]
    return Windows(starts, [min(start + patch, side) for start in starts], side)


def coverage(windows: Windows) -> Tensor:
    """Bool ``(G, side)``: which pixels each window covers."""
    pixels = torch.arange(windows.side)
    return (pixels >= torch.tensor(windows.starts)[:, None]) & (pixels < torch.tensor(windows.stops)[:, None])


def mean_over_windows(grid: Tensor, rows: Windows, columns: Windows) -> Tensor:
    """Per pixel the mean of the grid values ``(N, G, G')`` of all windows over it, ``(N, H, W)``.

    Pixels in no window get 0.
    """
    down, across = coverage(rows).to(grid), coverage(columns).to(grid)
    counts = down.sum(dim=0)[:, None] * across.sum(dim=0)
    return down.T @ grid @ across / counts.clamp(min=1)


def stretch(grid: Tensor, size: tuple[int, int], upsample: Upsample) -> Tensor:
    """Grid ``(N, G, G')`` resized to ``size`` as if its cells tiled the image, ``(N, H, W)``."""
    corners = False if upsample == "bilinear" else None
    return F.interpolate(grid[:, None], size=size, mode=upsample, align_corners=corners)[:, 0]


def at_centers(grid: Tensor, rows: Windows, columns: Windows) -> Tensor:
    """Grid ``(N, G, G')`` with each value at its window's centre, linear between, constant outside."""
    return _between(rows).to(grid).T @ grid @ _between(columns).to(grid)


def _between(windows: Windows) -> Tensor:
    """Weights ``(G, side)`` of linear interpolation between the windows' centres at the pixels' centres."""
    centers = [(start + stop) / 2 for start, stop in zip(windows.starts, windows.stops, strict=True)]
    return linear_weights(centers, [pixel + 0.5 for pixel in range(windows.side)])


def linear_weights(nodes: list[float], points: list[float]) -> Tensor:
    """Weights ``(len(nodes), len(points))`` of linear interpolation, constant beyond the outer nodes."""
    weights = torch.zeros(len(nodes), len(points), dtype=torch.float64)
    for column, point in enumerate(points):
        right = next((index for index, node in enumerate(nodes) if node > point), len(nodes))
        if right in (0, len(nodes)):
            weights[min(right, len(nodes) - 1), column] = 1.0
            continue
        share = (point - nodes[right - 1]) / (nodes[right] - nodes[right - 1])
        weights[right - 1, column], weights[right, column] = 1 - share, share
    return weights


def mirrored_weights(cells: int, size: int) -> Tensor:
    """Weights ``(cells, size)`` that resize ``cells`` values linearly, mirrored at the outer values.

    Pixel ``i`` lies at ``(i + 1/2) cells / size - 1/2``; positions beyond the first or last value are
    reflected there, as order-1 resizing with the mode ``reflect`` does.
    """
    weights = torch.zeros(cells, size, dtype=torch.float64)
    for pixel in range(size):
        position = abs((pixel + 0.5) * cells / size - 0.5)
        position = cells - 1 - abs(cells - 1 - position)
        left = min(math.floor(max(position, 0.0)), max(cells - 2, 0))
        share = max(position, 0.0) - left
        weights[left, pixel] += 1 - share
        weights[min(left + 1, cells - 1), pixel] += share
    return weights
