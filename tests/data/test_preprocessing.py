"""Crops of photographs and the boxes that go with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms

from heatcheck.data.preprocessing import (
    MODES,
    crop_geometry,
    crop_pixels,
    map_boxes,
    preprocess,
    project_boxes,
    read_image,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "deletion.json"


def golden_rows() -> list[dict[str, Any]]:
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    rows: list[dict[str, Any]] = next(case for case in cases if case["id"] == "box_mapping")["expected"][
        "rows"
    ]
    return rows


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    generator = np.random.default_rng(seed)
    return Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8))


def box_mask(size: tuple[int, int], box: list[int]) -> Image.Image:
    mask = np.zeros((size[1], size[0]), dtype=np.uint8)
    mask[box[1] : box[3], box[0] : box[2]] = 255
    return Image.fromarray(mask)


def torchvision_crop(mode: str, size: int = 224) -> transforms.Compose:
    side = MODES[mode].side if size == 224 else round(size * MODES[mode].side / 224)
    target = (side, side) if MODES[mode].squash else side
    return transforms.Compose([transforms.Resize(target), transforms.CenterCrop(size)])


@pytest.mark.parametrize(
    "row", golden_rows(), ids=lambda row: f"{row['mode']}-{row['image_size_wh']}-{row['box']}"
)
def test_a_box_is_mapped_as_recorded(row: dict[str, Any]) -> None:
    geometry = crop_geometry(tuple(row["image_size_wh"]), row["mode"])
    assert list(geometry.resized) == row["resized_wh"]
    assert [geometry.left, geometry.top] == row["crop_left_top"]
    projected = project_boxes(torch.tensor([row["box"]], dtype=torch.float64), geometry)
    torch.testing.assert_close(
        projected.boxes[0], torch.tensor(row["box_in_crop"], dtype=torch.float64), atol=1e-6, rtol=0
    )
    assert float(projected.visible[0]) == pytest.approx(row["visible_fraction"], abs=1e-6)


def test_all_recorded_mappings_are_tested() -> None:
    assert len(golden_rows()) >= 24


@pytest.mark.parametrize(
    "row", [row for row in golden_rows() if row["mask_resize_box"]], ids=lambda row: str(row["box"])
)
def test_a_mask_sent_the_same_way_agrees_with_its_box_within_one_pixel(row: dict[str, Any]) -> None:
    size = tuple(row["image_size_wh"])
    mask = crop_pixels(box_mask(size, row["box"]), row["mode"])[:, :, 0] >= 128
    columns, rows = np.flatnonzero(mask.any(0)), np.flatnonzero(mask.any(1))
    tight = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    mapped = map_boxes(torch.tensor([row["box"]], dtype=torch.float64), crop_geometry(size, row["mode"]))
    assert tight == pytest.approx(mapped.boxes[0].tolist(), abs=1)


@pytest.mark.parametrize("mode", [name for name, rule in MODES.items() if not rule.bicubic])
@pytest.mark.parametrize("size", [224, 64, 33])
@pytest.mark.parametrize("shape", [(500, 375), (375, 501), (300, 300), (47, 61)])
def test_crops_are_those_of_torchvision(mode: str, size: int, shape: tuple[int, int]) -> None:
    image = noise(*shape)
    expected = np.asarray(torchvision_crop(mode, size)(image))
    np.testing.assert_array_equal(crop_pixels(image, mode, size), expected)


@pytest.mark.parametrize(
    ("shape", "resized", "left", "top"),
    [
        ((500, 375), (341, 256), 59, 16),  # (341 - 224 + 1) // 2
        ((375, 501), (256, 342), 16, 59),
        ((300, 300), (256, 256), 16, 16),
    ],
)
def test_the_retraining_crop_is_bicubic_and_rounds_half_a_pixel_up(
    shape: tuple[int, int], resized: tuple[int, int], left: int, top: int
) -> None:
    image = noise(*shape)
    geometry = crop_geometry(shape, "bicubic256")
    assert (geometry.resized, geometry.left, geometry.top) == (resized, left, top)
    whole = transforms.Resize(256, transforms.InterpolationMode.BICUBIC)(image)
    expected = np.asarray(whole)[top : top + 224, left : left + 224]
    np.testing.assert_array_equal(crop_pixels(image, "bicubic256"), expected)


@settings(max_examples=200, deadline=None)
@given(
    width=st.integers(16, 3000),
    height=st.integers(16, 3000),
    size=st.integers(8, 320),
    mode=st.sampled_from(list(MODES)),
)
def test_the_crop_lies_inside_the_resized_image(width: int, height: int, size: int, mode: str) -> None:
    geometry = crop_geometry((width, height), mode, size)
    for side, offset in zip(geometry.resized, (geometry.left, geometry.top), strict=True):
        assert 0 <= offset <= side - size
        assert abs((side - size) / 2 - offset) <= 0.5


def test_halves_of_a_pixel_are_rounded_to_even() -> None:
    # (341 - 224) / 2 = 58.5 becomes 58, (225 - 222) / 2 = 1.5 becomes 2.
    assert crop_geometry((500, 375), "short256").left == 58
    assert crop_geometry((300, 300), "squash224", 222, resize=225).left == 2


def test_the_ratio_of_resize_to_crop_is_kept_for_other_sides() -> None:
    assert crop_geometry((80, 80), "squash256", 64).resized == (73, 73)
    assert crop_geometry((80, 80), "squash224", 64).resized == (64, 64)
    assert crop_geometry((80, 80), "squash256", 448).resized == (512, 512)


def test_a_larger_crop_of_the_same_resized_image_is_the_crop_with_a_border() -> None:
    image = noise(320, 240)
    wide = crop_pixels(image, "squash256", 228, resize=256)
    np.testing.assert_array_equal(wide[2:-2, 2:-2], crop_pixels(image, "squash256", 224))


def test_images_are_float_in_unit_range_with_channels_first() -> None:
    image = Image.new("RGB", (300, 200), (255, 51, 0))
    result = preprocess(image, "short224", 32)
    assert result.shape == (3, 32, 32)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.mean((1, 2)), torch.tensor([1.0, 0.2, 0.0]))


@pytest.mark.parametrize("kind", ["L", "RGBA", "CMYK", "P"])
def test_every_kind_of_image_becomes_rgb(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("image.jpg" if kind == "CMYK" else "image.png")
    Image.new("RGB", (20, 20), (102, 102, 102)).convert(kind).save(path)
    pixels = crop_pixels(path, "squash224", 16)
    assert pixels.shape == (16, 16, 3)
    assert np.abs(pixels.astype(int) - 102).max() <= 3


def test_a_pillow_image_is_not_changed() -> None:
    image = noise(40, 30)
    before = np.asarray(image).copy()
    preprocess(image, "squash256", 16)
    np.testing.assert_array_equal(np.asarray(image), before)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.jpg is missing"):
        preprocess(tmp_path / "absent.jpg")


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize("keep", [0.0, 0.02, 0.6])
def test_a_truncated_image_is_named(suffix: str, keep: float, tmp_path: Path) -> None:
    path = tmp_path / f"half.{suffix}"
    noise(64, 64).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(ValueError, match=rf"half\.{suffix} cannot be read"):
        read_image(path)


def test_a_file_that_is_no_image_is_named(tmp_path: Path) -> None:
    path = tmp_path / "page.jpg"
    path.write_text("<html>not found</html>", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.jpg cannot be read .* must be a whole JPEG or PNG"):
        read_image(path)


def test_an_unknown_mode_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown preprocessing 'squash'; allowed: squash256, short256"):
        preprocess(noise(8, 8), "squash")


@pytest.mark.parametrize(("size", "resize"), [(0, None), (64, 32)])
def test_a_crop_that_does_not_fit_is_refused(size: int, resize: int | None) -> None:
    with pytest.raises(ValueError, match="crop"):
        crop_geometry((100, 100), "squash224", size, resize=resize)


def test_a_box_outside_the_crop_is_dropped_and_the_others_keep_their_order() -> None:
    boxes = torch.tensor([[0, 10, 30, 60], [85, 1, 500, 273], [200, 100, 300, 200]], dtype=torch.float64)
    mapped = map_boxes(boxes, crop_geometry((500, 375), "short256"))
    assert mapped.boxes.shape == (2, 4)
    assert mapped.visible.tolist() == pytest.approx([0.726149, 1.0], abs=1e-6)


def test_no_boxes_map_to_no_boxes() -> None:
    mapped = map_boxes(torch.zeros(0, 4), crop_geometry((50, 40)))
    assert mapped.boxes.shape == (0, 4)
    assert mapped.boxes.dtype == torch.float64
    assert mapped.visible.shape == (0,)


@pytest.mark.parametrize(
    ("box", "fault"),
    [
        ([10, 10, 10, 20], "reversed or equal corners"),
        ([30, 10, 20, 20], "reversed or equal corners"),
        ([10, 30, 20, 20], "reversed or equal corners"),
        ([float("nan"), 0, 5, 5], "not finite"),
        ([0, 0, float("inf"), 5], "not finite"),
        ([100, 10, 120, 20], "outside the image of 100 x 80 pixels"),
        ([-20, 10, -5, 20], "outside the image of 100 x 80 pixels"),
        ([10, 10, 130, 20], "outside the image of 100 x 80 pixels"),
        ([-3, 10, 30, 20], "outside the image of 100 x 80 pixels"),
    ],
)
def test_a_bad_box_is_refused_by_name(box: list[float], fault: str) -> None:
    with pytest.raises(ValueError, match=rf"photo\.jpg: box .*{fault}"):
        map_boxes(torch.tensor([box], dtype=torch.float64), crop_geometry((100, 80)), where="photo.jpg")


def test_a_box_that_sticks_out_by_one_pixel_is_clipped() -> None:
    geometry = crop_geometry((100, 80), "squash224")
    out = map_boxes(torch.tensor([[-1.0, 0.0, 101.0, 81.0]]), geometry)
    inside = map_boxes(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), geometry)
    torch.testing.assert_close(out.boxes, inside.boxes)


def test_boxes_that_stick_out_further_are_clipped_on_request() -> None:
    geometry = crop_geometry((100, 80), "squash224")
    mapped = map_boxes(torch.tensor([[50.0, 0.0, 400.0, 80.0]]), geometry, overhang=float("inf"))
    torch.testing.assert_close(mapped.boxes, torch.tensor([[112.0, 0.0, 224.0, 224.0]], dtype=torch.float64))


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(list(MODES)))
def test_the_visible_fraction_is_the_share_of_the_area(data: st.DataObject, mode: str) -> None:
    width, height = data.draw(st.integers(30, 600)), data.draw(st.integers(30, 600))
    x0, y0 = data.draw(st.integers(0, width - 2)), data.draw(st.integers(0, height - 2))
    box = [x0, y0, data.draw(st.integers(x0 + 1, width)), data.draw(st.integers(y0 + 1, height))]
    geometry = crop_geometry((width, height), mode)
    projected = project_boxes(torch.tensor([box], dtype=torch.float64), geometry)
    # The window of the crop, carried back into the photograph, cuts the same share off the box.
    scale = [geometry.resized[0] / width, geometry.resized[1] / height]
    window = [geometry.left / scale[0], geometry.top / scale[1]]
    window += [(geometry.left + 224) / scale[0], (geometry.top + 224) / scale[1]]
    wide = max(0.0, min(box[2], window[2]) - max(box[0], window[0]))
    tall = max(0.0, min(box[3], window[3]) - max(box[1], window[1]))
    share = wide * tall / ((box[2] - box[0]) * (box[3] - box[1]))
    assert float(projected.visible[0]) == pytest.approx(share, abs=1e-9)
