"""Removal operators: what is put where pixels of an image are taken away.

All work in the classifier's normalized space, where zero is the mean color of its training images.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from scipy import ndimage
from torch import Tensor

from heatcheck.runtime.seeds import CounterGenerator

Substrate = Callable[..., Tensor]


@dataclass(frozen=True)
class Fill:
    """A removal operator with its options; call it as ``fill(images, keep_mask)``.

    Attributes:
        name: Registered name, used in every table.
        function: Substrate ``(N, C, H, W)`` of ``(images, keep_mask, **options)``: the values that stand
            where pixels are removed.
        uses_mask: Whether the substrate depends on the mask; if not, one substrate serves every mask.
        options: Values of the function's keyword options.
    """

    name: str
    function: Substrate
    uses_mask: bool
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, images: Tensor, keep_mask: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` with the removed pixels filled: ``m * x + (1 - m) * substrate``.

        Args:
            images: ``(N, C, H, W)`` floating.
            keep_mask: ``(N, 1, H, W)`` or ``(N, C, H, W)``, bool or floating in [0, 1]; 1 keeps a pixel.

        Raises:
            ValueError: A shape or range is wrong, or the operator returned another shape, NaN or infinity.
        """
        behind = self.substrate(images, keep_mask)
        if keep_mask.dtype == torch.bool:
            return torch.where(keep_mask, images, behind)
        kept = keep_mask.to(images.dtype)
        return kept * images + (1 - kept) * behind

    def substrate(self, images: Tensor, keep_mask: Tensor | None = None) -> Tensor:
        """What stands where pixels are removed, ``(N, C, H, W)``; without a mask, everything is removed.

        Raises:
            ValueError: As for a call.
        """
        n, _, height, width = _check_images(images).shape
        mask = images.new_zeros((1, 1, 1, 1)).expand(n, 1, height, width) if keep_mask is None else keep_mask
        _check_mask(images, mask)
        filled = self.function(images, mask.to(images.dtype), **self.options)
        if not isinstance(filled, Tensor) or filled.shape != images.shape:
            found = tuple(filled.shape) if isinstance(filled, Tensor) else type(filled).__name__
            raise ValueError(
                f"fill {self.name!r} returned {found}; it must return a tensor {tuple(images.shape)}"
            )
        if not torch.isfinite(filled).all():
            raise ValueError(
                f"fill {self.name!r} returned NaN or infinity; every filled pixel must be finite"
            )
        return filled.to(images.dtype)


FILLS: dict[str, Fill] = {}


def register_fill(name: str, *, uses_mask: bool) -> Callable[[Substrate], Substrate]:
    """Register the decorated substrate function as fill ``name``.

    Args:
        name: Lower-case word used in tables.
        uses_mask: Whether the substrate depends on the mask.

    Raises:
        ValueError: The name is taken.
    """

    def decorate(function: Substrate) -> Substrate:
        if name in FILLS:
            raise ValueError(f"fill {name!r} is registered already, by {FILLS[name].function.__module__}")
        FILLS[name] = Fill(name, function, uses_mask)
        return function

    return decorate


def get_fill(name: str, **options: Any) -> Fill:
    """Fill called ``name`` with its options set.

    Raises:
        ValueError: No such fill or option; the message lists those there are.
    """
    if name not in FILLS:
        raise ValueError(f"unknown fill {name!r}; known: {', '.join(sorted(FILLS))}")
    fill = FILLS[name]
    parameters = inspect.signature(fill.function).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(
            f"fill {name!r} has no option {', '.join(unknown)}; its options: {', '.join(known) or 'none'}"
        )
    return Fill(name, fill.function, fill.uses_mask, dict(options))


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
        images.mean((2, 3), keepdim=True, dtype=_wide(images)).to(images.dtype).expand_as(images).contiguous()
    )


@register_fill("noise", uses_mask=False)
def noise(images: Tensor, keep_mask: Tensor, *, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Normal noise of mean 0 and standard deviation ``scale``, the same for an image in any batch."""
    return (scale * CounterGenerator.for_images(images, seed).normal(0, images)).to(images.dtype)


@register_fill("blur", uses_mask=False)
def blur(images: Tensor, keep_mask: Tensor, *, size: int = 11, sigma: float = 5.0) -> Tensor:
    """Blurred images: the zero-padded convolution with ``gaussian_kernel`` of Petsiuk et al. (2018).

    Raises:
        ValueError: The kernel's side is even or its width not positive.
    """
    line = gaussian_line(size, sigma).to(device=images.device, dtype=_wide(images))
    channels = images.shape[1]
    # The kernel is an outer product, so two one-dimensional passes do the work of size * size taps.
    across = line.view(1, 1, 1, -1).expand(channels, 1, 1, -1)
    down = line.view(1, 1, -1, 1).expand(channels, 1, -1, 1)
    blurred = F.conv2d(images.to(line.dtype), across, padding=(0, size // 2), groups=channels)
    return F.conv2d(blurred, down, padding=(size // 2, 0), groups=channels).to(images.dtype)


@register_fill("pushpull", uses_mask=True)
def pushpull(images: Tensor, keep_mask: Tensor) -> Tensor:
    """Holes filled smoothly from what surrounds them, by a pull-push pyramid (Gortler et al. 1996).

    Color and coverage are averaged over 2 x 2 blocks until one pixel is left; on the way back a pixel
    without coverage takes the bilinearly enlarged coarser level. With nothing kept, all is zero.
    """
    coverage = keep_mask.amin(1, keepdim=True).to(_wide(images))
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


def _wide(images: Tensor) -> torch.dtype:
    return torch.promote_types(images.dtype, torch.float32)


def _check_images(images: Tensor) -> Tensor:
    if images.ndim != 4 or not images.is_floating_point():
        raise ValueError(f"images must be (N, C, H, W) floating, got {tuple(images.shape)} {images.dtype}")
    return images


def _check_mask(images: Tensor, mask: Tensor) -> None:
    n, channels, height, width = images.shape
    allowed = ((n, 1, height, width), (n, channels, height, width))
    if tuple(mask.shape) not in allowed:
        raise ValueError(f"keep_mask has shape {tuple(mask.shape)}; allowed: {allowed[0]} or {allowed[1]}")
    if mask.dtype == torch.bool:
        return
    if not mask.is_floating_point() or not bool(((mask >= 0) & (mask <= 1)).all()):
        raise ValueError(f"keep_mask must be bool, or floating in [0, 1] without NaN; got {mask.dtype}")
