"""Rendered data sets: scenes with known answers, exact masks and exact boxes."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.data.batch import LabelledImages
from heatcheck.data.cache import Arrays, cached_arrays
from heatcheck.data.raycaster import render
from heatcheck.data.scenes import COLORS, Scene, sample_scene
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.progress import progress

Split = Literal["train", "heldout", "test"]
# First scene of each split; scenes of different splits are never the same.
SPLITS: dict[Split, int] = {"train": 0, "heldout": 1_000_000, "test": 2_000_000}
_SPLIT_SIZE = 1_000_000
# Twice CLEVR's bound, so that the target is at least a few pixels large at 64 x 64.
_MIN_PIXELS = 400


def metal_color(split: Split, n: int, *, size: int = 64, seed: int = 0) -> LabelledImages:
    """``n`` images whose class is the color of the only metal object among three to five objects.

    The other objects are of rubber in any color, so color alone decides nothing. The mask of an image is
    the target's visible pixels, its box the smallest around them. Rendered when first asked for and then
    kept in the cache folder; a larger ``n`` begins with the images of a smaller one.

    Args:
        split: ``train``, ``heldout`` or ``test``; no scene is in two of them.
        n: Number of images, 1 to a million.
        size: Side of the square images in pixels.
        seed: Names the series of scenes; the shipped weights were trained on ``train`` of seed 0.

    Raises:
        ValueError: The split is unknown, or ``n`` or ``size`` is out of range.
        CacheError: The cache folder cannot be used.
    """
    key = scene_key(split, n, size, seed)
    arrays = cached_arrays("metal-color", key, lambda: _make_metal_color(split, n, size, seed))
    ids = tuple(f"metal-color/{seed}/{split}/{row:06d}" for row in range(n))
    masks = torch.from_numpy(arrays["masks"])
    images = torch.from_numpy(arrays["images"]).permute(0, 3, 1, 2).contiguous().float() / 255
    boxes = tuple(tight_box(mask) for mask in masks)
    return LabelledImages("metal-color", ids, images, torch.from_numpy(arrays["targets"]), masks, boxes)


def scene_key(split: Split, n: int, size: int, seed: int) -> dict[str, Any]:
    """What decides ``n`` rendered images but for what is in them; part of the key under which they are kept.

    Raises:
        ValueError: The split is unknown, or ``n`` or ``size`` is out of range.
    """
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is unknown; allowed: {', '.join(SPLITS)}")
    if not 1 <= n <= _SPLIT_SIZE or size < 1:
        raise ValueError(f"need 1 <= n <= {_SPLIT_SIZE} images of at least 1 pixel, got n={n}, size={size}")
    return {
        "split": split,
        "n": n,
        "size": size,
        "seed": seed,
        "shader": shader_hash(default_shader()),
        "code": code_fingerprint(__name__),
    }


def metal_scene(split: Split, row: int, *, seed: int = 0) -> Scene:
    """The scene behind image ``row`` of ``metal_color``."""
    return sample_scene(
        seed,
        SPLITS[split] + row,
        n_objects=(3, 5),
        one={"material": ("metal",)},
        others={"material": ("rubber",)},
        min_pixels=_MIN_PIXELS,
    )


def render_all(
    scenes: Sequence[Scene], size: int, *, label: str
) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Images ``(N, size, size, 3)`` and owners ``(N, size, size)`` of ``scenes``; see ``render``."""
    images = np.empty((len(scenes), size, size, 3), dtype=np.uint8)
    owners = np.empty((len(scenes), size, size), dtype=np.int8)
    for row in progress(range(len(scenes)), label=label):
        images[row], owners[row] = render(scenes[row], size)
    return images, owners


def tight_box(mask: Tensor) -> Tensor:
    """Smallest box around the true pixels of ``mask`` ``(H, W)``: ``(1, 4)`` half-open ``x0, y0, x1, y1``.

    An empty mask has no box, ``(0, 4)``.
    """
    rows, columns = mask.any(dim=1).nonzero().flatten(), mask.any(dim=0).nonzero().flatten()
    if not len(rows):
        return torch.zeros((0, 4), dtype=torch.float64)
    corners = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    return torch.tensor([[float(corner) for corner in corners]], dtype=torch.float64)


def _make_metal_color(split: Split, n: int, size: int, seed: int) -> Arrays:
    scenes = [metal_scene(split, row, seed=seed) for row in range(n)]
    images, owners = render_all(scenes, size, label=f"render {n} {split} scenes")
    metal = [
        next(place for place, item in enumerate(scene.objects) if item.material == "metal")
        for scene in scenes
    ]
    colors = [COLORS.index(scene.objects[place].color) for scene, place in zip(scenes, metal, strict=True)]
    return {
        "images": images,
        "masks": owners == np.array(metal, dtype=np.int8)[:, None, None],
        "targets": np.array(colors, dtype=np.int64),
    }
