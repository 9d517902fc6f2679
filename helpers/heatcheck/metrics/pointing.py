"""Pointing game: does the largest relevance lie on the object? Zhang et al. (2016)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from heatcheck.metrics.flags import NO_MASK, NONFINITE, Flags, check_heatmaps, is_flagged, map_flags, override
from heatcheck.metrics.localization import check_boxes
from heatcheck.runtime.memory import chunk_size, map_chunks


class Pointing(NamedTuple):
    """Pointing game of ``N`` heatmaps.

    Attributes:
        hits: ``(N,)`` float64, 1 for a hit, 0 for a miss, NaN where undefined.
        points: ``(N, 2)`` int64 column and row of the largest relevance.
        flags: ``(N,)`` flags.
    """

    hits: Tensor
    points: Tensor
    flags: Flags


def pointing_game(heatmaps: Tensor, masks: Tensor, *, tolerance: float = 15) -> Pointing:
    """Whether each map's maximum lies nearer than ``tolerance`` pixels to the ground truth.

    The maximum is the first one in row-major order. An empty mask and a map that is not finite are undefined.

    Args:
        heatmaps: ``(N, H, W)`` floating.
        masks: ``(N, H, W)`` bool ground truth; ``masks_of_boxes`` makes them from boxes.
        tolerance: Distance in pixels; a pixel counts when it is strictly nearer.

    Raises:
        ValueError: Shapes differ or the tolerance is not positive.
    """
    check_heatmaps(heatmaps)
    if masks.shape != heatmaps.shape or masks.dtype != torch.bool:
        raise ValueError(
            f"masks must be bool {tuple(heatmaps.shape)}, got {masks.dtype} {tuple(masks.shape)}"
        )
    n, height, width = heatmaps.shape
    flat = heatmaps.detach().flatten(1).argmax(1) if n else torch.zeros(0, dtype=torch.int64)
    points = torch.stack([flat % width, flat // width], 1)
    flags = map_flags(heatmaps)
    missing = ~masks.flatten(1).any(1)
    flags = override(flags, NO_MASK, missing & ~is_flagged(flags, NONFINITE, device=masks.device))
    size = chunk_size(16 * height * width, masks.device)
    near = [
        hits for _, hits in map_chunks(lambda part: is_hit(points[part], masks[part], tolerance), n, size)
    ]
    hits = torch.cat(near).double() if near else masks.new_zeros(0, dtype=torch.float64)
    hits[is_flagged(flags, NONFINITE, NO_MASK, device=hits.device)] = torch.nan
    return Pointing(hits, points, flags)


def is_hit(points: Tensor, masks: Tensor, tolerance: float = 15) -> Tensor:
    """Bool ``(n,)``: a mask pixel lies strictly nearer than ``tolerance`` to each point.

    Args:
        points: ``(n, 2)`` column and row.
        masks: ``(n, H, W)`` bool.
        tolerance: In pixels, positive.

    Raises:
        ValueError: The tolerance is not positive.
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}")
    height, width = masks.shape[1:]
    across = (torch.arange(width, device=masks.device) - points[:, :1]).square()
    down = (torch.arange(height, device=masks.device) - points[:, 1:]).square()
    near = down[:, :, None] + across[:, None, :] < tolerance**2
    return (near & masks).flatten(1).any(1)


def class_accuracy(hits: Tensor, classes: Tensor, n_classes: int | None = None) -> tuple[Tensor, Tensor]:
    """Mean over classes ``()`` of hits / (hits + misses), and the value of each class ``(n_classes,)``.

    Args:
        hits: ``(N,)`` 1, 0, or NaN for a row that does not count.
        classes: ``(N,)`` int64.
        n_classes: Number of classes; by default as many as occur. One without a counted row contributes 0.

    Raises:
        ValueError: Shapes differ, or a class is out of range.
    """
    if hits.shape != classes.shape or hits.ndim != 1:
        raise ValueError(
            f"need one class per hit, got {tuple(hits.shape)} hits and {tuple(classes.shape)} classes"
        )
    count = int(classes.max()) + 1 if n_classes is None and len(classes) else n_classes or 0
    if len(classes) and (int(classes.min()) < 0 or int(classes.max()) >= count):
        raise ValueError(f"classes must lie in 0 to {count - 1}, got {sorted(set(classes.tolist()))}")
    counted = ~hits.isnan()
    total = torch.bincount(classes[counted], minlength=count).double()
    good = torch.bincount(classes[counted & (hits > 0)], minlength=count).double()
    accuracies = torch.where(total > 0, good / total.clamp(min=1), 0)
    return accuracies.mean(), accuracies


def masks_of_boxes(boxes: Sequence[Tensor], size: tuple[int, int]) -> Tensor:
    """Masks ``(N, H, W)`` bool of the pixels whose centers lie in one of an image's boxes.

    Args:
        boxes: For each image its boxes ``(n, 4)``, half-open ``[x0, y0, x1, y1)``.
        size: ``(H, W)``.

    Raises:
        ValueError: A box is not well formed.
    """
    masks = torch.zeros((len(boxes), *size), dtype=torch.bool)
    rows, columns = (torch.arange(side) + 0.5 for side in size)
    for index, some in enumerate(boxes):
        for x0, y0, x1, y1 in check_boxes(some).tolist():
            masks[index] |= ((rows >= y0) & (rows < y1))[:, None] & ((columns >= x0) & (columns < x1))
    return masks
