"""Why a row has no ordinary score: one word per heatmap."""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Flags = NDArray[np.str_]
Empty = Literal["never", "zero", "nonpositive"]

OK = "ok"
NONFINITE = "nonfinite"  # the heatmap, or what the model returned, holds NaN or infinity
NO_MASK = "no-mask"  # the ground-truth mask has no pixel
NO_BOX = "no-box"  # there is no ground-truth box
EMPTY = "empty"  # the heatmap marks nothing
CONSTANT = "constant"  # all pixels of the heatmap are equal
FLAGS = (OK, NONFINITE, NO_MASK, NO_BOX, EMPTY, CONSTANT)


def check_heatmaps(heatmaps: Tensor) -> Tensor:
    """``heatmaps`` themselves, if they are ``(N, H, W)`` floating.

    Raises:
        ValueError: They are not.
    """
    if heatmaps.ndim != 3 or not heatmaps.is_floating_point() or 0 in heatmaps.shape[1:]:
        raise ValueError(
            f"heatmaps must be (N, H, W) floating, got {tuple(heatmaps.shape)} {heatmaps.dtype}; "
            "pool the channels of (N, C, H, W) maps first, for example pool(maps, 'sum')"
        )
    return heatmaps


def extremes(heatmaps: Tensor) -> tuple[Tensor, Tensor]:
    """Smallest and largest value of each map ``(N, ...)``, both ``(N,)``; NaN where a map holds one."""
    flat = heatmaps.flatten(1)
    if not len(flat):
        return flat.new_zeros(0, dtype=torch.float64), flat.new_zeros(0, dtype=torch.float64)
    return flat.amin(1).double(), flat.amax(1).double()


def map_flags(heatmaps: Tensor, *, empty: Empty = "never") -> Flags:
    """One flag per map ``(N, H, W)``: ``nonfinite``, ``empty``, ``constant`` or ``ok``, in this order.

    Args:
        heatmaps: ``(N, H, W)`` floating.
        empty: When a finite map counts as empty: ``never``, when it is ``zero`` everywhere, or when it is
            ``nonpositive`` everywhere.
    """
    low, high = extremes(check_heatmaps(heatmaps))
    finite = torch.isfinite(low) & torch.isfinite(high)
    nothing = {"never": torch.zeros_like(finite), "zero": (low == 0) & (high == 0), "nonpositive": high <= 0}[
        empty
    ]
    return choose_flags({NONFINITE: ~finite, EMPTY: nothing, CONSTANT: low == high})


def choose_flags(conditions: dict[str, Tensor]) -> Flags:
    """The first flag in ``conditions`` whose bool tensor is true, element by element; else ``ok``."""
    masks = [condition.cpu().numpy() for condition in conditions.values()]
    return np.select(masks, list(conditions), default=OK).astype(np.str_)


def is_flagged(flags: Flags, *names: str, device: torch.device | None = None) -> Tensor:
    """Bool tensor shaped as ``flags``: which of them are among ``names``."""
    return torch.from_numpy(np.isin(flags, names)).to(device or "cpu")


def override(flags: Flags, name: str, where: Tensor) -> Flags:
    """Copy of ``flags`` with ``name`` wherever ``where`` is true."""
    return np.where(where.cpu().numpy(), name, flags).astype(np.str_)


def count_flags(flags: Flags) -> dict[str, int]:
    """How often each flag occurs; all flags are listed."""
    return {name: int((flags == name).sum()) for name in FLAGS}
