"""Batch normalizations merged into the layer before or after them, exactly."""

from dataclasses import replace

import torch
from torch import Tensor

from heatcheck.attribution.lrp_rules import LinearMap
from heatcheck.attribution.lrp_trace import Affine, Call, Layer


def scale_and_shift(call: Call) -> tuple[Tensor, Tensor]:
    """``s`` and ``t`` of a batch normalization ``s x + t``, ``(K,)`` each.

    Raises:
        ValueError: It uses the statistics of the batch.
    """
    # The two functions of this name take their tensors in another order.
    order = (1, 2, 3, 4) if call.func is not torch.batch_norm else (3, 4, 1, 2)
    mean, variance, weight, bias = (
        call.argument(index, name)
        for index, name in zip(order, ("running_mean", "running_var", "weight", "bias"), strict=True)
    )
    if call.argument(5, "training", default=False) or mean is None or variance is None:
        raise ValueError("a batch normalization uses the statistics of the batch, so images are not apart")
    epsilon = call.argument(7, "eps", default=1e-5)
    scale = torch.rsqrt(variance + epsilon) * (1 if weight is None else weight)
    return scale, (0 if bias is None else bias) - mean * scale


def merge_after(layer: Layer, scale: Tensor, shift: Tensor) -> Layer:
    """``layer`` followed by ``s x + t``: weights times ``s`` by output channel, ``b' = s b + t``."""
    part = layer.map
    weight = part.weight * scale.view(-1, *[1] * (part.weight.ndim - 1))
    view = (-1, *[1] * (part.weight.ndim - 2))
    bias = shift.view(view) + (0 if part.bias is None else part.bias * scale.view(view))
    return replace(layer, map=LinearMap(part.apply, weight, bias))


def merge_before(layer: Layer, affine: Affine) -> Layer:
    """``layer`` after ``s x + t``: weights times ``s`` by input channel, what ``t`` gives is bias.

    Where a convolution pads, it pads the normalized maps; the bias is then computed place by place, which
    keeps the merged layer exact.
    """
    part, weight = layer.map, layer.map.weight
    n_in = weight.shape[1]
    n_groups = len(affine.scale) // n_in
    scale = affine.scale.view(n_groups, 1, n_in).expand(-1, len(weight) // n_groups, -1)
    merged = weight * scale.reshape(len(weight), n_in, *[1] * (weight.ndim - 2))
    inputs = affine.inputs
    shift = affine.shift.view(-1, *[1] * (inputs.ndim - 2)).expand(1, *inputs.shape[1:])
    with torch.no_grad():
        bias = part.apply(shift, weight) + (0 if part.bias is None else part.bias)
    return replace(layer, map=LinearMap(part.apply, merged, bias), inputs=inputs)
