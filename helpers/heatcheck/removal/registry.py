"""What a removal operator is, and all of them by name."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

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

    @property
    def missing(self) -> tuple[str, ...]:
        """Options that the operator cannot do without and that have no value yet; mostly there are none."""
        needed = (name for name, default in _options(self).items() if default is inspect.Parameter.empty)
        return tuple(name for name in needed if name not in self.options)

    def substrate(self, images: Tensor, keep_mask: Tensor | None = None) -> Tensor:
        """What stands where pixels are removed, ``(N, C, H, W)``; without a mask, everything is removed.

        Raises:
            ValueError: As for a call, or an option is missing.
        """
        if self.missing:
            raise ValueError(f"fill {self.name!r} needs {', '.join(f'{name}=...' for name in self.missing)}")
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
        add_fill(Fill(name, function, uses_mask))
        return function

    return decorate


def add_fill(fill: Fill) -> None:
    """Register a fill that is ready, such as one of ``inpainter``, under its own name.

    Raises:
        ValueError: The name is taken.
    """
    if fill.name in FILLS:
        raise ValueError(
            f"fill {fill.name!r} is registered already, by {FILLS[fill.name].function.__module__}"
        )
    FILLS[fill.name] = fill


def get_fill(name: str, **options: Any) -> Fill:
    """Fill called ``name`` with its options set.

    Raises:
        ValueError: No such fill or option; the message lists those there are.
    """
    if name not in FILLS:
        raise ValueError(f"unknown fill {name!r}; known: {', '.join(sorted(FILLS))}")
    fill = FILLS[name]
    known = _options(fill)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(
            f"fill {name!r} has no option {', '.join(unknown)}; its options: {', '.join(known) or 'none'}"
        )
    return Fill(name, fill.function, fill.uses_mask, {**fill.options, **options})


def _options(fill: Fill) -> dict[str, Any]:
    """Options of the fill's function with their defaults."""
    parameters = inspect.signature(fill.function).parameters.values()
    return {item.name: item.default for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY}


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
