"""The 18 estimators of the remove-and-retrain benchmark from one pass, against captum."""

import warnings
from functools import partial
from typing import Any
from unittest import mock

import captum
import torch
from captum.attr import GuidedBackprop, IntegratedGradients, NoiseTunnel, Saliency
from tests.benchmarks.peers.case import Case, Sides
from tests.benchmarks.peers.inputs import Problem, make_problem, make_resnet8
from torch import Tensor

from heatcheck.attribution.estimators import BASES, ESTIMATORS, estimator_maps
from heatcheck.attribution.smoothing import Noise, noise_deviation
from heatcheck.runtime.seeds import CounterGenerator

SHAPE = (8, 3, 32, 32)
N_SAMPLES, N_STEPS, SCALE, START = 15, 25, 0.15, -2.0
# captum's names of the statistics, and the prefixes of ours.
KINDS = {"smoothgrad": "sg", "smoothgrad_sq": "sg-sq", "vargrad": "var"}
ENSEMBLES = tuple(f"{prefix}-{base}" for base in BASES for prefix in KINDS.values())


def estimator_cases() -> list[Case]:
    """All cases of the estimators."""
    version = f"captum {captum.__version__}"
    name = f"18 estimators, {N_SAMPLES} samples, {N_STEPS} steps, ResNet-8, {SHAPE[0]} images of {SHAPE[2]}²"
    problem = make_problem(make_resnet8, SHAPE)
    return [
        Case(name, f"{version}, 9 calls, {text}", partial(estimator_sides, problem, chunk=chunk), 1e-4, 2.5)
        for chunk, text in ((None, "all samples at once"), (1, "1 sample of all images per pass"))
    ]


def estimator_sides(
    problem: Problem, *, n_samples: int = N_SAMPLES, n_steps: int = N_STEPS, chunk: int | None = None
) -> Sides:
    """Ours: all estimators in one call; captum's: one call for each of the nine ensembles.

    For the check captum is given our noisy copies, so that the maps agree.
    """

    def check() -> tuple[Tensor, Tensor]:
        ours = _ours(problem, n_samples, n_steps)
        with mock.patch.object(NoiseTunnel, "_add_noise_to_input", return_value=_copies(problem, n_samples)):
            theirs = captum_ensembles(problem, n_samples, n_steps, None)
        return torch.stack([_shares(ours[name]) for name in ENSEMBLES]), theirs

    return Sides(
        lambda: torch.stack(list(_ours(problem, n_samples, n_steps).values())),
        partial(captum_ensembles, problem, n_samples, n_steps, chunk),
        check,
    )


def captum_ensembles(problem: Problem, n_samples: int, n_steps: int, chunk: int | None) -> Tensor:
    """captum's nine maps ``(9, N, C, H, W)``, each scaled to a largest value of 1."""
    model, images, targets, _ = problem
    spread = noise_deviation(images, Noise(n_samples, SCALE)).flatten()
    # captum has one standard deviation per call; that it is not each image's own costs nothing.
    shared: dict[str, Any] = {
        "nt_samples": n_samples,
        "nt_samples_batch_size": chunk,
        "stdevs": float(spread.mean()),
        "target": targets,
    }
    path = {"baselines": torch.full_like(images[:1], START), "n_steps": n_steps, "method": "riemann_middle"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum warns that it sets hooks
        calls: tuple[tuple[Any, dict[str, Any]], ...] = (
            (NoiseTunnel(Saliency(model)), {"abs": False}),
            (NoiseTunnel(GuidedBackprop(model)), {}),
            (NoiseTunnel(IntegratedGradients(model)), path),
        )
        maps = [
            tunnel.attribute(images, nt_type=kind, **shared, **options)
            for tunnel, options in calls
            for kind in KINDS
        ]
    return torch.stack([_shares(item.detach()) for item in maps])


def _ours(problem: Problem, n_samples: int, n_steps: int) -> dict[str, Tensor]:
    model, images, targets, _ = problem
    options: dict[str, Any] = {"n_samples": n_samples, "noise_scale": SCALE, "n_steps": n_steps}
    return estimator_maps(model, images, targets, tuple(ESTIMATORS), baseline=START, **options)


def _shares(maps: Tensor) -> Tensor:
    """Maps as shares of the largest value, so that small maps are compared as closely as large ones."""
    return maps / maps.abs().max()


def _copies(problem: Problem, n_samples: int) -> Tensor:
    """Our noisy copies in captum's order, all those of an image in a row."""
    images, generator = problem.images, CounterGenerator.for_images(problem.images)
    spread = noise_deviation(images, Noise(n_samples, SCALE))
    copies = [torch.addcmul(images, spread, generator.normal(sample, images)) for sample in range(n_samples)]
    return torch.stack(copies, 1).flatten(0, 1)
