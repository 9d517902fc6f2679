"""DeepLIFT: what each pixel's difference from a baseline adds to the difference of the scores."""

from functools import partial
from typing import Annotated

import pydantic
import torch
from torch import Tensor, nn
from torch.autograd.graph import disable_saved_tensors_hooks

from heatcheck.attribution.baselines import BaselineName, BaselineOptions, baseline_draws, make_baseline
from heatcheck.attribution.difference_mode import DifferenceMode, Tape, check_all_known
from heatcheck.attribution.guard import untouched
from heatcheck.attribution.passes import (
    Count,
    NotNegative,
    Piece,
    Positive,
    Query,
    backward_size,
    target_scores,
    wide,
)
from heatcheck.attribution.rectifiers import check_not_scripted
from heatcheck.attribution.registry import register
from heatcheck.runtime.memory import map_chunks
from heatcheck.runtime.seeds import CounterGenerator

# Share of all contributions by which rounding may keep their sum from the difference of the scores.
_ROUNDING = 1e-3
_RECOMPUTED = "the model recomputes activations in its backward pass; switch checkpointing off"


@register("deep-lift", family="gradient", cites="shrikumar2017learning")
def deep_lift(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    baseline: BaselineName | tuple[BaselineName, ...] = "zero",
    n_baselines: Count = 1,
    value: float | tuple[float, ...] = 0.0,
    mean: tuple[float, ...] | None = None,
    std: tuple[Positive, ...] | None = None,
    noise_scale: NotNegative = 1.0,
    shared_noise: bool = False,
    blur_sigma: Annotated[float, pydantic.Field(gt=0, le=1000)] = 10.0,
    reference: Tensor | None = None,
    mean_image: Tensor | None = None,
) -> Tensor:
    """Difference from a baseline times its multiplier, ``(N, C, H, W)``; the sum is that of the logits.

    ``R = (x - b) m`` with multipliers that follow the chain rule, those of an elementwise function being
    ``(f(x) - f(b)) / (x - b)`` (Shrikumar et al. 2017, sections 3.1 and 3.5.2, "Rescale"), averaged over all
    baselines ``b``. Modules, functions, methods, forms in place and modules used several times are treated
    alike. Of maximum pooling see ``difference_mode``.

    Args:
        model: Network of layers that are linear in the image, elementwise functions and maximum pooling.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model, the same for images and baselines.
        generator: Noise of the random baselines.
        baseline: One name or several to average over, see ``make_baseline``.
        n_baselines: Draws of each random baseline.
        value: Color of the baseline ``constant``, in the space of the images.
        mean: Normalization of the images, for ``black`` and ``white``.
        std: Normalization of the images, for ``black`` and ``white``.
        noise_scale: Half-width of ``uniform``, standard deviation of ``gaussian``.
        shared_noise: One noise image for all images.
        blur_sigma: Standard deviation of ``blur`` in pixels.
        reference: Image ``(C, H, W)`` of the baseline ``reference``.
        mean_image: Mean training image ``(C, H, W)`` in the space of the images, for ``mean-image`` and
            ``mean-channel``.

    Raises:
        ValueError: The model has a step without a rule, or a baseline lacks an option.
        RuntimeError: The model recomputes activations in its backward pass.
    """
    check_not_scripted(model)
    query = Query(model, images, targets, forward_args)
    generator = generator or CounterGenerator.for_images(images)
    options = BaselineOptions(value, mean, std, noise_scale, shared_noise, blur_sigma, reference, mean_image)
    draws = baseline_draws((baseline,) if isinstance(baseline, str) else baseline, n_baselines)
    # Half, because the steps of the baseline are kept beside those of the image.
    size = max(1, backward_size(query) // 2)
    total = torch.zeros_like(wide(images))
    # Weights that take no gradient: what depends on the image is told by the gradients it takes.
    with untouched(model):
        for name, draw in draws:
            start = make_baseline(name, images, options, draw=draw, generator=generator)
            for rows, maps in map_chunks(partial(_chunk, query, start), len(images), size):
                total[rows] += maps
    return total / len(draws)


def _chunk(query: Query, start: Tensor, rows: slice) -> Tensor:
    part = query.at([Piece(0, rows)], query.images[rows])
    return contributions(part, start[rows].to(query.images.dtype))


def contributions(query: Query, start: Tensor) -> Tensor:
    """Contributions ``(N, C, H, W)`` to the difference of the scores between ``start`` and the images."""
    tape = Tape()
    leaf = start.detach().clone().requires_grad_(True)
    with DifferenceMode(tape, record=True):
        before = target_scores(query._replace(images=leaf.clone())).detach()
    leaf = query.images.detach().requires_grad_(True)
    # What is recomputed in the backward pass would be recomputed without the mode.
    with disable_saved_tensors_hooks(_RECOMPUTED), DifferenceMode(tape, record=False):
        scores = target_scores(query._replace(images=leaf.clone()))
    check_all_known(query.model, scores, tape)
    (multipliers,) = torch.autograd.grad(scores.sum(), leaf)
    maps = wide(multipliers) * (query.images - start)
    _check_complete(query.model, maps, before, scores.detach())
    return maps


def _check_complete(model: nn.Module, maps: Tensor, before: Tensor, after: Tensor) -> None:
    """Refuse maps ``(N, C, H, W)`` that do not sum to the difference of the scores ``(N,)``."""
    flat = maps.flatten(1)
    gap = (flat.sum(dim=1) - (after - before)).abs()
    scale = flat.abs().sum(dim=1) + after.abs() + before.abs()
    if bool((gap > _ROUNDING * scale).any()):
        raise ValueError(
            f"contributions miss the difference of the scores by up to {float(gap.max()):.3g}: "
            f"{type(model).__name__} has a step that no derivative shows, such as a mask made by comparing "
            "activations; write it as a function like torch.relu"
        )
