"""Rendered single objects to retrain on."""

from pathlib import Path

import numpy as np
import pytest
import torch

from heatcheck.data import color_material
from heatcheck.data.color_material import (
    LABELS,
    SingleObject,
    class_names,
    single_object_scene,
    single_objects,
)
from heatcheck.data.geometry import camera_frame, visible
from heatcheck.data.parts import Part
from heatcheck.data.rendered import SPLITS
from heatcheck.data.scenes import COLORS, MATERIALS, bodies


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEATCHECK_CACHE", str(folder))


def same(one: Part, other: Part) -> bool:
    assert one.masks is not None
    assert other.masks is not None
    return (
        one.ids == other.ids
        and np.array_equal(one.images, other.images)
        and torch.equal(one.targets, other.targets)
        and torch.equal(one.masks, other.masks)
    )


def test_classes_are_all_pairs_of_color_and_material() -> None:
    assert class_names("color-material") == tuple(f"{c} {m}" for c in COLORS for m in MATERIALS)
    assert len(class_names("shape-material-size")) == 12


@pytest.mark.parametrize("labels", LABELS)
def test_class_and_mask_are_those_of_the_only_object(labels: SingleObject) -> None:
    data = single_objects("test", 8, size=16, labels=labels)
    assert data.masks is not None
    for row in range(len(data)):
        scene = single_object_scene("test", row, labels=labels)
        (item,) = scene.objects
        name = class_names(labels)[int(data.targets[row])]
        assert name == " ".join(getattr(item, attribute) for attribute in LABELS[labels])
        owner, _ = visible(camera_frame(scene.camera), bodies(scene.objects), 16, 16)
        np.testing.assert_array_equal(data.masks[row].numpy(), owner == 0)


def test_shapes_and_types_are_those_of_a_part() -> None:
    data = single_objects("train", 5, size=16)
    assert data.images.shape == (5, 16, 16, 3)
    assert data.images.dtype == np.uint8
    assert data.targets.dtype == torch.int64
    assert data.masks is not None
    assert data.masks.shape == (5, 16, 16)
    assert data.masks.dtype == torch.bool
    assert data.ids[3] == "color-material/0/train/000003"


def test_every_class_is_equally_frequent() -> None:
    scenes = [single_object_scene("train", row) for row in range(32)]
    pairs = [(scene.objects[0].color, scene.objects[0].material) for scene in scenes]
    assert {pairs.count(pair) for pair in pairs} == {2}


def test_what_is_no_part_of_the_class_varies() -> None:
    scenes = [single_object_scene("train", 16 * row) for row in range(30)]
    assert {scene.objects[0].shape for scene in scenes} == {"cube", "sphere", "cylinder"}
    assert {scene.objects[0].size for scene in scenes} == {"large", "small"}
    assert len({scene.objects[0].x for scene in scenes}) == 30


def test_objects_cover_enough_to_be_told_apart_and_too_little_to_be_all_there_is() -> None:
    scenes = [single_object_scene("test", row) for row in range(60)]
    sizes = [(visible(camera_frame(s.camera), bodies(s.objects), 32, 32)[0] == 0).mean() for s in scenes]
    assert min(sizes) >= 0.008
    assert 0.02 < float(np.median(sizes)) < 0.1
    assert max(sizes) <= 0.4


def test_splits_seeds_and_labels_share_no_image() -> None:
    sets = [
        single_objects(split, 3, size=16, seed=seed, labels=labels)
        for split in SPLITS
        for seed in (0, 1)
        for labels in LABELS
    ]
    assert len({image.tobytes() for data in sets for image in data.images}) == 3 * len(sets)
    assert len({name for data in sets for name in data.ids}) == 3 * len(sets)


def test_a_larger_set_begins_with_the_smaller_and_comes_from_disk_the_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    larger, smaller = single_objects("train", 6, size=16), single_objects("train", 4, size=16)
    assert same(larger.take(range(4)), smaller)

    def refuse(*_: object) -> None:
        raise AssertionError("rendered again")

    monkeypatch.setattr(color_material, "_make", refuse)
    assert same(single_objects("train", 6, size=16), larger)


@pytest.mark.parametrize(
    ("split", "n", "size", "labels", "message"),
    [
        ("validation", 3, 16, "color-material", "train, heldout, test"),
        ("test", 0, 16, "color-material", "n=0"),
        ("test", 1_000_001, 16, "color-material", "n=1000001"),
        ("test", 3, 0, "color-material", "size=0"),
        ("test", 3, 16, "color", "color-material, shape-material-size"),
    ],
)
def test_impossible_wishes_are_refused_by_name(
    split: str, n: int, size: int, labels: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        single_objects(split, n, size=size, labels=labels)  # type: ignore[arg-type]
