"""Nothing the caller owns changes, after success and after an exception (cases 9 and 10)."""

import gc
import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute, get_method

# Those that explain one kind of model only are in test_special_contracts.
METHODS = sorted(
    name for name, entry in load_catalog().items() if entry.family not in ("attention", "intrinsic")
)
ONE_INPUT = [name for name in METHODS if get_method(name).family != "own"]
CONTROLS = [name for name in METHODS if get_method(name).family == "control"]
MODEL_BASED = [name for name in METHODS if name not in CONTROLS]
Options = Callable[[str], dict[str, Any]]
MakeImages = Callable[..., Tensor]


def targets_for(images: Tensor) -> Tensor:
    return torch.arange(len(images)) % 5


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-6, *, name: str = "") -> bool:
    """Equal up to rounding, relative to the map's largest value.

    Perturbation methods subtract probabilities, so their rounding is relative to 1.
    """
    scale = float(expected.abs().max())
    if name and get_method(name).family == "perturbation":
        scale = max(scale, 1.0)
    return float((found - expected).abs().max()) <= tolerance * scale


@pytest.mark.parametrize("name", METHODS)
def test_nothing_the_caller_owns_changes_in_training_mode(
    name: str, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    net.train()
    weights = list(net.parameters())
    weights[0].requires_grad_(False)
    weights[1].grad = torch.ones_like(weights[1])
    state = {key: value.clone() for key, value in net.state_dict().items()}
    images = make_images(3)
    targets = targets_for(images)
    before = images.clone()
    torch_state, numpy_state = torch.get_rng_state(), numpy_stream()
    expected = attribute(name, net.eval(), images, targets, **fast_options(name))
    net.train()

    found = attribute(name, net, images, targets, **fast_options(name))

    assert torch.equal(found, expected)
    assert all(module.training for module in net.modules())
    assert [weight.requires_grad for weight in weights] == [False] + [True] * (len(weights) - 1)
    assert torch.equal(weights[1].grad, torch.ones_like(weights[1]))
    assert all(weight.grad is None for weight in weights[2:])
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert torch.equal(images, before)
    assert not images.requires_grad
    assert images.grad is None
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(numpy_stream(), numpy_state)


@pytest.mark.parametrize("name", MODEL_BASED)
def test_images_survive_a_model_that_works_in_place_on_its_input(
    name: str,
    make_net: Callable[[Callable[[], nn.Module]], nn.Module],
    make_images: MakeImages,
    fast_options: Options,
) -> None:
    def build(in_place: bool) -> nn.Module:
        return nn.Sequential(
            nn.ReLU(inplace=in_place),
            nn.Conv2d(3, 4, 3),
            nn.ReLU(inplace=in_place),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 5),
        )

    images = make_images(3)
    before = images.clone()
    found = attribute(name, make_net(lambda: build(True)), images, targets_for(images), **fast_options(name))
    expected = attribute(
        name, make_net(lambda: build(False)), images, targets_for(images), **fast_options(name)
    )
    assert torch.equal(images, before)
    # The layer that works in place has already rectified what grad-cam would tap before it.
    if get_method(name).family != "cam":
        assert close(found, expected, name=name)


def numpy_stream() -> Any:
    """State of NumPy's global generator, which methods must leave alone."""
    state: Any = np.random.get_state()  # noqa: NPY002
    return state[1].copy()


class Flaky(nn.Module):
    """A network whose forward pass fails once, after ``calls`` good ones."""

    def __init__(self, inner: nn.Module, calls: int) -> None:
        super().__init__()
        self.inner = inner
        self.left = calls

    def forward(self, images: Tensor) -> Tensor:
        self.left -= 1
        if self.left == -1:
            raise OSError("disk on fire")
        logits: Tensor = self.inner(images)
        return logits


def hooks_of(model: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)


@pytest.mark.parametrize("name", MODEL_BASED)
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_an_exception_in_the_forward_pass_names_the_method_and_leaves_no_trace(
    name: str, calls: int, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(2)
    options = fast_options(name)
    model = Flaky(net, 1 << 30)
    expected = attribute(name, model, images, targets_for(images), **options)
    model.left = 1 << 30
    attribute(name, model, images, targets_for(images), **options)
    passes = (1 << 30) - model.left
    flags = [weight.requires_grad for weight in model.parameters()]
    model.train()
    model.left = calls
    # A method may need fewer passes than come before the failing one.
    refusal = pytest.raises(RuntimeError, match=f"'{re.escape(name)}' failed: OSError: disk on fire")
    with refusal if calls < passes else nullcontext():
        attribute(name, model, images, targets_for(images), **options)
    assert hooks_of(model) == 0
    assert all(module.training for module in model.modules())
    assert [weight.requires_grad for weight in model.parameters()] == flags
    model.left = 1 << 30
    assert torch.equal(attribute(name, model, images, targets_for(images), **options), expected)


@pytest.mark.parametrize("family", sorted({get_method(name).family for name in METHODS}))
def test_two_hundred_calls_keep_no_tensor_alive(
    family: str, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(1)
    counts = {"n_steps": 2, "n_samples": 2, "n_masks": 2, "n_iterations": 2, "patch": 6, "stride": 6}
    names = [
        name for name in METHODS if get_method(name).family == family and not get_method(name).variant_of
    ]

    def call(times: int) -> int:
        for name in names:
            known = counts.keys() & get_method(name).options.model_fields
            options: dict[str, Any] = fast_options(name) | {key: counts[key] for key in known}
            for _ in range(times):
                attribute(name, net, images, targets_for(images), **options)
        gc.collect()
        return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())

    before = call(10)
    assert call(200) <= before
    assert hooks_of(net) == 0
