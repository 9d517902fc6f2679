"""Boxes from heatmaps: threshold, then the tight box around what is kept."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor

from heatcheck.metrics.flags import EMPTY, NONFINITE, Flags, check_heatmaps, is_flagged, map_flags, override
from heatcheck.runtime.memory import chunk_size, map_chunks

Threshold = Literal["max", "mean", "value", "energy"]
Region = Literal["tight", "component", "component-mass"]
THRESHOLDS: tuple[Threshold, ...] = ("max", "mean", "value", "energy")
REGIONS: tuple[Region, ...] = ("tight", "component", "component-mass")
# The grid of thresholds: 0.05, 0.10, ..., 0.95.
ALPHAS = tuple(round(0.05 * step, 2) for step in range(1, 20))


class Boxes(NamedTuple):
    """Boxes of ``N`` heatmaps, or of ``A`` thresholds and ``N`` heatmaps.

    Attributes:
        boxes: ``(N, 4)`` or ``(A, N, 4)`` int64, half-open ``[x0, y0, x1, y1)`` in pixels; zeros for no box.
        found: ``(N,)`` or ``(A, N)`` bool, whether there is a box.
        flags: ``(N,)`` or ``(A, N)`` flags; ``empty`` where nothing was kept.
    """

    boxes: Tensor
    found: Tensor
    flags: Flags


def boxes_from_heatmaps(
    heatmaps: Tensor,
    alpha: float | Sequence[float],
    *,
    threshold: Threshold = "max",
    region: Region = "tight",
    connectivity: Literal[4, 8] = 4,
    when_empty: Literal["none", "image"] = "none",
) -> Boxes:
    """Boxes around the pixels of a heatmap that reach a threshold; negative relevance counts as 0.

    A pixel is kept when it is positive and reaches ``alpha`` times the map's maximum (``max``), mean
    (``mean``) or range above its minimum (``value``); ``energy`` keeps the largest pixels as long as their
    sum stays below ``alpha`` of the total, of equal ones the larger row-major index first. Sources: Fong &
    Vedaldi (2017) for ``mean``, ``value`` and ``energy``; Bansal et al. (2020) for ``max``.

    Args:
        heatmaps: ``(N, H, W)`` at the image's resolution.
        alpha: One threshold, or ``A`` of them, in [0, 1] (``mean``: at least 0).
        threshold: What ``alpha`` is a fraction of.
        region: ``tight`` takes all kept pixels; ``component`` the connected component of the largest area,
            ``component-mass`` of the largest relevance, in both the first in row-major order of equals.
        connectivity: Neighbors of a pixel in a component.
        when_empty: No box where nothing is kept, or the whole ``image``.

    Raises:
        ValueError: Heatmaps, a threshold or a choice are not allowed.
    """
    check_heatmaps(heatmaps)
    many = isinstance(alpha, Sequence)
    alphas = _check_choices(
        alpha if isinstance(alpha, Sequence) else (alpha,), threshold, region, connectivity
    )
    flags = map_flags(heatmaps, empty="nonpositive")
    usable = ~is_flagged(flags, NONFINITE, device=heatmaps.device)
    n, height, width = heatmaps.shape
    boxes = torch.zeros((len(alphas), n, 4), dtype=torch.int64, device=heatmaps.device)
    simple = region == "tight" and threshold != "energy"

    def compute(part: slice) -> Tensor:
        maps = heatmaps[part].detach().double().clamp(min=0)
        maps = torch.where(usable[part, None, None], maps, 0)
        if simple:
            return _tight_boxes(maps, alphas.to(maps.device), threshold)
        kept = _kept(maps, alphas.to(maps.device), threshold)
        if region != "tight":
            kept = largest_components(kept, maps if region == "component-mass" else None, connectivity)
        return _extent(kept.any(-1), kept.any(-2))

    bytes_per_map = (24 + (0 if simple else 2 * len(alphas))) * height * width
    for part, found in map_chunks(compute, n, chunk_size(bytes_per_map, heatmaps.device)):
        boxes[:, part] = found
    has_box = boxes[..., 2] > boxes[..., 0]
    flags = override(np.broadcast_to(flags, (len(alphas), n)), EMPTY, usable & ~has_box)
    if when_empty == "image":
        whole = torch.tensor([0, 0, width, height], device=boxes.device)
        boxes = torch.where((usable & ~has_box)[..., None], whole, boxes)
    return Boxes(boxes, has_box, flags) if many else Boxes(boxes[0], has_box[0], flags[0])


def largest_components(kept: Tensor, weights: Tensor | None = None, connectivity: int = 4) -> Tensor:
    """Masks shaped as ``kept``, only the largest connected component of each left.

    Args:
        kept: ``(..., N, H, W)`` bool.
        weights: ``(N, H, W)`` relevance by which components are weighed; by default their area counts.
        connectivity: 4 or 8 neighbors.
    """
    structure = ndimage.generate_binary_structure(2, 1 if connectivity == 4 else 2)
    planes = kept.reshape(-1, *kept.shape[-2:]).cpu().numpy()
    heavy = None if weights is None else weights.cpu().numpy()
    result = np.zeros_like(planes)
    for index, plane in enumerate(planes):
        labels, count = ndimage.label(plane, structure)
        if count:
            mass = None if heavy is None else heavy[index % len(heavy)].ravel()
            sizes = np.bincount(labels.ravel(), weights=mass, minlength=count + 1)
            result[index] = labels == 1 + sizes[1:].argmax()
    return torch.from_numpy(result).view(kept.shape).to(kept.device)


def _tight_boxes(maps: Tensor, alphas: Tensor, threshold: Threshold) -> Tensor:
    """Tight boxes ``(A, n, 4)``: a row is kept exactly when its largest value is."""
    level = _levels(maps, alphas, threshold)[..., None]
    rows, columns = maps.amax(2), maps.amax(1)
    return _extent((rows >= level) & (rows > 0), (columns >= level) & (columns > 0))


def _kept(maps: Tensor, alphas: Tensor, threshold: Threshold) -> Tensor:
    """Pixels ``(A, n, H, W)`` bool that reach the threshold."""
    if threshold != "energy":
        return (maps >= _levels(maps, alphas, threshold)[..., None, None]) & (maps > 0)
    values, order = maps.flatten(1).flip(1).sort(dim=1, descending=True, stable=True)
    total = values.cumsum(1)
    lengths = (total < alphas[:, None, None] * total[:, -1:]).sum(2)
    ranks = torch.empty_like(order)
    ranks.scatter_(1, order, torch.arange(order.shape[1], device=order.device).expand_as(order))
    return ((ranks.flip(1) < lengths[..., None]) & (maps.flatten(1) > 0)).view(len(alphas), *maps.shape)


def _levels(maps: Tensor, alphas: Tensor, threshold: Threshold) -> Tensor:
    """Smallest kept value ``(A, n)``."""
    top, low = maps.amax((1, 2)), maps.amin((1, 2))
    if threshold == "max":
        return alphas[:, None] * top
    if threshold == "mean":
        return alphas[:, None] * maps.mean((1, 2))
    return low + alphas[:, None] * (top - low)


def _extent(rows: Tensor, columns: Tensor) -> Tensor:
    """Half-open boxes ``(..., 4)`` of kept rows ``(..., H)`` and columns ``(..., W)``; zeros for none."""
    edges = []
    for line in (columns, rows):
        places = torch.arange(line.shape[-1], device=line.device)
        end = torch.where(line, places + 1, 0).amax(-1)
        start = torch.where(line, places, line.shape[-1]).amin(-1)
        edges.append((torch.minimum(start, end), end))
    (x0, x1), (y0, y1) = edges
    return torch.stack([x0, y0, x1, y1], -1)


def _check_choices(alphas: Sequence[float], threshold: str, region: str, connectivity: int) -> Tensor:
    if threshold not in THRESHOLDS:
        raise ValueError(f"unknown threshold {threshold!r}; allowed: {', '.join(THRESHOLDS)}")
    if region not in REGIONS:
        raise ValueError(f"unknown region {region!r}; allowed: {', '.join(REGIONS)}")
    if connectivity not in (4, 8):
        raise ValueError(f"connectivity must be 4 or 8, got {connectivity}")
    top = float("inf") if threshold == "mean" else 1.0
    if not alphas or not all(0 <= alpha <= top for alpha in alphas):
        allowed = "at least 0" if threshold == "mean" else "in [0, 1]"
        raise ValueError(f"alpha must be {allowed} for threshold {threshold!r}, got {list(alphas)}")
    return torch.tensor(alphas, dtype=torch.float64)
