"""Which images of an archive are explained: a rule that anybody can repeat.

The published lists are unknown, so the rule is this project's own: images the classifier gets right, and
whose object the crop keeps, in a fixed random order.
"""

import hashlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

MIN_VISIBLE = 0.25


class Selection(NamedTuple):
    """Rows of the images to test on and of those to choose parameters on, with what was left out.

    ``test_sha256`` and ``held_out_sha256`` are those of the lists of ids (``list_digest``), to be stored with
    results. ``n_eligible`` images were left to draw from; the other counts say why the rest was dropped, each
    image under the first reason that holds.
    """

    test: tuple[int, ...]
    held_out: tuple[int, ...]
    test_sha256: str
    held_out_sha256: str
    n_eligible: int
    n_blacklisted: int
    n_wrong: int
    n_hidden: int


def select_images(
    ids: Sequence[str],
    targets: Tensor,
    predictions: Tensor,
    *,
    n: int = 1000,
    n_held_out: int | None = None,
    visible: Sequence[float] | None = None,
    blacklist: Collection[str] = frozenset(),
    seed: int = 0,
) -> Selection:
    """Rows to test on and rows held out for choosing parameters.

    Sorted by name, without the blacklist, the prediction right, a box at least a quarter of which is in the
    crop; then permuted with NumPy's ``RandomState(seed)``. The first ``n`` are the test set, the next
    ``n_held_out`` the held-out set.

    Args:
        ids: ``N`` different names; their order does not matter.
        targets: ``(N,)`` int64 labels.
        predictions: ``(N,)`` int64 top-1 classes of the classifier, under the same preprocessing.
        n: Size of the test set.
        n_held_out: Size of the held-out set; as many as ``n`` by default.
        visible: Largest visible fraction of a box, per image; None where there are no boxes (Places365).
        blacklist: Names never taken.
        seed: Seed of the permutation.

    Raises:
        ValueError: The lengths differ, a name occurs twice, or too few images are left.
    """
    _check_lengths(ids, targets, predictions, visible)
    correct = (targets == predictions).tolist()
    order = sorted(range(len(ids)), key=lambda row: ids[row])
    listed = [row for row in order if ids[row] not in blacklist]
    right = [row for row in listed if correct[row]]
    eligible = right if visible is None else [row for row in right if visible[row] >= MIN_VISIBLE]
    held = n if n_held_out is None else n_held_out
    if len(eligible) < n + held:
        raise ValueError(
            f"{len(eligible)} of {len(ids)} images can be taken, {n} + {held} were asked for; dropped: "
            f"{len(order) - len(listed)} on the blacklist, {len(listed) - len(right)} classified wrongly, "
            f"{len(right) - len(eligible)} without a visible box; ask for fewer"
        )
    # The legacy generator is what the rule names; its stream is frozen for all versions of NumPy.
    drawn = np.random.RandomState(seed).permutation(len(eligible))
    rows = [eligible[position] for position in drawn[: n + held]]
    test, held_out = tuple(rows[:n]), tuple(rows[n:])
    return Selection(
        test,
        held_out,
        list_digest([ids[row] for row in test]),
        list_digest([ids[row] for row in held_out]),
        len(eligible),
        len(order) - len(listed),
        len(listed) - len(right),
        len(right) - len(eligible),
    )


def list_digest(ids: Sequence[str]) -> str:
    """SHA-256 of a list of names in its order, each name ended by a line feed."""
    return hashlib.sha256("".join(f"{name}\n" for name in ids).encode()).hexdigest()


def _check_lengths(
    ids: Sequence[str], targets: Tensor, predictions: Tensor, visible: Sequence[float] | None
) -> None:
    lengths = {"targets": len(targets), "predictions": len(predictions)}
    if visible is not None:
        lengths["visible"] = len(visible)
    wrong = {name: length for name, length in lengths.items() if length != len(ids)}
    if wrong:
        raise ValueError(f"{len(ids)} ids, but {wrong}; all must be equally long")
    if len(set(ids)) < len(ids):
        raise ValueError("ids occur twice; every image needs its own name")
    if torch.is_floating_point(predictions) or predictions.ndim != 1:
        raise ValueError(
            f"predictions must be classes (N,) int64, got {tuple(predictions.shape)} {predictions.dtype}"
        )
