"""RISE: the mean of random masks, weighted by the score of the masked image."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Literal

import pydantic
import torch
from torch import Tensor, nn

from heatcheck.attribution.fills import fill_tensor, uniform_fill
from heatcheck.attribution.passes import (
    Count,
    Output,
    Piece,
    Query,
    forward_scores,
    forward_size,
    stream,
    wide,
)
from heatcheck.attribution.registry import register
from heatcheck.attribution.windows import mirrored_weights
from heatcheck.runtime.seeds import CounterGenerator

Share = Annotated[float, pydantic.Field(gt=0, lt=1)]
# Masks are the same for all images, so their stream is keyed by this instead of an image.
_STREAM = (0x52495345,)


@register(
    "rise",
    family="perturbation",
    cites="petsiuk2018rise",
    variants={"rise-uniform": {"fill": "uniform"}},
)
def rise(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "probability",
    n_masks: Count = 1000,
    cells: Annotated[int, pydantic.Field(ge=1, le=256)] = 8,
    keep: Share = 0.1,
    fill: Literal["zero", "uniform"] | float | tuple[float, ...] = "zero",
) -> Tensor:
    """Mean of random masks weighted by the masked image's score, ``(N, 1, H, W)``.

    ``sum_i p_c(m_i x + (1 - m_i) b) m_i / (M keep)`` (Petsiuk et al. 2018, eq. 6).

    Args:
        model: Classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Only its seed counts: all images see the same masks.
        output: Explained score.
        n_masks: Number of masks ``M``.
        cells: Cells per side of the coarse masks.
        keep: Probability that a cell is kept.
        fill: What is under a mask: ``zero``, ``uniform`` (one noise image in [-1, 1) for all images), or
            one number for all channels or each, in the space of the images.
    """
    query = Query(model, images, targets, forward_args, output)
    seed = generator.seed if generator else 0
    size = (int(images.shape[-2]), int(images.shape[-1]))
    under = uniform_fill(images, seed) if fill == "uniform" else fill_tensor(fill, images)

    def mask_at(number: int) -> Tensor:
        return rise_mask(seed, number, size, cells, keep)

    return rise_map(query, mask_at, n_masks, under, keep)


def rise_map(
    query: Query, mask_at: Callable[[int], Tensor], n_masks: int, fill: Tensor, keep: float
) -> Tensor:
    """Map ``(N, 1, H, W)`` of masks ``mask_at(0)`` to ``mask_at(n_masks - 1)``, ``(H, W)`` in [0, 1] each.

    Args:
        query: The batch.
        mask_at: Makes a mask; the same number gives the same mask.
        n_masks: Number of masks.
        fill: What is under a mask, ``(N, C, H, W)`` or broadcast to it.
        keep: Expected value of the masks.
    """
    images, size = query.images, forward_size(query)
    fills = fill.expand_as(images)

    # A chunk asks for its masks twice: to hide pixels and to weigh the scores.
    @lru_cache(maxsize=size + 1)
    def mask(number: int) -> Tensor:
        return mask_at(number).to(images)

    def write(piece: Piece, place: Tensor) -> None:
        torch.lerp(fills[piece.rows], images[piece.rows], mask(piece.step), out=place)

    total = torch.zeros_like(wide(images[:, :1]))
    for piece, scores in stream(forward_scores, query, write, n_steps=n_masks, size=size):
        total[piece.rows].addcmul_(scores[:, None, None, None].to(total), mask(piece.step).to(total))
    return total / (n_masks * keep)


def rise_mask(seed: int, number: int, size: tuple[int, int], cells: int, keep: float) -> Tensor:
    """Mask number ``number`` of a seed, ``size`` float32 in [0, 1].

    A grid of ``cells x cells`` bits is enlarged to one cell more than the image and cropped at random.
    """
    numbers = CounterGenerator(seed, _STREAM).numpy(0, number)
    grid = torch.from_numpy(numbers.random((cells, cells)) < keep)
    steps = [math.ceil(side / cells) for side in size]
    top, left = (int(numbers.integers(step)) for step in steps)
    return enlarge_mask(grid, size, (top, left))


def enlarge_mask(grid: Tensor, size: tuple[int, int], corner: tuple[int, int]) -> Tensor:
    """Mask ``size`` float32 from bits ``(cells, cells)``, enlarged linearly and cropped.

    The enlarged side is ``(cells + 1) ceil(side / cells)``.

    Args:
        grid: 1 where a cell is kept.
        size: Height and width.
        corner: Top and left of the crop, each below ``ceil(side / cells)``.
    """
    down, across = (
        _resizer(len(grid), side)[:, start : start + side].to(torch.float32)
        for side, start in zip(size, corner, strict=True)
    )
    return down.T @ grid.to(torch.float32) @ across


@lru_cache(maxsize=16)
def _resizer(cells: int, side: int) -> Tensor:
    return mirrored_weights(cells, (cells + 1) * math.ceil(side / cells))
