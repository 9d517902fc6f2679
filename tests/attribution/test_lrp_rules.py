"""Rules of relevance propagation against their formulas, written out with every contribution."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.attribution.lrp_rules import (
    Bounds,
    Constants,
    LinearMap,
    Rule,
    ZoneRule,
    share_addends,
    share_relevance,
    share_sum,
    stabilized,
)

Array = Any
EPSILON = 1e-6
LOW, HIGH = -0.4, 1.3


def positive(values: Array) -> Array:
    return np.maximum(values, 0)


def negative(values: Array) -> Array:
    return np.minimum(values, 0)


def divide(shares: Array, rest: Array, relevance: Array) -> Array:
    """``sum_k c_jk / (sum_j c_jk + d_k + eps sign) R_k`` for contributions ``shares`` ``(J, K)``."""
    total = shares.sum(axis=0) + rest
    return (shares / (total + np.where(total < 0, -EPSILON, EPSILON)) * relevance).sum(axis=1)


def written_out(name: str, a: Array, w: Array, b: Array, relevance: Array) -> Array:
    """Relevance of inputs ``a`` ``(J,)`` through weights ``w`` ``(J, K)``."""
    z, nothing = a[:, None] * w, 0 * b
    gain, loss = (positive(z), positive(b)), (negative(z), negative(b))
    if name == "alpha2-beta1":
        return 2 * divide(*gain, relevance) - divide(*loss, relevance)
    if name == "gamma":
        out = z.sum(axis=0) + b
        up = divide(z + 0.25 * gain[0], b + 0.25 * gain[1], relevance * (out > 0))
        return up + divide(z + 0.25 * loss[0], b + 0.25 * loss[1], relevance * (out < 0))
    shares = {
        "epsilon": (z, b),
        "alpha1-beta0": gain,
        "w-square": (w**2, nothing),
        "flat": (np.ones_like(w), nothing),
        "box": (z - LOW * positive(w) - HIGH * negative(w), nothing),
    }
    return divide(*shares[name], relevance)


ZONES: dict[str, tuple[Rule, float]] = {
    "epsilon": ("epsilon", 1.0),
    "alpha1-beta0": ("alpha-beta", 1.0),
    "alpha2-beta1": ("alpha-beta", 2.0),
    "gamma": ("gamma", 1.0),
    "w-square": ("w-square", 1.0),
    "flat": ("flat", 1.0),
    "box": ("box", 1.0),
}


def zone(name: str) -> ZoneRule:
    rule, alpha = ZONES[name]
    return ZoneRule(rule, Constants(EPSILON, alpha, 0.25))


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def box_around(inputs: Tensor) -> Bounds:
    return Bounds(torch.full_like(inputs, LOW), torch.full_like(inputs, HIGH))


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("signs", ["both signs", "not negative"])
def test_a_dense_layer_shares_as_its_formula_says(name: str, signs: str) -> None:
    inputs, weight, bias = numbers(3, 5, seed=1), numbers(4, 5, seed=2), numbers(4, seed=3)
    relevance = numbers(3, 4, seed=4)
    if signs == "not negative":
        inputs = inputs.clamp(min=0)
    layer = LinearMap(F.linear, weight, bias)
    found = share_relevance(zone(name), layer, inputs, relevance, bounds=box_around(inputs))
    for row in range(3):
        expected = written_out(
            name, inputs[row].numpy(), weight.T.numpy(), bias.numpy(), relevance[row].numpy()
        )
        np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_padded_and_strided_convolution_shares_as_its_matrix_does(name: str, groups: int) -> None:
    inputs, weight, bias = (
        numbers(1, 2, 5, 4, seed=5),
        numbers(4, 2 // groups, 3, 3, seed=6),
        numbers(4, seed=7),
    )

    def convolve(values: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(values, w, None, stride=2, padding=1, groups=groups)

    relevance = numbers(*convolve(inputs, weight).shape, seed=8)
    layer = LinearMap(convolve, weight, bias.view(-1, 1, 1))
    found = share_relevance(zone(name), layer, inputs, relevance, bounds=box_around(inputs))
    units = torch.eye(inputs.numel(), dtype=torch.float64).view(-1, *inputs.shape[1:])
    matrix = convolve(units, weight).flatten(1).numpy()
    biases = bias.view(-1, 1, 1).expand(relevance.shape[1:]).flatten().numpy()
    # The flat rule counts every weight of the kernel, which the matrix shows only where it is not zero.
    expected = written_out(name, inputs.flatten().numpy(), matrix, biases, relevance.flatten().numpy())
    if name == "flat":
        reached = convolve(units, torch.ones_like(weight)).flatten(1).numpy()
        expected = divide(reached, 0 * biases, relevance.flatten().numpy())
    np.testing.assert_allclose(found.flatten().numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["epsilon", "w-square", "flat", "box"])
def test_without_a_bias_nothing_is_lost(name: str) -> None:
    inputs, weight, relevance = numbers(2, 6, seed=9), numbers(3, 6, seed=10), numbers(2, 3, seed=11)
    layer = LinearMap(F.linear, weight, None)
    found = share_relevance(zone(name), layer, inputs, relevance, bounds=box_around(inputs))
    torch.testing.assert_close(found.sum(dim=1), relevance.sum(dim=1), rtol=1e-4, atol=0)


def test_given_outputs_are_what_epsilon_divides_by() -> None:
    inputs, weight, relevance = numbers(1, 6, seed=9), numbers(3, 6, seed=10), numbers(1, 3, seed=11)
    layer = LinearMap(F.linear, weight, None)
    outputs = F.linear(inputs, weight)
    plain = share_relevance(zone("epsilon"), layer, inputs, relevance)
    given = share_relevance(zone("epsilon"), layer, inputs, relevance, outputs=2 * outputs)
    torch.testing.assert_close(given, plain / 2, rtol=1e-5, atol=1e-8)


def test_the_box_rule_needs_a_box() -> None:
    layer = LinearMap(F.linear, numbers(3, 6, seed=1), None)
    with pytest.raises(ValueError, match="needs bounds"):
        share_relevance(zone("box"), layer, numbers(1, 6, seed=2), numbers(1, 3, seed=3))


@pytest.mark.parametrize(
    ("reduce", "counts"),
    [
        (lambda values: values.sum(dim=1), 1.0),
        (lambda values: values.mean(dim=1), 1 / 6),
    ],
)
def test_a_sum_or_mean_shares_in_proportion(reduce: Callable[[Tensor], Tensor], counts: float) -> None:
    inputs, relevance = numbers(2, 6, seed=12), numbers(2, seed=13)
    found = share_sum(reduce, inputs, relevance, EPSILON, positive=False)
    expected = inputs * counts / stabilized(inputs.sum(dim=1) * counts, EPSILON)[:, None] * relevance[:, None]
    torch.testing.assert_close(found, expected)
    kept = inputs.clamp(min=0)
    found = share_sum(reduce, inputs, relevance, EPSILON, positive=True)
    expected = kept * counts / stabilized(kept.sum(dim=1) * counts, EPSILON)[:, None] * relevance[:, None]
    torch.testing.assert_close(found, expected)


def test_addends_share_in_proportion_also_where_one_is_broadcast() -> None:
    first, second, relevance = numbers(3, 4, seed=14), numbers(4, seed=15), numbers(3, 4, seed=16)
    shares = share_addends((first, second), relevance, EPSILON, positive=False)
    ratio = relevance / stabilized(first + second, EPSILON)
    torch.testing.assert_close(shares[0], first * ratio)
    torch.testing.assert_close(shares[1], (second * ratio).sum(dim=0))


def test_zero_is_moved_upwards_and_all_else_away_from_zero() -> None:
    found = stabilized(torch.tensor([0.0, -0.0, 2.0, -2.0]), 0.5)
    assert found.tolist() == [0.5, 0.5, 2.5, -2.5]
