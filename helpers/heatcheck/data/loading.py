"""Decoding of image files in worker threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from heatcheck.data.batch import LabelledImages
from heatcheck.data.preprocessing import Pixels, crop_geometry, crop_pixels, map_boxes, read_image, to_images

Item = TypeVar("Item")
Result = TypeVar("Result")
IMAGE_SUFFIXES = (".jpeg", ".jpg", ".png")


class Source(NamedTuple):
    """One photograph on disk: its name, file, class index, and boxes ``(n, 4)`` in its pixels where known."""

    id: str
    path: Path
    target: int
    boxes: Tensor | None = None


def map_threads(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None
) -> list[Result]:
    """``function`` of every item, in order, computed by ``workers`` threads (one per core, at most 8).

    Decoding and resizing release the interpreter's lock, so threads are enough.
    """
    count = workers or min(8, os.cpu_count() or 1)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, items))


def load_images(
    name: str,
    sources: Sequence[Source],
    *,
    mode: str = "squash256",
    size: int = 224,
    overhang: float = 1.0,
    workers: int | None = None,
) -> LabelledImages:
    """Photographs cropped to ``size`` pixels, with their boxes mapped to the crop.

    Args:
        name: Name of the data set.
        sources: The photographs; boxes are known for all of them or for none.
        mode: Preprocessing, see ``heatcheck.data.preprocessing.MODES``.
        size: Side of the crop.
        overhang: How many pixels a box may stick out of its photograph.
        workers: Threads that decode; the result does not depend on it.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged or a box is bad; the message names the file.
    """

    def load(source: Source) -> tuple[Pixels, Tensor | None]:
        image = read_image(source.path)
        pixels = crop_pixels(image, mode, size)
        if source.boxes is None:
            return pixels, None
        geometry = crop_geometry(image.size, mode, size)
        return pixels, map_boxes(source.boxes, geometry, where=str(source.path), overhang=overhang).boxes

    loaded = map_threads(load, sources, workers)
    stacked = np.stack([pixels for pixels, _ in loaded]) if loaded else np.zeros((0, size, size, 3), np.uint8)
    boxes = [mapped for _, mapped in loaded if mapped is not None]
    return LabelledImages(
        name,
        tuple(source.id for source in sources),
        to_images(stacked),
        torch.tensor([source.target for source in sources], dtype=torch.int64),
        boxes=tuple(boxes) if loaded and len(boxes) == len(loaded) else None,
    )


def best_visible(source: Source, mode: str, size: int, *, overhang: float = 1.0) -> float:
    """Largest fraction of a box of ``source`` that the crop keeps; 0 without boxes. Reads the header only."""
    if source.boxes is None or not len(source.boxes):
        return 0.0
    geometry = crop_geometry(image_size(source.path), mode, size)
    visible = map_boxes(source.boxes, geometry, where=str(source.path), overhang=overhang).visible
    return float(visible.max()) if len(visible) else 0.0


def image_size(path: Path | str) -> tuple[int, int]:
    """Width and height of the photograph in ``path``, from its header.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no image.
    """
    try:
        with Image.open(path) as image:
            return image.size
    except FileNotFoundError as error:
        raise FileNotFoundError(f"image {path} is missing") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(
            f"image {path} cannot be read ({error}); it must be a whole JPEG or PNG file"
        ) from error


def list_images(folder: Path) -> list[Path]:
    """JPEG and PNG files directly in ``folder``, sorted by name; hidden files do not count."""
    files = (path for path in folder.iterdir() if not path.name.startswith("."))
    return sorted(path for path in files if path.suffix.lower() in IMAGE_SUFFIXES)
