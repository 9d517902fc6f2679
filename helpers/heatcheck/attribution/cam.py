"""Class activation maps: activations of one layer weighted by their gradients."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.attribution.guided import rectified_gradients
from heatcheck.attribution.passes import Output, Query, backward_size, in_chunks, target_scores, wide
from heatcheck.attribution.registry import register
from heatcheck.runtime.seeds import CounterGenerator

_EPSILON = 1e-8


class Tapped(NamedTuple):
    """A layer's activations and the gradients of the scores there, ``(N, K, h, w)`` each."""

    activations: Tensor
    gradients: Tensor


Weighting = Callable[[Tapped], Tensor]


def grad_cam_sum(tap: Tapped) -> Tensor:
    """``sum_k w_k A_k``, ``w_k`` the mean gradient, ``(N, h, w)`` (Selvaraju et al. 2017, eq. 1 and 2)."""
    weights = tap.gradients.mean(dim=(2, 3), keepdim=True)
    return (weights * tap.activations).sum(dim=1)


def grad_cam_plus_sum(tap: Tapped) -> Tensor:
    """``sum_k w_k A_k`` with ``w_k = sum alpha_k max(G_k, 0)``, ``(N, h, w)``.

    ``alpha = G**2 / (2 G**2 + sum(A G**3))``, 0 where ``G`` is 0 (Chattopadhay et al. 2018, eq. 19 for an
    exponential output score, in the form most libraries compute: the sum runs over positions of both
    factors. With one gradient per channel, as under global average pooling, the two readings agree.)
    """
    squares = tap.gradients.square()
    third = (tap.activations * squares * tap.gradients).sum(dim=(2, 3), keepdim=True)
    denominator = 2 * squares + third
    silent = (squares == 0) | (denominator == 0)
    alpha = torch.where(silent, 0.0, squares / torch.where(silent, 1.0, denominator))
    weights = (alpha * tap.gradients.clamp(min=0)).sum(dim=(2, 3), keepdim=True)
    return (weights * tap.activations).sum(dim=1)


def layer_cam_sum(tap: Tapped) -> Tensor:
    """``sum_k max(G_k, 0) A_k`` at each position, ``(N, h, w)`` (Jiang et al. 2021, eq. 5 and 6)."""
    return (tap.gradients.clamp(min=0) * tap.activations).sum(dim=1)


def xgrad_cam_sum(tap: Tapped) -> Tensor:
    """``sum_k w_k A_k`` with ``w_k = sum(G_k A_k) / sum(A_k)``, ``(N, h, w)`` (Fu et al. 2020, eq. 8)."""
    products = (tap.gradients * tap.activations).sum(dim=(2, 3), keepdim=True)
    weights = products / (tap.activations.sum(dim=(2, 3), keepdim=True) + _EPSILON)
    return (weights * tap.activations).sum(dim=1)


@register("grad-cam", family="cam", cites="selvaraju2017grad", variants={"grad-cam-signed": {"relu": False}})
def grad_cam(
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
    """Activations weighted by the mean gradient of their channel, upsampled, ``(N, 1, H, W)``.

    ``max(0, sum_k w_k A_k)``, ``w_k`` the mean of ``df_c/dA_k`` (Selvaraju et al. 2017); bilinear
    upsampling without corner alignment.

    Args:
        model: Convolutional classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Not used.
        output: Explained score.
        layer: Path of a module such as ``layer4.1``; by default the last to finish whose output is
            ``(N, K, h, w)`` with more than one position.
        relu: Drop the negative part before upsampling.

    Raises:
        ValueError: No such layer, or its output is no stack of maps; the message lists the layers.
    """
    query = Query(model, images, targets, forward_args, output)
    return activation_maps(query, layer, grad_cam_sum, relu=relu)


@register("grad-cam++", family="cam", cites="chattopadhay2018grad")
def grad_cam_plus(
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
    """Activations weighted by positive gradients with closed-form coefficients, upsampled, ``(N, 1, H, W)``.

    See ``grad_cam_plus_sum`` for the formula (Chattopadhay et al. 2018); options as ``grad-cam``.
    """
    query = Query(model, images, targets, forward_args, output)
    return activation_maps(query, layer, grad_cam_plus_sum, relu=relu)


@register("layer-cam", family="cam", cites="jiang2021layercam")
def layer_cam(
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
    """Activations weighted position by position by positive gradients, upsampled, ``(N, 1, H, W)``.

    See ``layer_cam_sum`` for the formula (Jiang et al. 2021); options as ``grad-cam``.
    """
    query = Query(model, images, targets, forward_args, output)
    return activation_maps(query, layer, layer_cam_sum, relu=relu)


@register("xgrad-cam", family="cam", cites="fu2020axiom")
def xgrad_cam(
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
    """Activations weighted by their channel's share of the score, upsampled, ``(N, 1, H, W)``.

    See ``xgrad_cam_sum`` for the formula (Fu et al. 2020); options as ``grad-cam``.
    """
    query = Query(model, images, targets, forward_args, output)
    return activation_maps(query, layer, xgrad_cam_sum, relu=relu)


@register("guided-grad-cam", family="cam", cites="selvaraju2017grad", pooling="l2-norm")
def guided_grad_cam(
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
    """Upsampled Grad-CAM times guided backpropagation, ``(N, C, H, W)``.

    Selvaraju et al. 2017, section 3.2; options as ``grad-cam``, refusals as ``guided-backprop``.
    """
    query = Query(model, images, targets, forward_args, output)
    return activation_maps(query, layer, grad_cam_sum, relu=relu) * rectified_gradients(query, "guided")


def activation_maps(query: Query, layer: str | None, weighting: Weighting, *, relu: bool) -> Tensor:
    """Maps ``(N, 1, H, W)`` of ``weighting`` at ``layer``, upsampled to the images.

    Raises:
        ValueError: No such layer, or its output is no stack of maps.
    """
    return layer_maps(query, layer, lambda part, module: weighting(tap_layer(part, module)), relu=relu)


def layer_maps(
    query: Query, layer: str | None, coarse: Callable[[Query, nn.Module], Tensor], *, relu: bool
) -> Tensor:
    """Maps ``(N, 1, H, W)`` upsampled from ``(n, h, w)`` ones that ``coarse`` makes of a chunk at ``layer``.

    Raises:
        ValueError: No such layer, or its output is no stack of maps.
    """
    size = (int(query.images.shape[-2]), int(query.images.shape[-1]))
    if not len(query.images):
        return wide(query.images.new_zeros(0, 1, *size))
    module = query.model.get_submodule(find_layer(query, layer))
    maps = in_chunks(lambda part: coarse(part, module)[:, None], query, backward_size(query))
    return upsampled(maps, size, relu=relu)


def upsampled(coarse: Tensor, size: tuple[int, int], *, relu: bool) -> Tensor:
    """Maps ``(N, 1, h, w)`` enlarged bilinearly to ``size``; ``relu`` drops their negative part first."""
    positive = coarse.clamp(min=0) if relu else coarse
    return F.interpolate(positive, size=size, mode="bilinear", align_corners=False)


def tap_layer(query: Query, module: nn.Module) -> Tapped:
    """Activations of ``module`` and gradients of the scores there; layers below are not differentiated."""
    taps: list[Tensor] = []

    def tap(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        taps.append(output.detach().clone().requires_grad_(True))
        # A copy goes on, so that the next layer may work in place.
        return taps[-1].clone()

    handle = module.register_forward_hook(tap)
    try:
        scores = target_scores(query)
        (gradients,) = torch.autograd.grad(scores.sum(), taps[-1])
    finally:
        handle.remove()
    return Tapped(wide(taps[-1].detach()), wide(gradients))


def find_layer(query: Query, layer: str | None) -> str:
    """Path of the module to tap, checked by one forward pass of one image.

    Raises:
        ValueError: No such layer, or its output is no stack of maps; the message lists the layers.
    """
    candidates = map_layers(query)
    if layer is None and candidates:
        return candidates[-1]
    if layer in candidates:
        return str(layer)
    known = ", ".join(candidates) or "none"
    given = "the model has no layer" if layer is None else f"layer {layer!r} is no layer"
    raise ValueError(
        f"{given} with maps of shape (N, K, h, w) and more than one position; such layers: {known}"
    )


def map_layers(query: Query) -> list[str]:
    """Paths of all modules that put out ``(N, K, h, w)`` with more than one position, as they finish."""
    finished: list[str] = []
    handles = []

    def note(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(_module: nn.Module, _inputs: object, output: object) -> None:
            if (
                isinstance(output, Tensor)
                and output.ndim == 4
                and len(output) == 1
                and output[0, 0].numel() > 1
            ):
                finished[:] = [path for path in finished if path != name] + [name]

        return hook

    try:
        handles = [
            module.register_forward_hook(note(name)) for name, module in query.model.named_modules() if name
        ]
        with torch.no_grad():
            query.model(query.images[:1].clone(), *(extra[:1] for extra in query.forward_args))
    finally:
        for handle in handles:
            handle.remove()
    return finished
