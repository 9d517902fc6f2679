"""Files that the published evaluation of CLEVR-XAI reads and writes, so that results can change hands.

Heatmaps and masks are one ``<question_index>.npy`` per question, predictions one JSON list. After the
published evaluation script of Arras, Osman & Samek 2022.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from heatcheck.data.clevr.mask_stream import each_ground_truth
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.release import Release, folder_name
from heatcheck.data.clevr.stored_masks import (
    STORED_SIZE,
    TargetCount,
    read_array,
    read_mask,
    write_target_counts,
)
from heatcheck.data.clevr.vocabulary import answer_index, answer_text


def write_heatmaps(folder: Path | str, indices: Sequence[int], heatmaps: Tensor) -> None:
    """Write one heatmap per question, not pooled.

    Args:
        folder: Made when missing; files that are there are replaced.
        indices: ``N`` different ``question_index``.
        heatmaps: ``(N, C, H, W)`` floating; ``C`` is 3 for pixel methods and 1 for Grad-CAM.

    Raises:
        ValueError: The lengths differ, a number occurs twice, or the heatmaps have another shape or type.
    """
    if heatmaps.ndim != 4 or not heatmaps.is_floating_point():
        raise ValueError(
            f"heatmaps must be (N, C, H, W) floating, got {tuple(heatmaps.shape)} {heatmaps.dtype}"
        )
    # NumPy has no bfloat16.
    exact = heatmaps if heatmaps.dtype == torch.float64 else heatmaps.float()
    _write_arrays(Path(folder), indices, exact)


def read_heatmaps(folder: Path | str, indices: Sequence[int]) -> Tensor:
    """Heatmaps of questions ``indices``, ``(N, C, H, W)`` in the files' own type.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged, no floating ``(C, H, W)``, or the heatmaps' shapes differ.
    """
    arrays = [read_array(Path(folder) / f"{index}.npy") for index in indices]
    for index, array in zip(indices, arrays, strict=True):
        if array.ndim != 3 or array.dtype.kind != "f" or array.shape != arrays[0].shape:
            raise ValueError(
                f"heatmap {Path(folder) / f'{index}.npy'} is {array.shape} {array.dtype}; needed are "
                f"floating (C, H, W), all of one shape, as the first one's {arrays[0].shape}"
            )
    return torch.from_numpy(np.stack(arrays)) if arrays else torch.zeros((0, 1, 0, 0))


def write_masks(folder: Path | str, indices: Sequence[int], masks: Tensor) -> None:
    """Write one mask per question.

    Args:
        folder: Made when missing; files that are there are replaced.
        indices: ``N`` different ``question_index``; leave out those whose ground truth is undefined.
        masks: ``(N, H, W)`` bool.

    Raises:
        ValueError: The lengths differ, a number occurs twice, or the masks have another shape or type.
    """
    if masks.ndim != 3 or masks.dtype != torch.bool:
        raise ValueError(f"masks must be (N, H, W) bool, got {tuple(masks.shape)} {masks.dtype}")
    _write_arrays(Path(folder), indices, masks)


def read_masks(folder: Path | str, indices: Sequence[int], size: int = STORED_SIZE) -> Tensor:
    """Masks of questions ``indices``, ``(N, size, size)`` bool.

    Raises:
        FileNotFoundError: A file is missing: the question has no such ground truth.
        ValueError: A file is damaged, or no boolean array of that size.
    """
    masks = [read_mask(folder, index, shape=(size, size)) for index in indices]
    return torch.from_numpy(np.stack(masks)) if masks else torch.zeros((0, size, size), dtype=torch.bool)


def write_predictions(path: Path | str, answers: Mapping[int, str]) -> None:
    """Write predicted answers by ``question_index``.

    The published script compares them with the question file's answers by ``==``, so they are written like
    those: yes and no as truth values, counts as numbers.

    Raises:
        ValueError: An answer is none of the 28.
    """
    entries = [{"question_index": index, "answer": _native(answers[index])} for index in sorted(answers)]
    Path(path).write_text(json.dumps(entries), encoding="utf-8")


def read_predictions(path: Path | str) -> dict[int, str]:
    """Predicted answers by ``question_index``, in numerical order, as words of the answer vocabulary.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, a question occurs twice, or an answer is none of the 28.
    """
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
        pairs = [(int(entry["question_index"]), answer_text(entry["answer"])) for entry in entries]
        for _, answer in pairs:
            answer_index(answer)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"predictions {path} are missing") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"predictions {path} are damaged ({error}); needed is a JSON list of objects with question_index "
            "and answer"
        ) from error
    found = dict(sorted(pairs))
    if len(found) < len(pairs):
        raise ValueError(f"predictions {path} answer {len(pairs) - len(found)} questions twice")
    return found


def write_ground_truths(
    release: Release,
    root: Path | str,
    names: Sequence[str] | None = None,
    *,
    size: int = STORED_SIZE,
    workers: int | None = None,
) -> None:
    """Compute all masks of a release and write them as the archive stores them, with ``stats.json``.

    Args:
        release: An opened archive; stored ground truths are not looked at.
        root: Folder in which the folders of ground truths are made.
        names: Ground truths; by default those published with this kind of questions.
        size: Side of the masks; the archive's is 128.
        workers: Threads that decode; the files do not depend on it.

    Raises:
        FileNotFoundError: A mask image is missing.
        ValueError: A name is unknown, or a mask image is damaged.
    """
    wanted = release.ground_truths if names is None else tuple(names)
    folders = {name: Path(root) / folder_name(release.kind, name) for name in wanted}
    counts: dict[str, dict[int, TargetCount]] = {name: {} for name in wanted}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    stream = each_ground_truth(
        release,
        release.questions,
        wanted,
        size,
        source="computed",
        workers=workers,
        label=f"write {release.kind} ground truths",
    )
    for row, name, mask in stream:
        question = release.questions[row]
        np.save(folders[name] / f"{question.index}.npy", mask.numpy())
        counts[name][question.index] = _target_count(release, name, question)
    for name, found in counts.items():
        write_target_counts(folders[name], found)


def _target_count(release: Release, name: str, question: Question) -> TargetCount:
    objects = release.targets(name, question) or ()
    return TargetCount(len(objects), len(release.scenes[question.image].facts.objects))


def _write_arrays(folder: Path, indices: Sequence[int], arrays: Tensor) -> None:
    if len(indices) != len(arrays) or len(set(indices)) < len(indices):
        raise ValueError(
            f"{len(arrays)} arrays need as many different question_index, got {len(set(indices))} different "
            f"ones of {len(indices)}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for index, array in zip(indices, arrays.detach().cpu().numpy(), strict=True):
        np.save(folder / f"{index}.npy", array)


def _native(answer: str) -> str | bool | int:
    answer_index(answer)
    if answer in {"yes", "no"}:
        return answer == "yes"
    return int(answer) if answer.isdecimal() else answer
