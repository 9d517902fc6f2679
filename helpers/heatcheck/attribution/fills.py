"""What hidden pixels are replaced by, in the space of the normalized images."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic
from torch import Tensor

from heatcheck.attribution.passes import channel_values
from heatcheck.removal.fills import Fill as Removal
from heatcheck.removal.fills import get_fill
from heatcheck.runtime.seeds import CounterGenerator


def _known_removal(name: str) -> str:
    get_fill(name)
    return name


RemovalName = Annotated[str, pydantic.AfterValidator(_known_removal)]
Constant = Literal["zero"] | float | tuple[float, ...]
Fill = Constant | RemovalName
Behind = Tensor | Removal
_FIRST_SAMPLE = 1 << 41


def fill_tensor(fill: Constant, images: Tensor) -> Tensor:
    """Fill ``(1, C, 1, 1)``: ``zero`` (the mean colour of normalized images), a number, or one per channel.

    Raises:
        ValueError: The number of channel values does not fit the images.
    """
    return channel_values(0.0 if fill == "zero" else fill, images)


def behind(fill: Fill, fill_options: Mapping[str, Any] | None, images: Tensor) -> Behind:
    """What stands where pixels of ``images`` ``(N, C, H, W)`` are hidden.

    A tensor ``(N, C, H, W)``, or broadcast to it, where it is the same for every mask; else the removal
    operator itself, to be called with each mask.

    Args:
        fill: A constant, or the name of a removal operator.
        fill_options: Options of the removal operator.
        images: The whole images.

    Raises:
        ValueError: A constant does not fit the images, has options, or the operator has no such option.
    """
    if isinstance(fill, str) and (fill != "zero" or fill_options):
        removal = get_fill(fill, **(fill_options or {}))
        if removal.missing:
            raise ValueError(
                f"fill {fill!r} needs fill_options with {', '.join(removal.missing)}; see heatcheck.removal"
            )
        return removal if removal.uses_mask else removal.substrate(images)
    if fill_options:
        raise ValueError(f"fill_options belong to a removal operator; the fill is {fill!r}, which has none")
    return fill_tensor("zero" if isinstance(fill, str) else fill, images)


def uniform_fill(images: Tensor, seed: int) -> Tensor:
    """Fill ``(1, C, H, W)`` of independent numbers in [-1, 1), from the seed alone: one for all images."""
    noise = CounterGenerator(seed, (0,)).uniform(_FIRST_SAMPLE, images.new_empty(1, *images.shape[1:]))
    return (2 * noise - 1).to(images.dtype)
