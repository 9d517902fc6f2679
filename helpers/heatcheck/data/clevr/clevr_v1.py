"""CLEVR v1.0 (Johnson et al. 2017): 70,000 images and 700,000 questions to train on."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heatcheck.data.clevr.archive import ArchivedScene, read_questions, read_scenes
from heatcheck.data.clevr.questions import Question
from heatcheck.data.decoded import DecodedImages, decode_once

Split = Literal["train", "val"]

ARCHIVE = "CLEVR_v1.0"
SPLITS = ("train", "val")  # the questions of ``test`` have no answers


@dataclass(frozen=True)
class ClevrSplit:
    """One split of CLEVR on disk.

    Attributes:
        split: ``train`` or ``val``.
        images: ``image_index`` of every image that questions ask about, sorted.
        paths: Their files.
        questions: Questions sorted by their number; without ``outputs`` where programs were not executed.
        scenes: Scenes by ``image_index``; empty where programs were not executed.
    """

    split: Split
    images: tuple[int, ...]
    paths: tuple[Path, ...]
    questions: tuple[Question, ...]
    scenes: Mapping[int, ArchivedScene]

    def decoded(
        self, folder: Path | str, size: int = 128, *, workers: int | None = None, verify: bool = False
    ) -> DecodedImages:
        """All images as one array on disk, in the order of ``images``; see ``decode_once``.

        Resized bilinearly with antialiasing, the aspect ratio given up.
        """
        ids = [path.stem for path in self.paths]
        return decode_once(
            ids, self.paths, folder, mode="squash224", size=size, workers=workers, verify=verify
        )

    def rows(self, questions: Sequence[int]) -> list[int]:
        """Rows of ``decoded`` for the questions at places ``questions``."""
        place = {image: row for row, image in enumerate(self.images)}
        return [place[self.questions[question].image] for question in questions]


def open_clevr(
    root: Path | str, split: Split = "train", *, execute: bool = False, partial: bool = False
) -> ClevrSplit:
    """One split of the archive in ``root``.

    Args:
        root: Folder with ``images``, ``questions`` and ``scenes``, or the one around ``CLEVR_v1.0``.
        split: ``train`` or ``val``.
        execute: Read the scenes and execute every program on its scene, which also checks the answers; takes
            minutes for ``train``, and training does not need it.
        partial: Leave out questions about images that are not there.

    Raises:
        FileNotFoundError: A file, or an image that is asked about, is missing; the message names it.
        ValueError: Unknown split, or a file is damaged or disagrees with another.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; allowed: {', '.join(SPLITS)}")
    home = _home(Path(root), split)
    scenes = read_scenes(home / "scenes" / f"CLEVR_{split}_scenes.json", masks=False) if execute else None
    questions = read_questions(home / "questions" / f"CLEVR_{split}_questions.json", scenes)
    folder = home / "images" / split
    there = {entry.name for entry in os.scandir(folder)}
    names = {image: f"CLEVR_{split}_{image:06d}.png" for image in sorted({item.image for item in questions})}
    absent = {image: name for image, name in names.items() if name not in there}
    if absent and (not partial or len(absent) == len(names)):
        raise FileNotFoundError(
            f"{len(absent)} of {len(names)} images are missing in {folder}, such as "
            f"{next(iter(absent.values()))}; complete the archive, or allow a partial one"
        )
    images = tuple(image for image in names if image not in absent)
    return ClevrSplit(
        split,
        images,
        tuple(folder / names[image] for image in images),
        tuple(item for item in questions if item.image not in absent),
        scenes or {},
    )


def _home(root: Path, split: Split) -> Path:
    for folder in (root, root / ARCHIVE):
        if (folder / "images" / split).is_dir():
            return folder
    raise FileNotFoundError(
        f"folder images/{split} is missing under {root}; looked there and in {ARCHIVE}; name the folder that "
        "holds images, questions and scenes"
    )
