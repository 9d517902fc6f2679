"""Single images of the deletion chapter, before any mean: frames of a deletion, boxes drawn from heatmaps."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.attribution.registry import get_method
from heatcheck.benchmarks.deletion import Results
from heatcheck.benchmarks.deletion_settings import default_alpha
from heatcheck.benchmarks.heatmaps import Explained
from heatcheck.metrics.boxes import boxes_from_heatmaps
from heatcheck.metrics.curves import changed_pixels
from heatcheck.metrics.localization import localization_error
from heatcheck.metrics.ordering import Order, pixel_ranks
from heatcheck.metrics.scoring import ask_all, softmax_of
from heatcheck.removal.fills import get_fill
from heatcheck.runtime.seeds import CounterGenerator

Array = NDArray[np.float64]


class Strip(NamedTuple):
    """One deletion, frame by frame.

    Attributes:
        frames: ``(S, H, W, 3)`` in [0, 1], the untouched image first.
        probabilities: ``(S,)`` of the explained class.
        fractions: ``(S,)`` share of the pixels deleted.
    """

    frames: Array
    probabilities: Array
    fractions: Array


class BoxExamples(NamedTuple):
    """Boxes of one method on the shown images.

    Attributes:
        images: ``(N, H, W, 3)`` in [0, 1].
        boxes_true: For each image ``(n, 4)`` half-open boxes.
        boxes_predicted: For each image one box ``(4,)``, or None.
        ious: ``(N,)`` overlap, NaN where undefined.
    """

    images: Array
    boxes_true: list[Array]
    boxes_predicted: list[Array | None]
    ious: Array


def pictures(explained: Explained) -> Array:
    """Images ``(N, H, W, 3)`` in [0, 1], as they are drawn."""
    return np.asarray(explained.data.images.permute(0, 2, 3, 1).double().numpy())


def gallery(results: Results, *, n: int = 3) -> Mapping[str, Array]:
    """Heatmaps ``(n, H, W)`` of each method for the first ``n`` shown images."""
    return {method: np.asarray(maps[:n].cpu().numpy()) for method, maps in results.heatmaps.items()}


def first_method(results: Results) -> str:
    """The first method of the run that looks at the model; the first one if all are controls."""
    methods = results.settings.methods
    return next((name for name in methods if get_method(name).family != "control"), methods[0])


def strip(results: Results, image: int, method: str, *, n_frames: int = 7, fill: str = "zero") -> Strip:
    """One deletion of shown image number ``image`` by the heatmap of ``method``, in ``n_frames`` equal steps.

    Raises:
        ValueError: The image or method was not run, or fewer than two frames are asked for.
    """
    if method not in results.heatmaps or not 0 <= image < len(results.shown.data) or n_frames < 2:
        raise ValueError(
            f"no strip of image {image} by {method!r} in {n_frames} frames; there are "
            f"{len(results.shown.data)} images and {', '.join(results.heatmaps)}; at least 2 frames"
        )
    explained = results.shown
    picture = explained.images[image : image + 1]
    height, width = picture.shape[2:]
    maps = results.heatmaps[method]
    ranks = pixel_ranks(maps, [Order(image, None)], CounterGenerator.for_images(maps))[:, None]
    step = -(-height * width // (n_frames - 1))
    counts = changed_pixels(height * width, step).to(picture.device)
    keep = ranks.to(picture.device) >= counts.view(-1, 1, 1, 1)  # (S, 1, H, W)
    frames = get_fill(fill)(picture.expand(len(counts), -1, -1, -1), keep)
    target = int(explained.data.targets[image])
    scores = ask_all(softmax_of(explained.classifier.module), frames)[:, target]
    fractions = counts.double() / (height * width)
    return Strip(drawn(explained, frames), *(np.asarray(part.cpu().numpy()) for part in (scores, fractions)))


def box_examples(results: Results, method: str) -> BoxExamples:
    """Boxes that ``method``'s heatmaps give on the shown images, beside the true ones where they are known.

    They follow the threshold and region of the run, at its default where no held-out images choose.

    Raises:
        ValueError: The method was not run.
    """
    if method not in results.heatmaps:
        raise ValueError(f"no heatmaps of {method!r}; there are: {', '.join(results.heatmaps)}")
    settings = results.settings
    boxes = boxes_from_heatmaps(
        results.heatmaps[method],
        default_alpha(settings),
        threshold=settings.threshold,
        region=settings.region,
    )
    truth = results.shown.data.boxes or tuple(torch.zeros(0, 4) for _ in results.shown.data.ids)
    ious = localization_error(boxes, truth, mode=settings.ground_truth).ious
    pairs = zip(boxes.boxes, boxes.found.tolist(), strict=True)
    predicted = [box.double().cpu().numpy() if there else None for box, there in pairs]
    true = [np.asarray(box.numpy()) for box in truth]
    return BoxExamples(pictures(results.shown), true, predicted, np.asarray(ious.cpu().numpy()))


def drawn(explained: Explained, images: Tensor) -> Array:
    """Normalized ``images`` ``(N, 3, H, W)`` as they are drawn, ``(N, H, W, 3)`` in [0, 1]."""
    mean, std = (torch.tensor(part).view(1, -1, 1, 1) for part in explained.classifier.normalization)
    shown = (images.cpu() * std + mean).clamp(0, 1)
    return np.asarray(shown.permute(0, 2, 3, 1).double().numpy())
