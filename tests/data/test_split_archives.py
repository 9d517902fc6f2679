"""Food-101, Birdsnap, CIFAR-10 and ImageNet's training images as they are laid out when unpacked."""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.data.tiny_archives import FOOD_CLASSES, WNIDS, cifar_batch, python2_pickle, save_noise

from heatcheck.data.birdsnap import read_birdsnap
from heatcheck.data.cifar10 import read_cifar10
from heatcheck.data.food101 import read_food101
from heatcheck.data.imagenet_train import read_imagenet_splits
from heatcheck.data.parts import Published
from heatcheck.data.splits import SplitArchive

FOOD = Published(3, 6, 3)
BIRDS = Published(2, 4, 2)
CIFAR = Published(3, 20, 4)
IMAGENET = Published(2, 4, 2)


def read_food(root: Path, *, partial: bool = False) -> SplitArchive:
    return read_food101(root, partial=partial, published=FOOD)


def read_birds(root: Path, *, partial: bool = False, verify: bool = False) -> SplitArchive:
    return read_birdsnap(root, partial=partial, verify=verify, published=BIRDS)


def read_imagenet(root: Path, *, partial: bool = False) -> SplitArchive:
    return read_imagenet_splits(root, partial=partial, classes=WNIDS, published=IMAGENET)


def test_food_is_read_as_its_lists_say(food101: Path) -> None:
    archive = read_food(food101)
    assert archive.classes == FOOD_CLASSES
    assert [item.id for item in archive.train[:3]] == [
        "apple_pie/1005649",
        "apple_pie/1011328",
        "baklava/1005649",
    ]
    assert [item.label for item in archive.train] == [0, 0, 1, 1, 2, 2]
    assert [item.label for item in archive.test] == [0, 1, 2]
    assert all(item.path.is_file() for item in (*archive.train, *archive.test))


def test_birds_are_split_by_the_list_of_test_images(birdsnap: Path) -> None:
    archive = read_birds(birdsnap, verify=True)
    assert archive.classes == ("Acorn Woodpecker", "Blue Jay")
    assert [item.id for item in archive.test] == ["Acorn_Woodpecker/100.jpg", "Blue_Jay/200.jpg"]
    assert [item.label for item in archive.train] == [0, 0, 1, 1]
    assert archive.absent == ()


def test_training_images_of_imagenet_have_the_class_of_their_folder(imagenet_splits: Path) -> None:
    archive = read_imagenet(imagenet_splits)
    assert [item.id for item in archive.train] == [f"{wnid}_{image}" for wnid in WNIDS for image in (10, 11)]
    assert [item.label for item in archive.train] == [0, 0, 1, 1]
    assert [item.label for item in archive.test] == [0, 1]


@pytest.mark.parametrize("place", ["ILSVRC2012_img_train", "ILSVRC/Data/CLS-LOC/train"])
def test_training_images_of_imagenet_are_found_where_archives_unpack_them(
    place: str, imagenet_splits: Path
) -> None:
    (imagenet_splits / place).parent.mkdir(parents=True, exist_ok=True)
    (imagenet_splits / "train").rename(imagenet_splits / place)
    assert len(read_imagenet(imagenet_splits).train) == 4


def test_the_folder_around_an_archive_will_do(food101: Path, birdsnap: Path, cifar10: Path) -> None:
    around = food101.parent
    assert read_food(around).train == read_food(food101).train
    assert read_birds(around).train == read_birds(birdsnap).train
    assert read_cifar10(around, published=CIFAR)[1].ids == read_cifar10(cifar10, published=CIFAR)[1].ids


def test_birds_moved_out_of_the_download_folder_are_found(birdsnap: Path) -> None:
    (birdsnap / "download" / "images").rename(birdsnap / "images")
    assert len(read_birds(birdsnap).train) == 4


@pytest.mark.parametrize(
    ("fixture", "read", "victim", "named"),
    [
        ("food101", read_food, "images/baklava/1011328.jpg", r"1 of 9 images of food101 .*baklava/1011328"),
        (
            "birdsnap",
            read_birds,
            "download/images/Blue_Jay/200.jpg",
            r"1 of 6 images of birdsnap .*Blue_Jay/200",
        ),
    ],
)
def test_a_missing_image_is_named_and_can_be_accepted(
    fixture: str,
    read: Callable[..., SplitArchive],
    victim: str,
    named: str,
    request: pytest.FixtureRequest,
) -> None:
    root: Path = request.getfixturevalue(fixture)
    whole = read(root)
    (root / victim).unlink()
    with pytest.raises(FileNotFoundError, match=named):
        read(root)
    part = read(root, partial=True)
    assert len(part.absent) == 1
    assert len(part.train) + len(part.test) == len(whole.train) + len(whole.test) - 1


@pytest.mark.parametrize(
    ("fixture", "read", "victim"),
    [
        ("food101", read_food, "meta/classes.txt"),
        ("food101", read_food, "meta/train.txt"),
        ("food101", read_food, "meta/test.txt"),
        ("birdsnap", read_birds, "species.txt"),
        ("birdsnap", read_birds, "images.txt"),
        ("birdsnap", read_birds, "test_images.txt"),
        ("cifar10", lambda root: read_cifar10(root, published=CIFAR), "batches.meta"),
        ("cifar10", lambda root: read_cifar10(root, published=CIFAR), "data_batch_4"),
        ("cifar10", lambda root: read_cifar10(root, published=CIFAR), "test_batch"),
        ("imagenet_splits", read_imagenet, "train"),
    ],
)
def test_a_missing_list_or_file_is_named(
    fixture: str, read: Callable[[Path], object], victim: str, request: pytest.FixtureRequest
) -> None:
    root: Path = request.getfixturevalue(fixture)
    path = root / victim
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    with pytest.raises(FileNotFoundError, match=Path(victim).name):
        read(root)


def test_a_class_without_images_is_named(food101: Path, imagenet_splits: Path) -> None:
    with (food101 / "meta" / "classes.txt").open("a", encoding="utf-8") as file:
        file.write("pho\n")
    with pytest.raises(FileNotFoundError, match=r"1 of 4 classes of food101 have no training image: pho"):
        read_food(food101)
    assert len(read_food(food101, partial=True).classes) == 4
    shutil.rmtree(imagenet_splits / "train" / WNIDS[1])
    with pytest.raises(FileNotFoundError, match=rf"1 of 2 classes of imagenet .* training image: {WNIDS[1]}"):
        read_imagenet(imagenet_splits)


def test_an_empty_split_is_refused_even_of_a_partial_archive(food101: Path) -> None:
    for label in FOOD_CLASSES:
        (food101 / "images" / label / "1014775.jpg").unlink()
    with pytest.raises(FileNotFoundError, match="3 of 3 classes of food101 have no test image"):
        read_food(food101, partial=True)


def test_numbers_are_held_against_the_published_ones(food101: Path, imagenet_splits: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"3 classes, 6 training and 3 test images; published are 101, 75750 and 25250",
    ):
        read_food101(food101)
    (imagenet_splits / "train" / WNIDS[0] / f"{WNIDS[0]}_10.JPEG").unlink()
    with pytest.raises(ValueError, match=r"2 classes, 3 training .* published are 2, 4 and 2"):
        read_imagenet(imagenet_splits)
    assert len(read_imagenet(imagenet_splits, partial=True).train) == 3


def test_an_image_of_both_splits_is_named(food101: Path) -> None:
    lists = food101 / "meta"
    lists.joinpath("test.txt").write_text("waffles/1005649\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"1 images of food101 are listed twice.*waffles/1005649"):
        read_food(food101)


@pytest.mark.parametrize("line", ["pho/1", "apple_pie", "apple_pie/"])
def test_a_line_of_no_class_is_named(line: str, food101: Path) -> None:
    (food101 / "meta" / "train.txt").write_text(f"apple_pie/1005649\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"train\.txt, image 2: '{line}'"):
        read_food(food101)


def test_a_notice_instead_of_a_photograph_counts_as_missing(birdsnap: Path) -> None:
    save_noise(birdsnap / "download" / "images" / "Blue_Jay" / "201.jpg", 999)
    assert read_birds(birdsnap).absent == ()
    with pytest.raises(FileNotFoundError, match=r"1 of 6 .*Blue_Jay/201"):
        read_birds(birdsnap, verify=True)
    assert read_birds(birdsnap, partial=True, verify=True).absent == ("Blue_Jay/201.jpg",)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("images.txt", "url\tmd5\tpath\n\tab\tBlue_Jay/200.jpg\n", "no column species_id"),
        (
            "images.txt",
            "url\tmd5\tpath\tspecies_id\n\tab\tBlue_Jay/200.jpg\t9\n",
            "line 2: species '9' is not in species.txt",
        ),
        (
            "images.txt",
            "url\tmd5\tpath\tspecies_id\n\tab\tB/2.jpg\t1\n\tab\tB/2.jpg\t2\n",
            "line 3: B/2.jpg was listed before",
        ),
        ("species.txt", "id\tcommon\nx\tBlue Jay\n", "line 2: 'x' is no number"),
        ("test_images.txt", "path\nBlue_Jay/999.jpg\n", "1 images that images.txt does not.*999"),
    ],
)
def test_damaged_lists_of_birds_are_named(name: str, text: str, fault: str, birdsnap: Path) -> None:
    (birdsnap / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{name}.*{fault}"):
        read_birds(birdsnap)


def test_an_image_listed_twice_alike_counts_once(birdsnap: Path) -> None:
    lines = (birdsnap / "images.txt").read_text(encoding="utf-8").splitlines()
    (birdsnap / "images.txt").write_text("\n".join([*lines, lines[-1]]) + "\n", encoding="utf-8")
    assert len(read_birds(birdsnap).train) == 4


def test_pixels_of_cifar_are_rows_of_red_then_green_then_blue(cifar10: Path) -> None:
    classes, train, test = read_cifar10(cifar10, published=CIFAR)
    assert classes == ("airplane", "automobile", "bird")
    assert train.images.shape == (20, 32, 32, 3)
    assert train.ids[5] == "cifar10/train/data_batch_2/00001"
    batch = cifar_batch(1)
    expected = batch[b"data"][1].reshape(3, 32, 32)
    for channel in range(3):
        np.testing.assert_array_equal(train.images[5, :, :, channel], expected[channel])
    assert train.targets[4:8].tolist() == batch[b"labels"]
    assert len(test) == 4
    assert not set(train.ids) & set(test.ids)


class Harmful:
    """An object whose pickle runs a program when it is loaded carelessly."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.place),)


def test_a_pickle_that_would_run_something_is_refused(cifar10: Path, tmp_path: Path) -> None:
    place = tmp_path / "made by the pickle"
    (cifar10 / "data_batch_3").write_bytes(pickle.dumps(Harmful(place), protocol=2))
    with pytest.raises(ValueError, match=r"data_batch_3 is no batch of CIFAR-10 \(it asks for posix.mkdir\)"):
        read_cifar10(cifar10, published=CIFAR)
    assert not place.exists()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"not a pickle", "no batch of CIFAR-10"),
        (python2_pickle([1]), "holds a list"),
        (python2_pickle({b"labels": [0]}), "no array .* under 'data'"),
        (python2_pickle({**cifar_batch(0), b"labels": [0]}), "no list of 4 labels"),
        (python2_pickle({**cifar_batch(0), b"labels": [0, 1, 2, 3]}), "labels outside 0 to 2"),
    ],
)
def test_damaged_batches_are_named(content: bytes, fault: str, cifar10: Path) -> None:
    (cifar10 / "test_batch").write_bytes(content)
    with pytest.raises(ValueError, match=rf"test_batch.*{fault}"):
        read_cifar10(cifar10, published=CIFAR)


def test_numbers_of_cifar_are_held_against_the_published_ones(cifar10: Path) -> None:
    with pytest.raises(ValueError, match=r"3 classes, 20 training and 4 test .* 10, 50000 and 10000"):
        read_cifar10(cifar10)
