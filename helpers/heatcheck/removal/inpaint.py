"""Inpainting by libraries that work on one image at a time, on the CPU: OpenCV and scikit-image."""

import importlib
from collections.abc import Callable
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from skimage.restoration import inpaint_biharmonic
from torch import Tensor

from heatcheck.removal.color import Channels, from_colors, is_normalized
from heatcheck.removal.holes import find_holes
from heatcheck.removal.pushpull import pushpull
from heatcheck.removal.registry import register_fill

Picture = NDArray[np.generic]
# Paints the hole (H, W) bool of a picture (H, W, C).
Painter = Callable[[Picture, NDArray[np.bool_]], Picture]


@register_fill("telea", uses_mask=True)
def telea(
    images: Tensor, keep_mask: Tensor, *, radius: float = 3.0, mean: Channels = None, std: Channels = None
) -> Tensor:
    """Holes filled by the fast marching method (Telea 2004) of OpenCV, ``(N, C, H, W)``.

    OpenCV takes 8-bit pictures. With ``mean`` and ``std`` of the normalization an image is rounded as the
    photograph it was; without, each channel is scaled so that its known values span the 256 levels, which
    is finer. Known pixels come back unrounded. OpenCV looks into holes near the border; what it finds
    there is the pull-push fill, never the removed pixels. With nothing known all is zero.

    Args:
        images: ``(N, C, H, W)``.
        keep_mask: ``(N, 1, H, W)`` or ``(N, C, H, W)``; a soft mask is made hard by ``find_holes``.
        radius: Pixels within this distance are looked at.
        mean: Normalization of the images, to round them in their colors.
        std: Normalization of the images, to round them in their colors.

    Raises:
        ImportError: OpenCV is not installed.
        ValueError: Only one of ``mean`` and ``std`` is given, or they do not fit the images.
    """
    return _opencv(images, keep_mask, method="INPAINT_TELEA", radius=radius, mean=mean, std=std)


@register_fill("ns", uses_mask=True)
def ns(
    images: Tensor, keep_mask: Tensor, *, radius: float = 3.0, mean: Channels = None, std: Channels = None
) -> Tensor:
    """Holes filled by the Navier-Stokes method (Bertalmio et al. 2001) of OpenCV, ``(N, C, H, W)``.

    Arguments, rounding and errors are those of ``telea``.
    """
    return _opencv(images, keep_mask, method="INPAINT_NS", radius=radius, mean=mean, std=std)


@register_fill("biharmonic", uses_mask=True)
def biharmonic(images: Tensor, keep_mask: Tensor) -> Tensor:
    """Holes filled with a biharmonic function (Damelin and Hoang 2018) by scikit-image, ``(N, C, H, W)``.

    Slow: a tenth of a second and more for a large hole. A soft mask is made hard by ``find_holes``; with
    nothing known all is zero.
    """

    def paint(picture: Picture, hole: NDArray[np.bool_]) -> Picture:
        painted: Picture = inpaint_biharmonic(picture, hole, channel_axis=-1)
        return painted

    holes = find_holes(keep_mask)
    background = _background(images, holes)
    return torch.where(holes, _paint_each(background, holes, paint), images.detach()).to(images.dtype)


def _opencv(
    images: Tensor, keep_mask: Tensor, *, method: str, radius: float, mean: Channels, std: Channels
) -> Tensor:
    cv2 = _require_opencv()
    flag = getattr(cv2, method)

    def paint(picture: Picture, hole: NDArray[np.bool_]) -> Picture:
        layers = [picture] if picture.shape[2] == 3 else np.split(picture, picture.shape[2], axis=2)
        mask = hole.astype(np.uint8)
        painted = [cv2.inpaint(np.ascontiguousarray(layer), mask, radius, flag) for layer in layers]
        return np.concatenate([layer.reshape(*hole.shape, -1) for layer in painted], axis=2)

    holes = find_holes(keep_mask)
    background = _background(images, holes)
    low, span = _scale(background, mean, std)
    levels = ((background - low) / torch.where(span > 0, span, 1) * 255).round().clamp(0, 255).byte()
    painted = low + _paint_each(levels, holes, paint) / 255 * span
    anything_known = ~holes.all(dim=3, keepdim=True).all(dim=2, keepdim=True)
    filled = torch.where(anything_known, painted, background)
    return torch.where(holes, filled, images.detach()).to(images.dtype)


def _background(images: Tensor, holes: Tensor) -> Tensor:
    """The images in float64, with nothing of what is removed: no painter can look at it."""
    return pushpull(images.detach(), (~holes).to(images.dtype)).double()


def _scale(background: Tensor, mean: Channels, std: Channels) -> tuple[Tensor, Tensor]:
    """Value of level 0 and distance from there to level 255, broadcast to ``(N, C, 1, 1)``."""
    if is_normalized(mean, std):
        low, high = (
            from_colors(torch.full_like(background[:1, :, :1, :1], end), mean, std) for end in (0, 1)
        )
    elif background.numel():
        low, high = background.amin((2, 3), keepdim=True), background.amax((2, 3), keepdim=True)
    else:
        return torch.zeros_like(background), torch.ones_like(background)
    return low, high - low


def _paint_each(pictures: Tensor, holes: Tensor, paint: Painter) -> Tensor:
    """Pictures ``(N, C, H, W)`` painted one by one, float64; those with no hole or nothing else stay."""
    painted = pictures.double()
    for row, hole in enumerate(holes[:, 0].cpu().numpy()):
        if hole.any() and not hole.all():
            picture = np.ascontiguousarray(pictures[row].permute(1, 2, 0).cpu().numpy())
            painted[row] = torch.from_numpy(np.moveaxis(paint(picture, hole), 2, 0).astype(np.float64))
    return painted


def _require_opencv() -> ModuleType:
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        raise ImportError(
            "the fills telea and ns need OpenCV, which is optional; install it with: "
            "pip install 'heatcheck[inpaint]'"
        ) from error
