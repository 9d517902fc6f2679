"""Data sets that networks are retrained on: rendered, packaged, or archives of the user's."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from heatcheck.data.birdsnap import read_birdsnap
from heatcheck.data.cache import cache_folder
from heatcheck.data.catalog import BIRDSNAP_ROOT, CIFAR10_ROOT, FOOD101_ROOT, IMAGENET_ROOT, archive_root
from heatcheck.data.cifar10 import CIFAR10, read_cifar10
from heatcheck.data.cifar10 import SIDE as CIFAR10_SIDE
from heatcheck.data.color_material import SingleObject, class_names, single_objects
from heatcheck.data.decoded import decode_once
from heatcheck.data.digits import SIDE as DIGITS_SIDE
from heatcheck.data.digits import digits
from heatcheck.data.food101 import read_food101
from heatcheck.data.imagenet_train import read_imagenet_splits
from heatcheck.data.parts import (
    Part,
    Published,
    RetrainingSet,
    content_digest,
    decoded_digest,
    set_digest,
    training_mean,
)
from heatcheck.data.splits import Listed, SplitArchive

__all__ = ["RETRAINING_SETS", "Part", "RetrainingSet", "load_retraining_set", "training_mean"]

# The first preprocessing of the published pipeline: shorter side 256, bicubically, and the central 224.
FIRST_PREPROCESSING = "bicubic256"
N_RENDERED = (2_000, 1_000)
_SIZE_RENDERED, _SIZE_ARCHIVE = 32, 224
Reader = Callable[..., SplitArchive]


class _Wish(NamedTuple):
    """What ``load_retraining_set`` was asked for."""

    n_train: int | None
    n_test: int | None
    size: int | None
    seed: int
    root: Path | None
    folder: Path
    partial: bool | None
    workers: int | None


def load_retraining_set(
    name: str,
    *,
    n_train: int | None = None,
    n_test: int | None = None,
    size: int | None = None,
    seed: int = 0,
    root: Path | str | None = None,
    folder: Path | str | None = None,
    partial: bool | None = None,
    workers: int | None = None,
) -> RetrainingSet:
    """Training and test images of the data set ``name``, whole uint8 images after the first preprocessing.

    Rendered sets are made at first use, photographs are decoded once; both are kept in the cache folder.

    Args:
        name: One of ``RETRAINING_SETS``.
        n_train: Number of training images; all by default, 2,000 of a rendered set. Fewer than all are those
            that come first in an order by a hash of ``seed`` and name, so fewer are a part of more.
        n_test: Number of test images, chosen alike; by default all, 1,000 of a rendered set.
        size: Side of the square images in pixels; 32 for rendered ones and 224 for photographs by default.
            Digits have 8 and CIFAR-10 has 32, and neither can be changed.
        seed: Of the rendered scenes, or of the choice of fewer images; which part an image belongs to is the
            archive's and never changes.
        root: Folder of an archive; by default the one its environment variable names.
        folder: Where decoded photographs are kept.
        partial: Accept an archive with missing images. By default only Birdsnap's, whose links have decayed;
            ``RetrainingSet.facts`` says how many are missing.
        workers: Threads that decode; the result does not depend on it.

    Raises:
        ValueError: The name is unknown, a number or the size is out of range, or the archive is damaged.
        FileNotFoundError: The archive or something in it is missing.
        OSError: The decoded images cannot be written.
    """
    if name not in _LOADERS:
        raise ValueError(f"unknown data set {name!r} to retrain on; known: {', '.join(_LOADERS)}")
    for label, value in (("n_train", n_train), ("n_test", n_test), ("size", size)):
        if value is not None and value < 1:
            raise ValueError(f"{label} must be at least 1, got {value}")
    place = cache_folder() / "decoded" if folder is None else Path(folder)
    given = None if root is None else Path(root)
    return _LOADERS[name](_Wish(n_train, n_test, size, seed, given, place, partial, workers))


def chosen_rows(ids: Sequence[str], n: int | None, seed: int) -> list[int]:
    """Rows of ``n`` of the images ``ids`` in an order by a hash of ``seed`` and name; all in theirs for None.

    Raises:
        ValueError: There are fewer images.
    """
    if n is None:
        return list(range(len(ids)))
    if n > len(ids):
        raise ValueError(f"there are {len(ids)} images, {n} were asked for; ask for fewer, or for all")
    keys = [hashlib.sha256(f"{seed} {name}".encode()).digest() for name in ids]
    return sorted(range(len(ids)), key=keys.__getitem__)[:n]


def _single_objects(labels: SingleObject) -> Callable[[_Wish], RetrainingSet]:
    def load(wish: _Wish) -> RetrainingSet:
        size = wish.size or _SIZE_RENDERED
        n_train, n_test = wish.n_train or N_RENDERED[0], wish.n_test or N_RENDERED[1]
        train = single_objects("train", n_train, size=size, seed=wish.seed, labels=labels)
        test = single_objects("test", n_test, size=size, seed=wish.seed, labels=labels)
        return _in_memory(labels, class_names(labels), train, test, flip_safe=True)

    return load


def _digits(wish: _Wish) -> RetrainingSet:
    _check_size("digits", wish, DIGITS_SIDE)
    train, test = _fewer(digits(), wish)
    return _in_memory("digits", [str(digit) for digit in range(10)], train, test, flip_safe=False)


def _cifar10(wish: _Wish) -> RetrainingSet:
    _check_size("CIFAR-10", wish, CIFAR10_SIDE)
    classes, *parts = read_cifar10(wish.root or archive_root(CIFAR10_ROOT))
    train, test = _fewer(parts, wish)
    return _in_memory("cifar10", classes, train, test, flip_safe=True, published=CIFAR10)


def _photographs(read: Reader, variable: str, *, partial: bool) -> Callable[[_Wish], RetrainingSet]:
    def load(wish: _Wish) -> RetrainingSet:
        accept = partial if wish.partial is None else wish.partial
        archive = read(wish.root or archive_root(variable), partial=accept)
        train, digest_train = _decoded(archive.train, wish.n_train, wish)
        test, digest_test = _decoded(archive.test, wish.n_test, wish)
        digest = set_digest(archive.name, archive.classes, True, [digest_train, digest_test])
        return RetrainingSet(
            archive.name,
            archive.classes,
            train,
            test,
            flip_safe=True,
            digest=digest,
            published=archive.published,
            absent=len(archive.absent),
        )

    return load


def _decoded(listed: Sequence[Listed], n: int | None, wish: _Wish) -> tuple[Part, str]:
    """Images after the first preprocessing, mapped from disk, and their hash."""
    items = [listed[row] for row in chosen_rows([item.id for item in listed], n, wish.seed)]
    images = decode_once(
        [item.id for item in items],
        [item.path for item in items],
        wish.folder,
        mode=FIRST_PREPROCESSING,
        size=wish.size or _SIZE_ARCHIVE,
        workers=wish.workers,
    )
    targets = torch.tensor([item.label for item in items], dtype=torch.int64)
    part = Part(images.ids, images.pixels, targets)
    return part, decoded_digest(part, images.path.with_suffix(".json"))


def _in_memory(
    name: str,
    classes: Sequence[str],
    train: Part,
    test: Part,
    *,
    flip_safe: bool,
    published: Published | None = None,
) -> RetrainingSet:
    digest = set_digest(name, classes, flip_safe, [content_digest(train), content_digest(test)])
    return RetrainingSet(name, tuple(classes), train, test, flip_safe, digest, published)


def _fewer(parts: Sequence[Part], wish: _Wish) -> tuple[Part, Part]:
    numbers = (wish.n_train, wish.n_test)
    train, test = (
        part if n is None else part.take(chosen_rows(part.ids, n, wish.seed))
        for part, n in zip(parts, numbers, strict=True)
    )
    return train, test


def _check_size(called: str, wish: _Wish, side: int) -> None:
    if wish.size not in (None, side):
        raise ValueError(
            f"images of {called} have {side} x {side} pixels; size can be {side}, not {wish.size}"
        )


_LOADERS: Mapping[str, Callable[[_Wish], RetrainingSet]] = {
    "color-material": _single_objects("color-material"),
    "shape-material-size": _single_objects("shape-material-size"),
    "digits": _digits,
    "cifar10": _cifar10,
    "food101": _photographs(read_food101, FOOD101_ROOT, partial=False),
    "birdsnap": _photographs(read_birdsnap, BIRDSNAP_ROOT, partial=True),
    "imagenet": _photographs(read_imagenet_splits, IMAGENET_ROOT, partial=False),
}
RETRAINING_SETS = tuple(_LOADERS)
