"""DeepLIFT: contributions add up, however steps are called, and what has no rule is refused."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchvision
from captum.attr import DeepLift
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.gradient import completeness_gap
from heatcheck.attribution.registry import attribute
from heatcheck.models.resnet8 import ResNet8

load_catalog()
MakeNet = Callable[[Callable[[], nn.Module]], nn.Module]
MakeImages = Callable[..., Tensor]
Step = Callable[[Tensor], Tensor]
TARGETS = torch.tensor([0, 3])


def assert_same(found: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    assert float(expected.abs().max()) > 0
    assert float((found - expected).abs().max()) <= tolerance * float(expected.abs().max())


class PlainNet(nn.Module):
    """Convolutions, batch normalization, rectifiers, both poolings and two dense layers, each used once."""

    def __init__(self, pool: type[nn.Module] = nn.MaxPool2d) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), pool(2),
            nn.Conv2d(6, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(72, 12), nn.ReLU(), nn.Dropout(), nn.Linear(12, 5),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits


class SpelledOut(nn.Module):
    """The same network with one rectifier module used twice, in place, and functions for the rest."""

    def __init__(self, plain: PlainNet) -> None:
        super().__init__()
        self.plain = plain
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: Tensor) -> Tensor:
        conv1, norm1, _, _, conv2, norm2, _, _, _, dense1, _, _, dense2 = self.plain.layers
        x: Any = F.max_pool2d(self.relu(norm1(conv1(images))), kernel_size=2)
        x = F.avg_pool2d(self.relu(norm2(conv2(x))), 2).reshape(len(x), -1)
        x = torch.maximum(x.new_zeros(()), dense1(x))
        logits: Tensor = x @ dense2.weight.T + dense2.bias
        return logits


class Stepping(nn.Module):
    """A convolution, the step under test, and a linear head."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.step = step
        self.head = nn.Linear(6, 5)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.step(self.conv(images)).mean(dim=(2, 3)))
        return logits


class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.tanh()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


NETWORKS: dict[str, tuple[int, Callable[[], nn.Module]]] = {
    "plain": (12, PlainNet),
    "spelled out": (12, lambda: SpelledOut(PlainNet())),
    "residual": (16, lambda: ResNet8(5)),
    "densenet": (32, lambda: torchvision.models.DenseNet(4, (2, 2), 8, bn_size=2, num_classes=5)),
}


@pytest.mark.parametrize("scale", [0.0, 1.7])
@pytest.mark.parametrize("network", NETWORKS)
def test_contributions_sum_to_the_difference_of_the_logits(
    network: str, scale: float, make_net: MakeNet, make_images: MakeImages
) -> None:
    side, build = NETWORKS[network]
    model, images = make_net(build).double(), make_images(2, side=side).double()
    start = scale * make_images(2, side=side, seed=8).double()
    maps = attribute("deep-lift", model, images, TARGETS, baseline="reference", reference=start)
    gaps = completeness_gap(model, images, TARGETS, maps, baseline=start)
    assert float(gaps.max()) <= 1e-10 * float(maps.abs().sum())


@pytest.mark.parametrize("in_place", [False, True])
def test_a_reused_or_functional_step_counts_like_a_module_of_its_own(
    in_place: bool, make_net: MakeNet, make_images: MakeImages
) -> None:
    plain = make_net(PlainNet).double()
    assert isinstance(plain, PlainNet)
    for module in plain.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = in_place
    images = make_images(2).double()
    found = attribute("deep-lift", SpelledOut(plain), images, TARGETS, baseline="gaussian")
    assert_same(found, attribute("deep-lift", plain, images, TARGETS, baseline="gaussian"))


@pytest.mark.parametrize("pool", [nn.MaxPool2d, nn.AvgPool2d])
def test_captum_agrees_where_every_rectifier_is_a_module_of_its_own(
    pool: type[nn.Module], make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images = make_net(lambda: PlainNet(pool)).double(), make_images(2).double()
    # Its rule for maximum pooling differs where the image's maximum is below the baseline's.
    start = -4 + torch.zeros_like(images) if pool is nn.MaxPool2d else make_images(2, seed=8).double()
    if pool is nn.MaxPool2d:
        first = model.get_submodule("layers.0")
        assert isinstance(first, nn.Conv2d)
        with torch.no_grad():
            first.weight.abs_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = DeepLift(model).attribute(images, start, target=TARGETS).detach()
    found = attribute("deep-lift", model, images, TARGETS, baseline="reference", reference=start)
    assert_same(found, expected, 1e-5)


def test_a_saturated_sum_is_shared_where_the_gradient_is_zero() -> None:
    class Saturated(nn.Module):
        """Figure 1 of Shrikumar et al. 2017: ``1 - relu(1 - x1 - x2)``."""

        def forward(self, images: Tensor) -> Tensor:
            return 1 - F.relu(1 - images.flatten(1).sum(dim=1, keepdim=True))

    images, targets = torch.ones(1, 1, 1, 2), torch.tensor([0])
    assert attribute("input-x-gradient", Saturated(), images, targets).flatten().tolist() == [0, 0]
    assert attribute("deep-lift", Saturated(), images, targets).flatten().tolist() == [0.5, 0.5]


def test_a_linear_model_gives_weight_times_difference(linear_model: Callable[..., nn.Module]) -> None:
    weights = torch.randn(2, 3, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    images = torch.randn(2, 3, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    model = linear_model(weights[0].tolist(), [0.5, -1, 2])
    maps = attribute("deep-lift", model, images, torch.tensor([0, 2]), baseline="constant", value=0.3)
    assert_same(maps.flatten(1), weights[0][[0, 2]] * (images.flatten(1) - 0.3))


def test_without_biases_it_is_input_times_gradient(make_net: MakeNet, make_images: MakeImages) -> None:
    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 6, 3, bias=False), nn.LeakyReLU(), nn.Conv2d(6, 6, 3, bias=False), nn.ReLU(),
            nn.MaxPool2d(2), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(24, 5, bias=False),
        )  # fmt: skip

    model, images = make_net(build).double(), make_images(2).double()
    expected = attribute("input-x-gradient", model, images, TARGETS)
    assert_same(attribute("deep-lift", model, images, TARGETS), expected)


@pytest.mark.parametrize(
    ("image", "start", "expected"),
    [
        ([1.0, 3.0], [2.0, 0.0], [0.0, 1.0]),  # another place rises above the old maximum
        ([1.0, 3.0], [5.0, 4.0], [-2.0, 0.0]),  # the old maximum falls
        ([1.0, 3.0], [1.0, 2.0], [0.0, 1.0]),  # the same place rises
        ([3.0, 3.0], [3.0, 3.0], [0.0, 0.0]),
        ([3.0, 1.0], [2.0, 3.0], [0.0, 0.0]),  # the maximum moves and stays as high
    ],
)
def test_maximum_pooling_credits_a_rise_to_the_new_maximum_and_a_fall_to_the_old(
    image: list[float], start: list[float], expected: list[float]
) -> None:
    model = nn.Sequential(nn.MaxPool2d((1, 2)), nn.Flatten())
    images, reference = (torch.tensor(values).view(1, 1, 1, 2) for values in (image, start))
    maps = attribute(
        "deep-lift", model, images, torch.tensor([0]), baseline="reference", reference=reference[0]
    )
    assert maps.flatten().tolist() == pytest.approx(expected)


FUNCTIONS: dict[str, Step] = {
    "relu6": F.relu6,
    "hardtanh in place": nn.Hardtanh(inplace=True),
    "clamp": lambda x: x.clamp(-0.1, 0.2),
    "minimum with a constant": lambda x: torch.minimum(x, torch.full((), 0.1)),
    "leaky in place": nn.LeakyReLU(inplace=True),
    "prelu": nn.PReLU(6),
    "elu in place": nn.ELU(inplace=True),
    "selu": nn.SELU(),
    "gelu": F.gelu,
    "gelu by tanh": nn.GELU(approximate="tanh"),
    "silu in place": nn.SiLU(inplace=True),
    "mish": nn.Mish(),
    "hardswish in place": nn.Hardswish(inplace=True),
    "hardsigmoid": lambda x: F.hardsigmoid(8 * x),
    "softplus": nn.Softplus(),
    "softsign": nn.Softsign(),
    "sigmoid in place on a view": lambda x: (x.flatten(1).sigmoid_(), x)[1],
    "log sigmoid": F.logsigmoid,
    "tanh": torch.tanh,
    "power": lambda x: x**2,
    "ratio": lambda x: 1 / (9 + x),
    "exponential": lambda x: (-x).exp(),
    "root": lambda x: (x + 9).sqrt(),
    "absolute": abs,
    "relu under a gate of the question": lambda x: F.relu(x) * torch.linspace(0, 1, 6).view(-1, 1, 1),
    "pooled twice": lambda x: F.max_pool2d(F.max_pool2d(x, 3, 1, padding=1), (2, 3), ceil_mode=True),
    "pooled in one dimension": lambda x: F.max_pool1d(x.flatten(2), 2)[..., None],
    "shared": lambda x: torch.cat([F.relu(x[:, :3]) + x[:, 3:], F.relu(x[:, 3:])], dim=1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementwise_functions_and_pooling_are_complete(
    name: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    model = make_net(lambda: Stepping(FUNCTIONS[name])).double()
    images, start = make_images(2).double(), make_images(2, seed=5).double()
    maps = attribute("deep-lift", model, images, TARGETS, baseline="reference", reference=start)
    gaps = completeness_gap(model, images, TARGETS, maps, baseline=start)
    assert float(gaps.max()) <= 1e-10 * float(maps.abs().sum())
    gradients = attribute("gradient", model, images, TARGETS)
    assert not torch.allclose(maps, gradients * (images - start), rtol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_beside_an_equal_baseline_the_multiplier_is_the_slope(
    name: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    model = make_net(lambda: Stepping(FUNCTIONS[name])).double()
    images = make_images(2).double()
    step = 1e-5 * make_images(2, seed=5).double()
    maps, nothing = (
        attribute("deep-lift", model, images, TARGETS, baseline="reference", reference=images - change)
        for change in (step, 0 * step)
    )
    expected = attribute("gradient", model, images, TARGETS) * step
    assert float((maps - expected).abs().max()) <= 1e-2 * float(expected.abs().max())
    assert torch.equal(nothing, torch.zeros_like(nothing))


def is_flat(values: Tensor) -> bool:
    """Whether these are the features of an image of one color, as the baseline is."""
    return bool(values[0, 0].std() < 1e-6)


REFUSED: dict[str, tuple[Step, str]] = {
    "softmax": (lambda x: x.softmax(dim=1), "SoftmaxBackward"),
    "gate": (lambda x: x * x.mean(dim=(2, 3), keepdim=True), "MulBackward"),
    "gate in place": (lambda x: x.clone().mul_(x), "MulBackward"),
    "quotient": (lambda x: x / (9 + x.mean()), "DivBackward"),
    "attention": (lambda x: x @ x.mT, "BmmBackward"),
    "own weights": (lambda x: F.conv2d(x, x[:1, :, :3, :3].expand(6, -1, -1, -1)), "ConvolutionBackward"),
    "group norm": (nn.GroupNorm(2, 6), "NativeGroupNormBackward"),
    "layer norm": (nn.LayerNorm(10), "NativeLayerNormBackward"),
    "instance norm": (F.instance_norm, "BatchNormBackward"),
    "batch statistics": (nn.BatchNorm2d(6, track_running_stats=False), "BatchNormBackward"),
    "largest value": (lambda x: x + x.amax(dim=1, keepdim=True), "AmaxBackward"),
    "larger of two": (lambda x: torch.maximum(x, x.flip(2)), "MaximumBackward"),
    "own function": (Squash.apply, "SquashBackward"),
    "mask": (lambda x: x * (x > 0), "a step that no derivative shows"),
    "choice": (lambda x: torch.where(x > 0.1, x, 0 * x), "WhereBackward"),
    "detached": (lambda x: x + F.relu(x).detach(), "a step that no derivative shows"),
    "dropout at work": (lambda x: F.dropout(x, 0.5), "dropout in evaluation mode too"),
    "one step more": (lambda x: F.relu(x) if is_flat(x) else x, "1 nonlinear steps on the baseline and 0"),
    "one step less": (lambda x: x if is_flat(x) else F.relu(x), "ran nothing on the baseline"),
    "another step": (lambda x: x.tanh() if is_flat(x) else F.relu(x), "relu on the images where it ran tanh"),
}


@pytest.mark.parametrize("step", REFUSED)
def test_a_step_without_a_rule_is_refused_by_name(
    step: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    function, part = REFUSED[step]
    with pytest.raises(ValueError, match=part):
        attribute("deep-lift", make_net(lambda: Stepping(function)), make_images(2), TARGETS)


def test_recomputed_activations_are_refused(make_net: MakeNet, make_images: MakeImages) -> None:
    model = make_net(lambda: Stepping(lambda x: checkpoint(F.relu, x, use_reentrant=False)))
    with pytest.raises(RuntimeError, match="switch checkpointing off"):
        attribute("deep-lift", model, make_images(2), TARGETS)


def test_compiled_parts_are_refused(make_images: MakeImages) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated, which is why models of it still turn up
        model = nn.Sequential(torch.jit.script(nn.ReLU()), PlainNet())
    with pytest.raises(ValueError, match="module '0' is RecursiveScriptModule"):
        attribute("deep-lift", model, make_images(2), TARGETS)


def test_several_baselines_are_averaged(net: nn.Module, make_images: MakeImages) -> None:
    images = make_images(2)
    alone = [attribute("deep-lift", net, images, TARGETS, baseline=name) for name in ("zero", "blur")]
    together = attribute("deep-lift", net, images, TARGETS, baseline=("zero", "blur"))
    assert_same(together, (alone[0] + alone[1]) / 2, 1e-6)
    draws = attribute("deep-lift", net, images, TARGETS, baseline="gaussian", n_baselines=3)
    one = attribute("deep-lift", net, images, TARGETS, baseline="gaussian")
    assert not torch.allclose(draws, one, rtol=1e-3)


def test_a_black_baseline_needs_the_normalization(net: nn.Module, make_images: MakeImages) -> None:
    with pytest.raises(ValueError, match=r"give mean=\(\.\.\.\) and std"):
        attribute("deep-lift", net, make_images(2), TARGETS, baseline="black")
