from pathlib import Path

import numpy as np
import pytest
import torch

from heatcheck.data import cache, rendered
from heatcheck.data.batch import LabelledImages
from heatcheck.data.geometry import camera_frame, visible
from heatcheck.data.rendered import SPLITS, Split, metal_color, metal_scene, render_all, tight_box
from heatcheck.data.scenes import COLORS, Scene, bodies
from heatcheck.data.shader import default_shader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEATCHECK_CACHE", str(folder))


def same(one: LabelledImages, other: LabelledImages) -> bool:
    assert one.masks is not None
    assert other.masks is not None
    return (
        one.ids == other.ids
        and torch.equal(one.images, other.images)
        and torch.equal(one.targets, other.targets)
        and torch.equal(one.masks, other.masks)
    )


@pytest.mark.parametrize("split", SPLITS)
def test_class_and_mask_belong_to_the_only_metal_object(split: Split) -> None:
    data = metal_color(split, 8, size=32)
    assert data.masks is not None
    for row in range(len(data)):
        scene = metal_scene(split, row)
        metal = [place for place, item in enumerate(scene.objects) if item.material == "metal"]
        assert len(metal) == 1
        assert 3 <= len(scene.objects) <= 5
        assert COLORS[int(data.targets[row])] == scene.objects[metal[0]].color
        owner, _ = visible(camera_frame(scene.camera), bodies(scene.objects), 32, 32)
        np.testing.assert_array_equal(data.masks[row].numpy(), owner == metal[0])


def test_shapes_types_and_ranges_are_those_of_a_batch() -> None:
    data = metal_color("test", 8, size=32)
    assert data.name == "metal-color"
    assert data.ids[3] == "metal-color/0/test/000003"
    assert data.images.shape == (8, 3, 32, 32)
    assert data.images.dtype == torch.float32
    assert 0 <= data.images.min() < data.images.max() <= 1
    assert data.targets.dtype == torch.int64
    assert data.masks is not None
    assert data.masks.dtype == torch.bool
    assert data.boxes is not None
    assert all(box.shape == (1, 4) and box.dtype == torch.float64 for box in data.boxes)


def test_boxes_are_the_smallest_around_their_masks() -> None:
    data = metal_color("test", 8, size=32)
    assert data.masks is not None
    assert data.boxes is not None
    for mask, box in zip(data.masks, data.boxes, strict=True):
        x0, y0, x1, y1 = (int(corner) for corner in box[0])
        inside = mask[y0:y1, x0:x1]
        assert inside.sum() == mask.sum() > 0
        assert inside[0].any()
        assert inside[-1].any()
        assert inside[:, 0].any()
        assert inside[:, -1].any()


def test_every_target_is_a_few_pixels_large_at_64() -> None:
    scenes = [metal_scene("test", row) for row in range(60)]
    sizes = [
        (visible(camera_frame(s.camera), bodies(s.objects), 64, 64)[0] == only_metal(s)).sum() for s in scenes
    ]
    assert min(sizes) >= 6


def only_metal(scene: Scene) -> int:
    return next(place for place, item in enumerate(scene.objects) if item.material == "metal")


def test_a_larger_set_begins_with_the_smaller() -> None:
    assert same(metal_color("train", 7, size=16).take(range(4)), metal_color("train", 4, size=16))


def test_splits_and_seeds_share_no_image() -> None:
    sets = [metal_color(split, 4, size=16, seed=seed) for split in SPLITS for seed in (0, 1)]
    images = {image.numpy().tobytes() for data in sets for image in data.images}
    assert len(images) == 4 * len(sets)
    assert len({name for data in sets for name in data.ids}) == 4 * len(sets)


def test_the_second_call_renders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = metal_color("test", 5, size=16)

    def refuse(*_: object) -> None:
        raise AssertionError("rendered again")

    monkeypatch.setattr(rendered, "_make_metal_color", refuse)
    assert same(metal_color("test", 5, size=16), first)


def test_a_damaged_cache_gives_the_same_images(folder: Path) -> None:
    first = metal_color("test", 3, size=16, seed=9)
    for path in folder.glob("metal-color-*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    assert same(metal_color("test", 3, size=16, seed=9), first)


def test_other_shader_constants_are_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[object] = []

    def record(_: str, key: object, make: object) -> cache.Arrays:
        keys.append(key)
        return {
            "images": np.zeros((1, 4, 4, 3), np.uint8),
            "masks": np.zeros((1, 4, 4), bool),
            "targets": np.zeros(1, np.int64),
        }

    monkeypatch.setattr(rendered, "cached_arrays", record)
    changed = default_shader()._replace(exposure=1.0)
    metal_color("test", 1, size=4)
    monkeypatch.setattr(rendered, "default_shader", lambda: changed)
    metal_color("test", 1, size=4)
    assert keys[0] != keys[1]


def test_all_eight_colors_occur_about_equally_often() -> None:
    colors = [
        metal_scene("train", row).objects[only_metal(metal_scene("train", row))].color for row in range(160)
    ]
    assert min(colors.count(color) for color in COLORS) >= 8


@pytest.mark.parametrize(
    ("split", "n", "size", "message"),
    [
        ("validation", 3, 16, "train, heldout, test"),
        ("test", 0, 16, "n=0"),
        ("test", 1_000_001, 16, "n=1000001"),
        ("test", 3, 0, "size=0"),
    ],
)
def test_impossible_wishes_are_refused_by_name(split: str, n: int, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metal_color(split, n, size=size)  # type: ignore[arg-type]


def test_an_empty_mask_has_no_box() -> None:
    assert tight_box(torch.zeros(4, 5, dtype=torch.bool)).shape == (0, 4)


def test_a_box_counts_columns_before_rows() -> None:
    mask = torch.zeros(6, 9, dtype=torch.bool)
    mask[2:4, 5:8] = True
    assert tight_box(mask).tolist() == [[5, 2, 8, 4]]


def test_scenes_are_rendered_in_their_order() -> None:
    scenes = [metal_scene("test", row) for row in (3, 1)]
    images, owners = render_all(scenes, 16, label="test")
    again, _ = render_all(scenes[::-1], 16, label="test")
    assert images.shape == (2, 16, 16, 3)
    assert owners.shape == (2, 16, 16)
    np.testing.assert_array_equal(images, again[::-1])
