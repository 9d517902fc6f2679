"""Archives that are split into training and test images: are they whole, and which images do they hold?"""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from heatcheck.data.imagenet_classes import name_some
from heatcheck.data.parts import Published


class Listed(NamedTuple):
    """One image that an archive lists: its name, its file and its class index."""

    id: str
    path: Path
    label: int


@dataclass(frozen=True)
class SplitArchive:
    """Training and test images on disk.

    Attributes:
        name: Name of the data set.
        classes: Class names in the order of the labels.
        train: Training images, in the order of the archive's list.
        test: Test images; none of them is a training image.
        published: Numbers the data set was published with.
        absent: Names of images that are listed but not there.
    """

    name: str
    classes: tuple[str, ...]
    train: tuple[Listed, ...]
    test: tuple[Listed, ...]
    published: Published
    absent: tuple[str, ...] = ()


def split_archive(
    name: str,
    classes: Sequence[str],
    train: Sequence[Listed],
    test: Sequence[Listed],
    published: Published,
    *,
    partial: bool = False,
    damaged: Collection[str] = frozenset(),
) -> SplitArchive:
    """The archive without images that are not there, once it is known to be sound.

    Args:
        name: Name of the data set.
        classes: Class names in the order of the labels.
        train: All training images the archive lists.
        test: All test images the archive lists.
        published: Numbers the whole archive has.
        partial: Accept missing images and classes, and other numbers than the published ones.
        damaged: Names of images whose files hold something else; they count as missing.

    Raises:
        FileNotFoundError: Images or classes are missing, or a whole split is; the message names them.
        ValueError: An image is listed twice, or the numbers are not those published.
    """
    _check_different(name, train, test)
    gone = {*missing_files([*train, *test]), *damaged}
    absent = [item.id for item in (*train, *test) if item.id in gone]
    if absent and not partial:
        raise FileNotFoundError(
            f"{len(absent)} of {len(train) + len(test)} images of {name} are missing: {name_some(absent)}; "
            "complete the archive, or allow a partial one"
        )
    parts = {
        "training": tuple(item for item in train if item.id not in gone),
        "test": tuple(item for item in test if item.id not in gone),
    }
    for kind, items in parts.items():
        _check_classes(name, kind, items, classes, partial=partial)
    if not partial:
        _check_numbers(name, Published(len(classes), len(train), len(test)), published)
    return SplitArchive(name, tuple(classes), parts["training"], parts["test"], published, tuple(absent))


def missing_files(items: Sequence[Listed]) -> list[str]:
    """Names of ``items`` whose files are not there; each folder is listed once."""
    folders = {item.path.parent for item in items}
    there = {folder: set(os.listdir(folder)) if folder.is_dir() else set() for folder in folders}
    return [item.id for item in items if item.path.name not in there[item.path.parent]]


def find_folder(root: Path, names: Sequence[str], *, holding: str, called: str) -> Path:
    """First of the folders ``names`` under ``root`` that has the entry ``holding``.

    Raises:
        FileNotFoundError: There is none; the message says where was looked.
    """
    for name in names:
        if (root / name / holding).exists():
            return root / name
    raise FileNotFoundError(f"no {holding} of {called} under {root}; looked in {', '.join(names)}")


def read_lines(path: Path) -> list[str]:
    """Lines of a text file without surrounding spaces, tabs excepted, empty ones left out.

    Raises:
        FileNotFoundError: There is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"list {path} is missing")
    return [line.strip(" ") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _check_different(name: str, train: Sequence[Listed], test: Sequence[Listed]) -> None:
    counts = Counter(item.id for item in (*train, *test))
    twice = sorted(image for image, count in counts.items() if count > 1)
    if twice:
        raise ValueError(
            f"{len(twice)} images of {name} are listed twice, in one split or in both: {name_some(twice)}; "
            "take the lists of the published archive"
        )


def _check_classes(
    name: str, kind: str, items: Sequence[Listed], classes: Sequence[str], *, partial: bool
) -> None:
    held = {item.label for item in items}
    empty = [label for position, label in enumerate(classes) if position not in held]
    if empty and (not partial or not held):
        raise FileNotFoundError(
            f"{len(empty)} of {len(classes)} classes of {name} have no {kind} image: {name_some(empty)}; "
            "complete the archive, or allow a partial one"
        )


def _check_numbers(name: str, found: Published, published: Published) -> None:
    if found != published:
        raise ValueError(
            f"{name} lists {found.n_classes} classes, {found.n_train} training and {found.n_test} test "
            f"images; published are {published.n_classes}, {published.n_train} and {published.n_test}; "
            "complete the lists, or allow a partial archive"
        )
