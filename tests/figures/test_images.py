from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from heatcheck.figures.images import boxes_figure, gallery_figure, overlay, strip_figure


def pictures(figure: Figure) -> list[np.ndarray]:
    figure.draw_without_rendering()
    return [np.asarray(axis.images[0].get_array()) for axis in figure.axes if axis.images]


@pytest.mark.parametrize("count", [1, 6, 7, 13])
def test_many_methods_wrap_and_every_map_is_shown(images: np.ndarray, count: int) -> None:
    maps = {f"m{number}": np.random.default_rng(number).normal(size=(2, 12, 16)) for number in range(count)}
    figure = gallery_figure(images, maps, ["one", "two"])
    blocks = -(-count // 6)
    assert len(pictures(figure)) == 2 * (count + blocks)
    assert figure.get_figwidth() <= 6.9 + 1e-6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.nan, "not finite"),
        (np.inf, "not finite"),
        (0.0, "constant"),
        (3.0, "constant"),
        (-2.0, "constant"),
    ],
)
def test_a_map_with_nothing_to_show_says_so(images: np.ndarray, values: float, message: str) -> None:
    figure = gallery_figure(images, {"m": np.full((2, 12, 16), values)})
    pictures(figure)
    assert [text.get_text() for axis in figure.axes for text in axis.texts] == [message, message]


def test_one_nan_pixel_spoils_only_its_own_map(images: np.ndarray, heatmaps: dict[str, np.ndarray]) -> None:
    clean = pictures(gallery_figure(images, heatmaps))
    heatmaps["rise"][0, 3, 3] = np.nan
    spoiled = pictures(gallery_figure(images, heatmaps))
    changed = [not np.array_equal(one, other) for one, other in zip(clean, spoiled, strict=True)]
    assert sum(changed) == 1


def test_a_zero_pixel_of_a_signed_map_is_neither_red_nor_blue() -> None:
    photo = np.full((4, 4, 3), 0.5)
    heatmap = np.zeros((4, 4))
    heatmap[0, 0], heatmap[3, 3] = 10.0, -1.0
    red, blue, neutral = overlay(photo, heatmap)[[0, 3, 1], [0, 3, 1]]
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    assert np.ptp(neutral) < 1e-6


def test_an_all_negative_map_is_blue_throughout() -> None:
    heatmap = -1 - np.random.default_rng(0).random((6, 6))
    picture = overlay(np.full((6, 6, 3), 0.5), heatmap)
    assert (picture[..., 2] > picture[..., 0]).all()


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_scale_of_a_map_does_not_change_its_picture(scale: float) -> None:
    heatmap = np.random.default_rng(0).normal(size=(8, 8))
    photo = np.full((8, 8, 3), 0.5)
    np.testing.assert_allclose(overlay(photo, heatmap * scale), overlay(photo, heatmap), atol=1e-5)


def test_a_single_hot_pixel_is_visible() -> None:
    heatmap = np.zeros((40, 40))
    heatmap[5, 5] = 1.0
    picture = overlay(np.full((40, 40, 3), 0.5), heatmap)
    assert np.abs(picture[5, 5] - picture[0, 0]).max() > 0.3


def test_inputs_stay_unchanged(images: np.ndarray, heatmaps: dict[str, np.ndarray]) -> None:
    before = images.copy(), {name: values.copy() for name, values in heatmaps.items()}
    pictures(gallery_figure(images, heatmaps))
    np.testing.assert_array_equal(images, before[0])
    for name, values in heatmaps.items():
        np.testing.assert_array_equal(values, before[1][name])


def test_a_map_of_another_size_is_named(images: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"'rise' have shape \(2, 3, 3\); the images need \(2, 12, 16\)"):
        gallery_figure(images, {"rise": np.zeros((2, 3, 3))})


def test_images_with_channels_first_are_refused() -> None:
    with pytest.raises(ValueError, match=r"images must be \(N, H, W, 3\)"):
        gallery_figure(np.zeros((2, 3, 12, 16)), {"m": np.zeros((2, 12, 16))})


def test_a_strip_shows_every_frame_and_its_probability(images: np.ndarray) -> None:
    figure = strip_figure(np.concatenate([images, images]), [0.9, 0.5, 0.1, 0.0], [0, 0.1, 0.5, 1])
    assert len(pictures(figure)) == 4
    assert [text.get_text() for text in figure.axes[-1].texts] == ["0.90", "0.50", "0.10", "0.00"]


def test_a_strip_of_unequal_lengths_is_refused(images: np.ndarray) -> None:
    with pytest.raises(ValueError, match="2 frames need as many probabilities"):
        strip_figure(images, [0.5], [0.0, 1.0])


def test_boxes_are_drawn_where_they_are(images: np.ndarray) -> None:
    true: list[Any] = [[[2, 3, 8, 9]], np.zeros((0, 4))]
    figure = boxes_figure(images, true, [[1, 2, 5, 6], None], [0.5, np.nan], ["cat", "dog"])
    figure.draw_without_rendering()
    first, second = figure.axes[:2]
    corners = [(patch.get_xy(), patch.get_width(), patch.get_height()) for patch in first.patches]  # type: ignore[attr-defined]
    assert corners == [((2, 3), 6, 6), ((1, 2), 4, 4)]
    assert not second.patches
    assert [axis.get_title(loc="left") for axis in (first, second)] == ["cat\nIoU 0.50", "dog\nno box"]


def test_unequal_numbers_of_boxes_are_refused(images: np.ndarray) -> None:
    with pytest.raises(ValueError, match="differ in number"):
        boxes_figure(images, [[]], [None, None], [0, 0])


def test_a_long_name_is_broken_at_its_hyphens(images: np.ndarray, heatmaps: dict[str, np.ndarray]) -> None:
    maps = next(iter(heatmaps.values()))
    figure = gallery_figure(images, {"meaningful-perturbation-g": maps, "grad-cam": maps})
    titles = [axis.get_title(loc="center") for axis in figure.axes[:3]]
    assert titles[1:] == ["meaningful-\nperturbation-g", "grad-cam"]
