"""What a store of level maps holds, and how its levels are packed into bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.metrics.levels import (
    Aggregate,
    Granularity,
    Ties,
    check_grid,
    grid_levels,
    grid_to_percent,
    percent_levels,
    percent_to_grid,
    unit_importance,
)

# Grid levels 0 to 15 fit half a byte.
_LONGEST_GRID = 15


@dataclass(frozen=True)
class RankMapSpec:
    """What is stored; two specs that differ anywhere are two stores.

    Attributes:
        estimator: Name and options of the estimator, and whatever else its maps depend on.
        data: Digest of the images, in the order of the rows.
        n_images: Number of images.
        shape: ``(U, H, W)``; ``U`` is 1 for pixels.
        granularity: What is removed at once.
        aggregate: Of the channels of a pixel; None for elements.
        ties: Order of equal values.
        grid: Percentages at which the maps are exact, at most 15; None: at all of them.

    Raises:
        ValueError: Fields do not fit each other.
    """

    estimator: str
    data: str
    n_images: int
    shape: tuple[int, int, int]
    granularity: Granularity
    aggregate: Aggregate | None
    ties: Ties = "index"
    grid: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.n_images < 1 or len(self.shape) != 3 or min(self.shape) < 1:
            raise ValueError(f"rank maps of {self.n_images} images of {self.shape} units hold nothing")
        if self.granularity not in get_args(Granularity) or self.ties not in get_args(Ties):
            raise ValueError(f"unknown granularity {self.granularity!r} or ties {self.ties!r} of rank maps")
        pixel = self.granularity == "pixel"
        if pixel != (self.aggregate is not None) or (pixel and self.shape[0] != 1):
            raise ValueError(
                f"{self.granularity} rank maps got shape {self.shape} and aggregate {self.aggregate!r}; "
                "pixels need (1, H, W) and an aggregate, elements (C, H, W) and None"
            )
        if self.grid is not None and len(check_grid(self.grid)) > _LONGEST_GRID:
            raise ValueError(f"a grid of {len(self.grid)} percentages does not fit; {_LONGEST_GRID} do")

    @property
    def row_bytes(self) -> int:
        """Bytes per image on disk."""
        n_units = prod(self.shape)
        return n_units if self.grid is None else -(-n_units // 2)

    @property
    def percents(self) -> tuple[int, ...]:
        """Percentages at which the maps are exact."""
        return tuple(range(101)) if self.grid is None else (0, *self.grid, 100)

    def levels(self, maps: Tensor, *, seed: int = 0, ids: Sequence[int] | None = None) -> Tensor:
        """Percent levels ``(n, U, H, W)`` uint8 of raw maps ``(n, C, H, W)``, as this store keeps them.

        Args:
            maps: Raw and signed.
            seed: Seed of ties ``hash``.
            ids: Identities of the images, for ties ``hash``.

        Raises:
            ValueError: As for ``percent_levels``.
        """
        values = unit_importance(maps, self.granularity, self.aggregate or "sum")
        if self.grid is None:
            return percent_levels(values, ties=self.ties, seed=seed, ids=ids)
        found = grid_levels(values, self.grid, ties=self.ties, seed=seed, ids=ids)
        return grid_to_percent(found, self.grid)


def pack_levels(levels: Tensor, spec: RankMapSpec) -> Tensor:
    """Rows ``(n, row_bytes)`` uint8 of percent levels ``(n, U, H, W)``, on their device.

    With a grid, units ``2 i`` and ``2 i + 1`` are the low and the high half of byte ``i``.
    """
    flat = levels.flatten(1)
    if spec.grid is None:
        return flat
    halves = F.pad(percent_to_grid(flat, spec.grid), (0, flat.shape[1] % 2))
    return halves[:, ::2] | (halves[:, 1::2] << 4)


def unpack_levels(packed: Tensor, spec: RankMapSpec) -> Tensor:
    """Percent levels ``(n, U, H, W)`` uint8 of rows ``(n, row_bytes)``, on their device."""
    if spec.grid is None:
        return packed.view(len(packed), *spec.shape)
    halves = torch.stack([packed & 15, packed >> 4], dim=2).flatten(1)[:, : prod(spec.shape)]
    return grid_to_percent(halves, spec.grid).view(len(packed), *spec.shape)
