"""Soft masks that are optimized: their penalties, their holes, and how they lie over an image."""

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageFilter
from scipy import ndimage
from torch import Tensor

Padding = Literal["reflect", "replicate"]


def l1_term(masks: Tensor) -> Tensor:
    """How much each mask ``(N, 1, R, R')`` removes, ``sum |1 - m|``, ``(N,)``."""
    return (1 - masks).abs().flatten(1).sum(dim=1)


def tv_term(masks: Tensor, beta: float) -> Tensor:
    """Roughness of each mask ``(N, 1, R, R')``, ``(N,)``.

    ``sum |m[i, j] - m[i + 1, j]|**beta + sum |m[i, j] - m[i, j + 1]|**beta`` (Fong and Vedaldi 2017).
    """
    down, across = (masks.diff(dim=dim).abs().pow(beta).flatten(1).sum(dim=1) for dim in (2, 3))
    return down + across


def binarized(keep_masks: Tensor) -> Tensor:
    """Masks ``(N, 1, H, W)`` of zeros and ones whose gradient is that of ``keep_masks`` themselves.

    1 where a mask in [0, 1] is above ``max(1/2, (max + min) / 2)``: the straight-through estimator of
    Agarwal and Nguyen (2020). A mask of ones stays as it is, although nothing in it is above its mean.
    """
    values = keep_masks.detach()
    low, high = values.amin((1, 2, 3), keepdim=True), values.amax((1, 2, 3), keepdim=True)
    kept = (values > ((low + high) / 2).clamp(min=0.5)) | (values >= 1)
    # The difference is exactly 0, so the values are exactly 0 and 1.
    return kept.to(keep_masks.dtype) + (keep_masks - values)


def disc(shape: tuple[int, int], radius: float, sigma: float | None) -> Tensor:
    """Disc ``(H, W)`` float64: 1 within ``radius`` pixels of pixel ``(H // 2, W // 2)``, else 0.

    Args:
        shape: Height and width.
        radius: Radius in pixels; the rim belongs to the disc.
        sigma: Standard deviation of a Gaussian filter over it, in pixels; None: sharp.
    """
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    inside = (rows - shape[0] // 2) ** 2 + (columns - shape[1] // 2) ** 2 <= radius**2
    drawn = inside.astype(np.float64)
    return torch.from_numpy(drawn if sigma is None else ndimage.gaussian_filter(drawn, sigma))


def cells_of(masks: Tensor, cells: int) -> Tensor:
    """Masks ``(N, 1, H, W)`` brought down to ``(N, 1, cells, cells)`` by their mean over each cell."""
    return F.adaptive_avg_pool2d(masks, cells)


def over_image(masks: Tensor, size: tuple[int, int]) -> Tensor:
    """Masks ``(N, 1, R, R)`` enlarged to ``size``: every pixel takes the value of its cell."""
    return F.interpolate(masks, size=size, mode="nearest")


def with_surround(images: Tensor, jitter: int, padding: Padding) -> Tensor:
    """Images ``(N, C, H, W)`` with invented pixels around them, ``(N, C, H + jitter, W + jitter)``.

    ``jitter // 2`` pixels come above and left, the rest below and right: mirrored at the outermost pixels
    as often as needed, or those repeated.
    """
    before = jitter // 2
    for dim in (2, 3):
        side = images.shape[dim]
        places = [_inside(place - before, side, padding) for place in range(side + jitter)]
        images = images.index_select(dim, torch.tensor(places, device=images.device))
    return images


def crops(surrounded: Tensor, corners: Tensor, size: tuple[int, int]) -> Tensor:
    """Windows ``(N, C, *size)`` of images ``(N, C, H', W')`` with top-left ``corners`` ``(N, 2)``."""
    windows = surrounded.unfold(2, size[0], 1).unfold(3, size[1], 1)
    corners = corners.to(surrounded.device)
    return windows[torch.arange(len(surrounded), device=surrounded.device), :, corners[:, 0], corners[:, 1]]


def _inside(place: int, side: int, padding: Padding) -> int:
    if padding == "replicate":
        return min(max(place, 0), side - 1)
    turned = place % max(2 * (side - 1), 1)
    return min(turned, 2 * (side - 1) - turned)


def eight_bit_blur(masks: Tensor, radius: float) -> Tensor:
    """Masks ``(N, 1, H, W)`` in [0, 1] blurred as 8-bit pictures by Pillow's Gaussian, ``radius`` pixels."""
    pictures = (masks[:, 0] * 255).round().to("cpu", torch.uint8).numpy()
    kernel = ImageFilter.GaussianBlur(radius)
    blurred = [np.asarray(Image.fromarray(picture).filter(kernel)) for picture in pictures]
    return torch.from_numpy(np.stack(blurred)).to(masks)[:, None] / 255
