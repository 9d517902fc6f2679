"""Guided backpropagation and deconvnet: the gradient with another rule at every rectifier."""

import torch
from torch import Tensor, nn

from heatcheck.attribution.passes import Output, Query, backward_size, in_chunks, target_scores, wide
from heatcheck.attribution.rectifiers import RectifierMode, Rule, check_all_rectified, check_not_scripted
from heatcheck.attribution.registry import register
from heatcheck.runtime.seeds import CounterGenerator


@register(
    "guided-backprop",
    family="guided",
    cites="springenberg2015striving",
    variants={"guided-backprop-squared": {"squared": True}},
)
def guided_backprop(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "logit",
    squared: bool = False,
) -> Tensor:
    """Gradient that passes a rectifier only where it is positive and the input too, ``(N, C, H, W)``.

    At every ReLU ``g * (g > 0) * (input > 0)`` (Springenberg et al. 2015); all else is the gradient.
    ReLU6 and other bounded rectifiers are active between their bounds. Modules, functions, methods, forms
    in place and modules used several times are treated alike. ``squared`` squares element-wise.

    Raises:
        ValueError: The model has no rectifier, or has one that cannot be reached.
    """
    maps = rectified_gradients(Query(model, images, targets, forward_args, output), "guided")
    return maps.square() if squared else maps


@register("deconvnet", family="guided", cites="zeiler2014visualizing")
def deconvnet(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "logit",
    squared: bool = False,
) -> Tensor:
    """Gradient that passes a rectifier where it is positive, whatever the input was, ``(N, C, H, W)``.

    At every ReLU ``g * (g > 0)`` (Zeiler and Fergus 2014); otherwise as ``guided-backprop``.

    Raises:
        ValueError: The model has no rectifier, or has one that cannot be reached.
    """
    maps = rectified_gradients(Query(model, images, targets, forward_args, output), "deconvnet")
    return maps.square() if squared else maps


def rectified_gradients(query: Query, rule: Rule) -> Tensor:
    """Input gradients ``(N, C, H, W)`` with ``rule`` at every rectifier.

    Raises:
        ValueError: The model has no rectifier, or has one that cannot be reached.
    """
    check_not_scripted(query.model)

    def run(part: Query) -> Tensor:
        leaf = part.images.detach().requires_grad_(True)
        # Active in the backward pass too, for models that recompute activations there.
        with RectifierMode(rule) as mode:
            scores = target_scores(part._replace(images=leaf.clone()))
            check_all_rectified(part.model, scores, mode.found)
            (gradients,) = torch.autograd.grad(scores.sum(), leaf)
        return wide(gradients)

    return in_chunks(run, query, backward_size(query))
