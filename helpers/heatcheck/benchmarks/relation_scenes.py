"""Rendered scenes on which the shipped Relation Network is trained, block by block in the cache folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from heatcheck.data.cache import Arrays, cached_arrays
from heatcheck.data.raycaster import render
from heatcheck.data.rendered import SPLITS, Split
from heatcheck.data.scene_graph import scene_graph
from heatcheck.data.scenes import ATTRIBUTES, Scene, sample_scene
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.progress import progress

BLOCK = 1000  # scenes per file


@dataclass(frozen=True)
class TrainingScenes:
    """Scenes of three to ten objects with their images.

    Attributes:
        seed: Names the series of scenes.
        first: Number of the first scene in its series; the others follow.
        images: ``(N, S, S, 3)`` uint8, sRGB.
        owners: ``(N, S, S)`` int8, the object each pixel's centre shows, -1 for none.
        kinds: For each scene ``(objects, 4)`` int8 numbers of the values of shape, size, material, color.
    """

    seed: int
    first: int
    images: NDArray[np.uint8]
    owners: NDArray[np.int8]
    kinds: tuple[NDArray[np.int8], ...]

    def __len__(self) -> int:
        return len(self.images)

    def scene(self, row: int) -> Scene:
        """The scene behind image ``row``, sampled anew."""
        return sample_scene(self.seed, self.first + row)

    def graph(self, row: int) -> dict[str, Any]:
        """The scene behind image ``row`` in CLEVR's JSON format."""
        return scene_graph(self.scene(row))


def training_scenes(
    split: Split, n: int, *, size: int = 128, seed: int = 0, workers: int = 1, block: int = BLOCK
) -> TrainingScenes:
    """The first ``n`` scenes of a split, rendered when first asked for and then kept in the cache folder.

    Args:
        split: ``train``, ``heldout`` or ``test``; no scene is in two of them.
        n: Number of scenes.
        size: Side of the square images in pixels.
        seed: Names the series of scenes.
        workers: Processes that render.
        block: Scenes per file.

    Raises:
        ValueError: ``n`` is not positive.
        CacheError: The cache folder cannot be used.
    """
    if n < 1:
        raise ValueError(f"need at least one scene, got n={n}")
    first = SPLITS[split]
    starts = range(first, first + n, block)
    calls = [(seed, start, min(block, first + n - start), size) for start in starts]
    if workers > 1:
        pool = joblib.Parallel(n_jobs=workers, return_as="generator")
        made = pool(joblib.delayed(_block)(*call) for call in calls)
    else:
        made = (_block(*call) for call in calls)
    blocks = list(progress(made, label=f"render {n} {split} scenes", total=len(calls)))
    return _joined(seed, first, blocks)


def _block(seed: int, start: int, count: int, size: int) -> Arrays:
    key = {
        "seed": seed,
        "start": start,
        "count": count,
        "size": size,
        "shader": shader_hash(default_shader()),
        "code": code_fingerprint("heatcheck.data.rendered"),
    }
    return cached_arrays("clevr-scenes", key, lambda: _make_block(seed, start, count, size))


def _make_block(seed: int, start: int, count: int, size: int) -> Arrays:
    scenes = [sample_scene(seed, index) for index in range(start, start + count)]
    drawn = [render(scene, size) for scene in scenes]
    kinds = [_kinds(scene) for scene in scenes]
    return {
        "images": np.stack([item.image for item in drawn]),
        "owners": np.stack([item.owner for item in drawn]),
        "kinds": np.concatenate(kinds),
        "counts": np.array([len(rows) for rows in kinds], dtype=np.int64),
    }


def _kinds(scene: Scene) -> NDArray[np.int8]:
    rows = [
        [values.index(getattr(item, name)) for name, values in ATTRIBUTES.items()] for item in scene.objects
    ]
    return np.array(rows, dtype=np.int8)


def _joined(seed: int, first: int, blocks: Sequence[Arrays]) -> TrainingScenes:
    kinds: list[NDArray[np.int8]] = []
    for block in blocks:
        kinds += np.split(block["kinds"], np.cumsum(block["counts"])[:-1])
    return TrainingScenes(
        seed,
        first,
        np.concatenate([block["images"] for block in blocks]),
        np.concatenate([block["owners"] for block in blocks]),
        tuple(kinds),
    )
