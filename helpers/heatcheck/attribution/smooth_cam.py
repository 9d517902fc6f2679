"""Grad-CAM++ over noisy images, and both Grad-CAM++ methods as a much used library computes them."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from heatcheck.attribution.cam import Tapped, activation_maps, layer_maps, tap_layer
from heatcheck.attribution.passes import Count, NotNegative, Output, Query
from heatcheck.attribution.registry import register
from heatcheck.runtime.seeds import CounterGenerator

# torchcam adds this to the denominator, which is not little against squares of small gradients.
_EPSILON = 1e-8


class Derivatives(NamedTuple):
    """Powers of a layer's gradients, each averaged over noisy images, ``(N, K, h, w)`` each."""

    first: Tensor
    second: Tensor
    third: Tensor


class Samples(NamedTuple):
    """What the noisy images gave: averages, and the last one's activations and gradients."""

    means: Derivatives
    last: Tapped


def grad_cam_cubed_sum(tap: Tapped) -> Tensor:
    """``sum_k w_k A_k`` with ``w_k = sum max(G_k, 0)**3``, ``(N, h, w)``.

    This is Grad-CAM++ without the denominator of its coefficients, which torchcam 0.4 and 0.5 lose.
    """
    weights = tap.gradients.clamp(min=0).pow(3).sum(dim=(2, 3), keepdim=True)
    return (weights * tap.activations).sum(dim=1)


def smooth_cam_sum(clean: Tensor, means: Derivatives, tap: Tapped, epsilon: float = 0.0) -> Tensor:
    """``sum_k w_k A_k`` with ``w_k = sum alpha_k max(G_k, 0)``, ``(N, h, w)``.

    ``alpha = D2 / (2 D2 + sum(A D3) + epsilon)``, 0 where the denominator is 0, with the mean powers ``D2``
    and ``D3`` of the gradients (Omeiza et al. 2019).

    Args:
        clean: ``A`` of the coefficients, activations of the image itself, ``(N, K, h, w)``.
        means: Averages over the noisy images.
        tap: ``A`` and ``G`` of the sum and its weights.
        epsilon: Added to the denominator.
    """
    third = (means.third * clean).sum(dim=(2, 3), keepdim=True)
    denominator = 2 * means.second + third + epsilon
    silent = denominator == 0
    alpha = torch.where(silent, 0.0, means.second / torch.where(silent, 1.0, denominator))
    weights = (alpha * tap.gradients.clamp(min=0)).sum(dim=(2, 3), keepdim=True)
    return (weights * tap.activations).sum(dim=1)


@register("grad-cam++-cubed", family="cam", cites="fernandez2020torchcam")
def grad_cam_plus_cubed(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "logit",
    layer: str | None = None,
    relu: bool = True,
) -> Tensor:
    """Activations weighted by the cubes of positive gradients, upsampled, ``(N, 1, H, W)``.

    Not Grad-CAM++, but what published results of that name were made with; see ``grad_cam_cubed_sum``.
    Options as ``grad-cam``.
    """
    query = Query(model, images, targets, forward_args, output)
    return activation_maps(query, layer, grad_cam_cubed_sum, relu=relu)


@register(
    "smooth-grad-cam++",
    family="cam",
    cites="omeiza2019smooth",
    variants={"smooth-grad-cam++-last-noisy": {"activations": "last-noisy"}},
    variant_cites={"smooth-grad-cam++-last-noisy": "fernandez2020torchcam"},
)
def smooth_grad_cam_plus(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "logit",
    layer: str | None = None,
    relu: bool = True,
    n_samples: Count = 4,
    noise_scale: NotNegative = 0.3,
    activations: Literal["clean", "last-noisy"] = "clean",
) -> Tensor:
    """Grad-CAM++ whose derivatives are averaged over noisy copies of the image, ``(N, 1, H, W)``.

    See ``smooth_cam_sum`` for the formula (Omeiza et al. 2019). Noise is drawn per (seed, image, sample).

    Args:
        model: Convolutional classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Random numbers.
        output: Explained score.
        layer: As for ``grad-cam``.
        relu: Drop the negative part before upsampling.
        n_samples: Noisy copies per image.
        noise_scale: Standard deviation of the noise, in the space of the images.
        activations: ``clean`` weighs the image's own activations with averaged gradients; ``last-noisy``
            weighs those of the last noisy copy with that copy's gradients, as torchcam 0.4 does.

    Raises:
        ValueError: No such layer, or its output is no stack of maps.
    """
    generator = generator or CounterGenerator.for_images(images)
    query = Query(model, images, targets, forward_args, output, generator)

    def coarse(part: Query, module: nn.Module) -> Tensor:
        clean = tap_layer(part, module).activations
        samples = noisy_samples(part, module, n_samples, noise_scale)
        if activations == "last-noisy":
            return smooth_cam_sum(clean, samples.means, samples.last, _EPSILON)
        return smooth_cam_sum(clean, samples.means, Tapped(clean, samples.means.first))

    return layer_maps(query, layer, coarse, relu=relu)


def noisy_samples(query: Query, module: nn.Module, n_samples: int, noise_scale: float) -> Samples:
    """Averages over ``n_samples`` noisy copies of each image, whatever else is in the batch."""
    assert query.generator is not None
    sums: Derivatives | None = None
    for sample in range(n_samples):
        noise = query.generator.normal(sample, query.images).to(query.images.dtype)
        tap = tap_layer(query._replace(images=query.images + noise_scale * noise), module)
        powers = Derivatives(tap.gradients, tap.gradients.square(), tap.gradients.pow(3))
        sums = powers if sums is None else Derivatives(*map(torch.add, sums, powers))
    assert sums is not None
    return Samples(Derivatives(*(total / n_samples for total in sums)), tap)
