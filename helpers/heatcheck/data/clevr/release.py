"""The released archives of CLEVR-XAI (Arras, Osman & Samek 2022), and any archive in their layout.

Opening reads the JSON files, checks programs against scenes and lists folders; images, masks and stored
ground truths are read one by one when asked for.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from heatcheck.data.clevr.archive import ArchivedScene, read_questions, read_scenes
from heatcheck.data.clevr.ground_truth import GROUND_TRUTHS, RELEASED, First, Kind, object_set
from heatcheck.data.clevr.mask_images import (
    MASK_VIEW,
    Mask,
    Owners,
    Pixels,
    decode_masks,
    object_mask,
    resize_mask,
)
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.stored_masks import STORED_SIZE, list_complete, read_mask
from heatcheck.data.preprocessing import crop_pixels, read_image, to_images

Source = Literal["stored", "computed"]

SCENES = "CLEVR-XAI_scenes.json"
ARCHIVE = "CLEVR-XAI_v1.0"
IMAGES_ARCHIVE = "CLEVR-XAI_v1.0_images_masks"
_FOLDER_NAMES = {
    "single": "single_object",
    "all": "all_objects",
    "unique": "unique",
    "unique-first-nonempty": "unique_firstnonempty",
    "union": "union",
}
_SOURCES = ("stored", "computed")
_SIZE = MASK_VIEW[::-1]  # Pillow names the width first


@dataclass(frozen=True)
class Release:
    """An opened archive: one kind of questions, with their scenes and where everything lies.

    Attributes:
        name: Name of the data set, used in ids and tables.
        kind: ``simple`` or ``complex``.
        root: Folder of the JSON files and ground truths.
        images_root: Folder that holds ``images`` and ``masks``.
        scenes: Scenes by ``image_index``.
        questions: Questions sorted by their number.
        stored: For each ground truth with a folder in the archive the questions that have a mask there.
    """

    name: str
    kind: Kind
    root: Path
    images_root: Path
    scenes: Mapping[int, ArchivedScene]
    questions: tuple[Question, ...]
    stored: Mapping[str, frozenset[int]]

    @property
    def ground_truths(self) -> tuple[str, ...]:
        """Ground truths that are published with this kind of questions."""
        return RELEASED[self.kind]

    def image(self, index: int, size: int = 128) -> Tensor:
        """Image of scene ``index``, ``(3, size, size)`` float32 in [0, 1]; see ``pixels``."""
        return to_images(self.pixels(index, size))

    def pixels(self, index: int, size: int = 128) -> Pixels:
        """Image of scene ``index``, ``(size, size, 3)`` uint8.

        Resized bilinearly with antialiasing, the aspect ratio given up; unchanged where it is of that size.

        Raises:
            FileNotFoundError: The image is missing.
            ValueError: There is no such scene, or its file is damaged or of another size than released.
        """
        path = self.images_root / "images" / self._scene(index).image_file
        image = read_image(path)
        if image.size != _SIZE and image.width != image.height:
            raise ValueError(
                f"image {path} has {image.width} x {image.height} pixels; needed are {_SIZE[0]} x "
                f"{_SIZE[1]}, as released, or a square"
            )
        return crop_pixels(image, "squash224", size, resize=size)

    def owners(self, index: int) -> Owners:
        """Object that each pixel of scene ``index`` shows, ``(320, 480)`` int8, -1 for the background.

        Raises:
            FileNotFoundError: The mask image is missing.
            ValueError: There is no such scene, or its mask image is damaged or belongs to another scene.
        """
        scene = self._scene(index)
        path = self.images_root / "masks" / scene.mask_file
        image = read_image(path)
        if image.size != _SIZE:
            raise ValueError(
                f"mask image {path} has {image.width} x {image.height} pixels; needed are {_SIZE[0]} x "
                f"{_SIZE[1]}, as released"
            )
        return decode_masks(np.asarray(image), scene.mask_colors, where=f"mask image {path}")

    def object_masks(self, index: int, size: int = 128) -> Mask:
        """Mask of each object of scene ``index``, resized, ``(n, size, size)`` bool; raises as ``owners``."""
        owners = self.owners(index)
        n_objects = len(self._scene(index).facts.objects)
        masks = [resize_mask(object_mask(owners, [place]), size) for place in range(n_objects)]
        return np.stack(masks) if masks else np.zeros((0, size, size), dtype=np.bool_)

    def targets(self, name: str, question: Question, *, first: First = "published") -> tuple[int, ...] | None:
        """Objects of the ground truth ``name``; None where it is undefined. See ``object_set``."""
        n_objects = len(self._scene(question.image).facts.objects)
        return object_set(name, question.program, question.outputs, n_objects, first=first)

    def ground_truth(
        self,
        name: str,
        question: Question,
        size: int = 128,
        *,
        source: Source = "stored",
        first: First = "published",
        object_masks: Callable[[], Mask] | None = None,
    ) -> Tensor | None:
        """Mask of the ground truth ``name``, ``(size, size)`` bool; None where it is undefined.

        Args:
            name: One of ``GROUND_TRUTHS``.
            question: A question of this archive.
            size: Side of the mask. The archive stores 128; others are always computed, from 320 x 480.
            source: ``stored`` takes the archive's file where the archive has a folder for it.
            first: Which first non-empty set; the archive stores the published one.
            object_masks: Gives ``self.object_masks(question.image, size)``, for callers that keep it.

        Raises:
            FileNotFoundError: The mask image is missing.
            ValueError: The name, source or mode is unknown, or a file is damaged.
        """
        if source not in _SOURCES:
            raise ValueError(f"unknown source {source!r}; allowed: {', '.join(_SOURCES)}")
        if source == "stored" and size == STORED_SIZE and first == "published" and name in self.stored:
            if question.index not in self.stored[name]:
                return None
            return torch.from_numpy(read_mask(self.root / folder_name(self.kind, name), question.index))
        objects = self.targets(name, question, first=first)
        if objects is None:
            return None
        masks = self.object_masks(question.image, size) if object_masks is None else object_masks()
        # A pixel of the resized union is true where it is in one of the resized masks.
        return torch.from_numpy(masks[list(objects)].any(axis=0))

    def _scene(self, index: int) -> ArchivedScene:
        if index not in self.scenes:
            raise ValueError(f"{self.name} has no scene with image_index {index}; it has {len(self.scenes)}")
        return self.scenes[index]


def open_release(
    root: Path | str, images_root: Path | str | None = None, *, kind: Kind, name: str = "clevr-xai"
) -> Release:
    """The archive in ``root``, with questions of one kind.

    Args:
        root: Folder of ``CLEVR-XAI_scenes.json`` (or ``scenes/*.json``), the question files and the ground
            truths, or the folder in which ``CLEVR-XAI_v1.0`` was unpacked.
        images_root: Folder that holds ``images`` and ``masks``, or the folder around it; by default they are
            looked for in ``root`` and beside it.
        kind: ``simple`` or ``complex``.
        name: Name of the data set.

    Raises:
        FileNotFoundError: A folder or file is missing; the message names it.
        ValueError: Unknown kind, or a file is damaged or disagrees with another.
    """
    if kind not in RELEASED:
        raise ValueError(f"unknown kind of questions {kind!r}; allowed: {', '.join(RELEASED)}")
    home = _home(Path(root))
    pictures = _pictures(home, None if images_root is None else Path(images_root))
    aggregate = home / SCENES
    scenes = read_scenes(aggregate if aggregate.is_file() else home / "scenes")
    questions = read_questions(home / questions_file(kind), scenes)
    _check_images(pictures, [scenes[index] for index in sorted({item.image for item in questions})])
    return Release(name, kind, home, pictures, scenes, questions, _stored(home, kind))


def questions_file(kind: Kind) -> str:
    """Name of the file with questions of ``kind``."""
    return f"CLEVR-XAI_{kind}_questions.json"


def folder_name(kind: Kind, name: str) -> str:
    """Name of the folder with the masks of ground truth ``name``."""
    return f"ground_truth_{kind}_questions_{_FOLDER_NAMES[name]}"


def _home(root: Path) -> Path:
    if not root.is_dir():
        raise FileNotFoundError(f"CLEVR-XAI folder {root} is missing; name the folder that holds {SCENES}")
    for folder in (root, root / ARCHIVE):
        if (folder / SCENES).is_file() or (folder / "scenes").is_dir():
            return folder
    raise FileNotFoundError(
        f"{SCENES} is missing under {root}; looked in the folder and in {ARCHIVE}, also for scenes/*.json"
    )


def _pictures(home: Path, given: Path | None) -> Path:
    around = (home, home / IMAGES_ARCHIVE, home.parent / IMAGES_ARCHIVE)
    tried = around if given is None else (given, given / IMAGES_ARCHIVE)
    for folder in tried:
        if (folder / "images").is_dir() and (folder / "masks").is_dir():
            return folder
    raise FileNotFoundError(
        f"folders images and masks are missing; looked in {', '.join(map(str, tried))}; unpack "
        f"{IMAGES_ARCHIVE}.zip and name its folder as images_root"
    )


def _check_images(folder: Path, scenes: list[ArchivedScene]) -> None:
    """Every scene must have its files; their content is looked at when it is needed."""
    for kind, names in (("images", [s.image_file for s in scenes]), ("masks", [s.mask_file for s in scenes])):
        there = {entry.name for entry in os.scandir(folder / kind)}
        absent = sorted(set(names) - there)
        if absent:
            raise FileNotFoundError(
                f"{len(absent)} of {len(names)} files are missing in {folder / kind}, such as {absent[0]}; "
                f"unpack {IMAGES_ARCHIVE}.zip whole"
            )


def _stored(home: Path, kind: Kind) -> dict[str, frozenset[int]]:
    folders = {name: home / folder_name(kind, name) for name in GROUND_TRUTHS}
    return {name: frozenset(list_complete(folder)) for name, folder in folders.items() if folder.is_dir()}
