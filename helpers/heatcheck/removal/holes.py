"""From a keep mask, which may be soft, to the hole that an inpainter is asked to fill."""

from torch import Tensor


def find_holes(keep_mask: Tensor) -> Tensor:
    """Pixels to inpaint, ``(N, 1, H, W)`` bool: those kept by less than ``max(1/2, (max + min) / 2)``.

    The rule of the published code (Agarwal and Nguyen 2020), with the extremes of each mask by itself: there
    they are those of the whole batch, so that a mask's hole depends on its neighbors. For masks of zeros and
    ones both say the same.

    Args:
        keep_mask: ``(N, 1, H, W)`` or ``(N, C, H, W)``, bool or in [0, 1]; a pixel is kept as far as all its
            channels are.
    """
    kept = keep_mask.detach().amin(1, keepdim=True)
    if not kept.is_floating_point():
        return ~kept.bool()
    if not kept.numel():
        return kept < 0.5
    low, high = kept.amin((2, 3), keepdim=True), kept.amax((2, 3), keepdim=True)
    return kept < ((low + high) / 2).clamp(min=0.5)


def hole_fraction(keep_mask: Tensor) -> Tensor:
    """Share ``(N,)`` float64 of each image that is inpainted; a learned inpainter fails on large holes.

    Args:
        keep_mask: As in ``find_holes``.
    """
    return find_holes(keep_mask).double().mean((1, 2, 3))
