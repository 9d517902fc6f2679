"""Scenes prepared for training the Relation Network: batches of images, and what their cells show."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.benchmarks.relation_questions import MOST_OBJECTS, Asked
from heatcheck.benchmarks.relation_scenes import TrainingScenes
from heatcheck.data.clevr.vocabulary import answer_index
from heatcheck.data.scenes import SHAPES
from heatcheck.models.relation_training import Cells, Deciding

VIEW, STEP, EDGE = 31, 16, 7  # rows a cell sees, from one cell to the next, and from a cell's first row
LEAST, FULL = 10, 64  # pixels from which a cell shows an object, and from which it counts fully
_FIRST_NAME = answer_index(SHAPES[0])  # the answers before it are yes, no and numbers


@dataclass(frozen=True)
class Lesson:
    """Scenes prepared for training.

    Attributes:
        images: ``(N, S, S, 3)`` uint8.
        counts: ``(2, N, K, 10)`` int16 pixels of each object in each cell, as it is and mirrored.
        kinds: For each scene ``(objects, 4)`` int64 values of shape, size, material and color.
    """

    images: NDArray[np.uint8]
    counts: NDArray[np.int16]
    kinds: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.images)

    def first(self, n: int) -> "Lesson":
        """The first ``n`` scenes."""
        return Lesson(self.images[:n], self.counts[:, :n], self.kinds[:n])


def make_lesson(scenes: TrainingScenes) -> Lesson:
    """``scenes`` prepared for training."""
    counts = np.stack([cell_counts(scenes.owners), cell_counts(scenes.owners[:, :, ::-1])])
    return Lesson(scenes.images, counts, tuple(rows.astype(np.int64) for rows in scenes.kinds))


class Drawn(NamedTuple):
    """Images of one step.

    Attributes:
        rows: ``(N,)`` int64 scenes.
        mirrored: ``(N,)`` bool, whether each is mirrored left to right.
    """

    rows: NDArray[np.int64]
    mirrored: NDArray[np.bool_]

    def repeated(self, times: int) -> "Drawn":
        """Each image ``times`` times in a row."""
        return Drawn(np.repeat(self.rows, times), np.repeat(self.mirrored, times))


def generator_of(seed: int, stage: str, step: int) -> np.random.Generator:
    """Random numbers of one step, the same whatever was drawn before."""
    return np.random.default_rng([seed, int.from_bytes(stage.encode(), "big"), step])


def draw_images(rows: NDArray[np.int64], count: int, generator: np.random.Generator) -> Drawn:
    """``count`` images among ``rows`` at random, each mirrored with probability one half."""
    return Drawn(rows[generator.integers(len(rows), size=count)], generator.random(count) < 0.5)


def plain(rows: NDArray[np.int64]) -> Drawn:
    """The scenes ``rows``, none mirrored."""
    return Drawn(rows, np.zeros(len(rows), dtype=np.bool_))


def batch_images(lesson: Lesson, drawn: Drawn) -> Tensor:
    """Images ``(N, 3, S, S)`` float32 in [0, 1], in memory channels-last, which is faster on a processor."""
    batch = lesson.images[drawn.rows]
    batch[drawn.mirrored] = batch[drawn.mirrored, :, ::-1]
    return torch.from_numpy(batch).permute(0, 3, 1, 2).float() / 255


def batch_counts(lesson: Lesson, drawn: Drawn) -> NDArray[np.int16]:
    """Pixels ``(N, K, 10)`` of each object in each cell."""
    counts: NDArray[np.int16] = lesson.counts[drawn.mirrored.astype(np.int64), drawn.rows]
    return counts


def batch_cells(lesson: Lesson, drawn: Drawn) -> Cells:
    """What the cells of images show."""
    counts = batch_counts(lesson, drawn)
    owner, most = counts.argmax(axis=2), counts.max(axis=2)
    # An empty cell's owner is object 0, so it always exists.
    kinds = np.stack([lesson.kinds[row][who] for row, who in zip(drawn.rows.tolist(), owner, strict=True)])
    weights = np.where(most >= LEAST, np.minimum(most / FULL, 1.0), 0.0).astype(np.float32)
    empty = counts.sum(axis=2) == 0
    return Cells(torch.from_numpy(kinds), torch.from_numpy(weights), torch.from_numpy(empty))


def deciding_cells(counts: NDArray[np.int16], asked: Asked) -> Deciding:
    """Cells whose pairs decide questions about images with ``counts`` ``(N, K, 10)``."""
    anywhere = asked.references.all(axis=1, keepdims=True)
    return Deciding(
        torch.from_numpy(cells_of(counts, asked.targets)),
        torch.from_numpy(cells_of(counts, asked.references) | anywhere),
        torch.from_numpy(asked.known),
        asked.answers >= _FIRST_NAME,
    )


def cells_of(counts: NDArray[np.int16], objects: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Cells ``(N, K)`` that mostly show one of ``objects`` ``(N, 10)``, and the one that shows most of each.

    Args:
        counts: ``(N, K, 10)`` pixels of each object in each cell.
        objects: Which objects.
    """
    owner, most = counts.argmax(axis=2), counts.max(axis=2)
    found = np.take_along_axis(objects, owner, axis=1) & (most >= LEAST)
    question, item = np.nonzero(objects & (counts.max(axis=1) > 0))
    found[question, counts.argmax(axis=1)[question, item]] = True
    result: NDArray[np.bool_] = found
    return result


def focus_cells(counts: NDArray[np.int16], m: int) -> Tensor:
    """The ``m`` cells ``(N, m)`` that show most of objects; first those that show most of each object."""
    n = len(counts)
    score = counts.max(axis=2).astype(np.int64)
    image, item = np.nonzero(counts.max(axis=1) > 0)
    score[image, counts.argmax(axis=1)[image, item]] += 1 << 14
    order = np.argsort(-score, axis=1, kind="stable")[:, :m]
    return torch.from_numpy(order.reshape(n, m))


def cell_counts(owners: NDArray[np.int8], n_objects: int = MOST_OBJECTS) -> NDArray[np.int16]:
    """Pixels of each object in each cell of the feature map, ``(N, K, n_objects)``.

    A cell is the 16 x 16 pixels in the middle of what it sees; cells at the border go on to the border.

    Args:
        owners: ``(N, S, S)`` the object each pixel shows, -1 for none.
        n_objects: Largest number of objects.
    """
    size = owners.shape[1]
    starts = cell_starts(size)
    line = np.searchsorted(starts, np.arange(size), side="right") - 1  # cell of each row and column
    cells = len(starts) ** 2
    base = (line[:, None] * len(starts) + line[None]) * (n_objects + 1) + 1
    length = cells * (n_objects + 1)
    rows = [np.bincount((base + owner).ravel(), minlength=length) for owner in owners]
    counts = np.stack(rows).reshape(len(owners), cells, n_objects + 1)
    return counts[:, :, 1:].astype(np.int16)


def cell_starts(size: int) -> list[int]:
    """First row of each cell; the convolutions' windows start every 16 rows and are 31 rows high."""
    side = (size - VIEW) // STEP + 1
    return [0, *(STEP * place + EDGE for place in range(1, side))]
