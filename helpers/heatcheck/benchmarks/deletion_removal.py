"""What perturbation methods show the network: one removal of each method, with and without inpainting."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.attribution.baselines import gaussian_blurred
from heatcheck.attribution.fills import behind
from heatcheck.attribution.lime import sample_bits
from heatcheck.attribution.masks import binarized
from heatcheck.attribution.perturbation import default_patch
from heatcheck.attribution.superpixels import SlicOptions, superpixels
from heatcheck.attribution.windows import make_windows
from heatcheck.benchmarks.deletion import Results
from heatcheck.benchmarks.deletion_examples import drawn, pictures
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest, method_options
from heatcheck.metrics.scoring import ask_all, softmax_of

Array = NDArray[np.float64]
Options = Mapping[str, Any]
# Methods that remove pixels in three ways, each with its generative variant (Agarwal and Nguyen 2020).
PAIRS = {
    "sliding-patch": "sliding-patch-g",
    "lime": "lime-g",
    "meaningful-perturbation": "meaningful-perturbation-g",
}
# Lengths of meaningful perturbation are in pixels of images with this side.
_SIDE = 224


class Removal(NamedTuple):
    """One removal of a method on ``N`` images.

    Attributes:
        seen: ``(N, H, W, 3)`` in [0, 1], what the network is shown.
        removed: ``(N,)`` share of the image that is removed.
        probabilities: ``(N,)`` of the explained class.
        heatmaps: ``(N, H, W)`` of the method.
    """

    seen: Array
    removed: Array
    probabilities: Array
    heatmaps: Array


class RemovalGallery(NamedTuple):
    """Images, and for a method and its variant what they remove.

    Attributes:
        images: ``(N, H, W, 3)`` in [0, 1].
        probabilities: ``(N,)`` of the explained class.
        removals: By method.
    """

    images: Array
    probabilities: Array
    removals: dict[str, Removal]


def run_pairs(results: Results) -> dict[str, str]:
    """Base methods of the run whose generative variant was run as well, with that variant."""
    there = set(results.settings.methods)
    return {base: variant for base, variant in PAIRS.items() if {base, variant} <= there}


def removal_gallery(results: Results, base: str, *, n: int = 3) -> RemovalGallery:
    """One removal by ``base`` and one by its variant on each of the first ``n`` shown images.

    The window with the largest fall (sliding patch), the first random sample (LIME), or the mask that was
    found (meaningful perturbation).

    Args:
        results: Of a run.
        base: One of ``PAIRS``.
        n: How many images.

    Returns:
        Removals of the method and the variant as far as they were run.

    Raises:
        ValueError: There is no such pair.
    """
    if base not in PAIRS:
        raise ValueError(f"no removals of {base!r} to show; methods with a variant: {', '.join(PAIRS)}")
    shown = results.shown.take(0, n)
    settings = results.settings
    found = {}
    for method in (base, PAIRS[base]):
        if method not in settings.methods:
            continue
        changed = {**settings.options.get(method, {}), **settings.shown_options.get(method, {})}
        options = method_options(MethodRequest(method, changed), shown.classifier)
        maps = results.heatmaps[method][: len(shown.data)].to(shown.device)
        keep = keep_masks(base, options, shown.images, maps, seed=settings.seed)
        seen = see_through(options, shown.images, keep)
        removed = (1 - keep.double()).mean((1, 2, 3)).cpu().numpy()
        probabilities = target_probabilities(shown, seen)
        found[method] = Removal(drawn(shown, seen), removed, probabilities, maps.double().cpu().numpy())
    return RemovalGallery(pictures(shown), target_probabilities(shown, shown.images), found)


def keep_masks(base: str, options: Options, images: Tensor, maps: Tensor, *, seed: int) -> Tensor:
    """Masks ``(N, 1, H, W)`` of one removal of each image; 1 keeps.

    Args:
        base: One of ``PAIRS``.
        options: All options of the method or its variant.
        images: ``(N, C, H, W)`` normalized.
        maps: ``(N, H, W)``, its heatmaps.
        seed: Seed of the run.
    """
    return _KEEP[base](options, images, maps, seed)


def see_through(options: Options, images: Tensor, keep: Tensor) -> Tensor:
    """Images ``(N, C, H, W)`` with what ``keep`` ``(N, 1, H, W)`` removes replaced as the method does."""
    if options["fill"] == "gaussian":
        unit = min(images.shape[2:]) / _SIDE
        hidden = gaussian_blurred(images, options["blur_radius"] * unit)
    else:
        fill = behind(options["fill"], options["fill_options"], images)
        if not isinstance(fill, Tensor):
            return fill(images, keep)
        hidden = fill.expand_as(images)
    return torch.lerp(hidden, images, keep.to(images.dtype))


def target_probabilities(explained: Explained, images: Tensor) -> Array:
    """Probabilities ``(N,)`` of the explained classes on ``images`` ``(N, C, H, W)``."""
    found = ask_all(softmax_of(explained.classifier.module), images).cpu()
    return np.asarray(found.gather(1, explained.data.targets[:, None])[:, 0].numpy())


def _keep_patch(options: Options, images: Tensor, maps: Tensor, seed: int) -> Tensor:
    """All but the window where the grid that was stretched to the map is largest."""
    height, width = images.shape[2:]
    side = options["patch"] or default_patch(min(height, width), options["stride"])
    lines = [make_windows(n, side, options["stride"], cover=options["cover"]) for n in (height, width)]
    keep = torch.ones_like(images[:, :1])
    for row, place in enumerate(maps.flatten(1).argmax(1).tolist()):
        spans = []
        for pixel, line in zip(divmod(place, width), lines, strict=True):
            cell = pixel * len(line.starts) // line.side
            spans.append(slice(line.starts[cell], line.stops[cell]))
        keep[row, 0, spans[0], spans[1]] = 0
    return keep


def _keep_superpixels(options: Options, images: Tensor, maps: Tensor, seed: int) -> Tensor:
    """The superpixels of the first sample after the one that keeps all."""
    names = ("n_segments", "compactness", "sigma", "mean", "std")
    segments = superpixels(images, SlicOptions(**{name: options[name] for name in names}))
    keeps = [sample_bits(seed, 2, int(labels.max()) + 1)[1][labels] for labels in segments]
    return torch.stack(keeps)[:, None].to(images)


def _keep_mask(options: Options, images: Tensor, maps: Tensor, seed: int) -> Tensor:
    soft = (1 - maps[:, None]).clamp(0, 1).to(images.dtype)
    return binarized(soft) if options["binary"] else soft


_KEEP: dict[str, Callable[[Options, Tensor, Tensor, int], Tensor]] = {
    "sliding-patch": _keep_patch,
    "lime": _keep_superpixels,
    "meaningful-perturbation": _keep_mask,
}
