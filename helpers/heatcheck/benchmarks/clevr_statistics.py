"""Statistics of a set of visual questions and its ground truths: the columns of the paper's Table B.10.

Arras, Osman & Samek 2022 report the number of questions, and the least, largest, mean and spread of pixels
(at 128 x 128) and objects in the ground truths, and of the programs' lengths.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks.clevr_xai_questions import ReleasedQuestions, open_questions
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.data.clevr.mask_stream import each_ground_truth
from heatcheck.data.clevr.release import Release, Source

MEASURES = ("pixels", "objects", "length")


def clevr_statistics(
    release: Release,
    names: Sequence[str] | None = None,
    rows: Sequence[int] | None = None,
    *,
    size: int = 128,
    source: Source = "stored",
    workers: int | None = None,
) -> pd.DataFrame:
    """How many questions have each ground truth, and how large it is.

    Masks are read or computed one by one, so memory does not grow with the number of questions.

    Args:
        release: An opened archive.
        names: Ground truths, one row each; by default those published with this kind of questions.
        rows: Places in ``release.questions``; all by default.
        size: Side of the masks in pixels.
        source: ``stored`` or ``computed`` masks; see ``Release.ground_truth``.
        workers: Threads that read; the result does not depend on it.

    Returns:
        Columns ``data, kind, ground_truth, questions`` and for each of ``pixels, objects, length`` (nodes of
        the program) ``_min, _max, _mean, _std`` over the questions that have the ground truth; ``_std``
        divides by their number. NaN where none has it.
    """
    listed = range(len(release.questions)) if rows is None else rows
    questions = [release.questions[row] for row in listed]
    wanted = release.ground_truths if names is None else tuple(names)
    stream = each_ground_truth(
        release, questions, wanted, size, source=source, workers=workers, label="count ground truths"
    )
    found = []
    for row, name, mask in stream:
        objects = release.targets(name, questions[row]) or ()
        found.append((name, int(mask.sum()), len(objects), len(questions[row].program)))
    measured = pd.DataFrame(found, columns=["name", *MEASURES])
    return pd.DataFrame(
        [
            {"data": release.name, "kind": release.kind, "ground_truth": name}
            | _summary(measured[measured["name"] == name])
            for name in wanted
        ]
    )


def statistics_text(data: str, kind: Kind, *, size: int = 128, source: Source = "stored") -> str:
    """The table of ``clevr_statistics`` as lines: mean and spread, least and largest value of each measure.

    Args:
        data: ``embedded``, ``release``, or a folder laid out like the release.
        kind: ``simple`` or ``complex`` questions.
        size: Side of the masks in pixels.
        source: ``stored`` or ``computed`` masks.

    Raises:
        ValueError: There is no such data set.
        FileNotFoundError: Its files are not there.
    """
    questions = open_questions(data, kind)
    if not isinstance(questions, ReleasedQuestions):
        raise ValueError(f"{data!r} has no ground truths to count")
    table = clevr_statistics(questions.release, size=size, source=source)
    head = "  ".join([f"{'ground truth':24}", f"{'questions':>9}", *(f"{name:>34}" for name in MEASURES)])
    lines = [f"{data}, {kind} questions, masks of {size} x {size} pixels: mean ± spread (least to largest)"]
    return "\n".join([*lines, head, *(_line(row) for row in table.to_dict("records"))])


def _line(row: Mapping[Hashable, Any]) -> str:
    cells = []
    for name in MEASURES:
        low, high, mean, std = (row[f"{name}_{part}"] for part in ("min", "max", "mean", "std"))
        cells.append(f"{mean:.1f} ± {std:.1f} ({low:g} to {high:g})")
    first = [f"{row['ground_truth']:24}", f"{row['questions']:>9}"]
    return "  ".join([*first, *(f"{cell:>34}" for cell in cells)])


def _summary(measured: pd.DataFrame) -> dict[str, float | int]:
    summary: dict[str, float | int] = {"questions": len(measured)}
    for name in MEASURES:
        values = measured[name].to_numpy(dtype=np.float64)
        some = values if len(values) else np.array([np.nan])
        summary |= {
            f"{name}_min": float(some.min()),
            f"{name}_max": float(some.max()),
            f"{name}_mean": float(some.mean()),
            f"{name}_std": float(some.std()),
        }
    return summary
