"""From values to ranks: how many units a percentage selects, and which."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Values, their order and its 64-bit indices, per unit.
BYTES_PER_UNIT = 32
# So few thresholds are found faster by selection than by sorting, on a CPU.
_FEW = 16
# Rows from this length on are sorted into buckets first, by so many of their first bits: measured fastest.
_LARGE, _BUCKET_BITS = 10_000, 13
_INTEGERS = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}

Values = NDArray[np.floating[Any]]


def n_selected(percent: int, n_units: int) -> int:
    """Number of units that ``percent`` selects of ``n_units``: ``(percent * n_units) // 100``.

    Raises:
        ValueError: ``percent`` is no whole number from 0 to 100.
    """
    return check_percent(percent) * n_units // 100


def check_percent(percent: int) -> int:
    """``percent`` itself, if it is a whole number from 0 to 100.

    Raises:
        ValueError: It is not.
    """
    if int(percent) != percent or not 0 <= percent <= 100:
        raise ValueError(f"percent must be a whole number from 0 to 100, got {percent}")
    return int(percent)


def to_raster(values: Tensor) -> Tensor:
    """Units ``(N, U * H * W)`` of ``(N, U, H, W)`` in raster order, channels last: the order of ties."""
    return values.permute(0, 2, 3, 1).flatten(1)


def from_raster(flat: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """``(N, U, H, W)`` of units in raster order."""
    units, height, width = shape
    return flat.view(len(flat), height, width, units).permute(0, 3, 1, 2)


def rank_levels(flat: Tensor, percents: Sequence[int]) -> Tensor:
    """How many of ``percents`` do not reach each unit, ``(N, n)`` uint8; of equal units the first come first.

    Args:
        flat: ``(N, n)`` values without NaN.
        percents: Whole percentages in ascending order.
    """
    counts = [n_selected(percent, flat.shape[1]) for percent in percents]
    if flat.device.type == "cpu" and len(counts) <= _FEW:
        return _select_levels(flat.contiguous(), counts)
    order = torch.sort(flat, dim=1, descending=True, stable=True).indices
    places = torch.arange(flat.shape[1], device=flat.device)
    bounds = torch.tensor(counts, device=flat.device)
    by_rank = torch.bucketize(places, bounds, right=True).to(torch.uint8)
    return torch.empty_like(order, dtype=torch.uint8).scatter_(1, order, by_rank.expand_as(order))


def _select_levels(flat: Tensor, counts: Sequence[int]) -> Tensor:
    """As ``rank_levels``, with the first ``counts[j]`` units reached by percentage ``j``."""
    n = flat.shape[1]
    levels = torch.full(flat.shape, len(counts), dtype=torch.uint8)
    places = sorted({place for count in counts if count for place in (n - count - 1, n - count)})
    if not places or not len(flat):
        return levels
    found = torch.from_numpy(order_statistics(_array(flat), places)).to(flat.dtype)
    for count in counts:
        if count:
            at = places.index(n - count)
            top = flat >= found[:, at, None]
            # Equal values on both sides of the threshold: not all of them have room above it.
            for row in (found[:, at] == found[:, at - 1]).nonzero()[:, 0].tolist():
                top[row] = _first_of_equal(flat[row], found[row, at], count)
            levels -= top.view(torch.uint8)
    return levels


def _first_of_equal(values: Tensor, bound: Tensor, count: int) -> Tensor:
    """The ``count`` largest of ``(n,)`` values, ``bound`` being the smallest of them."""
    above, equal = values > bound, values == bound
    return above | (equal & (equal.cumsum(0) <= count - above.sum()))


def order_statistics(values: Values, places: Sequence[int]) -> Values:
    """Values ``(N, len(places))`` that would stand at ``places`` if each row ``(N, n)`` were sorted.

    Args:
        values: ``(N, n)`` without NaN.
        places: Places in ascending order, from 0.
    """
    if values.shape[1] < _LARGE or values.dtype not in _INTEGERS:
        return np.partition(values, places, axis=1)[:, places]
    return np.stack([_by_buckets(row, np.asarray(places)) for row in values])


def _by_buckets(row: Values, places: NDArray[np.int64]) -> Values:
    """As ``order_statistics`` for one row: count values by their first bits, then look into few buckets."""
    integer, width = _INTEGERS[row.dtype], 8 * row.itemsize
    half = 1 << (_BUCKET_BITS - 1)
    # The first bits of a floating number are its sign, exponent and a bit of its mantissa. Adding 0 makes
    # one zero of two; the bits of negative numbers run backwards.
    first = (row + 0.0).view(integer) >> (width - _BUCKET_BITS)
    keys = (first ^ ((first >> (_BUCKET_BITS - 1)) & (half - 1))) + half
    sizes = np.bincount(keys, minlength=2 * half)
    ends = sizes.cumsum()
    short, buckets = keys.astype(np.uint16), np.searchsorted(ends, places, side="right")
    found = np.empty(len(places), row.dtype)
    for bucket in np.unique(buckets):
        own = buckets == bucket
        rest = places[own] - (ends[bucket] - sizes[bucket])
        found[own] = np.partition(row[short == bucket], rest)[rest]
    return found


def _array(flat: Tensor) -> Values:
    """As an array; NumPy has no bfloat16, and float32 holds its values."""
    return (flat.float() if flat.dtype == torch.bfloat16 else flat).numpy()
