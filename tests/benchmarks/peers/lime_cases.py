"""LIME against the package of its authors and against captum's, with the same superpixels and samples."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any
from unittest import mock

import captum
import numpy as np
import torch
from captum._utils.models.linear_model import SkLearnRidge
from captum.attr import Lime
from lime import lime_image
from numpy.typing import NDArray
from tests.benchmarks.peers.case import Case, Sides
from tests.benchmarks.peers.inputs import Problem, make_cnn, make_linear, make_pictures, make_problem
from torch import Tensor, nn

from heatcheck.attribution import lime as our_lime
from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.lime import sample_bits, sample_weights
from heatcheck.attribution.registry import attribute
from heatcheck.attribution.superpixels import SlicOptions, superpixels

load_catalog()

# The default of the package, and of ours: width of the kernel, strength of the penalty.
KERNEL_WIDTH, ALPHA = 0.25, 1.0
N_SAMPLES, TARGET = 500, 5.0


def lime_cases() -> list[Case]:
    """All cases of LIME: whole calls, in which all sides run the same SLIC, and with superpixels given."""
    package, other = f"lime {version('lime')}", f"captum {captum.__version__}"
    peers: list[tuple[str, Callable[..., Tensor], int]] = [
        (f"{package}, 10 samples per pass", lime_map, 10),
        (f"{other}, 1 sample per pass", captum_map, 1),
        (f"{other}, 10 samples per pass", captum_map, 10),
    ]
    light = (partial(make_linear, 3, 224), 224)
    kinds: list[tuple[str, tuple[Callable[[], nn.Module], int], bool, float | None]] = [
        ("linear model, 1 image of 224², superpixels given", light, True, TARGET),
        ("linear model, 1 image of 224², SLIC included", light, False, TARGET),
        ("4-layer CNN, 1 image of 64², superpixels given", (make_cnn, 64), True, None),
    ]
    return [
        Case(
            f"LIME, {name}, {N_SAMPLES} samples",
            peer,
            partial(_sides, *model_and_side, partial(theirs, chunk=chunk), given=given),
            1e-4,
            target,
        )
        for name, model_and_side, given, target in kinds
        for peer, theirs, chunk in peers
    ]


def lime_map(problem: Problem, segments: Tensor, chunk: int) -> Tensor:
    """Map ``(1, 1, H, W)`` of the ``lime`` package; ``chunk`` samples per pass, 10 being its default.

    Its random numbers are the legacy NumPy stream that ours follows, as long as no seed for a segmentation is
    drawn from it first. It fits a second regression to choose all features.
    """
    model, images, targets, _ = problem
    target = int(targets[0])
    explainer = lime_image.LimeImageExplainer(kernel_width=KERNEL_WIDTH, random_state=0)
    # Without its progress bar, which costs time and fills the screen.
    with mock.patch.object(lime_image, "tqdm", iter):
        found = explainer.explain_instance(
            images[0].permute(1, 2, 0).numpy(),
            partial(_probabilities, model),
            labels=(target,),
            hide_color=0,
            top_labels=None,
            num_samples=N_SAMPLES,
            batch_size=chunk,
            segmentation_fn=lambda picture: segments.numpy(),
            random_seed=0,
        )
    pairs = found.local_exp[target]
    weights = torch.zeros(len(pairs), dtype=torch.float64)
    for superpixel, weight in pairs:
        weights[superpixel] = float(weight)
    return weights[torch.from_numpy(found.segments)][None, None]


def captum_map(problem: Problem, segments: Tensor, chunk: int) -> Tensor:
    """Map ``(1, 1, H, W)`` of captum, set to LIME's kernel and ridge; ``chunk`` samples per pass."""
    model, images, targets, _ = problem
    bits = sample_bits(0, N_SAMPLES, int(segments.max()) + 1)

    def perturb(inputs: Tensor, **_: Any) -> Iterator[Tensor]:
        yield from bits[:, None].long()

    def similarity(inputs: Tensor, perturbed: Tensor, kept: Tensor, **_: Any) -> Tensor:
        return sample_weights(kept, KERNEL_WIDTH)

    explainer = Lime(
        nn.Sequential(model, nn.Softmax(1)),
        interpretable_model=SkLearnRidge(alpha=ALPHA),
        similarity_func=similarity,
        perturb_func=perturb,
    )
    maps: Tensor = explainer.attribute(
        images,
        baselines=0.0,
        target=targets,
        feature_mask=segments[None, None],
        n_samples=N_SAMPLES,
        perturbations_per_eval=chunk,
    )
    return maps[:, :1]


def _sides(
    make_model: Callable[[], nn.Module],
    side: int,
    theirs: Callable[[Problem, Tensor], Tensor],
    *,
    given: bool,
) -> Sides:
    """Sides of LIME with the fill zero; ``given``: SLIC has run before, and is in nobody's time."""
    problem = make_problem(make_model, (1, 3, side, side))._replace(images=make_pictures(1, side))
    options: dict[str, Any] = {"n_samples": N_SAMPLES, "kernel_width": KERNEL_WIDTH, "alpha": ALPHA}
    whole = partial(attribute, "lime", problem.model, problem.images, problem.targets, **options)
    segments = superpixels(problem.images, SlicOptions())

    def ours() -> Tensor:
        with mock.patch.object(our_lime, "superpixels", return_value=segments):
            return whole()

    if given:
        return Sides(ours, lambda: theirs(problem, segments[0]))
    return Sides(whole, lambda: theirs(problem, superpixels(problem.images, SlicOptions())[0]))


def _probabilities(model: nn.Module, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
    """Class probabilities ``(n, K)`` of pictures ``(n, H, W, C)``."""
    with torch.no_grad():
        found: NDArray[np.float32] = model(torch.from_numpy(pictures).permute(0, 3, 1, 2)).softmax(1).numpy()
    return found
