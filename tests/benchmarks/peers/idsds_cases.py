"""Single deletion of several methods at once, against a plain loop in the shape of the published protocol."""

from functools import partial
from typing import Any
from unittest import mock

import captum
import torch
from captum.attr import NoiseTunnel
from tests.benchmarks.peers.case import Case, Sides
from tests.benchmarks.peers.idsds_peers import (
    Attribution,
    captum_grad_cam,
    captum_path,
    captum_product,
    captum_smooth_product,
    loop_correlations,
    loop_drops,
    loop_scores,
    random_tables,
)
from tests.benchmarks.peers.inputs import Problem
from torch import Tensor, nn

from heatcheck.attribution.baselines import BaselineOptions, make_baseline
from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.guard import untouched
from heatcheck.attribution.registry import attribute
from heatcheck.attribution.smoothing import Noise, smoothing_family
from heatcheck.benchmarks.heatmaps import prepare
from heatcheck.data.rendered import metal_color
from heatcheck.metrics.patch_responses import patch_responses
from heatcheck.metrics.patches import patch_sums, single_deletion_scores, spearman
from heatcheck.models.catalog import get_classifier
from heatcheck.runtime.seeds import CounterGenerator

load_catalog()

GRID = 4
NOISE = Noise(4, 1.0, "absolute")
PATH: dict[str, Any] = {"n_steps": 50, "quadrature": "gauss-legendre"}
# Method and whether its map is made absolute: what the published figures call IxG, IxG abs. and so on.
CHEAP = (("ixg", False), ("ixg", True), ("ixg-sg", False), ("ixg-sg", True), ("grad-cam", False))
UNSHARED = (("ixg", False), ("ixg-sg", False), ("ig", False), ("ig-u", False), ("grad-cam", False))
Methods = tuple[tuple[str, bool], ...]
# No score is this high: what one side alone finds undefined shows as a difference.
UNDEFINED = 2.0


def idsds_cases() -> list[Case]:
    """All cases of single deletion."""
    peer = f"loop over methods, patches and images; captum {captum.__version__} and SciPy"
    return [
        Case(
            "single deletion, 5 methods: deletions and scores alone, embedded ResNet-8, 32 images of 64²",
            "loop over methods, patches and images; SciPy",
            _deletions,
            1e-6,
            5.0,
        ),
        Case(
            "single deletion, 5 methods of 3 computations, embedded ResNet-8, 32 images of 64²",
            peer,
            partial(_run, CHEAP, 32),
            1e-6,
            4.0,
        ),
        Case(
            "single deletion, 5 methods that share nothing but deletions, embedded ResNet-8, 8 images of 64²",
            peer,
            partial(_run, UNSHARED, 8),
            1e-6,
            1.8,
        ),
        Case(
            "rank correlation, 2000 images x 16 patches", "SciPy, image by image", _correlations, 1e-6, 30.0
        ),
    ]


def our_scores(problem: Problem, methods: Methods) -> Tensor:
    """Our scores ``(methods, N)``: the deletions once, and every map once."""
    drops = patch_responses(problem.model, problem.images, problem.targets, GRID, channels_last=True).drops()
    maps = {name: our_maps(problem, name) for name in dict.fromkeys(name for name, _ in methods)}
    sums = [patch_sums(maps[name], GRID, "abs" if absolute else "raw") for name, absolute in methods]
    return _defined([single_deletion_scores(column, drops).values for column in sums])


def our_maps(problem: Problem, name: str) -> Tensor:
    """Our raw maps of one method."""
    model, images, targets, _ = problem
    if name == "ixg-sg":
        with untouched(model):
            return smoothing_family("input-x-gradient", model, images, targets, noise=NOISE).mean
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "ixg": ("input-x-gradient", {}),
        "ig": ("integrated-gradients", PATH),
        "ig-u": ("integrated-gradients", {**PATH, "baseline": "uniform", "shared_noise": True}),
        "grad-cam": ("grad-cam", {"layer": "block3"}),
    }
    method, options = requests[name]
    return attribute(method, model, images, targets, **options)


def their_scores(problem: Problem, methods: Methods) -> Tensor:
    """The loop's scores ``(methods, N)``; its images lie channel by channel, as loaders leave them."""
    model, images, targets, _ = problem
    images = images.contiguous()
    explain = _peers(problem)
    return _defined(
        [loop_scores(model, images, targets, explain[name], absolute=absolute) for name, absolute in methods]
    )


def _defined(scores: list[Tensor]) -> Tensor:
    return torch.stack(scores).nan_to_num(UNDEFINED)


def embedded_problem(n: int) -> Problem:
    """The embedded classifier and ``n`` rendered scenes."""
    classifier = get_classifier("resnet8-metal-color")
    data = metal_color("test", n, size=classifier.size)
    explained = prepare(data, classifier, torch.device("cpu"))
    return Problem(classifier.module, explained.images, data.targets, torch.empty(0))


def _peers(problem: Problem) -> dict[str, Attribution]:
    model, images = problem.model, problem.images
    # The noise image that our own path starts from.
    start = make_baseline(
        "uniform",
        images,
        BaselineOptions(shared_noise=True),
        draw=0,
        generator=CounterGenerator.for_images(images),
    )
    last: nn.Module = model.get_submodule("block3")
    return {
        "ixg": captum_product(model),
        "ixg-sg": captum_smooth_product(model),
        "ig": captum_path(model),
        "ig-u": captum_path(model, start),
        "grad-cam": captum_grad_cam(model, last),
    }


def _run(methods: Methods, n: int) -> Sides:
    """Sides of a whole run; for the check captum is given our noisy copies, so that maps agree."""
    problem = embedded_problem(n)
    images = problem.images
    generator = CounterGenerator.for_images(images)

    def check() -> tuple[Tensor, Tensor]:
        copies = [images + generator.normal(sample, images) for sample in range(NOISE.n_samples)]
        same = torch.stack(copies, 1).flatten(0, 1)  # (N * samples, C, H, W): captum's order
        with mock.patch.object(NoiseTunnel, "_add_noise_to_input", return_value=same):
            theirs = their_scores(problem, methods)
        return our_scores(problem, methods), theirs

    return Sides(partial(our_scores, problem, methods), partial(their_scores, problem, methods), check)


def _deletions() -> Sides:
    """Sides of everything but the maps, which are random here."""
    problem = embedded_problem(32)
    model, images, targets, _ = problem
    tables = [random_tables(32, GRID**2)[0] + shift for shift in range(len(CHEAP))]

    def ours() -> Tensor:
        drops = patch_responses(model, images, targets, GRID, channels_last=True).drops()
        return torch.stack([single_deletion_scores(sums, drops).values for sums in tables])

    def theirs() -> Tensor:
        plain = images.contiguous()
        return torch.stack(
            [loop_correlations(sums, loop_drops(model, plain, targets, GRID)) for sums in tables]
        )

    return Sides(ours, theirs)


def _correlations() -> Sides:
    tables = random_tables(2000, GRID**2)
    return Sides(partial(spearman, *tables), partial(loop_correlations, *tables))
