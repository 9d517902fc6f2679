"""Extremal perturbation: the smooth mask of a given area that keeps the score highest."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import pydantic
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.attribution.baselines import gaussian_blurred
from heatcheck.attribution.passes import (
    NotNegative,
    Output,
    Piece,
    Positive,
    Query,
    backward_size,
    join,
    pieces_of,
    target_scores,
    wide,
)
from heatcheck.attribution.registry import register
from heatcheck.attribution.smooth_max import Grid, make_grid, smooth_max, smooth_max_gradient
from heatcheck.runtime.memory import chunk_size, map_chunks
from heatcheck.runtime.seeds import CounterGenerator

Share = Annotated[float, pydantic.Field(gt=0, lt=1)]
# Lengths of the published settings are in pixels of images with this side, and scale with the image.
_SIDE = 224
_TIE = 1e-3


class Search(NamedTuple):
    """Parameters of the search; see ``extremal_perturbation``."""

    n_iterations: int
    learning_rate: float
    area_weight: float
    growth: float


@register("extremal-perturbation", family="perturbation", cites="fong2019understanding")
def extremal_perturbation(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "logit",
    areas: Annotated[tuple[Share, ...], pydantic.Field(min_length=1)] = (0.025, 0.05, 0.1, 0.2),
    n_iterations: Annotated[int, pydantic.Field(ge=0, le=100_000)] = 800,
    learning_rate: Positive = 0.01,
    area_weight: NotNegative = 300.0,
    growth: Annotated[float, pydantic.Field(ge=1, le=2)] = 1.0035,
    step: Positive = 7.0,
    reach: Positive = 21.0,
    coldness: Positive = 20.0,
    n_levels: Annotated[int, pydantic.Field(ge=2, le=64)] = 8,
    blur_radius: Positive = 20.0,
    smooth: NotNegative = 0.09,
) -> Tensor:
    """Sum over areas of the smooth masks that keep the score highest, ``(N, 1, H, W)``.

    For each area, a mask between the image (1) and its blurred copies (0) maximizes
    ``score - weight mean((sorted(m) - step(area))**2)`` (Fong et al. 2019, eq. 4), by gradient ascent with
    momentum. Masks are smooth maxima over a grid; every other iteration sees the image mirrored.

    Args:
        model: Classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Not used.
        output: Explained score.
        areas: Shares of the image that the masks keep.
        n_iterations: Steps of the ascent.
        learning_rate: Of the ascent; momentum and dampening are 0.9.
        area_weight: Weight of the area's penalty in the first iteration.
        growth: Factor of that weight per iteration.
        step: Pixels between the grid's nodes at a side of 224; scaled with the shorter side, like the next.
        reach: Pixels over which a node acts.
        coldness: How near the smooth maximum is to the maximum.
        n_levels: Levels of the blur pyramid.
        blur_radius: Standard deviation of its most blurred level.
        smooth: Standard deviation of a Gaussian over the sum, as a share of the shorter side; 0: none.
    """
    size = (int(images.shape[-2]), int(images.shape[-1]))
    if not len(images):
        return wide(images[:, :1])
    unit = min(size) / _SIDE
    grid = make_grid(size, max(1, round(step * unit)), reach * unit, coldness, wide(images))
    query = Query(model, images, targets, forward_args, output)
    settings = Search(n_iterations, learning_rate, area_weight, growth)

    def run(part: slice) -> Tensor:
        pieces = pieces_of(part, len(images))
        some = query.at(pieces, join([images[piece.rows] for piece in pieces]))
        levels = blur_pyramid(some.images, n_levels, blur_radius * unit)
        return search_masks(some, levels, _areas_of(pieces, areas), grid, settings)

    # The pyramid is kept beside what the model keeps.
    most = min(backward_size(query), chunk_size((n_levels + 4) * images[:1].nbytes, images.device))
    masks = torch.cat([found for _, found in map_chunks(run, len(images) * len(areas), most)])
    total = masks.view(len(areas), *images[:, :1].shape).sum(dim=0)
    return gaussian_blurred(total, smooth * min(size)) if smooth else total


def search_masks(query: Query, levels: Tensor, areas: Sequence[float], grid: Grid, search: Search) -> Tensor:
    """Masks ``(N, 1, H, W)`` in [0, 1], each of its area, that keep the scores highest.

    Args:
        query: The batch.
        levels: ``(L, N, C, H, W)``, see ``blur_pyramid``.
        areas: One share per image.
        grid: How masks follow from their parameters.
        search: Parameters of the search.
    """
    images = query.images
    nodes = torch.ones(len(images), *grid.shape, dtype=wide(images).dtype, device=images.device)
    optimizer = torch.optim.SGD([nodes], lr=search.learning_rate, momentum=0.9, dampening=0.9)
    weight = search.area_weight
    for iteration in range(search.n_iterations):
        found = smooth_max(nodes, grid)
        leaf = found.masks[:, None].detach().requires_grad_(True)
        seen = perturbed(levels, leaf)
        scores = target_scores(query._replace(images=seen.flip(3) if iteration % 2 == 0 else seen))
        values = leaf.flatten(1)
        penalty = (values - area_targets(values, areas)).square().mean(dim=1)
        (gradient,) = torch.autograd.grad((weight * penalty - scores).sum(), leaf)
        nodes.grad = smooth_max_gradient(nodes, found, gradient[:, 0], grid)
        optimizer.step()
        nodes.clamp_(0, 1)
        weight *= search.growth
    return smooth_max(nodes, grid).masks[:, None]


def blur_pyramid(images: Tensor, n_levels: int, sigma: float) -> Tensor:
    """Images from most blurred to as they are, ``(L, N, C, H, W)``.

    Level ``l`` has standard deviation ``sigma (1 - l / (L - 1))``.

    Args:
        images: ``(N, C, H, W)``.
        n_levels: Number of levels ``L``, at least 2.
        sigma: Standard deviation of the first level in pixels.
    """
    sigmas = [sigma * (1 - level / (n_levels - 1)) for level in range(n_levels - 1)]
    return torch.stack([*(gaussian_blurred(images, width) for width in sigmas), images])


def perturbed(levels: Tensor, masks: Tensor) -> Tensor:
    """Images ``(N, C, H, W)``, as blurred at each pixel as ``masks`` ``(N, 1, H, W)`` say; 1 is not blurred.

    Linear between the two nearest of the levels ``(L, N, C, H, W)``.
    """
    place = masks * (len(levels) - 1)
    lower = place.detach().floor().clamp(0, len(levels) - 2)
    at = lower.long()[None].expand(1, *levels.shape[1:])
    below, above = levels.gather(0, at)[0], levels.gather(0, at + 1)[0]
    return torch.lerp(below, above, (place - lower).to(levels.dtype))


def area_targets(masks: Tensor, areas: Sequence[float]) -> Tensor:
    """Nearest masks ``(N, P)`` of the given areas: 1 at the largest values of ``masks``, 0 elsewhere.

    ``round(P (1 - area))`` values get 0. Values nearer than ``0.001`` share their zeros and ones, the more
    the nearer: ranks alone would let rounding decide between equal values, and would push a mask without a
    preference, the first one above all, into a corner.
    """
    values = masks.detach().double()
    ordered = values.sort(dim=1).values
    sums = F.pad(ordered.cumsum(dim=1), (1, 0))
    lower, start, stop, upper = (
        torch.searchsorted(ordered, bound, right=right)
        for bound, right in ((values - _TIE, False), (values, False), (values, True), (values + _TIE, False))
    )
    # How many values are smaller, and smaller or equal; those within the tie count in part.
    smaller = lower + ((start - lower) * values - sums.gather(1, start) + sums.gather(1, lower)) / _TIE
    above = ((upper - stop) * values - sums.gather(1, upper) + sums.gather(1, stop)) / _TIE
    up_to = upper + above
    zeros = [round(masks.shape[1] * (1 - area)) for area in areas]
    n_zeros = values.new_tensor(zeros)[:, None]
    ones = (up_to - n_zeros).clamp(min=0) - (smaller - n_zeros).clamp(min=0)
    return (ones / (up_to - smaller)).to(masks.dtype)


def _areas_of(pieces: Sequence[Piece], areas: Sequence[float]) -> list[float]:
    return [areas[piece.step] for piece in pieces for _ in range(piece.length)]
