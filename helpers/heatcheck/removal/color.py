"""Between the classifier's normalized space and colors in [0, 1]."""

import torch
from torch import Tensor

Channels = tuple[float, ...] | None


def channel_values(value: float | tuple[float, ...], images: Tensor) -> Tensor:
    """``value`` as a tensor ``(1, C, 1, 1)`` like ``images``: one number, or one per channel.

    Raises:
        ValueError: The number of values is neither 1 nor ``C``.
    """
    channels = images.shape[1]
    values = (value,) * channels if isinstance(value, int | float) else value
    if len(values) != channels:
        raise ValueError(
            f"{len(values)} channel values given, the images have {channels} channels; give 1 or {channels}"
        )
    return images.new_tensor(values).view(1, channels, 1, 1)


def is_normalized(mean: Channels, std: Channels) -> bool:
    """Whether a normalization is given: both its mean and its standard deviation, or neither.

    Raises:
        ValueError: Only one of them is given.
    """
    if (mean is None) != (std is None):
        raise ValueError("mean and std of the normalization belong together: give both or none")
    return mean is not None


def to_colors(images: Tensor, mean: Channels, std: Channels) -> Tensor:
    """Normalized images as colors, those outside [0, 1] cut; without a normalization they are colors already.

    Raises:
        ValueError: Only one of ``mean`` and ``std`` is given, or they do not fit the channels.
    """
    if not is_normalized(mean, std) or mean is None or std is None:
        return images
    return (images * channel_values(std, images) + channel_values(mean, images)).clamp(0, 1)


def from_colors(colors: Tensor, mean: Channels, std: Channels) -> Tensor:
    """Colors normalized again; without a normalization they stay as they are.

    Raises:
        ValueError: As for ``to_colors``.
    """
    if not is_normalized(mean, std) or mean is None or std is None:
        return colors
    return (colors - channel_values(mean, colors)) / channel_values(std, colors)


def round_to_bytes(colors: Tensor) -> Tensor:
    """Colors in [0, 1] as an 8-bit picture would hold them."""
    return (colors * 255).round() / 255


def wide(images: Tensor) -> torch.dtype:
    """The images' type, or float32 if that is wider."""
    return torch.promote_types(images.dtype, torch.float32)
