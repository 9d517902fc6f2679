"""A stream of random integers per (seed, image) in plain 64-bit arithmetic: the same on every device.

The mixing steps are those of SplitMix64 (Steele, Lea and Flood 2014). Unlike the Philox numbers of
``runtime.seeds`` these are made where they are used, so random rankings need no storage at all.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

BITS = 53
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


def counter_integers(
    seed: int, ids: Sequence[int], n: int, *, device: torch.device | str | None = None
) -> Tensor:
    """Uniform integers in [0, 2**53), ``(N, n)`` int64: number ``i`` of an image depends on nothing else.

    With ``G`` the odd number next to 2**64 divided by the golden ratio, modulo 2**64:
    ``s = mix((mix(seed + G) xor id) + G)`` and ``u_i = mix(s + (i + 1) G) >> 11``.

    Args:
        seed: Any integer, taken modulo 2**64.
        ids: ``N`` identities of images, taken modulo 2**64.
        n: Numbers per image.
        device: Where they are made.
    """
    first = _mix_integer(seed + _GOLDEN)
    states = [_signed(_mix_integer((first ^ (name & _MASK)) + _GOLDEN)) for name in ids]
    start = torch.tensor(states, dtype=torch.int64, device=device).view(-1, 1)
    # Products and sums of int64 wrap around, which is arithmetic modulo 2**64.
    steps = torch.arange(1, n + 1, dtype=torch.int64, device=device) * _signed(_GOLDEN)
    return _shift(_mix(start + steps), 64 - BITS)


def derive_seed(seed: int, stream: int) -> int:
    """Seed of another stream, unrelated to that of ``seed`` itself; ``stream`` tells streams apart."""
    return _mix_integer(seed ^ _mix_integer(stream + _GOLDEN))


def _mix(values: Tensor) -> Tensor:
    for bits, factor in _MIX:
        values = (values ^ _shift(values, bits)) * _signed(factor)
    return values


def _mix_integer(value: int) -> int:
    value &= _MASK
    for bits, factor in _MIX:
        value = ((value ^ (value >> bits)) * factor) & _MASK
    return value


def _shift(values: Tensor, bits: int) -> Tensor:
    """Logical shift to the right: int64 would drag its sign along."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    return value - (1 << 64) if value >= 1 << 63 else value
