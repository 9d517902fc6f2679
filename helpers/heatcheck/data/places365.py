"""The validation images of Places365 (Zhou et al. 2018): scenes, without boxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from heatcheck.data.batch import LabelledImages
from heatcheck.data.imagenet_classes import name_some
from heatcheck.data.loading import Source, load_images

LABELS = "places365_val.txt"
CATEGORIES = "categories_places365.txt"
_IMAGES = ("val_256", "val_large", "val", ".")
_TEXTS = (".", "filelist_places365-standard", "places365standard_list")


@dataclass(frozen=True)
class Places365Validation:
    """Validation images on disk, sorted by name, with their classes.

    Attributes:
        ids: ``N`` names such as ``Places365_val_00000001``.
        paths: ``N`` image files.
        labels: ``N`` class indices.
        classes: Class names in the order of a classifier's outputs, such as ``airfield`` or
            ``apartment_building/outdoor``.
    """

    ids: tuple[str, ...]
    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def targets(self) -> Tensor:
        """Class index of every image, ``(N,)`` int64."""
        return torch.tensor(self.labels, dtype=torch.int64)

    def load(self, rows: Sequence[int], mode: str = "squash256", size: int = 224) -> LabelledImages:
        """The images at ``rows``, cropped; see ``load_images``."""
        sources = [Source(self.ids[row], self.paths[row], self.labels[row]) for row in rows]
        return load_images("places365", sources, mode=mode, size=size)


def read_places365(root: Path | str, *, partial: bool = False) -> Places365Validation:
    """Validation images under ``root``.

    Args:
        root: Folder with ``places365_val.txt``, ``categories_places365.txt`` and the images, in ``val_256``,
            ``val_large``, ``val`` or ``root`` itself.
        partial: Accept fewer images than the labels name.

    Raises:
        FileNotFoundError: A list or an image is missing; the message names it.
        ValueError: A list is damaged.
    """
    classes = read_categories(_find(Path(root), CATEGORIES))
    labels = read_labels(_find(Path(root), LABELS), len(classes))
    folder = _image_folder(Path(root), next(iter(labels), ""))
    there = {path.name for path in folder.iterdir()}
    absent = sorted(set(labels) - there)
    if absent and not partial:
        raise FileNotFoundError(
            f"{len(absent)} of {len(labels)} images named by {LABELS} are missing in {folder}: "
            f"{name_some(absent)}; complete the archive, or allow a partial one"
        )
    names = sorted(set(labels) & there)
    return Places365Validation(
        tuple(Path(name).stem for name in names),
        tuple(folder / name for name in names),
        tuple(labels[name] for name in names),
        classes,
    )


def read_categories(path: Path | str) -> tuple[str, ...]:
    """Class names in the order of their numbers, without the letter: ``/a/airfield 0`` is ``airfield``.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line has another form, or the numbers are not 0, 1, 2, ...
    """
    names: dict[int, str] = {}
    for where, name, number in _pairs(path):
        if len(name) < 4 or name[0] != "/" or name[2] != "/":
            raise ValueError(f"{where}: {name!r}; a class is written /<letter>/<name>")
        names[number] = name[3:]
    if sorted(names) != list(range(len(names))) or not names:
        raise ValueError(
            f"{path}: classes must be numbered 0, 1, 2, ... without gaps, got {len(names)} numbers"
        )
    return tuple(names[number] for number in range(len(names)))


def read_labels(path: Path | str, n_classes: int) -> dict[str, int]:
    """Class index of every image file, ``Places365_val_00000001.jpg``.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line has another form, or the class is not one of ``n_classes``.
    """
    labels: dict[str, int] = {}
    for where, name, number in _pairs(path):
        if number >= n_classes:
            raise ValueError(f"{where}: class {number} of {name}; allowed: 0 to {n_classes - 1}")
        labels[name] = number
    return labels


def _pairs(path: Path | str) -> list[tuple[str, str, int]]:
    if not Path(path).is_file():
        raise FileNotFoundError(f"list {path} is missing")
    pairs = []
    for position, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if words and (len(words) != 2 or not words[1].isdecimal()):
            raise ValueError(f"{path}, line {position}: {line!r}; needed is a name and a number")
        pairs += [(f"{path}, line {position}", words[0], int(words[1]))] if words else []
    return pairs


def _find(root: Path, name: str) -> Path:
    for folder in _TEXTS:
        if (root / folder / name).is_file():
            return root / folder / name
    raise FileNotFoundError(f"{name} is missing under {root}; looked in {', '.join(_TEXTS)}")


def _image_folder(root: Path, example: str) -> Path:
    """First folder that holds validation images at all; which of them are missing is said by the caller."""
    prefix = example.split("_val_", maxsplit=1)[0]
    for name in _IMAGES:
        if (root / name).is_dir() and any((root / name).glob(f"{prefix}_val_*.jpg")):
            return root / name
    raise FileNotFoundError(f"no image such as {example} under {root}; looked in {', '.join(_IMAGES)}")
