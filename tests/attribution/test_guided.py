"""Guided backpropagation and deconvnet whatever way a model calls its rectifiers (case 1)."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from captum.attr import Deconvolution, GuidedBackprop
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.rectifiers import RectifierMode
from heatcheck.attribution.registry import attribute

load_catalog()
Activation = Callable[[Tensor], Tensor]
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
METHODS = ("guided-backprop", "deconvnet")


class Rectified(nn.Module):
    """Convolutional network with a residual sum and three rectifiers, given as modules or functions."""

    def __init__(self, activations: list[Activation]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 8, 3)]
        )
        self.norm = nn.BatchNorm2d(6)
        self.kept = nn.ModuleList([part for part in activations if isinstance(part, nn.Module)])
        self.activations = activations
        self.head = nn.Linear(8, 5)

    def forward(self, images: Tensor) -> Tensor:
        # Large enough for a bound at 6 to bite.
        first = self.activations[0](self.norm(self.convs[0](3 * images)))
        second = self.activations[1](self.convs[1](first) + first)
        third = self.activations[2](4 * self.convs[2](second))
        logits: Tensor = self.head(third.mean(dim=(2, 3)))
        return logits


RELUS: dict[str, Activation] = {
    "F.relu": F.relu,
    "F.relu in place": lambda x: F.relu(x, inplace=True),
    "F.relu in place by position": lambda x: F.relu(x, True),
    "F.relu_": F.relu_,
    "torch.relu": torch.relu,
    "torch.relu_": torch.relu_,
    "Tensor.relu": lambda x: x.relu(),
    "Tensor.relu_": lambda x: x.relu_(),
    "in place, result ignored": lambda x: (x.relu_(), x)[1],
    "in place through a view": lambda x: (x.flatten(1).relu_(), x)[1],
    "in place in two halves": lambda x: (x[:, :3].relu_(), x[:, 3:].relu_(), x)[2],
    "clamp": lambda x: x.clamp(min=0),
    "clamp by position": lambda x: torch.clamp(x, 0),
    "clamp_": lambda x: x.clamp_(min=0.0),
    "clamp with a tensor": lambda x: x.clamp(min=torch.zeros(())),
    "clip": lambda x: torch.clip(x, min=0),
    "clamp_min": lambda x: x.clamp_min(0),
    "clamp_min_": lambda x: torch.clamp_min_(x, 0),
    "threshold": lambda x: F.threshold(x, 0, 0),
    "threshold in place": lambda x: F.threshold(x, 0, 0, inplace=True),
    "torch.threshold": lambda x: torch.threshold(x, 0, 0),
    "nn.Threshold": nn.Threshold(0, 0),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "maximum turned round": lambda x: torch.maximum(torch.zeros(()), x),
    "max of two": lambda x: torch.max(x, torch.zeros(1)),
    "Tensor.max of two": lambda x: x.max(x.new_zeros(())),
    "leaky without a leak": lambda x: F.leaky_relu(x, 0.0),
    "aten": torch.ops.aten.relu,
    "aten overload": torch.ops.aten.relu.default,
    "in place module": nn.ReLU(inplace=True),
    "checkpointed": lambda x: checkpoint(F.relu, x, use_reentrant=False),
}
RELU6S: dict[str, Activation] = {
    "module": nn.ReLU6(),
    "in place module": nn.ReLU6(inplace=True),
    "F.relu6": F.relu6,
    "F.relu6 in place": lambda x: F.relu6(x, inplace=True),
    "hardtanh": lambda x: F.hardtanh(x, 0.0, 6.0),
    "hardtanh in place": lambda x: F.hardtanh(x, 0.0, 6.0, inplace=True),
    "hardtanh_": lambda x: F.hardtanh_(x, 0.0, 6.0),
    "nn.Hardtanh": nn.Hardtanh(0.0, 6.0),
    "clamp": lambda x: x.clamp(0, 6),
    "clamp_": lambda x: x.clamp_(min=0, max=6),
    "clip": lambda x: torch.clip(x, 0.0, 6.0),
}


class Ramp6(nn.Module):
    """ReLU6 put together from two ReLUs, for a twin that shares no code path: ``relu(x) - relu(x - 6)``."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        self.rule = rule

    def forward(self, values: Tensor) -> Tensor:
        out: Tensor = _Ramp.apply(values, self.rule)
        return out


class _Ramp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, rule: str) -> Tensor:
        ctx.save_for_backward(values)
        ctx.rule = rule
        return (values.abs() + 6 - (values - 6).abs()) / 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        positive = (gradients[0] + gradients[0].abs()) / 2
        inside = (values > 0).to(values) * (values < 6).to(values)
        return (positive * inside if ctx.rule == "guided-backprop" else positive), None


def twin(
    make_net: Callable[[Callable[[], nn.Module]], nn.Module], activations: list[Activation]
) -> nn.Module:
    return make_net(lambda: Rectified(activations))


MakeNet = Callable[[Callable[[], nn.Module]], nn.Module]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("spelling", RELUS)
def test_every_spelling_of_relu_gives_captums_map_of_the_twin_with_modules(
    name: str, spelling: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    modules = twin(make_net, [nn.ReLU(), nn.ReLU(), nn.ReLU()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum warns that it sets hooks
        captum = {"guided-backprop": GuidedBackprop, "deconvnet": Deconvolution}[name](modules)
        expected = captum.attribute(images.clone().requires_grad_(), target=targets).detach()
    found = attribute(name, twin(make_net, [RELUS[spelling]] * 3), images, targets)
    torch.testing.assert_close(found, expected, atol=1e-6 * float(expected.abs().max()), rtol=0)
    plain = attribute("gradient", modules, images, targets)
    assert float((found - plain).abs().max()) > 0.1 * float(plain.abs().max())


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("spelling", RELU6S)
def test_every_spelling_of_relu6_gives_the_map_of_a_twin_written_out(
    name: str, spelling: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    model = twin(make_net, [RELU6S[spelling]] * 3)
    expected = attribute("gradient", twin(make_net, [Ramp6(name)] * 3), images, targets)
    found = attribute(name, model, images, targets)
    torch.testing.assert_close(found, expected, atol=1e-6 * float(expected.abs().max()), rtol=0)
    if name == "guided-backprop":
        unbounded = attribute(name, twin(make_net, [nn.ReLU()] * 3), images, targets)
        assert float((found - unbounded).abs().max()) > 1e-3 * float(unbounded.abs().max())


@pytest.mark.parametrize("name", METHODS)
def test_one_relu_module_used_three_times_is_like_three(
    name: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    shared = nn.ReLU()
    found = attribute(name, twin(make_net, [shared, shared, shared]), images, targets)
    assert torch.equal(
        found, attribute(name, twin(make_net, [nn.ReLU(), nn.ReLU(), nn.ReLU()]), images, targets)
    )


@pytest.mark.parametrize("rule", ["guided", "deconvnet"])
@pytest.mark.parametrize("spelling", [*RELUS, *(f"6 {key}" for key in RELU6S)])
def test_the_forward_pass_stays_the_same(rule: Any, spelling: str, make_images: MakeImages) -> None:
    activation = RELU6S[spelling[2:]] if spelling.startswith("6 ") else RELUS[spelling]
    images = (5 * make_images(2, channels=6)).requires_grad_()
    expected = activation(images.clone())
    with RectifierMode(rule):
        found = activation(images.clone())
    assert torch.equal(found, expected)


@pytest.mark.parametrize("logit", [0, 1])
def test_the_recorded_network_has_the_recorded_map(logit: int, golden: Golden) -> None:
    case = golden("roar", "D1_guided_backprop_mlp")
    layers: list[nn.Module] = [nn.Flatten()]
    for number in (1, 2, 3):
        weight = torch.tensor(case["inputs"][f"W{number}"], dtype=torch.float64)
        layer = nn.Linear(weight.shape[1], weight.shape[0]).double()
        layer.load_state_dict({"weight": weight, "bias": torch.tensor(case["inputs"][f"b{number}"]).double()})
        layers += [layer, nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    image = torch.tensor(case["inputs"]["x"], dtype=torch.float64).view(1, 1, 2, 2)
    found = attribute("guided-backprop", model, image, torch.tensor([logit]))
    assert found.flatten().tolist() == pytest.approx(case["expected"][f"gb_logit{logit}"], abs=1e-10)
    plain = attribute("gradient", model, image, torch.tensor([logit]))
    assert plain.flatten().tolist() == pytest.approx(case["expected"][f"grad_logit{logit}"], abs=1e-10)


def test_the_deconvnet_map_does_not_depend_on_the_image(net: nn.Module, make_images: MakeImages) -> None:
    # Without pooling nothing in the backward pass depends on the forward pass.
    found = attribute("deconvnet", net, make_images(3), torch.tensor([1, 1, 1]))
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


def test_a_clamp_that_is_no_rectifier_keeps_its_gradient(make_net: MakeNet, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    plain = twin(make_net, [nn.ReLU(), nn.ReLU(), nn.ReLU()])
    clamped = twin(make_net, [nn.ReLU(), nn.ReLU(), lambda x: torch.relu(x.clamp(-1e6, 1e6).clamp_min(-1e5))])
    expected = attribute("guided-backprop", plain, images, targets)
    assert torch.equal(attribute("guided-backprop", clamped, images, targets), expected)


@pytest.mark.parametrize("name", [*METHODS, "guided-grad-cam"])
@pytest.mark.parametrize(
    ("activation", "part"),
    [
        (nn.GELU(), "GeluBackward0"),
        (nn.SiLU(), "SiluBackward0"),
        (nn.Tanh(), "TanhBackward0"),
        (lambda x: x * (x > 0), "gt"),
        (lambda x: torch.where(x >= 0, x, 0.0), "ge"),
        (lambda x: x * torch.heaviside(x.detach(), x.new_zeros(())), "heaviside"),
        (lambda x: x.masked_fill(x.detach() < 0, 0.0), "lt"),
    ],
)
def test_a_model_whose_rectifiers_cannot_be_changed_is_refused_with_the_reason(
    name: str, activation: Activation, part: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        attribute(name, twin(make_net, [activation] * 3), make_images(1), torch.tensor([0]))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["whole", "part", "function", "compiled"])
def test_torchscript_and_compiled_models_are_refused_by_name(
    name: str, kind: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    def script(thing: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # TorchScript is deprecated, which is why models of it still turn up
            return torch.jit.script(thing)

    model: Any
    if kind == "function":
        model = twin(make_net, [nn.ReLU(), script(_scriptable), nn.ReLU()])
    elif kind == "part":
        model = twin(make_net, [nn.ReLU(), script(nn.ReLU()), nn.ReLU()])
    else:
        plain = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
        )
        model = script(plain) if kind == "whole" else torch.compile(plain)
    with pytest.raises(ValueError, match="TorchScript"):
        attribute(name, model, make_images(1), torch.tensor([0]))


def _scriptable(values: Tensor) -> Tensor:
    return torch.relu(values)


@pytest.mark.parametrize("name", METHODS)
def test_a_torchvision_network_in_place_is_like_its_twin_out_of_place(
    name: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    in_place = make_net(lambda: torchvision.models.resnet18(num_classes=5)).double()
    out_of_place = copy.deepcopy(in_place)
    for module in out_of_place.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False
    images = make_images(1, side=64).double()
    found = attribute(name, in_place, images, torch.tensor([1]))
    torch.testing.assert_close(found, attribute(name, out_of_place, images, torch.tensor([1])))
    assert float((found - attribute("gradient", in_place, images, torch.tensor([1]))).abs().max()) > 0


def test_all_rectifiers_of_efficientnet_lite_are_met(make_net: MakeNet, make_images: MakeImages) -> None:
    model = make_net(lambda: timm.create_model("efficientnet_lite0", num_classes=5))
    rectifiers = sum(isinstance(module, nn.ReLU6) for module in model.modules())
    with RectifierMode("guided") as mode:
        model(make_images(1, side=64).requires_grad_())
    assert rectifiers > 30
    assert len(mode.found) == rectifiers
    images = make_images(1, side=64)
    found = attribute("guided-backprop", model, images, torch.tensor([1]))
    assert float((found - attribute("gradient", model, images, torch.tensor([1]))).abs().max()) > 0


class TwoParts(nn.Module):
    """A convolutional part and a head, each with functional rectifiers."""

    def __init__(self) -> None:
        super().__init__()
        self.cnn = Rectified([F.relu, torch.relu, F.relu])
        self.head = nn.Linear(5, 5)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.relu(self.cnn(images)))
        return logits


@pytest.mark.parametrize("name", METHODS)
def test_the_rule_can_be_limited_to_one_part(name: str, make_net: MakeNet, make_images: MakeImages) -> None:
    model: Any = make_net(TwoParts)
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    found = attribute(name, model, images, targets, within="cnn")
    # The head with its rectifier is, at this image, a fixed linear map of what the part puts out.
    leaf = images.clone().requires_grad_()
    with RectifierMode("guided" if name == "guided-backprop" else "deconvnet"):
        scores = model.cnn(leaf)
    values = scores.detach().requires_grad_()
    above = model.head(torch.relu(values)).gather(1, targets[:, None]).sum()
    (arriving,) = torch.autograd.grad(above, values)
    (expected,) = torch.autograd.grad(scores, leaf, arriving)
    torch.testing.assert_close(found, expected)
    everywhere = attribute(name, model, images, targets)
    assert float((found - everywhere).abs().max()) > 1e-3 * float(everywhere.abs().max())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_rectifier_hidden_in_the_limited_part_is_still_refused(
    make_net: MakeNet, make_images: MakeImages
) -> None:
    def hidden(x: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return torch.relu(x)

    model: Any = make_net(TwoParts)
    model.cnn.activations[1] = hidden
    with pytest.raises(ValueError, match="hides rectifiers"):
        attribute("guided-backprop", model, make_images(1), torch.tensor([0]), within="cnn")


@pytest.mark.parametrize("within", ["", "encoder"])
def test_an_unknown_part_is_refused_with_those_there_are(
    within: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=r"its submodules: cnn, .*head"):
        attribute("guided-backprop", make_net(TwoParts), make_images(1), torch.tensor([0]), within=within)
