"""Removal operators: what is put where pixels of an image are taken away.

All work in the classifier's normalized space, where zero is the mean color of its training images. Importing
this module registers every operator of the package.
"""

from collections.abc import Sequence

import torch
from scipy import ndimage
from torch import Tensor

from heatcheck.removal import diffusion, external, inpaint, road, segments, wide_blur
from heatcheck.removal.color import Channels, from_colors, wide
from heatcheck.removal.pushpull import pushpull as pushpull
from heatcheck.removal.registry import FILLS as FILLS
from heatcheck.removal.registry import Fill as Fill
from heatcheck.removal.registry import Substrate as Substrate
from heatcheck.removal.registry import add_fill as add_fill
from heatcheck.removal.registry import get_fill as get_fill
from heatcheck.removal.registry import register_fill as register_fill
from heatcheck.removal.separable import blurred_along
from heatcheck.runtime.seeds import CounterGenerator

# Modules whose import registers fills of their own.
REGISTERING = (diffusion, external, inpaint, road, segments, wide_blur)


@register_fill("zero", uses_mask=False)
def zero(images: Tensor, keep_mask: Tensor) -> Tensor:
    """Zeros as ``images``: the mean color of the classifier's training images."""
    return torch.zeros_like(images)


@register_fill("constant", uses_mask=False)
def constant(images: Tensor, keep_mask: Tensor, *, values: float | Sequence[float] = 0.0) -> Tensor:
    """One value, or one per channel, everywhere.

    Raises:
        ValueError: There is not one value per channel.
    """
    color = torch.as_tensor(values, dtype=images.dtype, device=images.device).flatten()
    if len(color) not in (1, images.shape[1]):
        raise ValueError(
            f"fill 'constant' got {len(color)} values; give 1 or {images.shape[1]}, one per channel"
        )
    return color.view(1, -1, 1, 1).expand_as(images).contiguous()


@register_fill("mean", uses_mask=False)
def mean(images: Tensor, keep_mask: Tensor) -> Tensor:
    """Each image's own mean color, over all its pixels."""
    return (
        images.mean((2, 3), keepdim=True, dtype=wide(images)).to(images.dtype).expand_as(images).contiguous()
    )


@register_fill("noise", uses_mask=False)
def noise(images: Tensor, keep_mask: Tensor, *, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Normal noise of mean 0 and standard deviation ``scale``, the same for an image in any batch."""
    return (scale * CounterGenerator.for_images(images, seed).normal(0, images)).to(images.dtype)


@register_fill("random", uses_mask=False)
def random(
    images: Tensor,
    keep_mask: Tensor,
    *,
    seed: int = 0,
    low: float = -1.0,
    high: float = 1.0,
    mean: Channels = None,
    std: Channels = None,
) -> Tensor:
    """Uniform noise in [low, high), the same for an image in any batch.

    With ``mean`` and ``std`` of the normalization the bounds are colors: ``low=0, high=1`` draws every color
    alike.

    Raises:
        ValueError: The range is empty, or only one of ``mean`` and ``std`` is given.
    """
    if not low < high:
        raise ValueError(f"fill 'random' needs low < high, got {low} and {high}")
    colors = low + (high - low) * CounterGenerator.for_images(images, seed).uniform(0, images)
    return from_colors(colors, mean, std).to(images.dtype)


@register_fill("blur", uses_mask=False)
def blur(images: Tensor, keep_mask: Tensor, *, size: int = 11, sigma: float = 5.0) -> Tensor:
    """Blurred images: the zero-padded convolution with ``gaussian_kernel`` of Petsiuk et al. (2018).

    Raises:
        ValueError: The kernel's side is even or its width not positive.
    """
    return blurred_along(images, gaussian_line(size, sigma))


def gaussian_line(size: int = 11, sigma: float = 5.0) -> Tensor:
    """One side ``(size,)`` of the blur kernel: a unit impulse, Gaussian-filtered with mirrored ends.

    Raises:
        ValueError: ``size`` is even or ``sigma`` not positive.
    """
    if size < 1 or size % 2 == 0 or sigma <= 0:
        raise ValueError(
            f"blur kernel needs an odd size and a positive sigma, got size {size} and sigma {sigma}"
        )
    impulse = torch.zeros(size, dtype=torch.float64)
    impulse[size // 2] = 1
    return torch.from_numpy(ndimage.gaussian_filter1d(impulse.numpy(), sigma))


def gaussian_kernel(size: int = 11, sigma: float = 5.0) -> Tensor:
    """Blur kernel ``(size, size)`` float64 of insertion's substrate in Petsiuk et al. (2018)."""
    line = gaussian_line(size, sigma)
    return line[:, None] * line[None, :]
