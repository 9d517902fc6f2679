"""Controls: maps that know nothing of the model, which every method should beat."""

import math
from typing import Annotated, Literal

import pydantic
import torch
from torch import Tensor, nn

from heatcheck.attribution.passes import Count, Positive, wide
from heatcheck.attribution.registry import register
from heatcheck.runtime.seeds import CounterGenerator

# Rec. 601 luma, for images of three channels.
_LUMA = (0.299, 0.587, 0.114)
_DERIVE = (-1.0, 0.0, 1.0)
_SMOOTH = (1.0, 2.0, 1.0)


@register("random", family="control")
def random(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    per_channel: bool = False,
    draw: Annotated[int, pydantic.Field(ge=0)] = 0,
) -> Tensor:
    """Independent uniform numbers in [0, 1), ``(N, 1, H, W)``; with ``per_channel`` ``(N, C, H, W)``.

    Each ``draw`` has numbers of its own, for a control that changes whenever its images are read.
    """
    generator = generator or CounterGenerator.for_images(images)
    return generator.uniform(draw, images if per_channel else images[:, :1])


@register("random-blocks", family="control")
def random_blocks(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    cell: Count = 16,
) -> Tensor:
    """Independent uniform numbers in [0, 1) for blocks of ``cell x cell`` pixels, ``(N, 1, H, W)``."""
    generator = generator or CounterGenerator.for_images(images)
    height, width = images.shape[-2:]
    coarse = images.new_empty(len(images), 1, math.ceil(height / cell), math.ceil(width / cell))
    blocks = generator.uniform(0, coarse).repeat_interleave(cell, dim=2).repeat_interleave(cell, dim=3)
    return blocks[:, :, :height, :width].contiguous()


@register(
    "sobel",
    family="control",
    cites="sobel1968isotropic",
    variants={"sobel-release": {"channels": "release"}},
    variant_cites={"sobel-release": "hooker2019benchmark"},
)
def sobel(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    channels: Literal["luma", "each", "release"] = "luma",
) -> Tensor:
    """Strength of the image's edges, ``sqrt(gx**2 + gy**2)`` of Sobel filters with mirrored borders.

    Args:
        model: Not used.
        images: ``(N, C, H, W)``.
        targets: Not used.
        forward_args: Not used.
        generator: Not used.
        channels: ``luma`` filters the grey image, ``(N, 1, H, W)``; ``each`` every channel,
            ``(N, C, H, W)``; ``release`` is the signed vertical derivative smoothed along the width and
            across the channels, as the code released with ROAR has it.
    """
    pictures = wide(images)
    if channels == "release":
        return _filter(_filter(_filter(pictures, _DERIVE, 2), _SMOOTH, 3), _SMOOTH, 1)
    if channels == "luma":
        pictures = _gray(pictures)
    vertical = _filter(_filter(pictures, _DERIVE, 2), _SMOOTH, 3)
    horizontal = _filter(_filter(pictures, _DERIVE, 3), _SMOOTH, 2)
    return torch.hypot(vertical, horizontal)


@register("centre", family="control")
def centre(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    sigma: Positive = 56 / 224,
) -> Tensor:
    """Gaussian around the middle of the image, ``(N, 1, H, W)``; ``sigma`` is a share of each side."""
    profiles = []
    for side in images.shape[-2:]:
        positions = torch.arange(side, dtype=torch.float64) + 0.5 - side / 2
        profiles.append(torch.exp(-0.5 * (positions / (sigma * side)).square()))
    bump = (profiles[0][:, None] * profiles[1]).to(images.device, wide(images).dtype)
    return bump.expand(len(images), 1, -1, -1).contiguous()


@register("centre-box", family="control")
def centre_box(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    margin: Annotated[float, pydantic.Field(ge=0, lt=0.5)] = 33 / 224,
) -> Tensor:
    """1 in a box around the middle, 0 outside, ``(N, 1, H, W)``; ``margin`` is a share of each side."""
    inside = []
    for side in images.shape[-2:]:
        places = torch.arange(side)
        edge = round(margin * side)
        inside.append((places >= edge) & (places < side - edge))
    box = (inside[0][:, None] & inside[1]).to(images.device, wide(images).dtype)
    return box.expand(len(images), 1, -1, -1).contiguous()


@register("constant", family="control")
def constant(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
) -> Tensor:
    """The same value 1 everywhere, ``(N, 1, H, W)``: what a metric makes of no information."""
    return torch.ones_like(wide(images[:, :1]))


def _gray(images: Tensor) -> Tensor:
    """Luma of three channels, else the mean of all, ``(N, 1, H, W)``."""
    if images.shape[1] == len(_LUMA):
        return (images * images.new_tensor(_LUMA).view(1, -1, 1, 1)).sum(dim=1, keepdim=True)
    return images.mean(dim=1, keepdim=True)


def _filter(images: Tensor, taps: tuple[float, float, float], axis: int) -> Tensor:
    """Correlation with three taps along one axis; the border pixel is its own neighbour."""
    last = images.shape[axis] - 1
    before = torch.arange(-1, last, device=images.device).clamp(min=0)
    after = torch.arange(1, last + 2, device=images.device).clamp(max=last)
    return (
        taps[0] * images.index_select(axis, before)
        + taps[1] * images
        + taps[2] * images.index_select(axis, after)
    )
