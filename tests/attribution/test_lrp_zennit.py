"""Relevance maps against zennit, an independent implementation, on a plain network and on ResNet-18."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision
from torch import Tensor, nn
from zennit.attribution import Gradient
from zennit.canonizers import SequentialMergeBatchNorm
from zennit.composites import (
    EpsilonAlpha2Beta1,
    EpsilonGammaBox,
    EpsilonPlus,
    LayerMapComposite,
    SpecialFirstLayerMapComposite,
)
from zennit.layer import Sum
from zennit.rules import AlphaBeta, Epsilon, Flat, Norm, Pass, WSquare, ZBox, ZPlus
from zennit.torchvision import ResNetCanonizer
from zennit.types import Activation, AvgPool, BatchNorm, Convolution, Linear

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute

load_catalog()
MakeNet = Callable[[Callable[[], nn.Module]], nn.Module]
MakeImages = Callable[..., Tensor]
LOW, HIGH = -6.0, 6.0
BOX: dict[str, Any] = {"low": LOW, "high": HIGH}


def passing(conv: Any, dense: Any) -> list[tuple[Any, Any]]:
    """Rules by layer type, with those zennit always uses for the others."""
    rest = [(Activation, Pass()), (Sum, Norm()), (AvgPool, Norm()), (BatchNorm, Pass())]
    return [*rest, (Convolution, conv), (Linear, dense)]


def in_order(conv: Any, dense: Any, first: Any) -> Any:
    return lambda canonizers: SpecialFirstLayerMapComposite(
        passing(conv, dense), [(Convolution, first)], canonizers
    )


# Method and options, and zennit's composite of the same rules. zennit counts squared biases in w-square,
# which its paper does not, so they are set to zero there.
CASES: dict[str, tuple[str, dict[str, Any], Callable[[Any], Any]]] = {
    "lrp": ("lrp", BOX, in_order(ZPlus(), ZPlus(), ZBox(LOW, HIGH))),
    "alpha1-beta0": ("lrp-alpha1-beta0", {}, lambda c: LayerMapComposite(passing(ZPlus(), ZPlus()), c)),
    "alpha2-beta1": (
        "lrp-alpha2-beta1",
        BOX,
        in_order(AlphaBeta(2, 1), AlphaBeta(2, 1), ZBox(LOW, HIGH)),
    ),
    "alpha3-beta2": (
        "lrp",
        {**BOX, "conv": "alpha-beta", "dense": "alpha-beta", "alpha": 3.0},
        in_order(AlphaBeta(3, 2), AlphaBeta(3, 2), ZBox(LOW, HIGH)),
    ),
    "epsilon-alpha": ("lrp-epsilon-alpha", BOX, in_order(ZPlus(), Epsilon(), ZBox(LOW, HIGH))),
    "epsilon": ("lrp-epsilon", {}, lambda c: LayerMapComposite(passing(Epsilon(), Epsilon()), c)),
    "large epsilon": (
        "lrp-epsilon",
        {"epsilon": 0.01},
        lambda c: LayerMapComposite(
            [
                (Activation, Pass()),
                (AvgPool, Norm(0.01)),
                (Convolution, Epsilon(0.01)),
                (Linear, Epsilon(0.01)),
            ],
            c,
        ),
    ),
    "epsilon-plus": ("lrp-epsilon-plus", {}, lambda c: EpsilonPlus(canonizers=c)),
    "epsilon-gamma-box": ("lrp-epsilon-gamma-box", BOX, lambda c: EpsilonGammaBox(LOW, HIGH, canonizers=c)),
    "epsilon-alpha2-beta1": (
        "lrp",
        {"first": "alpha2-beta1", "conv": "alpha2-beta1", "dense": "epsilon"},
        lambda c: EpsilonAlpha2Beta1(canonizers=c),
    ),
    "w-square": ("lrp", {"first": "w-square"}, in_order(ZPlus(), ZPlus(), WSquare(zero_params="bias"))),
    "flat": ("lrp", {"first": "flat"}, in_order(ZPlus(), ZPlus(), Flat())),
}
# The residual sums of zennit's ResNet have a stabilizer of their own, which cannot be made large.
RESIDUAL_CASES = [name for name in CASES if name != "large epsilon"]


def plain_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(32, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(), nn.Linear(12, 5),
    )  # fmt: skip


def oracle(model: nn.Module, images: Tensor, targets: Tensor, composite: Any) -> Tensor:
    """Zennit's map, started from the logit."""

    def logit(outputs: Tensor) -> Tensor:
        return outputs * nn.functional.one_hot(targets, outputs.shape[1])

    with Gradient(model=copy.deepcopy(model), composite=composite) as attributor:
        _, relevance = attributor(images.clone(), logit)
    result: Tensor = relevance.detach()
    return result


def without_epsilon(model: nn.Module) -> nn.Module:
    """The same network with the small number of every normalization moved into its variance.

    zennit leaves the number active after merging.
    """
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            assert module.running_var is not None
            module.running_var += module.eps
            module.eps = 0.0
    return model


def assert_same(found: Tensor, expected: Tensor) -> None:
    assert float(expected.abs().max()) > 0
    assert float((found - expected).abs().max()) <= 1e-6 * float(expected.abs().max())


@pytest.mark.parametrize("case", CASES)
def test_a_plain_networks_map_is_zennits(case: str, make_net: MakeNet, make_images: MakeImages) -> None:
    method, options, composite = CASES[case]
    model, images = without_epsilon(make_net(plain_network).double()), make_images(3, side=20).double()
    targets = torch.tensor([0, 3, 4])
    expected = oracle(model, images, targets, composite([SequentialMergeBatchNorm()]))
    assert_same(attribute(method, model, images, targets, **options), expected)


@pytest.mark.parametrize("case", RESIDUAL_CASES)
def test_resnet18s_map_is_zennits(case: str, make_net: MakeNet, make_images: MakeImages) -> None:
    method, options, composite = CASES[case]
    model = without_epsilon(make_net(lambda: torchvision.models.resnet18(num_classes=5)).double())
    images, targets = make_images(1, side=32).double(), torch.tensor([4])
    expected = oracle(model, images, targets, composite([ResNetCanonizer()]))
    assert_same(attribute(method, model, images, targets, **options), expected)
