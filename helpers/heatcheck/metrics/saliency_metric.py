"""Saliency metric: is a small crop around the salient region enough for the classifier?

Dabkowski & Gal (2017), section 4: ``ln(max(a, 0.05)) - ln(p)``; lower is better.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.metrics.boxes import Region, Threshold, boxes_from_heatmaps
from heatcheck.metrics.flags import NONFINITE, Flags, is_flagged, override
from heatcheck.metrics.pooling import resize_heatmaps
from heatcheck.metrics.scoring import (
    Scorer,
    ask,
    ask_all,
    check_explained,
    explained_classes,
    images_per_call,
)
from heatcheck.runtime.memory import map_chunks

Interpolation = Literal["bilinear", "bicubic"]


class Saliency(NamedTuple):
    """Saliency metric of ``N`` images, or ``(A, N)`` for ``A`` thresholds.

    Attributes:
        values: ``(N,)`` or ``(A, N)`` float64, at least -3.0, lower is better; NaN where undefined.
        areas: Same shape; the box's share of the image, 1 for an empty heatmap.
        probabilities: Same shape; of the explained class for the crop.
        boxes: ``(N, 4)`` or ``(A, N, 4)`` int64 half-open; the whole image for an empty heatmap.
        targets: ``(N,)`` int64 explained classes.
        flags: Shape of ``values``.
    """

    values: Tensor
    areas: Tensor
    probabilities: Tensor
    boxes: Tensor
    targets: Tensor
    flags: Flags


def saliency_metric(
    probabilities: Scorer,
    images: Tensor,
    heatmaps: Tensor,
    *,
    targets: Tensor | None = None,
    alpha: float | Sequence[float] = 0.15,
    threshold: Threshold = "max",
    region: Region = "tight",
    interpolation: Interpolation = "bilinear",
    min_area: float = 0.05,
    min_probability: float = 1e-12,
) -> Saliency:
    """Saliency metric of heatmaps: the box's area against the probability of the crop alone.

    The box is cropped from the normalized image and enlarged to the image's size, its aspect ratio not kept.

    Args:
        probabilities: Class probabilities ``(B, K)`` of normalized images ``(B, C, H, W)``.
        images: ``(N, C, H, W)`` normalized, finite.
        heatmaps: ``(N, h, w)``; another resolution is resized bilinearly.
        targets: ``(N,)`` int64 explained classes; by default the most probable one.
        alpha: One threshold or ``A`` of them; see ``boxes_from_heatmaps`` for this and the next two.
        threshold: What ``alpha`` is a fraction of.
        region: Which kept pixels the box surrounds.
        interpolation: ``bilinear`` or ``bicubic``, ``align_corners=False``, no antialiasing.
        min_area: Smaller areas count as this one.
        min_probability: Smaller probabilities count as this one, so that the logarithm is finite.

    Raises:
        ValueError: Shapes do not fit or a choice is not allowed.
    """
    if interpolation not in ("bilinear", "bicubic"):
        raise ValueError(f"unknown interpolation {interpolation!r}; allowed: bilinear, bicubic")
    if images.ndim != 4 or len(images) != len(heatmaps) or not torch.isfinite(images).all():
        raise ValueError(f"need finite images (N, C, H, W), one per heatmap; got {tuple(images.shape)}")
    check_explained(probabilities, targets, len(images))
    images = images.detach()
    height, width = images.shape[2:]
    maps = resize_heatmaps(heatmaps.to(images.device), (height, width))
    boxes, _, flags = boxes_from_heatmaps(maps, alpha, threshold=threshold, region=region, when_empty="image")
    found = ask_all(probabilities, images)
    classes = explained_classes(found, targets)
    scores = _crop_scores(probabilities, images, boxes, classes, found=found, interpolation=interpolation)
    areas = (boxes[..., 2:] - boxes[..., :2]).prod(-1) / (height * width)
    invalid = is_flagged(flags, NONFINITE, device=images.device)
    areas, scores = (torch.where(invalid, torch.nan, column) for column in (areas.double(), scores))
    values = saliency_values(areas, scores, min_area=min_area, min_probability=min_probability)
    return Saliency(values, areas, scores, boxes, classes, override(flags, NONFINITE, values.isnan()))


def saliency_values(
    areas: Tensor, probabilities: Tensor, *, min_area: float = 0.05, min_probability: float = 1e-12
) -> Tensor:
    """``ln(max(area, min_area)) - ln(max(probability, min_probability))``, in the inputs' shape, float64.

    Args:
        areas: Share of the image, in [0, 1].
        probabilities: In [0, 1].
        min_area: Floor of the area.
        min_probability: Floor of the probability.
    """
    return areas.double().clamp(min=min_area).log() - probabilities.double().clamp(min=min_probability).log()


def crop_and_resize(image: Tensor, box: Tensor, interpolation: Interpolation = "bilinear") -> Tensor:
    """Crop ``box`` ``(4,)`` out of an image ``(C, H, W)``, enlarged to ``(C, H, W)`` again."""
    x0, y0, x1, y1 = (int(edge) for edge in box)
    crop = image[None, :, y0:y1, x0:x1]
    resized: Tensor = F.interpolate(crop, size=image.shape[1:], mode=interpolation, align_corners=False)
    return resized[0]


def _crop_scores(
    probabilities: Scorer,
    images: Tensor,
    boxes: Tensor,
    classes: Tensor,
    *,
    found: Tensor,
    interpolation: Interpolation,
) -> Tensor:
    """Probability of the explained class for every box; equal boxes of an image are asked about once."""
    n, _, height, width = images.shape
    rows = torch.arange(n, device=boxes.device).expand(boxes.shape[:-1])
    pairs = torch.cat([rows[..., None], boxes], -1).reshape(-1, 5)
    distinct, where = torch.unique(pairs, dim=0, return_inverse=True)
    row = distinct[:, 0]
    scores = found[row, classes[row]]
    sizes = distinct[:, 3:] - distinct[:, 1:3]
    whole = (sizes == torch.tensor([width, height], device=boxes.device)).all(1)
    todo = (~whole & (sizes > 0).all(1)).nonzero()[:, 0]

    def score(part: slice) -> Tensor:
        chosen = distinct[todo[part]]
        batch = torch.stack([crop_and_resize(images[line[0]], line[1:], interpolation) for line in chosen])
        return ask(probabilities, batch).gather(1, classes[chosen[:, 0]][:, None])[:, 0]

    for part, result in map_chunks(score, len(todo), images_per_call(probabilities, images)):
        scores[todo[part]] = result
    return scores[where].view(boxes.shape[:-1])
