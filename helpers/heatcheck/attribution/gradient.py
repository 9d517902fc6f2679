"""Gradients, input x gradient and integrated gradients."""

from typing import Annotated, Literal

import numpy as np
import pydantic
import torch
from torch import Tensor, nn

from heatcheck.attribution.baselines import BaselineName, BaselineOptions, baseline_draws, make_baseline
from heatcheck.attribution.passes import (
    Count,
    NotNegative,
    Output,
    Piece,
    Positive,
    Query,
    backward_size,
    forward_scores,
    forward_size,
    in_chunks,
    input_gradients,
    stream,
    wide,
)
from heatcheck.attribution.registry import register
from heatcheck.runtime.seeds import CounterGenerator

Quadrature = Literal["left", "right", "midpoint", "trapezoid", "inclusive", "gauss-legendre"]


@register(
    "gradient",
    family="gradient",
    cites="simonyan2014deep",
    pooling="l2-norm",
    variants={"gradient-squared": {"squared": True}},
)
def gradient(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "logit",
    squared: bool = False,
) -> Tensor:
    """Derivative of the score with respect to every channel value, ``(N, C, H, W)``.

    ``R = df_c/dx`` (Simonyan et al. 2014); ``squared`` gives its element-wise square.
    """
    query = Query(model, images, targets, forward_args, output)
    maps = in_chunks(input_gradients, query, backward_size(query))
    return maps.square() if squared else maps


@register(
    "input-x-gradient",
    family="gradient",
    cites="shrikumar2016not",
    variants={"input-x-gradient-squared": {"squared": True}},
)
def input_x_gradient(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "logit",
    squared: bool = False,
) -> Tensor:
    """Image times gradient, ``(N, C, H, W)``.

    ``R = x * df_c/dx`` (Shrikumar et al. 2016); with ``squared`` the derivative is squared, the image is
    not: ``R = x * (df_c/dx)**2`` (Arras et al. 2022).
    """
    query = Query(model, images, targets, forward_args, output)
    maps = in_chunks(input_gradients, query, backward_size(query))
    return images * (maps.square() if squared else maps)


@register(
    "integrated-gradients",
    family="gradient",
    cites="sundararajan2017axiomatic",
    variants={
        "integrated-gradients-squared": {"squared": True},
        "ig-uniform": {"quadrature": "gauss-legendre", "baseline": "uniform", "shared_noise": True},
    },
)
def integrated_gradients(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "logit",
    n_steps: Count = 50,
    quadrature: Quadrature = "midpoint",
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
    squared: bool = False,
) -> Tensor:
    """Gradient averaged on the straight line from a baseline, times the difference to it, ``(N, C, H, W)``.

    ``R = (x - b) * sum_s w_s df_c/dx(b + a_s (x - b))`` (Sundararajan et al. 2017, eq. 1), averaged over
    all baselines ``b``. The sum is streamed: memory does not grow with ``n_steps`` or ``n_baselines``.

    Args:
        model: Classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Noise of the random baselines.
        output: Explained score.
        n_steps: Gradients per baseline.
        quadrature: Nodes and weights, see ``quadrature_rule``.
        baseline: One name or several to average over, see ``make_baseline``.
        n_baselines: Draws of each random baseline.
        value: Colour of the baseline ``constant``, in the space of the images.
        mean: Normalization of the images, for ``black`` and ``white``.
        std: Normalization of the images, for ``black`` and ``white``.
        noise_scale: Half-width of ``uniform``, standard deviation of ``gaussian``.
        shared_noise: One noise image for all images.
        blur_sigma: Standard deviation of ``blur`` in pixels.
        reference: Image ``(C, H, W)`` of the baseline ``reference``.
        mean_image: Mean training image ``(C, H, W)`` in the space of the images, for ``mean-image`` and
            ``mean-channel``.
        squared: Return the element-wise square.

    Raises:
        ValueError: A baseline lacks an option, or the quadrature needs more steps.
    """
    query = Query(model, images, targets, forward_args, output)
    generator = generator or CounterGenerator.for_images(images)
    options = BaselineOptions(value, mean, std, noise_scale, shared_noise, blur_sigma, reference, mean_image)
    draws = baseline_draws((baseline,) if isinstance(baseline, str) else baseline, n_baselines)
    nodes, weights = quadrature_rule(quadrature, n_steps)
    size = backward_size(query)
    total = torch.zeros_like(wide(images))
    for name, draw in draws:
        start = make_baseline(name, images, options, draw=draw, generator=generator)
        total += (images - start) * path_gradients(query, start, nodes, weights, size)
    total /= len(draws)
    return total.square() if squared else total


def path_gradients(
    query: Query, start: Tensor, nodes: list[float], weights: list[float], size: int
) -> Tensor:
    """Weighted sum ``(N, C, H, W)`` of gradients at ``nodes`` between ``start`` (0) and the images (1)."""

    def write(piece: Piece, place: Tensor) -> None:
        torch.lerp(start[piece.rows], query.images[piece.rows], nodes[piece.step], out=place)

    total = torch.zeros_like(wide(query.images))
    for piece, gradients in stream(input_gradients, query, write, n_steps=len(nodes), size=size):
        total[piece.rows].add_(gradients, alpha=weights[piece.step])
    return total


def quadrature_rule(quadrature: Quadrature, n_steps: int) -> tuple[list[float], list[float]]:
    """Nodes in [0, 1] and weights that sum to 1, ``n_steps`` of each.

    ``left``, ``right`` and ``midpoint`` are Riemann sums over ``n_steps`` intervals; ``trapezoid`` has
    ``n_steps - 1`` intervals with half weights at both ends; ``inclusive`` has the same nodes with equal
    weights, as the library behind the published ROAR maps; ``gauss-legendre`` is exact for polynomials
    of degree ``2 n_steps - 1``.

    Raises:
        ValueError: ``trapezoid`` or ``inclusive`` with a single step.
    """
    equal = [1 / n_steps] * n_steps
    if quadrature == "gauss-legendre":
        points, factors = np.polynomial.legendre.leggauss(n_steps)
        return ((1 + points) / 2).tolist(), (factors / 2).tolist()
    if quadrature in ("left", "right", "midpoint"):
        shift = {"left": 0.0, "midpoint": 0.5, "right": 1.0}[quadrature]
        return [(step + shift) / n_steps for step in range(n_steps)], equal
    if n_steps < 2:
        raise ValueError(
            f"quadrature {quadrature!r} needs both ends, so n_steps must be at least 2, got {n_steps}"
        )
    nodes = [step / (n_steps - 1) for step in range(n_steps)]
    if quadrature == "inclusive":
        return nodes, equal
    inner = 1 / (n_steps - 1)
    return nodes, [inner / 2, *[inner] * (n_steps - 2), inner / 2]


def completeness_gap(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    attributions: Tensor,
    *,
    baseline: Tensor | float = 0.0,
    forward_args: tuple[Tensor, ...] = (),
    output: Output = "logit",
) -> Tensor:
    """How far the sum of each map is from the difference of the scores, ``(N,)``.

    ``|sum R - (f_c(x) - f_c(b))|``; 0 for exact integration (Sundararajan et al. 2017, proposition 1).

    Args:
        model: Classifier in evaluation mode.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        attributions: ``(N, C, H, W)`` of ``integrated-gradients``.
        baseline: What the integration started from, broadcast to ``images``.
        forward_args: Further inputs of the model.
        output: Explained score.
    """
    query = Query(model, images, targets, forward_args, output)
    start = query._replace(images=torch.as_tensor(baseline).to(images).expand_as(images))
    size = forward_size(query)
    difference = in_chunks(forward_scores, query, size) - in_chunks(forward_scores, start, size)
    return (attributions.flatten(1).sum(dim=1) - difference).abs()
