"""A multigrid cycle for Laplace's equation in holes of any shape, batched.

The equations are a network of resistors: neighboring hole pixels are joined by edges, and edges to known
pixels hold them. A coarser level joins 2 x 2 cells to one and adds up the edges between them, which keeps
this form, so holes need no special care at any scale.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

# Cells that are joined move as one, which makes coarse levels too stiff by about two; Braess (1995) softens
# them. Both factors change the number of steps only: measured best on blocks, patches and scattered pixels.
_SOFTENING = 0.6
_RELAXATION = 0.8


class Level(NamedTuple):
    """Equations of one scale for ``N`` images, on a grid of ``h`` by ``w`` cells.

    Attributes:
        right: ``(N, 1, h, w - 1)`` weight of the edge from each cell to its right neighbor.
        down: ``(N, 1, h - 1, w)`` weight of the edge to the neighbor below.
        diagonal: ``(N, 1, h, w)`` sum of all edges at a cell, those to known pixels included.
        inverse: One over the diagonal; 0 where a cell holds no hole pixel.
    """

    right: Tensor
    down: Tensor
    diagonal: Tensor
    inverse: Tensor


Levels = list[Level]


def build_levels(holes: Tensor) -> Levels:
    """Equations of all scales for holes ``(N, 1, H, W)``, from single pixels to one cell; float64."""
    inside = holes.double()
    right, down = inside[..., 1:] * inside[..., :-1], inside[..., 1:, :] * inside[..., :-1, :]
    known = F.pad(1 - inside, (1, 1, 1, 1))
    beside = known[..., 1:-1, :-2] + known[..., 1:-1, 2:] + known[..., :-2, 1:-1] + known[..., 2:, 1:-1]
    held = inside * beside
    levels = [_level(right, down, held)]
    while max(held.shape[2:]) > 1:
        right, down, held = _coarser(right, down, held)
        levels.append(_level(right, down, held))
    return levels


def single_precision(levels: Levels) -> Levels:
    """The same equations in float32."""
    return [Level(*(weights.float() for weights in level)) for level in levels]


def apply(level: Level, values: Tensor) -> Tensor:
    """The equations' left-hand side for ``values`` ``(N, C, h, w)``."""
    result = level.diagonal * values
    result[..., :-1] -= level.right * values[..., 1:]
    result[..., 1:] -= level.right * values[..., :-1]
    result[..., :-1, :] -= level.down * values[..., 1:, :]
    result[..., 1:, :] -= level.down * values[..., :-1, :]
    return result


def cycle(levels: Levels, residual: Tensor) -> Tensor:
    """Approximate solution ``(N, C, h, w)`` for a right-hand side: one V-cycle, symmetric and positive."""
    level = levels[0]
    if len(levels) == 1:
        return level.inverse * residual
    relax = _RELAXATION * level.inverse
    found = relax * residual
    coarse = cycle(levels[1:], _sum_blocks(residual - apply(level, found)))
    fine = coarse.repeat_interleave(2, 2).repeat_interleave(2, 3)[..., : found.shape[2], : found.shape[3]]
    found = found + fine * (level.inverse > 0)
    return found + relax * (residual - apply(level, found))


def cycle_proposal(levels: Levels) -> Callable[[Tensor], Tensor]:
    """The cycle as a preconditioner for residuals in float64.

    It only proposes directions, so single precision serves it and takes two thirds of the time.
    """
    rough = single_precision(levels)
    return lambda residual: cycle(rough, residual.float()).double()


def _level(right: Tensor, down: Tensor, held: Tensor) -> Level:
    diagonal = held.clone()
    diagonal[..., :-1] += right
    diagonal[..., 1:] += right
    diagonal[..., :-1, :] += down
    diagonal[..., 1:, :] += down
    inverse = diagonal.reciprocal().masked_fill(diagonal == 0, 0)
    return Level(right, down, diagonal, inverse)


def _coarser(right: Tensor, down: Tensor, held: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    height, width = held.shape[2:]
    # Edges within a cell vanish; those between cells lie right of odd columns and below odd rows.
    across = F.pad(right[..., 1::2], (0, 0, 0, height % 2))
    along = F.pad(down[..., 1::2, :], (0, width % 2))
    return (
        _SOFTENING * (across[..., ::2, :] + across[..., 1::2, :]),
        _SOFTENING * (along[..., ::2] + along[..., 1::2]),
        _SOFTENING * _sum_blocks(held),
    )


def _sum_blocks(values: Tensor) -> Tensor:
    height, width = values.shape[2:]
    return F.avg_pool2d(F.pad(values, (0, width % 2, 0, height % 2)), 2, divisor_override=1)
