"""What hidden pixels are replaced by, in the space of the normalized images."""

from typing import Literal

from torch import Tensor

from heatcheck.attribution.passes import channel_values
from heatcheck.runtime.seeds import CounterGenerator

Fill = Literal["zero"] | float | tuple[float, ...]
_FIRST_SAMPLE = 1 << 41


def fill_tensor(fill: Fill, images: Tensor) -> Tensor:
    """Fill ``(1, C, 1, 1)``: ``zero`` (the mean colour of normalized images), a number, or one per channel.

    Raises:
        ValueError: The number of channel values does not fit the images.
    """
    return channel_values(0.0 if fill == "zero" else fill, images)


def uniform_fill(images: Tensor, seed: int) -> Tensor:
    """Fill ``(1, C, H, W)`` of independent numbers in [-1, 1), from the seed alone: one for all images."""
    noise = CounterGenerator(seed, (0,)).uniform(_FIRST_SAMPLE, images.new_empty(1, *images.shape[1:]))
    return (2 * noise - 1).to(images.dtype)
