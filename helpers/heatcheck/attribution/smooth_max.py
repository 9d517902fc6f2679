"""Smooth masks from few parameters: at each pixel the smooth maximum of the nodes of a grid around it."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Grid(NamedTuple):
    """Nodes that masks of one size are made of; each pixel sees ``K x K`` of them.

    Attributes:
        shape: Numbers of nodes ``(R, R')`` down and across.
        rows: ``(K, H)`` int64, the nodes near each pixel down the image.
        columns: ``(K, W)`` int64, the same across.
        kernels: ``(K, K, H, W)`` in (0, 1], how much each of them counts.
        coldness: Factor ``T`` of the softmax.
    """

    shape: tuple[int, int]
    rows: Tensor
    columns: Tensor
    kernels: Tensor
    coldness: float


class SmoothMax(NamedTuple):
    """Masks ``(N, H, W)`` and the denominators ``(N, H, W)`` of their softmax."""

    masks: Tensor
    denominators: Tensor


def make_grid(size: tuple[int, int], step: int, reach: float, coldness: float, like: Tensor) -> Grid:
    """Grid of nodes ``step`` pixels apart, centered in an image of ``size``, of ``like``'s type and device.

    A pixel sees ``1 + ceil(reach / step)`` nodes either way of the nearest; beyond the grid its outer nodes
    are mirrored. A node ``d`` pixels away counts ``exp(-2 max(d / reach - 1/2, 0)**2)``, the kernel of the
    code of Fong et al. (2019).
    """
    radius = 1 + math.ceil(reach / step)
    (n_rows, rows, down), (n_columns, columns, across) = (_axis(side, step, radius) for side in size)
    distances = (down.square()[:, None, :, None] + across.square()[None, :, None, :]).sqrt()
    kernels = torch.exp(-2 * (distances / reach - 0.5).clamp(min=0).square()).to(like)
    return Grid((n_rows, n_columns), rows.to(like.device), columns.to(like.device), kernels, coldness)


def smooth_max(nodes: Tensor, grid: Grid) -> SmoothMax:
    """Masks of the nodes' values ``(N, R, R')``: ``M = sum_i v_i softmax_i(T v_i)``, ``v_i = m_i k_i``.

    Fong et al. 2019, section 3.2. With ``m`` in [0, 1] the mask is in [0, 1]. Nodes are added one place of
    the neighborhood after the other, so memory does not grow with its size.
    """
    shape = (len(nodes), *grid.kernels.shape[2:])
    above, below = nodes.new_zeros(shape), nodes.new_zeros(shape)
    for rows, kernels in zip(grid.rows, grid.kernels, strict=True):
        near = nodes[:, rows]
        for columns, kernel in zip(grid.columns, kernels, strict=True):
            values = near[:, :, columns] * kernel
            weights = torch.exp(grid.coldness * values)
            above.addcmul_(values, weights)
            below.add_(weights)
    return SmoothMax(above / below, below)


def smooth_max_gradient(nodes: Tensor, found: SmoothMax, gradient: Tensor, grid: Grid) -> Tensor:
    """Gradient ``(N, R, R')`` with respect to the nodes, from that with respect to the masks ``(N, H, W)``.

    ``dM/dm_i = k_i p_i (1 + T (v_i - M))`` with the softmax ``p``: what automatic differentiation finds,
    without keeping a map for each of the ``K x K`` places.
    """
    total = torch.zeros_like(nodes)
    scaled = gradient / found.denominators
    offset = 1 - grid.coldness * found.masks
    for rows, kernels in zip(grid.rows, grid.kernels, strict=True):
        near, part = nodes[:, rows], nodes.new_zeros(len(nodes), len(rows), grid.shape[1])
        for columns, kernel in zip(grid.columns, kernels, strict=True):
            tempered = grid.coldness * near[:, :, columns] * kernel
            share = scaled * kernel * tempered.exp() * (offset + tempered)
            part += share @ F.one_hot(columns, grid.shape[1]).to(nodes)
        total += F.one_hot(rows, grid.shape[0]).to(nodes).T @ part
    return total


def _axis(side: int, step: int, radius: int) -> tuple[int, Tensor, Tensor]:
    """Number of nodes along a side, and ``(K, side)`` nodes near each pixel with their distances, float64."""
    count = math.ceil(side / step)
    pixels = torch.arange(side, dtype=torch.float64)
    first = (side - 1 - step * (count - 1)) / 2
    # Ties go to the lower node on the left half and to the upper on the right, so that mirrored images match.
    nearest = ((pixels - first) / step).round().long().clamp(0, count - 1)
    places = nearest[None] + torch.arange(-radius, radius + 1)[:, None]
    turned = places % max(2 * (count - 1), 1)
    inside = torch.minimum(turned, 2 * (count - 1) - turned)
    return count, inside, (pixels - first - step * places).abs()
