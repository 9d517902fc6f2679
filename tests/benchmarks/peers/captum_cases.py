"""Smoothing, integrated gradients and occlusion, against captum."""

from functools import partial
from typing import Any
from unittest import mock

import captum
import torch
from captum.attr import IntegratedGradients, NoiseTunnel, Occlusion, Saliency
from tests.benchmarks.peers.case import Case, Sides
from tests.benchmarks.peers.inputs import Problem, make_cnn, make_linear, make_problem, make_resnet8
from torch import Tensor

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.guard import untouched
from heatcheck.attribution.registry import attribute
from heatcheck.attribution.smoothing import Noise, smoothing_family
from heatcheck.runtime.seeds import CounterGenerator

load_catalog()

SIZE = "ResNet-8, 8 images of 64²"
SHAPE = (8, 3, 64, 64)
# captum's names of SmoothGrad, SmoothGrad-Squared and VarGrad, in the order of our three outputs.
KINDS = ("smoothgrad", "smoothgrad_sq", "vargrad")
SCALE = 0.3
N_SAMPLES, N_STEPS, CHUNK = 25, 50, 2
THREE = f"SmoothGrad, Squared and VarGrad together, {N_SAMPLES} samples, {SIZE}"


def captum_cases() -> list[Case]:
    """All cases against captum, and of the smoothing family against itself."""
    version = f"captum {captum.__version__}"
    # Three outputs for at most 1.2 times the cost of one: a speedup of at least 1 / 1.2.
    three_for_one = 1 / 1.2
    return [
        Case(THREE, f"{version}, one of the three", partial(_smoothing, KINDS[:1]), 1e-4, three_for_one),
        Case(
            THREE,
            f"{version}, one of the three, {CHUNK} samples per pass",
            partial(_smoothing, KINDS[:1], chunk=CHUNK),
            1e-4,
            three_for_one,
        ),
        Case(THREE, "Heatcheck, SmoothGrad alone", _one_of_ours, 1e-6, three_for_one),
        Case(THREE, "plain loop, the mean alone", _plain_mean, 1e-4, three_for_one),
        Case(THREE, f"{version}, three calls", partial(_smoothing, KINDS), 1e-4),
        *_integrated_gradients_cases(version),
        *_occlusion_cases(version),
    ]


def smooth(problem: Problem, n_samples: int) -> Tensor:
    """Our three outputs ``(3, N, C, H, W)``."""
    with untouched(problem.model):
        found = smoothing_family(
            "gradient", problem.model, problem.images, problem.targets, noise=_noise(n_samples)
        )
    return torch.stack(found)


def captum_smooth(
    problem: Problem, n_samples: int, kinds: tuple[str, ...] = KINDS[:1], chunk: int | None = None
) -> Tensor:
    """captum's outputs ``(len(kinds), N, C, H, W)``, one call each; ``chunk`` samples at once, or all."""
    tunnel = NoiseTunnel(Saliency(problem.model))
    settings: dict[str, Any] = {"nt_samples": n_samples, "nt_samples_batch_size": chunk, "stdevs": SCALE}
    return torch.stack(
        [
            tunnel.attribute(problem.images, nt_type=kind, target=problem.targets, abs=False, **settings)
            for kind in kinds
        ]
    )


def integrate(problem: Problem, n_steps: int) -> Tensor:
    """Our integrated gradients ``(N, C, H, W)``, with captum's quadrature."""
    options: dict[str, Any] = {"n_steps": n_steps, "quadrature": "gauss-legendre"}
    return attribute("integrated-gradients", problem.model, problem.images, problem.targets, **options)


def captum_integrate(problem: Problem, n_steps: int, chunk: int | None = None) -> Tensor:
    """captum's integrated gradients ``(N, C, H, W)``; ``chunk`` images at once, or all."""
    maps: Tensor = IntegratedGradients(problem.model).attribute(
        problem.images, target=problem.targets, n_steps=n_steps, internal_batch_size=chunk
    )
    return maps


def _noise(n_samples: int) -> Noise:
    return Noise(n_samples, SCALE, "absolute")


def _noisy(images: Tensor, sample: int, generator: CounterGenerator) -> Tensor:
    """Copy number ``sample`` of the images, with the noise that our smoothing draws for it."""
    return torch.addcmul(images, torch.full_like(images, SCALE), generator.normal(sample, images))


def _smoothing(kinds: tuple[str, ...], chunk: int | None = None) -> Sides:
    """Sides of the smoothing family; for the check captum is given our noisy copies, so that maps agree."""
    problem = make_problem(make_resnet8, SHAPE)
    generator = CounterGenerator.for_images(problem.images)

    def check() -> tuple[Tensor, Tensor]:
        copies = [_noisy(problem.images, sample, generator) for sample in range(N_SAMPLES)]
        same = torch.stack(copies, 1).flatten(0, 1)  # (N * samples, C, H, W): captum's order
        with mock.patch.object(NoiseTunnel, "_add_noise_to_input", return_value=same):
            theirs = captum_smooth(problem, N_SAMPLES, kinds)
        return smooth(problem, N_SAMPLES)[: len(kinds)], theirs

    return Sides(
        partial(smooth, problem, N_SAMPLES),
        partial(captum_smooth, problem, N_SAMPLES, kinds, chunk),
        check,
    )


def _one_of_ours() -> Sides:
    problem = make_problem(make_resnet8, SHAPE)
    options: dict[str, Any] = {"n_samples": N_SAMPLES, "noise_scale": SCALE, "noise": "absolute"}
    one = partial(attribute, "smoothgrad", problem.model, problem.images, problem.targets, **options)
    return Sides(partial(smooth, problem, N_SAMPLES), one, lambda: (smooth(problem, N_SAMPLES)[0], one()))


def _plain_mean() -> Sides:
    """Sides against the mean of gradients alone, all images at once, with torch's own noise."""
    problem = make_problem(make_resnet8, SHAPE)
    generator = CounterGenerator.for_images(problem.images)

    def mean(*, own_noise: bool) -> Tensor:
        total = torch.zeros_like(problem.images)
        for sample in range(N_SAMPLES):
            copies = (
                problem.images + SCALE * torch.randn(SHAPE)
                if own_noise
                else _noisy(problem.images, sample, generator)
            ).requires_grad_()
            scores = problem.model(copies).gather(1, problem.targets[:, None])
            total += torch.autograd.grad(scores.sum(), copies)[0]
        return total / N_SAMPLES

    return Sides(
        partial(smooth, problem, N_SAMPLES),
        partial(mean, own_noise=True),
        lambda: (smooth(problem, N_SAMPLES)[0], mean(own_noise=False)),
    )


def _integrated_gradients_cases(version: str) -> list[Case]:
    name = f"integrated gradients, {N_STEPS} steps, {SIZE}"

    def build(chunk: int | None) -> Sides:
        problem = make_problem(make_resnet8, SHAPE)
        return Sides(partial(integrate, problem, N_STEPS), partial(captum_integrate, problem, N_STEPS, chunk))

    return [
        Case(name, f"{version}, all steps at once", partial(build, None), 1e-4),
        Case(name, f"{version}, 16 images per pass", partial(build, 16), 1e-4),
    ]


def _occlusion_cases(version: str) -> list[Case]:
    light = make_problem(partial(make_linear, 3, 224), (1, 3, 224, 224))
    convolutional = make_problem(make_cnn, (1, 3, 64, 64))
    name = "occlusion, linear model, 1 image of 224², 17 x 17 windows"
    return [
        Case(name, f"{version}, 1 window per pass", partial(_occlusion, light, 32, 12, 1), 1e-4, 4.0),
        Case(name, f"{version}, 8 windows per pass", partial(_occlusion, light, 32, 12, 8), 1e-4),
        Case(
            "occlusion, 4-layer CNN, 1 image of 64², 18 x 18 windows",
            f"{version}, 1 window per pass",
            partial(_occlusion, convolutional, 13, 3, 1),
            1e-4,
        ),
    ]


def _occlusion(problem: Problem, patch: int, stride: int, chunk: int) -> Sides:
    """Sides of occlusion of the logit; captum gives all channels the same map, ours is one channel."""
    model, images, targets, _ = problem
    options: dict[str, Any] = {"patch": patch, "stride": stride, "aggregate": "mean", "output": "logit"}
    window = (images.shape[1], patch, patch)

    def theirs() -> Tensor:
        maps: Tensor = Occlusion(model).attribute(
            images, window, (window[0], stride, stride), target=targets, perturbations_per_eval=chunk
        )
        return maps[:, :1]

    return Sides(partial(attribute, "sliding-patch", model, images, targets, **options), theirs)
