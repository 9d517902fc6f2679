"""Rendered scenes of one object, for retraining: the class is what the object is made of and looks like."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np
import torch

from heatcheck.data.cache import Arrays, cached_arrays
from heatcheck.data.parts import Part
from heatcheck.data.rendered import SPLITS, Split, render_all, scene_key
from heatcheck.data.scenes import ATTRIBUTES, Scene, sample_scene
from heatcheck.runtime.fingerprint import code_fingerprint

SingleObject = Literal["color-material", "shape-material-size"]
# The attributes that make the class. A shape can be read off the outline of removed pixels; color and
# material cannot, which is why they are the default.
LABELS: Mapping[SingleObject, tuple[str, ...]] = {
    "color-material": ("color", "material"),
    "shape-material-size": ("shape", "material", "size"),
}
# CLEVR's camera shows one object too small for 32 x 32 pixels. From this share of its distance, and with
# the object at this share of its distance from the middle, it covers 1 to 30 % of the image, mostly 2 to 10.
_CAMERA, _PLACE = 0.6, 0.5
_MIN_PIXELS = 600  # of the object before that, at 480 x 320


def class_names(labels: SingleObject) -> tuple[str, ...]:
    """Names of the classes, such as ``red metal``, in the order of a classifier's outputs."""
    return tuple(" ".join(values) for values in _classes(labels))


def single_objects(
    split: Split, n: int, *, size: int = 32, seed: int = 0, labels: SingleObject = "color-material"
) -> Part:
    """``n`` images of one object each, with exact masks; every class equally often, in turn.

    What is not part of the class is random, as are place, camera and lamps. Rendered when first asked for
    and then kept in the cache folder; a larger ``n`` begins with the images of a smaller one.

    Args:
        split: ``train``, ``heldout`` or ``test``; no scene is in two of them.
        n: Number of images, 1 to a million.
        size: Side of the square images in pixels.
        seed: Names the series of scenes.
        labels: ``color-material`` has 16 classes, ``shape-material-size`` 12.

    Raises:
        ValueError: The split or the labels are unknown, or ``n`` or ``size`` is out of range.
        CacheError: The cache folder cannot be used.
    """
    if labels not in LABELS:
        raise ValueError(f"labels {labels!r} are unknown; allowed: {', '.join(LABELS)}")
    key = {**scene_key(split, n, size, seed), "made_by": code_fingerprint(__name__)}
    arrays = cached_arrays(labels, key, lambda: _make(split, n, size, seed, labels))
    ids = tuple(f"{labels}/{seed}/{split}/{row:06d}" for row in range(n))
    targets = torch.arange(n, dtype=torch.int64) % len(_classes(labels))
    return Part(ids, arrays["images"], targets, torch.from_numpy(arrays["masks"]))


def single_object_scene(
    split: Split, row: int, *, seed: int = 0, labels: SingleObject = "color-material"
) -> Scene:
    """The scene behind image ``row`` of ``single_objects``; its class is ``row`` modulo their number.

    It is a scene under CLEVR's rules with the object moved to the middle and the camera to the object.
    """
    classes = _classes(labels)
    fixed = zip(LABELS[labels], classes[row % len(classes)], strict=True)
    scene = sample_scene(
        seed,
        SPLITS[split] + row,
        n_objects=(1, 1),
        one={name: (value,) for name, value in fixed},
        min_pixels=_MIN_PIXELS,
    )
    (item,) = scene.objects
    x, y, z = scene.camera
    return replace(
        scene,
        objects=(replace(item, x=_PLACE * item.x, y=_PLACE * item.y),),
        camera=(_CAMERA * x, _CAMERA * y, _CAMERA * z),
    )


def _classes(labels: SingleObject) -> list[tuple[str, ...]]:
    return list(product(*(ATTRIBUTES[name] for name in LABELS[labels])))


def _make(split: Split, n: int, size: int, seed: int, labels: SingleObject) -> Arrays:
    scenes = [single_object_scene(split, row, seed=seed, labels=labels) for row in range(n)]
    images, owners = render_all(scenes, size, label=f"render {n} {split} scenes")
    return {"images": images, "masks": np.equal(owners, 0)}
