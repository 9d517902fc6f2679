"""Colors of mask images, their decoding, and the resizing of masks."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from tests.data.clevr.recorded import GOLDEN, draw, from_runs, recorded_owners

from heatcheck.data.clevr.mask_images import (
    BACKGROUND,
    decode_masks,
    linear_to_srgb_bytes,
    object_mask,
    paint_masks,
    resize_mask,
    srgb_to_linear,
)

RESIZES: dict[str, dict[str, Any]] = {case["name"]: case for case in GOLDEN["resize"]["cases"]}
IMAGE = GOLDEN["mask_image"]
COLORS = [item["mask_color"] for item in GOLDEN["scene"]["scene"]["objects"]]
SIZES = [
    (320, 480, 128),
    (320, 480, 96),
    (320, 480, 64),
    (128, 128, 127),
    (30, 40, 30),
    (9, 5, 14),
    (7, 3, 1),
]


@pytest.mark.parametrize("name", RESIZES)
def test_resized_masks_are_the_recorded_ones(name: str) -> None:
    case = RESIZES[name]
    mask = draw(case["shapes"], case["source_shape"])
    assert mask.sum() == case["n_source"]
    rows, columns = case["target_shape"]
    resized = resize_mask(mask, (rows, columns))
    np.testing.assert_array_equal(resized, from_runs(case["target_runs"], (rows, columns)))
    assert resized.sum() == case["n_target"]


@pytest.mark.parametrize(("height", "width", "size"), SIZES)
@pytest.mark.parametrize("share", [0.002, 0.1, 0.9])
def test_resizing_is_an_antialiased_bilinear_resize_above_zero(
    height: int, width: int, size: int, share: float
) -> None:
    mask = np.random.default_rng(size).random((height, width)) < share
    floating = Image.fromarray(mask.astype(np.float32))
    by_pillow = np.asarray(floating.resize((size, size), Image.Resampling.BILINEAR)) > 0
    np.testing.assert_array_equal(resize_mask(mask, size), by_pillow)


@pytest.mark.parametrize(("height", "width", "size"), SIZES)
def test_resizing_is_what_torch_does_in_float64(height: int, width: int, size: int) -> None:
    mask = np.random.default_rng(size).random((height, width)) < 0.05
    doubles = torch.from_numpy(mask).double()[None, None]
    by_torch = F.interpolate(doubles, (size, size), mode="bilinear", antialias=True, align_corners=False)
    # Where a pixel lies exactly on the edge of the filter, torch leaves a rest of rounding.
    np.testing.assert_array_equal(resize_mask(mask, size), (by_torch[0, 0] > 1e-12).numpy())


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.randoms(use_true_random=False))
def test_resizing_a_union_is_the_union_of_resized_masks(rows: int, columns: int, size: int, rng: Any) -> None:
    draw_mask = np.random.default_rng(rng.randrange(2**32)).random((2, rows, columns)) < 0.3
    one, other = resize_mask(draw_mask, size)
    np.testing.assert_array_equal(resize_mask(draw_mask[0] | draw_mask[1], size), one | other)


def test_a_mask_of_the_wanted_size_stays_and_an_empty_one_stays_empty() -> None:
    mask = np.random.default_rng(0).random((3, 8, 8)) < 0.5
    np.testing.assert_array_equal(resize_mask(mask, 8), mask)
    assert not resize_mask(np.zeros((20, 30), dtype=np.bool_), 8).any()


@pytest.mark.parametrize(
    ("mask", "size", "message"),
    [
        (np.zeros((4, 4)), 2, "must be"),
        (np.zeros((4,), dtype=np.bool_), 2, "must be"),
        (np.zeros((0, 4), dtype=np.bool_), 2, "must be"),
        (np.zeros((4, 4), dtype=np.bool_), 0, "both must be positive"),
    ],
)
def test_what_cannot_be_resized_is_refused(mask: NDArray[Any], size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resize_mask(mask, size)


def test_srgb_bytes_become_the_recorded_linear_values() -> None:
    values, expected = zip(*GOLDEN["srgb_to_linear"]["pairs"], strict=True)
    np.testing.assert_allclose(srgb_to_linear(values), expected, rtol=0, atol=1e-12)


def test_every_byte_survives_the_way_to_linear_light_and_back() -> None:
    values = np.arange(256)
    np.testing.assert_array_equal(linear_to_srgb_bytes(srgb_to_linear(values)), values)
    assert (np.diff(srgb_to_linear(values)) > 0).all()


def test_the_recorded_mask_image_is_decoded_in_the_order_of_the_scene() -> None:
    owners = recorded_owners()
    pixels = paint_masks(owners, IMAGE["srgb8"])
    decoded = decode_masks(pixels, COLORS)
    np.testing.assert_array_equal(decoded, owners)
    assert decoded.dtype == np.int8
    counts = [int(object_mask(decoded, [index]).sum()) for index in range(6)]
    assert counts == IMAGE["object_pixel_counts_320x480"]
    found = [tuple(color) for color in IMAGE["unique_colors_sorted"]]
    mapping = IMAGE["mapping_object_to_sorted_color"]
    assert [tuple(pixels[decoded == index][0]) for index in range(6)] == [found[place] for place in mapping]


def test_bytes_are_made_linear_before_they_are_matched() -> None:
    # The linear value of byte 128 is 55 / 255: without the conversion it would be matched to byte 55.
    shown = np.array([[BACKGROUND, (128, 0, 0), (55, 0, 0)]], dtype=np.uint8)
    assert decode_masks(shown, [[0.2158605, 0, 0], [0.0382044, 0, 0]]).tolist() == [[-1, 0, 1]]


def test_masks_of_objects_are_disjoint_and_cover_all_but_the_background() -> None:
    owners = recorded_owners()
    masks = np.stack([object_mask(owners, [index]) for index in range(6)])
    assert masks.sum(axis=0).max() == 1
    np.testing.assert_array_equal(masks.any(axis=0), owners >= 0)
    np.testing.assert_array_equal(object_mask(owners, range(6)), owners >= 0)
    assert not object_mask(owners, ()).any()


def test_a_scene_without_objects_is_all_background() -> None:
    pixels = paint_masks(np.full((2, 3), -1, dtype=np.int8), np.zeros((0, 3)))
    assert decode_masks(pixels, []).tolist() == [[-1] * 3] * 2


def painted(*colors: tuple[int, int, int]) -> NDArray[np.uint8]:
    return np.array([colors], dtype=np.uint8)


RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


@pytest.mark.parametrize(
    ("pixels", "objects", "message"),
    [
        (painted(RED, GREEN), [RED, GREEN], r"room 7: no pixel has the background color \(64, 64, 64\)"),
        (
            painted(BACKGROUND, RED, BLUE),
            [RED],
            r"room 7: 1 colors belong to no object, such as \(0, 0, 255\)",
        ),
        (painted(BACKGROUND, RED), [], "1 colors belong to no object"),
        (painted(BACKGROUND, RED), [RED, GREEN], "1 colors besides the background for 2 objects"),
        (painted(BACKGROUND, RED, GREEN), [RED, (254, 0, 0)], "objects 0 and 1 both have the color"),
        (painted(BACKGROUND, RED, BLUE), [RED, GREEN], "no color is that of object 1"),
        (painted(BACKGROUND, BLUE), [GREEN], r"no color is that of object 0, .* sRGB \[0, 255, 0\]"),
        (painted(BACKGROUND, RED)[..., :2], [RED], r"needed are \(H, W, 3\) uint8"),
        (painted(BACKGROUND, RED).astype(np.int64), [RED], r"needed are \(H, W, 3\) uint8"),
    ],
)
def test_mask_images_that_do_not_fit_their_scene_are_refused(
    pixels: NDArray[np.uint8], objects: list[tuple[int, int, int]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        decode_masks(pixels, srgb_to_linear(objects), where="room 7")


@pytest.mark.parametrize(
    ("owners", "colors", "message"),
    [
        ([[0, 1]], [RED], "owners reach from 0 to 1, but there are 1 colors"),
        ([[-2, 0]], [RED], "owners reach from -2"),
        ([[0, 1]], [RED, RED], "must differ"),
        ([[0]], [BACKGROUND], "must differ"),
    ],
)
def test_masks_that_could_not_be_decoded_are_not_painted(
    owners: list[list[int]], colors: list[tuple[int, int, int]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        paint_masks(np.array(owners, dtype=np.int8), colors)


@pytest.mark.parametrize("item", GOLDEN["published_figure_masks"]["items"], ids=lambda item: item["figure"])
def test_masks_read_from_published_figures_have_their_recorded_extent(item: dict[str, Any]) -> None:
    mask = from_runs(item["runs_128x128"])
    assert mask.sum() == item["n_pixels"]
    rows, columns = np.nonzero(mask)
    assert [rows.min(), rows.max()] == item["bounding_box_rows"]
    assert [columns.min(), columns.max()] == item["bounding_box_columns"]
    np.testing.assert_array_equal(resize_mask(mask, 128), mask)


@pytest.mark.parametrize(
    ("question", "chain"),
    [
        ("2891", ["GT_Single_Object", "GT_All_Objects"]),
        ("57", ["GT_Unique", "GT_Unique_Firstnonempty", "GT_Union", "GT_All_Objects"]),
    ],
)
def test_masks_read_from_published_figures_contain_each_other(question: str, chain: list[str]) -> None:
    masks = {
        item["figure"]: from_runs(item["runs_128x128"]) for item in GOLDEN["published_figure_masks"]["items"]
    }
    for small, large in itertools.pairwise(chain):
        assert not (masks[f"{question}_{small}"] & ~masks[f"{question}_{large}"]).any()
