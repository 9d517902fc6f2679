"""Is the object found? Overlap of predicted boxes with the ground truth, and the localization error."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from heatcheck.metrics.boxes import Boxes
from heatcheck.metrics.flags import NO_BOX, NONFINITE, Flags, is_flagged, override

GroundTruth = Literal["best", "union"]


class Localization(NamedTuple):
    """Overlap of ``N`` predicted boxes, or of ``(A, N)`` of them for ``A`` thresholds.

    Attributes:
        ious: Shape ``(N,)`` or ``(A, N)`` float64; 0 without a predicted box, NaN where undefined.
        errors: Same shape; 1 for an object not found, 0 for one found, NaN where undefined.
        error: Mean of the defined errors, ``()`` or ``(A,)``: a fraction, lower is better.
        flags: Same shape as ``ious``; ``no-box`` marks images without ground truth.
    """

    ious: Tensor
    errors: Tensor
    error: Tensor
    flags: Flags


class AlphaChoice(NamedTuple):
    """The threshold with the smallest error, and that error."""

    alpha: float
    error: float


def localization_error(
    predicted: Boxes,
    ground_truth: Sequence[Tensor],
    *,
    mode: GroundTruth = "best",
    min_iou: float = 0.5,
    strict: bool = False,
) -> Localization:
    """Share of images whose box overlaps the ground truth by less than one half (Russakovsky et al. 2015).

    Images without a ground-truth box and heatmaps that are not finite are undefined, flagged and left out
    of the mean; a heatmap that gives no box is an error.

    Args:
        predicted: Boxes of ``N`` heatmaps.
        ground_truth: For each image its boxes ``(n, 4)``, half-open.
        mode: ``best`` takes the best overlap over single boxes; ``union`` the overlap with all of them
            drawn into one mask (Bansal et al. 2020).
        min_iou: Overlap needed for an object to count as found.
        strict: Ask for more than ``min_iou`` instead of at least.

    Raises:
        ValueError: The numbers of images differ, boxes are not well formed, or the mode is unknown.
    """
    if mode not in ("best", "union"):
        raise ValueError(f"unknown mode {mode!r}; allowed: best, union")
    count = predicted.boxes.shape[-2]
    if len(ground_truth) != count:
        raise ValueError(f"there are {count} predicted boxes but ground truth of {len(ground_truth)} images")
    device = predicted.boxes.device
    truth = [check_boxes(boxes).to(device) for boxes in ground_truth]
    ious = best_iou(predicted.boxes, truth) if mode == "best" else union_iou(predicted.boxes, truth)
    missing = torch.tensor([len(boxes) == 0 for boxes in truth], dtype=torch.bool, device=device)
    invalid = is_flagged(predicted.flags, NONFINITE, device=device)
    ious = torch.where(missing | invalid, torch.nan, ious)
    found = ious > min_iou if strict else ious >= min_iou
    errors = torch.where(ious.isnan(), torch.nan, (~found).double())
    flags = override(predicted.flags, NO_BOX, missing & ~invalid)
    return Localization(ious, errors, errors.nanmean(-1), flags)


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union ``(...)`` float64 of half-open boxes ``(..., 4)``; 0 if a box has no area."""
    first, second = first.double(), second.double()
    shared = _area(_intersection(first, second))
    union = _area(first) + _area(second) - shared
    return torch.where(shared > 0, shared / union, 0)


def best_iou(boxes: Tensor, ground_truth: Sequence[Tensor]) -> Tensor:
    """Best overlap ``(..., N)`` of each box ``(..., N, 4)`` with one of its image's; 0 if there is none."""
    padded = torch.zeros((len(ground_truth), max(1, *map(len, ground_truth), 1), 4), dtype=torch.float64)
    for row, truth in enumerate(ground_truth):
        padded[row, : len(truth)] = truth
    return iou(boxes[..., None, :], padded.to(boxes.device)).amax(-1)


def union_iou(boxes: Tensor, ground_truth: Sequence[Tensor]) -> Tensor:
    """Overlap ``(..., N)`` of each box ``(..., N, 4)`` with the union of its image's boxes."""
    result = torch.zeros(boxes.shape[:-1], dtype=torch.float64, device=boxes.device)
    for row, truth in enumerate(ground_truth):
        whole = union_area(truth)
        for place in np.ndindex(tuple(boxes.shape[:-2])):
            box = boxes[(*place, row)].double()
            shared = union_area(_intersection(box, truth.double()))
            if shared:
                result[(*place, row)] = shared / (whole + float(_area(box)) - shared)
    return result


def union_area(boxes: Tensor) -> float:
    """Area covered by boxes ``(n, 4)`` together, in square pixels."""
    real = boxes.double()[_area(boxes.double()) > 0]
    xs, ys = torch.unique(real[:, 0::2]), torch.unique(real[:, 1::2])
    # Between neighboring edges a cell is covered by a box wholly or not at all.
    across = (real[:, 0:1] <= xs[:-1]) & (xs[1:] <= real[:, 2:3])
    down = (real[:, 1:2] <= ys[:-1]) & (ys[1:] <= real[:, 3:4])
    covered = (down[:, :, None] & across[:, None, :]).any(0)
    return float((covered * torch.outer(ys.diff(), xs.diff())).sum())


def choose_alpha(alphas: Sequence[float], errors: Tensor | Sequence[float]) -> AlphaChoice:
    """The threshold of the smallest error on a held-out set; the smallest such threshold on ties.

    Raises:
        ValueError: Numbers differ, or no error is defined.
    """
    values = np.asarray(torch.as_tensor(errors, dtype=torch.float64).cpu())
    if values.shape != (len(alphas),) or np.isnan(values).all():
        raise ValueError(
            f"need one error per threshold, {len(alphas)}, at least one defined; got {values.tolist()}"
        )
    error, alpha = min(
        (error, alpha) for error, alpha in zip(values, alphas, strict=True) if not np.isnan(error)
    )
    return AlphaChoice(float(alpha), float(error))


def check_boxes(boxes: Tensor) -> Tensor:
    """``boxes`` as ``(n, 4)`` float64.

    Raises:
        ValueError: Not ``(n, 4)``, not finite, or corners reversed.
    """
    if boxes.numel() == 0:
        return boxes.new_zeros((0, 4), dtype=torch.float64)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not torch.isfinite(boxes).all():
        raise ValueError(f"boxes must be (n, 4) finite numbers x0, y0, x1, y1, got {tuple(boxes.shape)}")
    if bool((boxes[:, 2:] < boxes[:, :2]).any()):
        raise ValueError(f"boxes must have x0 <= x1 and y0 <= y1, got {boxes.tolist()}")
    return boxes.double()


def _intersection(first: Tensor, second: Tensor) -> Tensor:
    low = torch.maximum(first[..., :2], second[..., :2])
    return torch.cat([low, torch.minimum(first[..., 2:], second[..., 2:])], -1)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1)
