"""From a photograph to a square input, and its boxes with it.

The four bilinear modes and the box mapping are those of the deletion protocol (Agarwal & Nguyen 2020;
Petsiuk et al. 2018; Dabkowski & Gal 2017): resize with antialiasing, then crop the center. ``bicubic256`` is
the first preprocessing of the retraining benchmark (Hooker et al. 2019).
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from heatcheck.data.boxes import check_boxes

Pixels = npt.NDArray[np.uint8]


class Mode(NamedTuple):
    """How an image is resized before its center is cropped.

    ``squash`` gives up the aspect ratio; otherwise the shorter side is set. ``side`` is that length in pixels
    for a crop of 224, and grows in proportion for other crops. ``bicubic`` resizes bicubically, and rounds
    an offset of half a pixel up instead of to the even number.
    """

    squash: bool
    side: int
    bicubic: bool = False


MODES = {
    "squash256": Mode(squash=True, side=256),
    "short256": Mode(squash=False, side=256),
    "squash224": Mode(squash=True, side=224),
    "short224": Mode(squash=False, side=224),
    "bicubic256": Mode(squash=False, side=256, bicubic=True),
}


class Geometry(NamedTuple):
    """Where the pixels of a crop lie in its photograph.

    ``original`` and ``resized`` are ``(width, height)``; the crop is the square of side ``size`` whose corner
    is at column ``left`` and row ``top`` of the resized image.
    """

    original: tuple[int, int]
    resized: tuple[int, int]
    left: int
    top: int
    size: int


class MappedBoxes(NamedTuple):
    """Boxes ``(n, 4)`` float64 in pixels of the crop, and ``(n,)`` the fraction of each that is inside."""

    boxes: Tensor
    visible: Tensor


def get_mode(name: str) -> Mode:
    """Preprocessing called ``name``.

    Raises:
        ValueError: No such preprocessing; the message lists those there are.
    """
    if name not in MODES:
        raise ValueError(f"unknown preprocessing {name!r}; allowed: {', '.join(MODES)}")
    return MODES[name]


def crop_geometry(
    original: tuple[int, int], mode: str = "squash256", size: int = 224, *, resize: int | None = None
) -> Geometry:
    """Geometry of the crop of a photograph of ``original`` ``(width, height)``.

    Args:
        original: Width and height in pixels.
        mode: One of ``MODES``.
        size: Side of the crop.
        resize: Side to resize to instead of the mode's, at least ``size``.

    Raises:
        ValueError: Unknown mode, or sides that are not positive or too small for the crop.
    """
    rule = get_mode(mode)
    side = round(size * rule.side / 224) if resize is None else resize
    if size < 1 or side < size:
        raise ValueError(f"crop of {size} pixels from a side of {side}; the crop must be positive and fit")
    width, height = original
    # The long side is truncated, as torchvision's Resize does.
    long = int(side * max(original) / min(original))
    keeping = (side, long) if width <= height else (long, side)
    resized = (side, side) if rule.squash else keeping
    left, top = (_middle(length - size, up=rule.bicubic) for length in resized)
    return Geometry((width, height), resized, left, top, size)


def read_image(path: Path | str) -> Image.Image:
    """RGB photograph in ``path``, fully decoded; gray becomes three equal channels.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no image, is truncated, or is damaged.
    """
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"image {path} is missing") from error
    # Pillow's decoders raise all of these on damaged files.
    except (OSError, SyntaxError, ValueError, TypeError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(
            f"image {path} cannot be read ({error}); it must be a whole JPEG or PNG file"
        ) from error


def crop_pixels(
    source: Path | str | Image.Image, mode: str = "squash256", size: int = 224, *, resize: int | None = None
) -> Pixels:
    """Crop of a photograph, ``(size, size, 3)`` uint8 RGB; see ``crop_geometry`` for the arguments."""
    image = source.convert("RGB") if isinstance(source, Image.Image) else read_image(source)
    geometry = crop_geometry(image.size, mode, size, resize=resize)
    left, top = geometry.left, geometry.top
    kernel = Image.Resampling.BICUBIC if get_mode(mode).bicubic else Image.Resampling.BILINEAR
    resized = image.resize(geometry.resized, kernel)
    return np.asarray(resized.crop((left, top, left + size, top + size)))


def preprocess(
    source: Path | str | Image.Image, mode: str = "squash256", size: int = 224, *, resize: int | None = None
) -> Tensor:
    """Crop of a photograph, ``(3, size, size)`` float32 in [0, 1], not normalized.

    Args:
        source: An image file, or a Pillow image.
        mode: One of ``MODES``.
        size: Side of the crop in pixels.
        resize: Side to resize to instead of the mode's; meaningful perturbation takes 228 pixels from 256.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, the mode unknown or the sides do not fit.
    """
    return to_images(crop_pixels(source, mode, size, resize=resize))


def to_images(pixels: Pixels) -> Tensor:
    """Images ``(..., 3, H, W)`` float32 in [0, 1] from pixels ``(..., H, W, 3)`` uint8."""
    return torch.from_numpy(np.moveaxis(pixels, -1, -3).astype(np.float32) / np.float32(255))


def project_boxes(boxes: Tensor, geometry: Geometry) -> MappedBoxes:
    """All boxes in pixels of the crop, clipped to it, with the fraction that is inside; none is dropped.

    A corner ``X`` of the photograph lies at ``X * resized / original - left`` of the crop.

    Args:
        boxes: ``(n, 4)`` half-open ``[x0, y0, x1, y1)`` in pixels of the photograph, inside it.
        geometry: The crop.
    """
    corners = boxes.to(torch.float64).reshape(-1, 4)
    scale = torch.tensor(geometry.resized, dtype=torch.float64) / torch.tensor(
        geometry.original, dtype=torch.float64
    )
    offset = torch.tensor([geometry.left, geometry.top], dtype=torch.float64)
    moved = corners * scale.repeat(2) - offset.repeat(2)
    clipped = moved.clamp(0, geometry.size)
    return MappedBoxes(clipped, _areas(clipped) / _areas(moved))


def map_boxes(
    boxes: Tensor, geometry: Geometry, *, where: str = "image", overhang: float = 1.0
) -> MappedBoxes:
    """Boxes in pixels of the crop, clipped to it; those of which nothing is inside are dropped.

    Args:
        boxes: ``(n, 4)`` half-open ``[x0, y0, x1, y1)`` in pixels of the photograph.
        geometry: The crop.
        where: What the error message calls the photograph.
        overhang: How many pixels a box may stick out of the photograph; see ``check_boxes``.

    Raises:
        ValueError: A box is not finite, has reversed corners or lies outside the photograph.
    """
    inside = check_boxes(boxes, geometry.original, where=where, overhang=overhang)
    mapped = project_boxes(inside, geometry)
    kept = mapped.visible > 0
    return MappedBoxes(mapped.boxes[kept], mapped.visible[kept])


def _middle(rest: int, *, up: bool) -> int:
    # Python rounds halves to even, as torchvision's CenterCrop does.
    return (rest + 1) // 2 if up else round(rest / 2)


def _areas(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
