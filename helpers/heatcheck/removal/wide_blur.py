"""The wide blur of the single-deletion benchmark: a patch is replaced by its surroundings' color."""

import torch
from torch import Tensor

from heatcheck.removal.registry import register_fill
from heatcheck.removal.separable import blurred_along


@register_fill("wide-blur", uses_mask=False)
def wide_blur(images: Tensor, keep_mask: Tensor, *, size: int = 51, spread: float = 41.0) -> Tensor:
    """Images blurred with zero padding, so that they darken towards the border (Hesse et al. 2024).

    Args:
        images: ``(N, C, H, W)``.
        keep_mask: Not used.
        size: Odd side of the kernel in pixels.
        spread: Width ``s`` of the kernel, see ``wide_profile``; its standard deviation is ``sqrt(2) s``.

    Raises:
        ValueError: The side is even or the width not positive.
    """
    return blurred_along(images, wide_profile(size, spread))


def wide_profile(size: int = 51, spread: float = 41.0) -> Tensor:
    """One side ``(size,)`` float64 of the kernel: ``exp(-((i - m) / (2 s))**2)`` divided by its sum.

    Raises:
        ValueError: ``size`` is even or ``spread`` not positive.
    """
    if size < 1 or size % 2 == 0 or spread <= 0:
        raise ValueError(f"wide blur needs an odd size and a positive spread, got {size} and {spread}")
    positions = torch.arange(size, dtype=torch.float64) - size // 2
    weights = torch.exp(-(positions / (2 * spread)).square())
    return weights / weights.sum()
