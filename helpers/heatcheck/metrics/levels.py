"""At which percentage a unit of an image is removed: level maps, from which every threshold follows.

A unit is one channel value (``element``) or one position with all its channels (``pixel``). Units are ranked
within their image, most important first, and the top ``(p * n) // 100`` of ``n`` are removed (ROAR) or kept
(KAR), as in Hooker et al. (2019). The level of a unit is the number of percentages that do not reach it, so
``level < p`` selects exactly that many units, for every whole ``p``.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from heatcheck.metrics.level_controls import leaky_levels as leaky_levels
from heatcheck.metrics.level_controls import random_levels as random_levels
from heatcheck.metrics.level_controls import rolled as rolled
from heatcheck.metrics.level_controls import shuffled as shuffled
from heatcheck.metrics.unit_ranks import (
    BYTES_PER_UNIT,
    check_percent,
    from_raster,
    rank_levels,
    to_raster,
)
from heatcheck.metrics.unit_ranks import n_selected as n_selected
from heatcheck.runtime.counter_stream import counter_integers
from heatcheck.runtime.memory import chunk_size, map_chunks

Granularity = Literal["element", "pixel"]
Aggregate = Literal["sum", "abs_sum", "max_abs"]
Ties = Literal["index", "hash"]
Mode = Literal["roar", "kar"]


def unit_importance(maps: Tensor, granularity: Granularity, aggregate: Aggregate = "sum") -> Tensor:
    """One value per unit: ``(N, C, H, W)`` as given for ``element``, ``(N, 1, H, W)`` float64 for ``pixel``.

    Args:
        maps: ``(N, C, H, W)`` floating, raw and signed.
        granularity: What is removed at once.
        aggregate: Of the channels of a pixel; ``sum`` keeps signs.

    Raises:
        ValueError: The shape, a name, or a value that is NaN or infinite.
    """
    _choose("granularity", granularity, get_args(Granularity))
    _choose("aggregate", aggregate, get_args(Aggregate))
    _check_values(maps)
    if granularity == "element":
        return maps
    # Three float32 numbers add up in float64 without rounding that would depend on their order.
    wide = maps.double()
    if aggregate == "max_abs":
        return wide.abs().amax(1, keepdim=True)
    return (wide.abs() if aggregate == "abs_sum" else wide).sum(1, keepdim=True)


def percent_levels(
    values: Tensor, *, ties: Ties = "index", seed: int = 0, ids: Sequence[int] | None = None
) -> Tensor:
    """Level of every unit, ``(N, U, H, W)`` uint8 from 0 to 99: percentages 1 to 100 that do not reach it.

    Args:
        values: ``(N, U, H, W)``, larger is more important.
        ties: Equal values come in raster order, channels last (``index``), or in an order drawn for the
            image (``hash``), which favors no corner.
        seed: Seed of ``hash``.
        ids: ``N`` identities of the images, for ``hash``.

    Raises:
        ValueError: The shape, NaN or infinity, an unknown tie rule, or ``hash`` without its ids.
    """
    return _levels(_checked_values(values, ties, ids), range(1, 100), ties, seed, ids)


def grid_levels(
    values: Tensor,
    grid: Sequence[int],
    *,
    ties: Ties = "index",
    seed: int = 0,
    ids: Sequence[int] | None = None,
) -> Tensor:
    """Level within a grid of percentages, ``(N, U, H, W)`` uint8: how many of them do not reach a unit.

    Percentage number ``j``, from 0, selects ``level <= j``; ``grid_to_percent`` makes levels of the other
    kind of it.

    Args:
        values: As in ``percent_levels``, as are ``ties``, ``seed`` and ``ids``.
        grid: Percentages in ascending order.
        ties: Order of equal values.
        seed: Seed of ``hash``.
        ids: ``N`` identities of the images, for ``hash``.

    Raises:
        ValueError: As for ``percent_levels``, or the grid is not ascending.
    """
    return _levels(_checked_values(values, ties, ids), check_grid(grid), ties, seed, ids)


def grid_to_percent(levels: Tensor, grid: Sequence[int]) -> Tensor:
    """Percent levels that select the same units at the percentages of ``grid``, and at 0 and 100 only."""
    found = torch.zeros_like(levels)
    before = 0
    for number, percent in enumerate(check_grid(grid)):
        found += (levels > number).to(torch.uint8).mul_(percent - before)
        before = percent
    return found


def percent_to_grid(levels: Tensor, grid: Sequence[int]) -> Tensor:
    """Grid levels of percent levels, ``(N, U, H, W)`` uint8."""
    bounds = torch.tensor(check_grid(grid), dtype=torch.uint8, device=levels.device)
    return torch.bucketize(levels, bounds, right=True, out_int32=True).to(torch.uint8)


def selected(levels: Tensor, percent: int) -> Tensor:
    """Units among the top ``percent``, bool and shaped as ``levels``: removed by ROAR, kept by KAR.

    Args:
        levels: Percent levels.
        percent: Whole number from 0 to 100.
    """
    return levels < check_percent(percent)


def keep_mask(levels: Tensor, percent: int, mode: Mode = "roar") -> Tensor:
    """Units that stay, ``(N, U, H, W)`` bool: all but the top ``percent`` (ROAR), or only those (KAR)."""
    _choose("mode", mode, get_args(Mode))
    return selected(levels, percent) if mode == "kar" else levels >= check_percent(percent)


def apply_levels(images: Tensor, levels: Tensor, percent: int, *, mode: Mode, fill: Tensor) -> Tensor:
    """Images ``(N, C, H, W)`` with the units of ``keep_mask`` as they were and ``fill`` elsewhere.

    Args:
        images: ``(N, C, H, W)`` floating and finite: colors in [0, 1], before normalization.
        levels: ``(N, C, H, W)`` or ``(N, 1, H, W)`` percent levels.
        percent: Whole number from 0 to 100.
        mode: ``roar`` removes the top ``percent``, ``kar`` keeps them.
        fill: Colors ``(C,)``, or whole images ``(C, H, W)`` or ``(N, C, H, W)``.

    Raises:
        ValueError: Shapes do not fit, or a percentage or mode that there is not.
    """
    n, channels, height, width = images.shape
    if tuple(levels.shape) not in ((n, channels, height, width), (n, 1, height, width)):
        raise ValueError(
            f"levels have shape {tuple(levels.shape)}; images {tuple(images.shape)} need "
            f"{(n, channels, height, width)} or {(n, 1, height, width)}"
        )
    if tuple(fill.shape) not in ((channels,), tuple(images.shape[1:]), tuple(images.shape)):
        raise ValueError(
            f"fill has shape {tuple(fill.shape)}; allowed: {(channels,)}, {tuple(images.shape[1:])} "
            f"or {tuple(images.shape)}"
        )
    behind = fill.to(images).view(-1, 1, 1) if fill.ndim == 1 else fill.to(images)
    # Exact for weights of 0 and 1, and several times faster than a choice that a CPU cannot foresee.
    return torch.lerp(behind.expand_as(images), images, keep_mask(levels, percent, mode).to(images.dtype))


def check_grid(grid: Sequence[int]) -> list[int]:
    """``grid`` as a list, if it ascends strictly between 0 and 100.

    Raises:
        ValueError: It does not.
    """
    found = [check_percent(percent) for percent in grid]
    if not found or found != sorted(set(found)) or found[0] == 0 or found[-1] == 100:
        raise ValueError(f"a grid holds whole percentages from 1 to 99 in ascending order, got {found}")
    return found


def _levels(
    values: Tensor, percents: Sequence[int], ties: Ties, seed: int, ids: Sequence[int] | None
) -> Tensor:
    shape = (values.shape[1], values.shape[2], values.shape[3])
    n_units = values[0].numel() if len(values) else 0
    levels = torch.empty(values.shape, dtype=torch.uint8, device=values.device)

    def rank(part: slice) -> Tensor:
        flat = to_raster(values[part].detach())
        if ties == "index" or ids is None:
            return rank_levels(flat, percents)
        numbers = counter_integers(seed, ids[part], n_units, device=values.device)
        shuffled = torch.sort(numbers, dim=1, descending=True, stable=True).indices
        found = rank_levels(flat.gather(1, shuffled), percents)
        return torch.empty_like(found).scatter_(1, shuffled, found)

    size = chunk_size(BYTES_PER_UNIT * n_units, values.device)
    for part, found in map_chunks(rank, len(values), size):
        levels[part] = from_raster(found, shape)
    return levels


def _checked_values(values: Tensor, ties: Ties, ids: Sequence[int] | None) -> Tensor:
    _choose("ties", ties, get_args(Ties))
    if ties == "hash" and (ids is None or len(ids) != len(values)):
        found = "none" if ids is None else str(len(ids))
        raise ValueError(f"ties 'hash' need one id per image: {len(values)} images, ids: {found}")
    return _check_values(values)


def _check_values(values: Tensor) -> Tensor:
    if values.ndim != 4 or not values.is_floating_point() or 0 in values.shape[1:]:
        raise ValueError(
            f"importance must be (N, C, H, W) floating, got {tuple(values.shape)} {values.dtype}"
        )
    # The extremes of all maps show NaN and infinity at a fraction of the cost of looking at every value.
    if values.numel() and not bool(torch.isfinite(torch.stack(values.detach().aminmax())).all()):
        rows = (~torch.isfinite(values)).flatten(1).any(1).nonzero()[:, 0].tolist()
        more = "" if len(rows) == 1 else f" and {len(rows) - 1} more"
        raise ValueError(
            f"the importance map of image row {rows[0]}{more} holds NaN or infinity, which has no rank; "
            "leave these images out or repair the method that made the maps"
        )
    return values


def _choose(what: str, name: str, allowed: tuple[str, ...]) -> None:
    if name not in allowed:
        raise ValueError(f"unknown {what} {name!r}; allowed: {', '.join(allowed)}")
