"""Inpainters that the user brings: a TorchScript file such as LaMa or DeepFill, or any function.

Nothing is downloaded; the file is opened when the fill is first used.
"""

import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.removal.color import Channels, from_colors, is_normalized, round_to_bytes, to_colors
from heatcheck.removal.holes import find_holes
from heatcheck.removal.registry import Fill, register_fill
from heatcheck.runtime.memory import map_chunks

Inpainter = Callable[[Tensor, Tensor], Tensor]
# Results beyond [0, 1] by no more than a level of an 8-bit picture are rounding.
_SLACK = 1 / 255


class Adapter(NamedTuple):
    """How images are handed to an inpainter.

    Attributes:
        mean: Per-channel mean the images were normalized with; None: they are colors in [0, 1].
        std: Per-channel standard deviation the images were normalized with.
        size: Side of the squares the inpainter sees; None: it sees images at their own size.
        round_colors: Round what it gets and what it returns to 8 bits.
        batch_size: Most images per call.
    """

    mean: Channels = None
    std: Channels = None
    size: int | None = 256
    round_colors: bool = True
    batch_size: int = 16


def inpainter(source: Inpainter | str | Path, *, name: str, adapter: Adapter | None = None) -> Fill:
    """Removal operator that fills holes with a function or TorchScript file; its name stands in every table.

    Args:
        source: A function, or the path of a TorchScript file. It maps colors ``(n, C, h, w)`` float32 in
            [0, 1], zero in the holes, and holes ``(n, 1, h, w)`` float32 of 0 and 1 to colors
            ``(n, C, h, w)`` in [0, 1].
        name: Name of the inpainter.
        adapter: How images are handed over; by default as 256 x 256 pixels of 8 bits.
    """
    chosen = adapter or Adapter()

    def substrate(images: Tensor, keep_mask: Tensor) -> Tensor:
        if not isinstance(source, str | Path):
            return fill_with(source, images, keep_mask, name=name, adapter=chosen)
        function, label = _open(source, images.device), f"{name} ({source})"
        return fill_with(function, images, keep_mask, name=label, adapter=chosen)

    return Fill(name, substrate, uses_mask=True)


@register_fill("torchscript", uses_mask=True)
def torchscript(
    images: Tensor,
    keep_mask: Tensor,
    *,
    path: str | Path,
    mean: Channels = None,
    std: Channels = None,
    size: int | None = 256,
    round_colors: bool = True,
    batch_size: int = 16,
) -> Tensor:
    """Holes filled by the TorchScript inpainter in the file ``path``, ``(N, C, H, W)``.

    The other arguments are those of ``Adapter``; what the file must contain is told at ``inpainter``.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no TorchScript file, or as for ``fill_with``.
    """
    function = _open(path, images.device)
    adapter = Adapter(mean, std, size, round_colors, batch_size)
    return fill_with(function, images, keep_mask, name=str(path), adapter=adapter)


def fill_with(
    function: Inpainter, images: Tensor, keep_mask: Tensor, *, name: str, adapter: Adapter
) -> Tensor:
    """Images ``(N, C, H, W)`` with their holes filled by ``function``, as in Agarwal and Nguyen (2020).

    Images and mask are resized bilinearly; colors are rounded to 8 bits; the holes of the resized mask are
    zeroed and filled; known colors are pasted back; the result is rounded, normalized and resized again. So
    the known pixels that come back are resized twice: a fill puts the caller's own pixels over them.

    Args:
        function: As for ``inpainter``.
        images: ``(N, C, H, W)``.
        keep_mask: ``(N, 1, H, W)`` or ``(N, C, H, W)``.
        name: What to call the inpainter in messages.
        adapter: How images are handed over.

    Raises:
        ValueError: Images are not colors and no normalization is given, or the inpainter returns something
            of another shape, outside [0, 1], or not finite.
    """
    if not len(images):
        return images.detach().clone()

    def fill(part: slice) -> Tensor:
        with torch.no_grad():
            return _fill(function, images[part].detach(), keep_mask[part].detach(), name, adapter)

    parts = [result for _, result in map_chunks(fill, len(images), adapter.batch_size)]
    return torch.cat(parts).to(images.dtype)


def _fill(function: Inpainter, images: Tensor, keep_mask: Tensor, name: str, adapter: Adapter) -> Tensor:
    shape = tuple(images.shape[2:])
    size = shape if adapter.size is None else (adapter.size, adapter.size)
    colors = to_colors(_resize(images.float(), size), adapter.mean, adapter.std)
    _check_colors(colors, name, adapter)
    colors = round_to_bytes(colors) if adapter.round_colors else colors
    holes = find_holes(_resize(keep_mask.float().amin(1, keepdim=True), size))
    found = _checked(function(colors.masked_fill(holes, 0), holes.float()), colors, name)
    found = torch.where(holes, found, colors)
    found = round_to_bytes(found) if adapter.round_colors else found
    return _resize(from_colors(found, adapter.mean, adapter.std), shape)


def _checked(found: object, colors: Tensor, name: str) -> Tensor:
    """What the inpainter returned, with overshoot of rounding cut."""
    if not isinstance(found, Tensor) or found.shape != colors.shape:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(
            f"inpainter {name} returned {shape}; for images {tuple(colors.shape)} and holes "
            f"{(len(colors), 1, *colors.shape[2:])} it must return a tensor {tuple(colors.shape)}"
        )
    found = found.to(colors)
    if not torch.isfinite(found).all():
        raise ValueError(f"inpainter {name} returned NaN or infinity; every pixel must be finite")
    low, high = float(found.min()), float(found.max())
    if low < -_SLACK or high > 1 + _SLACK:
        raise ValueError(
            f"inpainter {name} returned values from {low:.4g} to {high:.4g}; they must be colors in [0, 1]: "
            "scale or clamp them in the function or before it is exported"
        )
    return found.clamp(0, 1)


def _check_colors(colors: Tensor, name: str, adapter: Adapter) -> None:
    if is_normalized(adapter.mean, adapter.std) or bool(((colors >= 0) & (colors <= 1)).all()):
        return
    raise ValueError(
        f"inpainter {name} needs colors in [0, 1], the images have values from {float(colors.min()):.4g} to "
        f"{float(colors.max()):.4g}; give mean=(...) and std=(...) of their normalization"
    )


def _resize(values: Tensor, size: tuple[int, ...]) -> Tensor:
    if values.shape[2:] == size:
        return values
    return F.interpolate(values, size=size, mode="bilinear", align_corners=False)


def _open(path: str | Path, device: torch.device) -> nn.Module:
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(f"there is no TorchScript inpainter at {file}; give the path of a file")
    return _load(file.resolve(), file.stat().st_mtime_ns, device)


@lru_cache(maxsize=2)
def _load(file: Path, changed: int, device: torch.device) -> nn.Module:
    """The inpainter in ``file`` as it was at time ``changed``."""
    try:
        with warnings.catch_warnings():
            # Published weights come as TorchScript, which newer versions of torch call deprecated.
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            loaded: nn.Module = torch.jit.load(str(file), map_location=device)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise ValueError(f"{file} is no TorchScript file that this torch can read: {error}") from error
    return loaded.eval()
