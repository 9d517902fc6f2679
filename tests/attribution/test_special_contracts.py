"""What every registered method promises, for those that explain one kind of model only."""

import gc
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute, get_method
from heatcheck.models.design.bagnet import BagNet
from heatcheck.models.design.bcos import BcosResNet
from heatcheck.models.small_networks import small_vit
from heatcheck.runtime.memory import memory_budget

METHODS = sorted(name for name, entry in load_catalog().items() if entry.family in ("attention", "intrinsic"))
# bagnet-exact asks the model itself for its windows, which one around it does not have.
WRAPPED = [name for name in METHODS if name != "bagnet-exact"]
N_CLASSES = 5


def vit() -> nn.Module:
    return small_vit(N_CLASSES, size=12, patch=4, width=8, depth=3, heads=2)


def b_cos() -> nn.Module:
    return BcosResNet(N_CLASSES, depths=(1, 1), width=4, bottleneck=False, small=True)


def bag() -> nn.Module:
    return BagNet(N_CLASSES, n_wide=1, depths=(1, 1), strides=(2, 1), width=4, expansion=1)


BUILD: dict[str, Callable[[], nn.Module]] = {
    "attention-rollout": vit,
    "chefer-relevance": vit,
    "b-cos": b_cos,
    "bagnet": bag,
    "bagnet-exact": bag,
}


class Outer(nn.Module):
    """Wraps a model, which methods must find inside, and fails on demand."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.broken = False

    def forward(self, images: Tensor) -> Tensor:
        if self.broken:
            raise OSError("disk on fire")
        logits: Tensor = self.inner(images)
        return logits


@pytest.fixture
def make_model(make_net: Callable[[Callable[[], nn.Module]], nn.Module]) -> Callable[[str], nn.Module]:
    return lambda name: make_net(BUILD[name])


@pytest.fixture
def images() -> Tensor:
    return torch.rand(5, 3, 12, 12, generator=torch.Generator().manual_seed(2))


def targets_for(images: Tensor) -> Tensor:
    return torch.arange(len(images)) % N_CLASSES


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-6) -> bool:
    return float((found - expected).abs().max()) <= tolerance * float(expected.abs().max())


def test_every_method_for_one_kind_of_model_is_held_to_the_contracts() -> None:
    assert set(BUILD) == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_map_is_float32_and_double_precision_agrees(
    name: str, make_model: Callable[[str], nn.Module], images: Tensor
) -> None:
    model = make_model(name)
    single = attribute(name, model, images, targets_for(images))
    assert tuple(single.shape) == (5, 1, 12, 12)
    assert single.dtype == torch.float32
    assert bool(torch.isfinite(single).all())
    double = attribute(name, model.double(), images.double(), targets_for(images))
    assert double.dtype == torch.float64
    assert close(single.double(), double, 1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_a_map_does_not_depend_on_batch_chunk_or_order(
    name: str, make_model: Callable[[str], nn.Module], images: Tensor
) -> None:
    model, targets = make_model(name), targets_for(images)
    expected = attribute(name, model, images, targets)
    alone = [attribute(name, model, images[row : row + 1], targets[row : row + 1]) for row in range(5)]
    assert close(torch.cat(alone), expected)
    assert close(attribute(name, model, images.flip(0), targets.flip(0)).flip(0), expected)
    for chunk in (1, 2):
        with memory_budget("100MB", chunk=chunk):
            assert close(attribute(name, model, images, targets), expected)


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_of_no_images_gives_no_maps(
    name: str, make_model: Callable[[str], nn.Module], images: Tensor
) -> None:
    maps = attribute(name, make_model(name), images[:0], torch.zeros(0, dtype=torch.int64))
    assert tuple(maps.shape) == (0, 1, 12, 12)


@pytest.mark.parametrize("name", METHODS)
def test_a_target_that_is_no_class_is_refused(
    name: str, make_model: Callable[[str], nn.Module], images: Tensor
) -> None:
    with pytest.raises(ValueError, match="target"):
        attribute(name, make_model(name), images[:2], torch.tensor([0, 7]))


@pytest.mark.parametrize("name", WRAPPED)
def test_a_model_inside_another_is_found(
    name: str, make_model: Callable[[str], nn.Module], images: Tensor
) -> None:
    model = make_model(name)
    found = attribute(name, Outer(model).eval(), images, targets_for(images))
    assert close(found, attribute(name, model, images, targets_for(images)))


@pytest.mark.parametrize("name", METHODS)
def test_nothing_the_caller_owns_changes(
    name: str, make_model: Callable[[str], nn.Module], images: Tensor
) -> None:
    model = make_model(name)
    expected = attribute(name, model, images, targets_for(images))
    model.train()
    weights = list(model.parameters())
    weights[0].grad = torch.ones_like(weights[0])
    weights[1].requires_grad_(False)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    before, stream = images.clone(), torch.get_rng_state()

    assert torch.equal(attribute(name, model, images, targets_for(images)), expected)

    assert all(module.training for module in model.modules())
    assert torch.equal(weights[0].grad, torch.ones_like(weights[0]))
    assert [weight.requires_grad for weight in weights] == [True, False] + [True] * (len(weights) - 2)
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), stream)


def hooks_of(model: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)


@pytest.mark.parametrize("name", WRAPPED)
def test_an_exception_names_the_method_and_leaves_no_trace(
    name: str, make_model: Callable[[str], nn.Module], images: Tensor
) -> None:
    model = Outer(make_model(name)).eval()
    expected = attribute(name, model, images, targets_for(images))
    model.broken = True
    with pytest.raises(RuntimeError, match=f"'{re.escape(name)}' failed: OSError: disk on fire"):
        attribute(name, model, images, targets_for(images))
    assert hooks_of(model) == 0
    assert not any(getattr(layer, "explaining", False) for layer in model.modules())
    model.broken = False
    assert torch.equal(attribute(name, model, images, targets_for(images)), expected)


@pytest.mark.parametrize("name", [name for name in METHODS if not get_method(name).variant_of])
def test_many_calls_keep_no_tensor_alive(
    name: str, make_model: Callable[[str], nn.Module], images: Tensor
) -> None:
    model = make_model(name)

    def call(times: int) -> int:
        for _ in range(times):
            attribute(name, model, images[:1], torch.tensor([0]))
        gc.collect()
        return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())

    before = call(3)
    assert call(12) <= before
    assert hooks_of(model) == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", METHODS)
def test_a_map_on_the_gpu_is_the_map_on_the_cpu(
    name: str, make_model: Callable[[str], nn.Module], images: Tensor
) -> None:
    model, pictures, targets = make_model(name).double(), images.double(), targets_for(images)
    expected = attribute(name, model, pictures, targets)
    found: Any = attribute(name, model.cuda(), pictures.cuda(), targets.cuda())
    assert found.device.type == "cuda"
    assert close(found.cpu(), expected)
