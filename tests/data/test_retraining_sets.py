"""Data sets to retrain on, by their names."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data.tiny_archives import FOOD_CLASSES, WNIDS

from heatcheck.data import retraining_sets
from heatcheck.data.birdsnap import read_birdsnap
from heatcheck.data.catalog import BIRDSNAP_ROOT, CIFAR10_ROOT, FOOD101_ROOT, IMAGENET_ROOT
from heatcheck.data.cifar10 import read_cifar10
from heatcheck.data.food101 import read_food101
from heatcheck.data.imagenet_train import read_imagenet_splits
from heatcheck.data.parts import Published
from heatcheck.data.preprocessing import crop_pixels
from heatcheck.data.retraining_sets import RETRAINING_SETS, chosen_rows, load_retraining_set

ARCHIVES = {
    "food101": FOOD101_ROOT,
    "birdsnap": BIRDSNAP_ROOT,
    "cifar10": CIFAR10_ROOT,
    "imagenet": IMAGENET_ROOT,
}


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path / "cache"))
    for variable in ARCHIVES.values():
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def tiny_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny archives are whole."""
    readers = {
        "food101": (partial(read_food101, published=Published(3, 6, 3)), FOOD101_ROOT, False),
        "birdsnap": (partial(read_birdsnap, published=Published(2, 4, 2)), BIRDSNAP_ROOT, True),
        "imagenet": (
            partial(read_imagenet_splits, classes=WNIDS, published=Published(2, 4, 2)),
            IMAGENET_ROOT,
            False,
        ),
    }
    for name, (read, variable, accept) in readers.items():
        loader = retraining_sets._photographs(read, variable, partial=accept)
        monkeypatch.setitem(retraining_sets._LOADERS, name, loader)
    tiny = partial(read_cifar10, published=Published(3, 20, 4))
    monkeypatch.setattr(retraining_sets, "read_cifar10", tiny)


def test_digits_are_real_and_split_once_and_for_all() -> None:
    data = load_retraining_set("digits")
    assert (len(data.train), len(data.test)) == (1400, 397)
    assert data.classes == tuple("0123456789")
    assert data.train.images.shape[1:] == (8, 8, 3)
    assert data.train.images.max() == 255
    assert (data.train.images == data.train.images[..., :1]).all()
    assert not set(data.train.ids) & set(data.test.ids)
    assert not data.flip_safe
    counts = torch.bincount(data.test.targets, minlength=10)
    assert 25 <= counts.min() <= counts.max() <= 55


def test_fewer_images_are_a_part_of_more_and_the_seed_chooses_them() -> None:
    few, many = (load_retraining_set("digits", n_train=n, n_test=7) for n in (20, 60))
    assert few.train.ids == many.train.ids[:20]
    assert few.test.ids == many.test.ids
    other = load_retraining_set("digits", n_train=20, n_test=7, seed=1)
    assert set(other.train.ids) != set(few.train.ids)
    assert len({few.digest, many.digest, other.digest}) == 3


def test_rendered_sets_are_the_same_in_every_call() -> None:
    one, two = (load_retraining_set("color-material", n_train=4, n_test=3, size=12) for _ in range(2))
    assert one.digest == two.digest
    assert (len(one.classes), one.flip_safe, one.published) == (16, True, None)
    assert one.train.masks is not None
    assert not {image.tobytes() for image in one.train.images} & {
        image.tobytes() for image in one.test.images
    }
    other = load_retraining_set("shape-material-size", n_train=4, n_test=3, size=12)
    assert len(other.classes) == 12
    assert other.digest != one.digest


@pytest.mark.usefixtures("tiny_numbers")
def test_photographs_are_decoded_once_after_the_first_preprocessing(
    food101: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOOD101_ROOT, str(food101))
    data = load_retraining_set("food101", size=16)
    assert data.classes == FOOD_CLASSES
    assert isinstance(data.train.images, np.memmap)
    assert data.train.images.shape == (6, 16, 16, 3)
    expected = crop_pixels(food101 / "images" / "baklava" / "1005649.jpg", "bicubic256", 16)
    np.testing.assert_array_equal(data.train.images[2], expected)
    assert data.train.targets.tolist() == [0, 0, 1, 1, 2, 2]

    def refuse(*_: object) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr("heatcheck.data.decoded.crop_pixels", refuse)
    assert load_retraining_set("food101", size=16).digest == data.digest


@pytest.mark.usefixtures("tiny_numbers")
@pytest.mark.parametrize("name", ["food101", "birdsnap", "imagenet_splits"])
def test_some_photographs_of_an_archive_can_be_taken(name: str, request: pytest.FixtureRequest) -> None:
    root: Path = request.getfixturevalue(name)
    known = name.removesuffix("_splits")
    data = load_retraining_set(known, n_train=3, n_test=1, size=8, root=root)
    assert (len(data.train), len(data.test), data.name, data.flip_safe) == (3, 1, known, True)
    assert data.published is not None
    assert data.facts()["published_n_train"] == data.published.n_train
    with pytest.raises(ValueError, match=r"there are \d images, 50 were asked for"):
        load_retraining_set(known, n_train=50, size=8, root=root)


@pytest.mark.usefixtures("tiny_numbers")
def test_dead_links_of_birdsnap_are_counted_unless_refused(birdsnap: Path) -> None:
    (birdsnap / "download" / "images" / "Blue_Jay" / "202.jpg").unlink()
    data = load_retraining_set("birdsnap", size=8, root=birdsnap)
    assert data.absent == 1
    assert (data.facts()["n_train"], data.facts()["published_n_train"]) == (3, 4)
    with pytest.raises(FileNotFoundError, match=r"Blue_Jay/202\.jpg"):
        load_retraining_set("birdsnap", size=8, root=birdsnap, partial=False)


@pytest.mark.usefixtures("tiny_numbers")
def test_other_pixels_under_the_same_names_have_another_digest(food101: Path) -> None:
    before = load_retraining_set("food101", size=8, root=food101)
    one, other = (food101 / "images" / "waffles" / f"{number}.jpg" for number in (1005649, 1011328))
    other.write_bytes(one.read_bytes())
    after = load_retraining_set("food101", size=8, root=food101)
    assert after.train.ids == before.train.ids
    assert after.digest != before.digest


@pytest.mark.usefixtures("tiny_numbers")
def test_cifar_is_read_whole_or_in_part(cifar10: Path) -> None:
    data = load_retraining_set("cifar10", root=cifar10)
    assert (len(data.train), len(data.test)) == (20, 4)
    few = load_retraining_set("cifar10", n_train=5, root=cifar10)
    assert len(few.train) == 5
    assert set(few.train.ids) < set(data.train.ids)


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_that_is_nowhere_says_which_variable_to_set(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=rf"set {ARCHIVES[name]} to the folder"):
        load_retraining_set(name)


@pytest.mark.parametrize(
    ("name", "wish", "message"),
    [
        ("mnist", {}, f"unknown data set 'mnist' to retrain on; known: {', '.join(RETRAINING_SETS)}"),
        ("digits", {"size": 16}, "digits have 8 x 8 pixels.*not 16"),
        ("cifar10", {"size": 16}, "CIFAR-10 have 32 x 32 pixels.*not 16"),
        ("digits", {"n_train": 0}, "n_train must be at least 1, got 0"),
        ("digits", {"n_test": 398}, "there are 397 images, 398 were asked for"),
    ],
)
def test_impossible_wishes_are_refused_by_name(name: str, wish: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_retraining_set(name, **wish)  # type: ignore[arg-type]


def test_the_order_of_names_does_not_change_which_are_chosen() -> None:
    names = [f"image {row}" for row in range(30)]
    chosen = [names[row] for row in chosen_rows(names, 8, 0)]
    turned = names[::-1]
    assert [turned[row] for row in chosen_rows(turned, 8, 0)] == chosen
    assert chosen_rows(names, None, 0) == list(range(30))
