"""What a batch of visual questions is: images, questions as numbers and text, answers, and true masks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from heatcheck.data.clevr.ground_truth import First, Kind
from heatcheck.data.clevr.mask_stream import each_ground_truth
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.release import Release, Source
from heatcheck.data.clevr.vocabulary import answer_index, encode
from heatcheck.data.loading import map_threads
from heatcheck.data.preprocessing import to_images


@dataclass(frozen=True)
class VisualQuestions:
    """Questions about images, one image per question.

    Attributes:
        name: Name of the data set, used in every table.
        ids: ``N`` stable names, one per question.
        images: ``(N, 3, H, W)`` float32 in [0, 1], not normalized.
        tokens: ``(N, L)`` int64, padded with 0 at the end to the longest question of the batch.
        lengths: ``(N,)`` int64, words of each question.
        answers: ``(N,)`` int64, true answers as places in ``vocabulary.ANSWERS``.
        texts: The questions as they are read.
        questions: The questions with their programs.
        masks: For each ground truth ``(N, H, W)`` bool; all False where it is undefined.
        defined: For each ground truth ``(N,)`` bool, whether the question has one.
    """

    name: str
    ids: tuple[str, ...]
    images: Tensor
    tokens: Tensor
    lengths: Tensor
    answers: Tensor
    texts: tuple[str, ...]
    questions: tuple[Question, ...]
    masks: Mapping[str, Tensor]
    defined: Mapping[str, Tensor]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def target_areas(self) -> dict[str, Tensor]:
        """For each ground truth the fraction of true pixels, ``(N,)`` float64; NaN where it is undefined."""
        return {name: _areas(mask, self.defined[name]) for name, mask in self.masks.items()}

    def take(self, rows: Sequence[int]) -> "VisualQuestions":
        """The questions at ``rows``, in that order; the padding stays."""
        index = list(rows)
        return VisualQuestions(
            self.name,
            tuple(self.ids[row] for row in index),
            self.images[index],
            self.tokens[index],
            self.lengths[index],
            self.answers[index],
            tuple(self.texts[row] for row in index),
            tuple(self.questions[row] for row in index),
            {name: mask[index] for name, mask in self.masks.items()},
            {name: known[index] for name, known in self.defined.items()},
        )


def load_questions(
    release: Release,
    kind: Kind,
    rows: int | Sequence[int],
    size: int = 128,
    *,
    names: Sequence[str] | None = None,
    source: Source = "stored",
    first: First = "published",
    workers: int | None = None,
) -> VisualQuestions:
    """Questions of a release with images and masks; only the images asked for are read, each once.

    Args:
        release: An opened archive.
        kind: ``simple`` or ``complex``, as the archive was opened.
        rows: Places in ``release.questions``, or how many of the first ones.
        size: Side of images and masks in pixels.
        names: Ground truths to load; by default those that are published with this kind of questions.
        source: Take masks of 128 x 128 from the archive's folders where it has them, or compute them all.
        first: Which first non-empty set; see ``object_set``.
        workers: Threads that decode; the result does not depend on it.

    Raises:
        FileNotFoundError: An image or a mask is missing.
        ValueError: The kind is another, a row does not exist, or a file is damaged.
    """
    if kind != release.kind:
        raise ValueError(
            f"{release.name} was opened for {release.kind} questions, {kind} ones were asked for; "
            f"use open_release(..., kind={kind!r})"
        )
    questions = [release.questions[row] for row in _check_rows(rows, len(release.questions))]
    texts = tuple(question.text for question in questions)
    masks, defined = _masks(release, questions, size, names, source=source, first=first, workers=workers)
    encoded = encode(texts)
    return VisualQuestions(
        f"{release.name}-{kind}",
        tuple(f"{release.name}/{kind}/{question.index}" for question in questions),
        _images(release, questions, size, workers),
        encoded.tokens,
        encoded.lengths,
        torch.tensor([answer_index(question.answer) for question in questions], dtype=torch.int64),
        texts,
        tuple(questions),
        masks,
        defined,
    )


def _check_rows(rows: int | Sequence[int], n: int) -> list[int]:
    if isinstance(rows, int):
        if not 0 <= rows <= n:
            raise ValueError(f"{rows} questions were asked for; there are {n}")
        return list(range(rows))
    wrong = [row for row in rows if not 0 <= row < n]
    if wrong:
        raise ValueError(f"question in row {wrong[0]} does not exist; allowed: 0 to {n - 1}")
    return list(rows)


def _images(release: Release, questions: Sequence[Question], size: int, workers: int | None) -> Tensor:
    """One image per question, ``(N, 3, size, size)``; scenes are kept as bytes until then."""
    scenes = sorted({question.image for question in questions})
    place = {image: row for row, image in enumerate(scenes)}
    decoded = map_threads(lambda image: release.pixels(image, size), scenes, workers)
    pixels = np.stack(decoded) if decoded else np.zeros((0, size, size, 3), np.uint8)
    return to_images(pixels[[place[question.image] for question in questions]])


def _masks(
    release: Release,
    questions: Sequence[Question],
    size: int,
    names: Sequence[str] | None,
    *,
    source: Source,
    first: First,
    workers: int | None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    wanted = release.ground_truths if names is None else tuple(names)
    masks = {name: torch.zeros((len(questions), size, size), dtype=torch.bool) for name in wanted}
    defined = {name: torch.zeros(len(questions), dtype=torch.bool) for name in wanted}

    stream = each_ground_truth(release, questions, wanted, size, source=source, first=first, workers=workers)
    for row, name, mask in stream:
        masks[name][row], defined[name][row] = mask, True
    return masks, defined


def _areas(masks: Tensor, defined: Tensor) -> Tensor:
    fraction = masks.to(torch.float64).mean(dim=(1, 2)) if len(masks) else torch.zeros(0, dtype=torch.float64)
    return torch.where(defined, fraction, torch.nan)
