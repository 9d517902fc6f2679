"""The photographs that installed packages ship."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from heatcheck.data import photographs as module
from heatcheck.data.imagenet_classes import imagenet_names, imagenet_wnids
from heatcheck.data.photographs import credits, photograph_list, photographs
from heatcheck.data.preprocessing import MODES

IDS = ("coffee", "camera", "chelsea", "rocket", "astronaut", "china")


def test_there_are_six_photographs_with_boxes_and_classes() -> None:
    batch = photographs(32)
    assert batch.ids == IDS
    assert batch.images.shape == (6, 3, 32, 32)
    assert batch.images.dtype == torch.float32
    assert float(batch.images.min()) >= 0
    assert float(batch.images.max()) <= 1
    assert batch.targets.tolist() == [967, 872, 285, 657, 560, 698]
    assert batch.boxes is not None
    assert [boxes.shape for boxes in batch.boxes] == [(1, 4)] * 6


@pytest.mark.parametrize("item", photograph_list(), ids=lambda item: item.id)
def test_targets_class_names_and_word_net_ids_agree(item: module.Photograph) -> None:
    assert imagenet_names()[item.target] == item.class_name
    assert imagenet_wnids()[item.target] == item.wnid
    assert item.class_name in item.accepted
    assert set(item.accepted) <= set(imagenet_names())


@pytest.mark.parametrize("item", photograph_list(), ids=lambda item: item.id)
def test_regions_are_squares_inside_the_file_that_hold_most_of_the_object(item: module.Photograph) -> None:
    x0, y0, x1, y1 = item.region
    assert 0 <= x0 < x1 <= item.size[0]
    assert 0 <= y0 < y1 <= item.size[1]
    assert x1 - x0 == y1 - y0
    for box in item.boxes:
        assert 0 <= box[0] < box[2] <= item.size[0]
        assert 0 <= box[1] < box[3] <= item.size[1]
        inside = (min(box[2], x1) - max(box[0], x0)) * (min(box[3], y1) - max(box[1], y0))
        assert inside >= 0.5 * (box[2] - box[0]) * (box[3] - box[1])


@pytest.mark.parametrize("mode", MODES)
def test_boxes_stay_in_the_image_and_leave_room_around_the_object(mode: str) -> None:
    batch = photographs(224, mode)
    assert batch.boxes is not None
    for boxes in batch.boxes:
        x0, y0, x1, y1 = boxes[0].tolist()
        assert 0 <= x0 < x1 <= 224
        assert 0 <= y0 < y1 <= 224
        # A box that is nearly the whole image would make localization trivial.
        assert (x1 - x0) * (y1 - y0) <= 0.9 * 224**2


def test_boxes_lie_where_the_objects_are() -> None:
    # Known without a classifier: the cup is lighter than the table, the rocket lighter than the evening sky.
    batch = photographs(224, ids=["coffee", "rocket"])
    assert batch.boxes is not None
    for image, boxes in zip(batch.images, batch.boxes, strict=True):
        x0, y0, x1, y1 = (round(value) for value in boxes[0].tolist())
        inside = image[:, y0:y1, x0:x1].mean()
        outside = (image.sum() - image[:, y0:y1, x0:x1].sum()) / (
            image.numel() - image[:, y0:y1, x0:x1].numel()
        )
        assert inside > outside


def test_boxes_scale_with_the_image() -> None:
    large, small = photographs(224, "squash224").boxes, photographs(56, "squash224").boxes
    assert large is not None
    assert small is not None
    torch.testing.assert_close(torch.cat(large) / 4, torch.cat(small))


def test_some_photographs_can_be_asked_for_in_any_order() -> None:
    chosen = photographs(16, ids=["china", "coffee"])
    assert chosen.ids == ("china", "coffee")
    torch.testing.assert_close(chosen.images[1], photographs(16).images[0])


def test_an_unknown_photograph_is_named() -> None:
    with pytest.raises(ValueError, match=r"unknown photographs \['cat'\]; allowed: coffee, camera"):
        photographs(16, ids=["coffee", "cat"])


def test_the_gray_photograph_has_equal_channels() -> None:
    image = photographs(16, ids=["camera"]).images[0]
    torch.testing.assert_close(image[0], image[2], atol=0, rtol=0)


def test_every_photograph_has_a_credit_and_a_free_license() -> None:
    lines = credits().split("\n")
    assert len(lines) == 6
    for item, line in zip(photograph_list(), lines, strict=True):
        assert item.credit in line
        assert item.license in {"CC0-1.0", "public domain", "CC-BY-2.0"}
        assert item.shows


def test_files_are_read_inside_the_packages_and_none_is_shipped() -> None:
    assets = Path(module.__file__).parents[1] / "assets"
    for item in photograph_list():
        assert item.path.is_file()
        assert assets not in item.path.parents
        assert not list(assets.rglob(Path(item.file).name))


def test_a_package_that_is_not_installed_is_named() -> None:
    item = photograph_list()[0]._replace(module="no_such_package")
    with pytest.raises(FileNotFoundError, match="'coffee' is part of scikit-image, which is not installed"):
        _ = item.path


def test_another_picture_under_the_same_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (10, 10)).save(tmp_path / "coffee.png")
    item = photograph_list()[0]._replace(file=str(tmp_path / "coffee.png"))
    monkeypatch.setattr(module, "photograph_list", lambda: (item,))
    with pytest.raises(ValueError, match="is 10 x 10 pixels, the boxes were drawn on 600 x 400"):
        photographs(16)
