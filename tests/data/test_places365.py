"""Places365 as it is laid out when unpacked."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from heatcheck.data.places365 import read_categories, read_labels, read_places365

CATEGORIES = "/a/airfield 0\n/a/apartment_building/outdoor 1\n/b/bakery/shop 2\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "categories_places365.txt").write_text(CATEGORIES, encoding="utf-8")
    (tmp_path / "val_256").mkdir()
    lines = []
    for number, label in ((2, 0), (1, 2), (3, 1)):
        name = f"Places365_val_{number:08d}.jpg"
        lines.append(f"{name} {label}")
        Image.new("RGB", (32, 24), (number * 50, 0, 0)).save(tmp_path / "val_256" / name)
    (tmp_path / "places365_val.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_images_come_sorted_with_their_classes(root: Path) -> None:
    places = read_places365(root)
    assert places.ids == tuple(f"Places365_val_{number:08d}" for number in (1, 2, 3))
    assert places.labels == (2, 0, 1)
    assert places.classes == ("airfield", "apartment_building/outdoor", "bakery/shop")
    assert len(places) == 3


def test_images_are_loaded_in_the_order_asked_for(root: Path) -> None:
    batch = read_places365(root).load([2, 0], "squash256", 16)
    assert batch.ids == ("Places365_val_00000003", "Places365_val_00000001")
    assert batch.targets.tolist() == [1, 2]
    torch.testing.assert_close(
        batch.images[:, 0].mean((1, 2)), torch.tensor([150, 50]) / 255, atol=0.02, rtol=0
    )
    assert batch.boxes is None


def test_a_missing_image_is_named(root: Path) -> None:
    (root / "val_256" / "Places365_val_00000002.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of 3 images .* missing .*Places365_val_00000002\.jpg"):
        read_places365(root)
    assert len(read_places365(root, partial=True)) == 2


@pytest.mark.parametrize("name", ["places365_val.txt", "categories_places365.txt"])
def test_a_missing_list_is_named(name: str, root: Path) -> None:
    (root / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing"):
        read_places365(root)


def test_a_folder_without_images_is_named(root: Path) -> None:
    (root / "val_256").rename(root / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"no image such as Places365_val_00000002.jpg"):
        read_places365(root)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("airfield 0\n", "line 1: 'airfield'"),
        ("/a/airfield zero\n", "line 1: .* a name and a number"),
        ("/a/airfield 0\n/b/bar 2\n", "without gaps"),
        ("", "without gaps"),
    ],
)
def test_damaged_categories_are_named(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"c\.txt.*{fault}"):
        read_categories(path)


def test_a_class_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("Places365_val_00000001.jpg 365\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"line 1: class 365 of Places365_val_00000001.jpg; allowed: 0 to 364"
    ):
        read_labels(path, 365)
