"""ImageNet's validation images (Russakovsky et al. 2015), in the layouts people keep them in."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from heatcheck.data.batch import LabelledImages
from heatcheck.data.boxes import Box, corners_of
from heatcheck.data.imagenet_classes import class_indices, imagenet_wnids, name_some
from heatcheck.data.imagenet_labels import (
    GROUND_TRUTH,
    TABLE,
    WNID,
    read_boxes,
    read_labels,
)
from heatcheck.data.loading import Source, best_visible, list_images, load_images

_IMAGES = (".", "val", "ILSVRC2012_img_val", "ILSVRC/Data/CLS-LOC/val", "Data/CLS-LOC/val")
_TABLES = (TABLE, f"ILSVRC/{TABLE}")
_XML = (
    "ILSVRC/Annotations/CLS-LOC/val",
    "Annotations/CLS-LOC/val",
    "ILSVRC2012_bbox_val_v3/val",
    "Annotations/val",
)
_TRUTHS = tuple(f"{folder}{GROUND_TRUTH}" for folder in ("", "data/", "ILSVRC2012_devkit_t12/data/"))


@dataclass(frozen=True)
class ImageNetValidation:
    """Validation images on disk, sorted by name, with their classes and, where known, boxes.

    Attributes:
        ids: ``N`` names such as ``ILSVRC2012_val_00000001``.
        paths: ``N`` image files.
        wnids: ``N`` WordNet ids.
        boxes: For each image its boxes, of any class, in pixels of the file; None where unknown.
        classes: WordNet ids in the order of a classifier's outputs.
        labelled_by: Where the classes were read.
    """

    ids: tuple[str, ...]
    paths: tuple[Path, ...]
    wnids: tuple[str, ...]
    boxes: tuple[tuple[Box, ...], ...] | None
    classes: tuple[str, ...]
    labelled_by: str

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def targets(self) -> Tensor:
        """Class index of every image, ``(N,)`` int64."""
        return torch.tensor(
            class_indices(self.wnids, self.classes, where=self.labelled_by), dtype=torch.int64
        )

    def sources(self, rows: Sequence[int]) -> list[Source]:
        """The images at ``rows``, each with the boxes of its own class."""
        index = {wnid: position for position, wnid in enumerate(self.classes)}
        return [
            Source(self.ids[row], self.paths[row], index[self.wnids[row]], self._own_boxes(row))
            for row in rows
        ]

    def load(
        self, rows: Sequence[int], mode: str = "squash256", size: int = 224, *, overhang: float = 1.0
    ) -> LabelledImages:
        """The images at ``rows``, cropped, with boxes in pixels of the crop; see ``load_images``.

        An image of whose boxes nothing is left in the crop has boxes ``(0, 4)``.
        """
        return load_images("imagenet", self.sources(rows), mode=mode, size=size, overhang=overhang)

    def visible(
        self, rows: Sequence[int], mode: str = "squash256", size: int = 224, *, overhang: float = 1.0
    ) -> list[float]:
        """Largest visible fraction of a box of the image's class, for the images at ``rows``."""
        return [best_visible(source, mode, size, overhang=overhang) for source in self.sources(rows)]

    def _own_boxes(self, row: int) -> Tensor | None:
        if self.boxes is None:
            return None
        return corners_of([box for box in self.boxes[row] if box.wnid == self.wnids[row]])


def read_imagenet(
    root: Path | str,
    *,
    labels: Path | str | None = None,
    annotations: Path | str | None = None,
    with_boxes: bool = True,
    inclusive: bool = False,
    partial: bool = False,
    classes: tuple[str, ...] | None = None,
) -> ImageNetValidation:
    """Validation images under ``root``.

    The images lie flat, ``ILSVRC2012_val_00000001.JPEG``, or in one folder per WordNet id; in ``root``
    itself, in ``val``, or where the archives of the challenge and of its Kaggle edition unpack them. Classes
    come from the folders' names, else from the first of: the table ``LOC_val_solution.csv``, a folder of XML
    files, the development kit's ground truth.

    Args:
        root: Folder of the archive.
        labels: Table, folder of XML files or ground truth to take the classes from.
        annotations: Table or folder of XML files to take the boxes from; found under ``root`` by default.
        with_boxes: Read boxes where there are any.
        inclusive: The right and bottom edges of boxes are the last pixel inside.
        partial: Accept fewer images or classes than the labels and the class list name.
        classes: WordNet ids in the order of the classifier's outputs; by default the 1000 of ImageNet.

    Raises:
        FileNotFoundError: Images, labels or annotations are missing; the message names them.
        ValueError: A class is unknown, or a file of labels or boxes is bad.
    """
    folder = _image_folder(Path(root))
    names = classes or imagenet_wnids()
    source = _find_boxes(Path(root), annotations)
    paths = _image_files(folder)
    found, origin = _labels(Path(root), paths, labels, source, partial)
    _check_complete(paths, found, origin, names, partial)
    ids = sorted(set(paths) & set(found))
    wnids = [found[name] for name in ids]
    class_indices(wnids, names, where=origin)
    boxes = read_boxes(source, ids, inclusive=inclusive) if with_boxes and source is not None else None
    listed = None if boxes is None else tuple(boxes[name] for name in ids)
    return ImageNetValidation(
        tuple(ids), tuple(paths[name] for name in ids), tuple(wnids), listed, names, origin
    )


def _image_folder(root: Path) -> Path:
    if not root.is_dir():
        raise FileNotFoundError(
            f"ImageNet folder {root} is missing; name the folder that holds the validation images"
        )
    for name in _IMAGES:
        folder = root / name
        if folder.is_dir() and (_class_folders(folder) or any(folder.glob("ILSVRC2012_val_*"))):
            return folder
    raise FileNotFoundError(
        f"no validation images under {root}; looked in {', '.join(_IMAGES)} for files "
        "ILSVRC2012_val_00000001.JPEG or folders named by WordNet id"
    )


def _class_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if WNID.fullmatch(path.name) and path.is_dir())


def _image_files(folder: Path) -> dict[str, Path]:
    folders = _class_folders(folder)
    paths = [path for sub in folders for path in list_images(sub)] if folders else list_images(folder)
    files = {path.stem: path for path in paths}
    if len(files) < len(paths):
        twice = sorted({path.stem for path in paths if files[path.stem] != path})
        raise ValueError(f"images occur twice under {folder}: {name_some(twice)}; keep one file of each")
    return files


def _find_boxes(root: Path, annotations: Path | str | None) -> Path | None:
    if annotations is not None:
        if not Path(annotations).exists():
            raise FileNotFoundError(
                f"annotations {annotations} are missing; name {TABLE} or a folder of XML files"
            )
        return Path(annotations)
    return next((root / name for name in (*_TABLES, *_XML) if (root / name).exists()), None)


def _labels(
    root: Path, paths: dict[str, Path], labels: Path | str | None, boxes: Path | None, partial: bool
) -> tuple[dict[str, str], str]:
    """WordNet id by image, and the name of the source."""
    if labels is None and all(WNID.fullmatch(path.parent.name) for path in paths.values()):
        return {name: path.parent.name for name, path in paths.items()}, "the folders' names"
    truth = next((root / name for name in _TRUTHS if (root / name).is_file()), None)
    source = Path(labels) if labels is not None else boxes or truth
    if source is None:
        raise FileNotFoundError(
            f"no labels for the images under {root}; put {TABLE} or {GROUND_TRUTH} there, or sort the images "
            "into one folder per WordNet id"
        )
    return read_labels(source, frozenset(paths) if partial else None), str(source)


def _check_complete(
    paths: dict[str, Path], labels: dict[str, str], origin: str, classes: tuple[str, ...], partial: bool
) -> None:
    unlabelled = sorted(set(paths) - set(labels))
    if unlabelled:
        raise FileNotFoundError(
            f"{len(unlabelled)} images have no label in {origin}: {name_some(unlabelled)}"
        )
    absent = sorted(set(labels) - set(paths))
    if absent and not partial:
        raise FileNotFoundError(
            f"{len(absent)} images named by {origin} are missing: {name_some(absent)}; complete the archive, "
            "or allow a partial one"
        )
    empty = sorted(set(classes) - {labels[name] for name in paths})
    if empty and not partial:
        raise FileNotFoundError(
            f"{len(empty)} of {len(classes)} classes have no image: {name_some(empty)}; "
            "complete the archive, or allow a partial one"
        )
