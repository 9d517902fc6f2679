"""Inpainting with a pyramid: holes take the average of what surrounds them at the scale that reaches it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.removal.color import wide
from heatcheck.removal.registry import register_fill


@register_fill("pushpull", uses_mask=True)
def pushpull(images: Tensor, keep_mask: Tensor) -> Tensor:
    """Holes filled smoothly from what surrounds them, by a pull-push pyramid (Gortler et al. 1996).

    Color and coverage are averaged over 2 x 2 blocks until one pixel is left; on the way back a pixel
    without coverage takes the bilinearly enlarged coarser level. With nothing kept, all is zero. A soft mask
    is coverage, so only what is not kept at all is filled; ``find_holes`` makes it hard.
    """
    coverage = keep_mask.amin(1, keepdim=True).to(wide(images))
    return _push(images.to(coverage.dtype), coverage).to(images.dtype)


def _push(color: Tensor, coverage: Tensor) -> Tensor:
    """One level and all coarser ones: color ``(N, C, H, W)`` where covered, else what lies below."""
    known = torch.where(coverage > 0, color, 0)
    height, width = color.shape[2:]
    if height == width == 1:
        return known
    weight = F.avg_pool2d(coverage, 2, ceil_mode=True, count_include_pad=False)
    total = F.avg_pool2d(known * coverage, 2, ceil_mode=True, count_include_pad=False)
    coarse = _push(total / weight.clamp(min=torch.finfo(weight.dtype).tiny), weight)
    behind = F.interpolate(coarse, size=(height, width), mode="bilinear", align_corners=False)
    return torch.where(coverage > 0, known, behind)
