"""KernelSHAP: Shapley values of the cells of a grid, in the game of deleting them."""

import math
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
import pydantic
import torch
from torch import Tensor, nn

from heatcheck.attribution.fills import Fill, behind
from heatcheck.attribution.lime import perturbed_scores
from heatcheck.attribution.passes import Output, Query, wide
from heatcheck.attribution.registry import register
from heatcheck.runtime.seeds import CounterGenerator

# Coalitions are the same for all images, so their stream is keyed by this instead of an image.
_STREAM = (0x53484150,)


class Coalitions(NamedTuple):
    """Which cells stay, ``(S, M)`` bool, and how much each coalition counts, ``(S,)`` float64."""

    bits: Tensor
    weights: Tensor


@register("kernel-shap", family="perturbation", cites="lundberg2017unified")
def kernel_shap(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "logit",
    n_coalitions: Annotated[int, pydantic.Field(ge=2, le=1_000_000)] = 512,
    grid: Annotated[int, pydantic.Field(ge=2, le=64)] = 4,
    fill: Fill = "zero",
    fill_options: dict[str, Any] | None = None,
) -> Tensor:
    """Shapley value of each cell of a grid, spread evenly over its pixels, ``(N, 1, H, W)``.

    The weighted least-squares fit of the scores of coalitions of cells, such that the values add up to the
    score's fall when all cells are deleted (Lundberg and Lee 2017, theorem 2). With ``n_coalitions`` of at
    least ``2**(grid**2) - 2`` all coalitions are asked for and the values are exact; else coalitions are
    drawn in complementary pairs (Covert and Lee 2021).

    Args:
        model: Classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Only its seed counts: all images see the same coalitions.
        output: Explained score.
        n_coalitions: Coalitions beside the full and the empty one; rounded down to an even number.
        grid: Cells per side.
        fill: What deleted cells show: ``zero``, one number for all channels or each, in the space of the
            images, or the name of a removal operator.
        fill_options: Options of the removal operator.

    Raises:
        ValueError: The grid is finer than the image, or the coalitions are too few to tell the cells apart.
    """
    query = Query(model, images, targets, forward_args, output)
    labels = grid_labels((int(images.shape[-2]), int(images.shape[-1])), grid).to(images.device)
    if not len(images):
        return wide(images[:, :1])
    drawn = coalitions(grid**2, n_coalitions, generator.seed if generator else 0)
    ends = torch.tensor([[False], [True]]).expand(2, grid**2)
    bits = torch.cat([ends, drawn.bits])
    segments = labels.expand(len(images), -1, -1)
    scores = perturbed_scores(query, segments, [bits] * len(images), behind(fill, fill_options, images))
    values = shapley_values(drawn, scores.to("cpu", torch.float64))
    area = torch.bincount(labels.flatten()).double().cpu()
    return (values / area).to(images.device)[:, labels][:, None].to(wide(images).dtype)


def grid_labels(size: tuple[int, int], grid: int) -> Tensor:
    """Number of each pixel's cell, ``(H, W)`` int64, row by row; sides differ by a pixel where they must.

    Raises:
        ValueError: There are fewer pixels than cells along a side.
    """
    if min(size) < grid:
        raise ValueError(
            f"grid of {grid} x {grid} cells is finer than images of {size[0]} x {size[1]} pixels"
        )
    rows, columns = (torch.arange(length) * grid // length for length in size)
    return rows[:, None] * grid + columns


@lru_cache(maxsize=8)
def coalitions(n_cells: int, n_coalitions: int, seed: int) -> Coalitions:
    """All coalitions but the full and the empty one where ``n_coalitions`` suffice, else random ones.

    Random coalitions have ``k`` cells with probability proportional to ``1 / (k (M - k))``, which is the
    Shapley kernel times the number of such coalitions, so they count alike.
    """
    if n_cells < 60 and n_coalitions >= 2**n_cells - 2:
        numbers = torch.arange(1, 2**n_cells - 1)
        bits = (numbers[:, None] >> torch.arange(n_cells)) % 2 == 1
        sizes = bits.sum(dim=1).tolist()
        kernel = [1 / (math.comb(n_cells, size) * size * (n_cells - size)) for size in sizes]
        return Coalitions(bits, torch.tensor(kernel, dtype=torch.float64))
    counts = np.arange(1, n_cells)
    chances = 1 / (counts * (n_cells - counts))
    draws = CounterGenerator(seed, _STREAM).numpy(0)
    halves = []
    for size in draws.choice(counts, n_coalitions // 2, p=chances / chances.sum()):
        half = np.zeros(n_cells, dtype=bool)
        half[draws.permutation(n_cells)[:size]] = True
        halves.append(half)
    kept = torch.from_numpy(np.array(halves))
    return Coalitions(torch.cat([kept, ~kept]), torch.ones(2 * len(halves), dtype=torch.float64))


def shapley_values(drawn: Coalitions, scores: Tensor) -> Tensor:
    """Values ``(N, M)`` that fit the scores best and add up to that of all cells less that of none.

    Minimizes ``sum_s w_s (v_s - v_empty - z_s phi)**2`` under ``sum phi = v_full - v_empty``, in closed form.

    Args:
        drawn: The coalitions.
        scores: ``(N, 2 + S)`` float64 of no cells, all cells, and the coalitions.

    Raises:
        ValueError: The coalitions do not determine the values.
    """
    design = drawn.bits.double()
    weighted = design * (drawn.weights / drawn.weights.sum())[:, None]
    normal = weighted.T @ design
    n_cells = len(normal)
    if int(torch.linalg.matrix_rank(normal, hermitian=True)) < n_cells:
        raise ValueError(
            f"{len(design)} coalitions do not tell {n_cells} cells apart; raise n_coalitions, for example to "
            f"{16 * n_cells}"
        )
    empty, full = scores[:, :1], scores[:, 1:2]
    inverse = torch.linalg.inv(normal)
    free = (scores[:, 2:] - empty) @ weighted @ inverse
    toward = inverse.sum(dim=1)
    rest = full - empty - free.sum(dim=1, keepdim=True)
    values: Tensor = free + rest * toward / toward.sum()
    return values
