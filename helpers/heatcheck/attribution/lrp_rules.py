"""Rules of layer-wise relevance propagation: how a linear map shares its output's relevance among its inputs.

Every rule here is ``R_j = sum_k c_jk / (sum_j' c_j'k + d_k + eps sign) R_k`` with contributions ``c_jk`` of
input ``j`` to output ``k`` and a share ``d_k`` of the bias, which is what relevance is lost to. ``sign(0)``
is +1. ``[.]^+`` and ``[.]^-`` are the positive and the negative part.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Rule = Literal["epsilon", "alpha-beta", "gamma", "w-square", "flat", "box"]


class Bounds(NamedTuple):
    """Lowest and highest possible value of every input, each of the shape of the input."""

    low: Tensor
    high: Tensor


@dataclass(frozen=True)
class LinearMap:
    """A layer ``apply(inputs, weight) + bias``, linear in the inputs for a fixed weight and the reverse.

    Attributes:
        apply: The layer without its bias.
        weight: Its weight.
        bias: What is added, of a shape that broadcasts to the output, or None.
    """

    apply: Callable[[Tensor, Tensor], Tensor]
    weight: Tensor
    bias: Tensor | None


class Constants(NamedTuple):
    """Numbers of the rules: stabilizer ``epsilon``, ``alpha`` (``beta`` is ``alpha - 1``) and ``gamma``."""

    epsilon: float = 1e-6
    alpha: float = 1.0
    gamma: float = 0.25


class ZoneRule(NamedTuple):
    """A rule with its numbers."""

    rule: Rule
    constants: Constants = Constants()


# An input or what stands for it, and the weight it goes through.
_Term = tuple[Tensor, Tensor]


def share_relevance(
    zone: ZoneRule,
    layer: LinearMap,
    inputs: Tensor,
    relevance: Tensor,
    *,
    outputs: Tensor | None = None,
    bounds: Bounds | None = None,
) -> Tensor:
    """Relevance of ``inputs``, of their shape, from the ``relevance`` of the layer's output.

    With ``z_jk = a_j w_jk``:

    * ``epsilon``: ``c = z`` and ``d = b`` (Bach et al. 2015, eq. 58).
    * ``alpha-beta``: ``alpha`` times the share with ``c = [z]^+, d = [b]^+`` minus ``beta`` times the share
      with ``c = [z]^-, d = [b]^-`` (Bach et al. 2015, eq. 60). Where inputs are negative, ``[z]^+`` is
      ``a^+ w^+ + a^- w^-``.
    * ``gamma``: ``c = z + gamma [z]^s`` and ``d = b + gamma [b]^s``, ``s`` the sign of the output
      (Montavon et al. 2019 for inputs that are not negative; for the others Andeol et al. 2021).
    * ``w-square``: ``c = w**2, d = 0``; ``flat``: ``c = 1, d = 0`` (Montavon et al. 2017; Lapuschkin et al.
      2019).
    * ``box``: ``c = z - l_j w^+ - h_j w^-, d = 0``, ``l`` and ``h`` the ``bounds`` (Montavon et al. 2017).

    ``epsilon`` divides by ``outputs`` of the forward pass where they are given: they may be near zero, and
    then must be the very numbers the relevance is in proportion to.

    Raises:
        ValueError: ``box`` without bounds.
    """
    (rule, constants), weight, bias = zone, layer.weight, layer.bias
    if rule == "epsilon":
        return _share(layer, [(inputs, weight)], bias, relevance, constants.epsilon, total=outputs)
    if rule == "alpha-beta":
        return _alpha_beta(layer, inputs, relevance, constants)
    if rule == "gamma":
        return _gamma(layer, inputs, relevance, constants)
    if rule in ("w-square", "flat"):
        squares = weight.square() if rule == "w-square" else torch.ones_like(weight)
        terms = [(torch.ones_like(inputs), squares)]
        return _share(layer, terms, None, relevance, constants.epsilon)
    if bounds is None:
        raise ValueError("the box rule needs bounds of its inputs; use it for the first layer only")
    terms = [(inputs, weight), (-bounds.low, weight.clamp(min=0)), (-bounds.high, weight.clamp(max=0))]
    return _share(layer, terms, None, relevance, constants.epsilon)


def share_sum(
    reduce: Callable[[Tensor], Tensor], inputs: Tensor, relevance: Tensor, epsilon: float, *, positive: bool
) -> Tensor:
    """Relevance of ``inputs`` of a sum or mean ``reduce``, in proportion to what each adds.

    ``R_j = a_j w_jk / (sum_j a_j w_jk + eps sign) R_k`` with weights ``w >= 0`` of the reduction; with
    ``positive`` only positive ``a_j`` take part.
    """
    layer = LinearMap(lambda values, _weight: reduce(values), inputs.new_ones(()), None)
    values = inputs.clamp(min=0) if positive else inputs
    return _share(layer, [(values, layer.weight)], None, relevance, epsilon)


def share_addends(
    addends: tuple[Tensor, ...], relevance: Tensor, epsilon: float, *, positive: bool
) -> tuple[Tensor, ...]:
    """Relevance of each addend of an element-wise sum, in proportion to it and of its shape.

    With ``positive`` only positive addends take part.
    """
    parts = [addend.clamp(min=0) for addend in addends] if positive else list(addends)
    ratio = relevance / stabilized(_sum(parts), epsilon)
    return tuple((part * ratio).sum_to_size(part.shape) for part in parts)


def stabilized(values: Tensor, epsilon: float) -> Tensor:
    """``values`` moved away from zero by ``epsilon``; zero itself becomes ``+epsilon``."""
    return values + torch.where(values < 0, -epsilon, epsilon)


def _alpha_beta(layer: LinearMap, inputs: Tensor, relevance: Tensor, constants: Constants) -> Tensor:
    beta = constants.alpha - 1
    bias, plus = layer.bias, _signed(inputs, layer.weight, positive=True)
    gain = None if bias is None else bias.clamp(min=0)
    shared = constants.alpha * _share(layer, plus, gain, relevance, constants.epsilon)
    if beta:
        minus = _signed(inputs, layer.weight, positive=False)
        loss = None if bias is None else bias.clamp(max=0)
        shared = shared - beta * _share(layer, minus, loss, relevance, constants.epsilon)
    return shared


def _gamma(layer: LinearMap, inputs: Tensor, relevance: Tensor, constants: Constants) -> Tensor:
    weight, bias = layer.weight, layer.bias
    with torch.no_grad():
        outputs = layer.apply(inputs, weight) + (0 if bias is None else bias)
    shared = torch.zeros_like(inputs)
    for positive in (True, False):
        # The whole contribution, its part of the output's sign gamma times more.
        signed = _signed(inputs, weight, positive=positive)
        terms = [(values, weight + constants.gamma * part) for values, part in signed]
        extra = None
        if bias is not None:
            extra = bias + constants.gamma * (bias.clamp(min=0) if positive else bias.clamp(max=0))
        chosen = relevance * (outputs > 0 if positive else outputs < 0)
        shared = shared + _share(layer, terms, extra, chosen, constants.epsilon)
    return shared


def _signed(inputs: Tensor, weight: Tensor, *, positive: bool) -> list[_Term]:
    """Terms whose contributions are all positive, or all negative."""
    rise, fall = weight.clamp(min=0), weight.clamp(max=0)
    terms = [(inputs.clamp(min=0), rise if positive else fall)]
    # After a ReLU there is nothing below zero, and the second half of the work adds zeros.
    if bool((inputs < 0).any()):
        terms.append((inputs.clamp(max=0), fall if positive else rise))
    return terms


def _share(
    layer: LinearMap,
    terms: list[_Term],
    bias: Tensor | None,
    relevance: Tensor,
    epsilon: float,
    *,
    total: Tensor | None = None,
) -> Tensor:
    """Relevance in proportion to the contributions of ``terms``, whose sum is ``total``."""
    with torch.enable_grad():
        values = [value.detach().requires_grad_(True) for value, _ in terms]
        parts = [layer.apply(value, weight) for value, (_, weight) in zip(values, terms, strict=True)]
    with torch.no_grad():
        if total is None:
            total = _sum([part.detach() for part in parts], bias)
        ratio = relevance / stabilized(total, epsilon)
    # The derivative of a linear map is the map read backwards.
    returned = torch.autograd.grad(parts, values, [ratio] * len(parts))
    return _sum([value.detach() * back for value, back in zip(values, returned, strict=True)])


def _sum(parts: list[Tensor], more: Tensor | None = None) -> Tensor:
    total = parts[0]
    for part in parts[1:] if more is None else [*parts[1:], more]:
        total = total + part
    return total
