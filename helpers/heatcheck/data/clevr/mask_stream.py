"""Ground truths of many questions, one after another: every scene's mask image is decoded once."""

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from torch import Tensor

from heatcheck.data.clevr.ground_truth import First
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.release import Release, Source
from heatcheck.data.loading import map_threads
from heatcheck.runtime.progress import progress

_BLOCK = 64  # scenes whose masks are in memory at a time


class FoundMask(NamedTuple):
    """Mask ``(size, size)`` bool of the ground truth ``name`` of the question in ``row``."""

    row: int
    name: str
    mask: Tensor


def each_ground_truth(
    release: Release,
    questions: Sequence[Question],
    names: Sequence[str],
    size: int = 128,
    *,
    source: Source = "stored",
    first: First = "published",
    workers: int | None = None,
    label: str | None = None,
) -> Iterator[FoundMask]:
    """All ground truths that are defined, scene by scene; ``row`` is a place in ``questions``.

    Args:
        release: An opened archive.
        questions: Questions of it.
        names: Ground truths.
        size: Side of the masks in pixels.
        source: ``stored`` or ``computed``; see ``Release.ground_truth``.
        first: Which first non-empty set; see ``object_set``.
        workers: Threads that read and decode; the result does not depend on it.
        label: What is being done, for a report of progress; no report without it.

    Raises:
        FileNotFoundError: A mask image is missing.
        ValueError: A name is unknown, or a file is damaged.
    """
    groups: dict[int, list[int]] = {}
    for row, question in enumerate(questions):
        groups.setdefault(question.image, []).append(row)

    def masks_of(image: int) -> list[FoundMask]:
        objects = cache(lambda: release.object_masks(image, size))
        found = []
        for row, name in itertools.product(groups[image], names):
            mask = release.ground_truth(
                name, questions[row], size, source=source, first=first, object_masks=objects
            )
            found += [] if mask is None else [FoundMask(row, name, mask)]
        return found

    images = list(groups)
    starts = range(0, len(images), _BLOCK)
    for start in starts if label is None else progress(starts, label=label):
        for found in map_threads(masks_of, images[start : start + _BLOCK], workers):
            yield from found
