"""Guided backpropagation and deconvnet: the gradient with another rule at every rectifier."""

from contextlib import nullcontext

import torch
from torch import Tensor, nn

from heatcheck.attribution.passes import Output, Query, backward_size, in_chunks, target_scores, wide
from heatcheck.attribution.rectifiers import (
    RectifierMode,
    Rule,
    check_all_rectified,
    check_not_scripted,
    only_within,
)
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
    within: str | None = None,
    squared: bool = False,
) -> Tensor:
    """Gradient that passes a rectifier only where it is positive and the input too, ``(N, C, H, W)``.

    At every ReLU ``g * (g > 0) * (input > 0)`` (Springenberg et al. 2015); all else is the gradient.
    ReLU6 and other bounded rectifiers are active between their bounds. Modules, functions, methods, forms
    in place and modules used several times are treated alike. ``within`` limits the rule to the rectifiers
    of one submodule, such as ``cnn``; the others keep their derivative. ``squared`` squares element-wise.

    Raises:
        ValueError: The model has no rectifier, has one that cannot be reached, or has no such submodule.
    """
    maps = rectified_gradients(Query(model, images, targets, forward_args, output), "guided", within)
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
    within: str | None = None,
    squared: bool = False,
) -> Tensor:
    """Gradient that passes a rectifier where it is positive, whatever the input was, ``(N, C, H, W)``.

    At every ReLU ``g * (g > 0)`` (Zeiler and Fergus 2014); otherwise as ``guided-backprop``.

    Raises:
        ValueError: The model has no rectifier, or has one that cannot be reached.
    """
    maps = rectified_gradients(Query(model, images, targets, forward_args, output), "deconvnet", within)
    return maps.square() if squared else maps


def rectified_gradients(query: Query, rule: Rule, within: str | None = None) -> Tensor:
    """Input gradients ``(N, C, H, W)`` with ``rule`` at every rectifier, or at those of module ``within``.

    Raises:
        ValueError: The model has no rectifier, has one that cannot be reached, or has no such submodule.
    """
    check_not_scripted(query.model)
    module = None if within is None else _submodule(query.model, within)

    def run(part: Query) -> Tensor:
        leaf = part.images.detach().requires_grad_(True)
        # Active in the backward pass too, for models that recompute activations there.
        with RectifierMode(rule) as mode, nullcontext() if module is None else only_within(mode, module):
            scores = target_scores(part._replace(images=leaf.clone()))
            check_all_rectified(part.model, scores, mode)
            (gradients,) = torch.autograd.grad(scores.sum(), leaf)
        return wide(gradients)

    return in_chunks(run, query, backward_size(query))


def _submodule(model: nn.Module, path: str) -> nn.Module:
    known: dict[str, nn.Module] = dict(model.named_modules())
    if not path or path not in known:
        names = ", ".join(name for name in known if name) or "none"
        raise ValueError(f"the model has no submodule {path!r}; its submodules: {names}")
    return known[path]
