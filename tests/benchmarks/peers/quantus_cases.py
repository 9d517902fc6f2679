"""Relevance mass, relevance rank and deletion, against Quantus."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import quantus
import torch
from tests.benchmarks.peers.case import Case, Sides
from tests.benchmarks.peers.inputs import make_linear, make_pooled, make_problem
from torch import Tensor, nn

from heatcheck.metrics.curves import deletion
from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank
from heatcheck.metrics.scoring import softmax_of

# Quantus turns every value of every map into a Python object to see whether all are equal, which takes about
# 100 bytes and a microsecond each; the number of maps is chosen so that this fits.
N_MAPS, SIDE = 500, 128


class Metric(NamedTuple):
    """A metric of both sides.

    Attributes:
        theirs: Class in Quantus.
        ours: Heatmaps and masks ``(N, H, W)`` to values ``(N,)``.
        target: Speedup to be reached.
    """

    theirs: Any
    ours: Callable[[Tensor, Tensor], Tensor]
    target: float


METRICS = {
    "mass": Metric(
        quantus.RelevanceMassAccuracy, lambda maps, masks: relevance_mass(maps, masks).values, 50.0
    ),
    "rank": Metric(
        quantus.RelevanceRankAccuracy, lambda maps, masks: relevance_rank(maps, masks).values, 20.0
    ),
}


# Name, model, shape of the images, pixels per step. Where there are at least as many images as go through the
# model at once (64, or 14 of 224²), our curves run side by side; else one image's steps share a pass.
DELETIONS: list[tuple[str, Callable[[], nn.Module], tuple[int, int, int, int], int]] = [
    ("linear model, 64 gray images of 28², 28 steps", partial(make_linear, 1, 28), (64, 1, 28, 28), 28),
    (
        "pooled linear model, 32 colored images of 48², 36 steps",
        partial(make_pooled, 3, 48),
        (32, 3, 48, 48),
        64,
    ),
    (
        "pooled linear model, 64 colored images of 48², 36 steps",
        partial(make_pooled, 3, 48),
        (64, 3, 48, 48),
        64,
    ),
    (
        "pooled linear model, 8 gray images of 224², 28 steps",
        partial(make_pooled, 1, 224),
        (8, 1, 224, 224),
        1792,
    ),
    (
        "pooled linear model, 14 gray images of 224², 28 steps",
        partial(make_pooled, 1, 224),
        (14, 1, 224, 224),
        1792,
    ),
]


def quantus_cases() -> list[Case]:
    """All cases against Quantus."""
    version = f"Quantus {quantus.__version__}"
    flipping = f"{version} PixelFlipping"
    maps = f"{N_MAPS} maps of {SIDE}²"
    found = []
    for name, metric in METRICS.items():
        title, build = f"relevance {name}, {maps}", partial(_localization, name)
        found.append(Case(title, version, partial(build, whole=True), 1e-6, metric.target))
        found.append(Case(title, f"{version}, formula without checks", partial(build, whole=False), 1e-6))
    for name, make_model, shape, step in DELETIONS:
        build = partial(_deletion, make_model, shape, step)
        found.append(Case(f"deletion, {name}", flipping, build, 1e-5, 5.0))
    return found


def _localization(name: str, *, whole: bool) -> Sides:
    """Sides of relevance mass or rank; Quantus as a user calls it, or its formula without the checks."""
    both = METRICS[name]
    generator = torch.Generator().manual_seed(5)
    heatmaps = torch.rand((N_MAPS, SIDE, SIDE), generator=generator, dtype=torch.float64)
    masks = _rectangles(generator)
    metric = both.theirs(disable_warnings=True)
    maps, segments = heatmaps[:, None].numpy(), masks[:, None].numpy()
    images, labels = torch.zeros((N_MAPS, 1, SIDE, SIDE)).numpy(), torch.zeros(N_MAPS).numpy()

    def theirs() -> Tensor:
        if whole:
            scores = metric(
                model=None, x_batch=images, y_batch=labels, a_batch=maps, s_batch=segments, channel_first=True
            )
        else:
            scores = metric.evaluate_batch(a_batch=maps, s_batch=segments)
        return torch.tensor(scores, dtype=torch.float64)

    return Sides(partial(both.ours, heatmaps, masks), theirs)


def _rectangles(generator: torch.Generator) -> Tensor:
    """Masks ``(N, H, W)``: one rectangle each, from 16 to 63 pixels a side."""
    sizes = torch.randint(16, 64, (N_MAPS, 2, 1), generator=generator)
    starts = torch.randint(0, SIDE - 64, (N_MAPS, 2, 1), generator=generator)
    inside = (torch.arange(SIDE) >= starts) & (torch.arange(SIDE) < starts + sizes)  # (N, 2, SIDE)
    return inside[:, 0, :, None] & inside[:, 1, None, :]


def _deletion(make_model: Callable[[], nn.Module], shape: tuple[int, int, int, int], step: int) -> Sides:
    """Sides of deletion by ``step`` pixels.

    Quantus changes single channel values, the largest first. Since the channels of a pixel share one
    relevance and no two pixels do, ``C * step`` values are ``step`` pixels. Its curve starts after the first
    step, so our first point is left out.
    """
    model, images, targets, heatmaps = make_problem(make_model, shape)
    metric = quantus.PixelFlipping(
        features_in_step=shape[1] * step, perturb_baseline=0.0, disable_warnings=True
    )
    pixels, labels, maps = images.numpy(), targets.numpy(), heatmaps[:, None].numpy()

    def theirs() -> Tensor:
        curves = metric(
            model=model,
            x_batch=pixels,
            y_batch=labels,
            a_batch=maps,
            channel_first=True,
            softmax=True,
            device="cpu",
        )
        return torch.tensor(curves, dtype=torch.float64)

    def ours() -> Tensor:
        return deletion(softmax_of(model), images, heatmaps, targets=targets, step=step).scores[:, 1:]

    return Sides(ours, theirs)
