"""Relevance through networks: however layers are called, merged or added, and what is refused."""

import copy
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.lrp_report import relevance_report
from heatcheck.attribution.registry import METHODS, attribute
from heatcheck.models.resnet8 import ResNet8

load_catalog()
MakeNet = Callable[[Callable[[], nn.Module]], nn.Module]
MakeImages = Callable[..., Tensor]
ALL = sorted(name for name, entry in METHODS.items() if entry.family == "lrp")
WIDE: dict[str, Any] = {"low": -8.0, "high": 8.0}
BOXED = ("lrp", "lrp-alpha2-beta1", "lrp-epsilon-alpha", "lrp-epsilon-gamma-box")


def relevance(name: str, model: nn.Module, images: Tensor, **options: Any) -> Tensor:
    """Map of the images for the classes 0, 1, ..."""
    box = WIDE if options.get("first", "box" if name in BOXED else "") == "box" else {}
    return attribute(name, model, images, torch.arange(len(images)) % 5, **{**box, **options})


def assert_same(found: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    assert float(expected.abs().max()) > 0
    assert float((found - expected).abs().max()) <= tolerance * float(expected.abs().max())


class PlainNet(nn.Module):
    """Convolutions with batch normalization before and after ReLU, pooling and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(8),
            nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False), nn.ReLU(), nn.AvgPool2d(2),
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(72, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(), nn.Linear(12, 5)
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(images))
        return logits


def layers(model: nn.Module) -> list[Any]:
    """Modules of a sequence, of no known type."""
    return list(model.children())


class SpelledOut(nn.Module):
    """The same network as ``PlainNet`` by functions, operators and methods, some in place."""

    def __init__(self, plain: PlainNet) -> None:
        super().__init__()
        self.plain = plain

    def forward(self, images: Tensor) -> Tensor:
        conv1, norm1, _, _, conv2, _, norm2, conv3, *_ = layers(self.plain.features)
        _, dense1, norm3, _, _, dense2 = layers(self.plain.head)
        x: Any = torch.conv2d(images, conv1.weight, conv1.bias, padding=1)
        x = torch.batch_norm(
            x, norm1.weight, norm1.bias, norm1.running_mean, norm1.running_var, False, 0.1, norm1.eps, False
        )
        x.clamp_(min=0)
        x = x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4).amax(dim=4)
        x = torch.maximum(F.conv2d(x, weight=conv2.weight, bias=conv2.bias, padding="same"), x.new_zeros(()))
        x = F.batch_norm(x, norm2.running_mean, norm2.running_var, norm2.weight, norm2.bias, eps=norm2.eps)
        x = F.relu_(F.conv2d(x, conv3.weight, padding=1, groups=2))
        x = F.adaptive_avg_pool2d(x, 3).reshape(len(x), -1)
        x = F.batch_norm(
            F.linear(x, dense1.weight, dense1.bias),
            norm3.running_mean,
            norm3.running_var,
            norm3.weight,
            norm3.bias,
        )
        x = F.dropout(x.relu(), training=self.training) * 1.0
        x = torch.stack([x, x])[1] @ dense2.weight.T + 0
        x += dense2.bias
        logits: Tensor = x
        return logits


@pytest.fixture
def plain_net(make_net: MakeNet) -> PlainNet:
    model = make_net(PlainNet).double()
    assert isinstance(model, PlainNet)
    return model


def residual_net(make_net: MakeNet) -> nn.Module:
    return make_net(lambda: ResNet8(5)).double()


def resnet18(make_net: MakeNet) -> nn.Module:
    return make_net(lambda: torchvision.models.resnet18(num_classes=5)).double()


def bottleneck_net(make_net: MakeNet) -> nn.Module:
    """DenseNet's order: normalization, ReLU, convolution, concatenation."""
    return make_net(lambda: torchvision.models.DenseNet(4, (2, 2), 8, bn_size=2, num_classes=5)).double()


NETWORKS: dict[str, Callable[[MakeNet], nn.Module]] = {
    "plain": lambda make_net: make_net(PlainNet).double(),
    "resnet8": residual_net,
    "resnet18": resnet18,
    "densenet": bottleneck_net,
}
# The largest network takes longest and is met with every rule elsewhere, in the comparison with zennit.
PAIRS = [(name, network) for network in NETWORKS for name in ALL if network != "resnet18" or name == "lrp"]
SIDES = {"plain": 12, "resnet8": 16, "resnet18": 32, "densenet": 32}


@pytest.mark.parametrize("network", NETWORKS)
def test_epsilon_relevance_is_input_times_gradient_in_any_network_of_relus(
    network: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images = NETWORKS[network](make_net), make_images(2, side=SIDES[network]).double()
    expected = attribute("input-x-gradient", model, images, torch.tensor([0, 1]))
    found = relevance("lrp-epsilon", model, images, epsilon=1e-13)
    assert_same(found, expected, 1e-6)


@pytest.mark.parametrize(("name", "network"), PAIRS)
def test_what_layers_absorb_is_what_is_missing_at_the_end(
    name: str, network: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images = NETWORKS[network](make_net), make_images(2, side=SIDES[network]).double()
    box = WIDE if name in BOXED else {}
    report = relevance_report(model, images, torch.tensor([0, 1]), method=name, **box)
    absorbed = torch.stack([layer.absorbed for layer in report.layers]).sum(dim=0)
    torch.testing.assert_close(absorbed, report.absorbed, rtol=1e-7, atol=1e-9)
    assert_same(relevance(name, model, images), report.heatmaps)
    logits = model.eval()(images).detach()
    torch.testing.assert_close(report.start, logits[[0, 1], [0, 1]])


@pytest.mark.parametrize("name", ALL)
def test_a_network_spelled_out_in_functions_has_the_map_of_its_modules(
    name: str, plain_net: PlainNet, make_images: MakeImages
) -> None:
    images = make_images(3).double()
    with torch.no_grad():
        # Written as a sum, the last bias is an addend: only without it do both networks share alike.
        layers(plain_net.head)[5].bias.zero_()
    found, expected = (
        relevance(name, model, images, epsilon=1e-12) for model in (SpelledOut(plain_net).eval(), plain_net)
    )
    assert_same(found, expected, 1e-8)


@pytest.mark.parametrize(("name", "network"), [pair for pair in PAIRS if "resnet" in pair[1]])
def test_normalizations_after_a_layer_are_merged_exactly(
    name: str, network: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images = NETWORKS[network](make_net), make_images(2, side=SIDES[network]).double()
    assert_same(relevance(name, merged(model), images), relevance(name, model, images), 1e-6)


def merged(model: nn.Module) -> nn.Module:
    """The same network with every pair of convolution and normalization made one convolution."""
    fused = copy.deepcopy(model).eval()
    modules = list(fused.named_modules())
    for (path, first), (_, second) in itertools.pairwise(modules):
        # In these networks the normalization is listed right after its convolution.
        if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
            fused.set_submodule(path, torch.nn.utils.fusion.fuse_conv_bn_eval(first, second))
            place = next(name for name, module in fused.named_modules() if module is second)
            fused.set_submodule(place, nn.Identity())
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fused.modules())
    return fused


@pytest.mark.parametrize("name", ALL)
def test_a_normalization_after_a_relu_is_merged_into_the_next_layer(
    name: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    model = make_net(
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.ReLU(), nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, stride=2, groups=2),
            nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(6), nn.Linear(6, 5),
        )
    ).double()  # fmt: skip
    twin = copy.deepcopy(model)
    with torch.no_grad():
        _, _, norm, conv, _, _, _, last_norm, dense = layers(twin)
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        shift = norm.bias - norm.running_mean * scale
        for group in range(2):
            channels, kernels = slice(3 * group, 3 * group + 3), slice(3 * group, 3 * group + 3)
            conv.bias[kernels] += (conv.weight[kernels] * shift[channels, None, None]).sum(dim=(1, 2, 3))
            conv.weight[kernels] *= scale[channels, None, None]
        scale = last_norm.weight / torch.sqrt(last_norm.running_var + last_norm.eps)
        dense.bias += dense.weight @ (last_norm.bias - last_norm.running_mean * scale)
        dense.weight *= scale
    for place in ("2", "7"):
        twin.set_submodule(place, nn.Identity())
    images = make_images(2).double()
    assert_same(relevance(name, model, images), relevance(name, twin, images))


def test_padding_after_a_normalization_pads_what_is_normalized(make_images: MakeImages) -> None:
    # The closed form of alpha1-beta0 with every contribution written out, where the border has less bias.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        norm, conv = nn.BatchNorm2d(2).double(), nn.Conv2d(2, 3, 3, padding=1).double()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_mean.normal_()
        nn.init.normal_(norm.bias)
    same = nn.Conv2d(2, 2, 1, bias=False).double()
    with torch.no_grad():
        same.weight.copy_(torch.eye(2).view(2, 2, 1, 1))
    model = nn.Sequential(same, nn.ReLU(), norm, conv, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    images = make_images(1, channels=2, side=4).double()
    found = attribute("lrp-alpha1-beta0", model, images, torch.tensor([1]), start="one")
    with torch.no_grad():
        x = images.relu()
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        shift = (norm.bias - norm.running_mean * scale).view(2, 1, 1).expand(1, 2, 4, 4)
        units = torch.eye(32, dtype=torch.float64).view(-1, 2, 4, 4) * scale.view(2, 1, 1)
        contributions = x.flatten()[:, None] * (conv(units) - conv(0 * units)).flatten(1)  # (32, 48)
        bias = conv(shift).flatten()
        total = contributions.clamp(min=0).sum(dim=0) + bias.clamp(min=0) + 1e-6
        outputs = conv(norm(x)).flatten(2)[0]
        shares = torch.zeros(3, 16, dtype=torch.float64)
        shares[1] = outputs[1] / outputs[1].sum()
        expected = (contributions.clamp(min=0) / total * shares.flatten()).sum(dim=1)
    assert_same(found.flatten(), expected, 1e-4)


@pytest.mark.parametrize("network", NETWORKS)
def test_relevance_never_turns_negative_with_alpha1_beta0_and_positive_sums(
    network: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images = NETWORKS[network](make_net), make_images(2, side=SIDES[network]).double()
    found = relevance("lrp", model, images, start="one", sums="positive")
    assert float(found.min()) >= 0
    assert float(found.max()) > 0


def test_the_map_is_in_proportion_to_its_start(plain_net: PlainNet, make_images: MakeImages) -> None:
    images = make_images(2).double()
    logits = plain_net(images).detach()[[0, 1], [0, 1]]
    one, logit = (relevance("lrp", plain_net, images, start=start) for start in ("one", "logit"))
    torch.testing.assert_close(logit, logits.view(2, 1, 1, 1) * one)


@pytest.mark.parametrize("rule", ["epsilon", "alpha1-beta0", "alpha2-beta1", "gamma", "w-square", "flat"])
@pytest.mark.parametrize("place", ["first", "conv", "dense"])
def test_every_rule_works_in_every_place(
    rule: str, place: str, plain_net: PlainNet, make_images: MakeImages
) -> None:
    images = make_images(2).double()
    found = relevance("lrp", plain_net, images, **{place: rule})
    assert bool(torch.isfinite(found).all())
    if {"first": "box", "conv": "alpha1-beta0", "dense": "alpha1-beta0"}[place] != rule:
        assert float((found - relevance("lrp", plain_net, images)).abs().max()) > 1e-9


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_alpha_beta_with_a_number_is_the_rule_of_that_name(
    alpha: float, plain_net: PlainNet, make_images: MakeImages
) -> None:
    images = make_images(2).double()
    named = f"alpha{alpha:.0f}-beta{alpha - 1:.0f}"
    expected = relevance("lrp", plain_net, images, conv=named, dense=named)
    found = relevance("lrp", plain_net, images, conv="alpha-beta", dense="alpha-beta", alpha=alpha)
    assert torch.equal(found, expected)


def test_flat_and_w_square_reach_every_pixel_alike_whatever_the_image(
    plain_net: PlainNet, make_images: MakeImages
) -> None:
    # With these rules in the first layer, channels of one pixel that share a kernel get the same relevance.
    found = relevance("lrp", plain_net, make_images(1).double(), first="flat")
    torch.testing.assert_close(found[:, 0], found[:, 1])
    torch.testing.assert_close(found[:, 0], found[:, 2])


class Normalizing(nn.Module):
    """A network that normalizes its images itself."""

    mean: Tensor
    std: Tensor

    def __init__(self, inner: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner((images[:, :, :12, :12] - self.mean) / self.std)
        return logits


def test_the_box_follows_the_image_through_its_normalization(
    plain_net: PlainNet, make_images: MakeImages
) -> None:
    mean, std = (0.5, 0.4, 0.3), (0.25, 0.2, 0.5)
    centers, spreads = (torch.tensor(part, dtype=torch.float64).view(3, 1, 1) for part in (mean, std))
    colors = make_images(2).double().sigmoid()
    wrapped = Normalizing(plain_net, centers, spreads).eval()
    inside = attribute("lrp", wrapped, F.pad(colors, (0, 1, 0, 1)), torch.tensor([0, 1]))
    outside = attribute(
        "lrp", plain_net, (colors - centers) / spreads, torch.tensor([0, 1]), mean=mean, std=std
    )
    assert_same(inside[:, :, :12, :12], outside)
    assert float(inside[:, :, 12].abs().max()) == 0


def test_pixels_outside_the_box_are_refused_with_what_to_do(
    plain_net: PlainNet, make_images: MakeImages
) -> None:
    images, targets = make_images(2).double(), torch.tensor([0, 1])
    with pytest.raises(ValueError, match=r"outside the box .* give mean and std"):
        attribute("lrp", plain_net, images, targets)
    with pytest.raises(ValueError, match=r"low 1\.0 must be below high 0\.5"):
        attribute("lrp", plain_net, images, targets, low=1.0, high=0.5)
    with pytest.raises(ValueError, match="mean and std of the normalization belong together"):
        attribute("lrp", plain_net, images, targets, mean=(0.5, 0.5, 0.5))


def test_a_box_that_no_layer_can_use_is_refused(make_net: MakeNet, make_images: MakeImages) -> None:
    model = make_net(
        lambda: nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    )
    with pytest.raises(ValueError, match="no linear layer or convolution reads the image"):
        attribute("lrp", model, make_images(2), torch.tensor([0, 1]), **WIDE)
    assert attribute("lrp-epsilon", model, make_images(2), torch.tensor([0, 1])).shape == (2, 3, 12, 12)


class Squash(torch.autograd.Function):
    """A step written as its own autograd function."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.tanh()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


class Stepping(nn.Module):
    """A small network with one odd step in the middle."""

    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.step = step
        self.head = nn.Linear(6, 5)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.step(self.conv(images)).mean(dim=(2, 3)))
        return logits


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "gelu": (F.gelu, "GeluBackward"),
    "sigmoid": (torch.sigmoid, "SigmoidBackward"),
    "sigmoid in place": (lambda x: x.sigmoid_(), "sigmoid_"),
    "sigmoid in place on a view": (lambda x: (x.flatten(1).sigmoid_(), x)[1], "sigmoid_"),
    "gate": (lambda x: x * x.mean(dim=(2, 3), keepdim=True), "MulBackward"),
    "gate in place": (lambda x: x.clone().mul_(x), "mul_"),
    "power": (lambda x: x**2, "PowBackward"),
    "ratio": (lambda x: 1 / (2 + x), "Reciprocal"),
    "softmax": (lambda x: x.softmax(dim=1), "SoftmaxBackward"),
    "absolute": (torch.abs, "AbsBackward"),
    "leaky": (F.leaky_relu, "LeakyReluBackward"),
    "group norm": (nn.GroupNorm(2, 6), "NativeGroupNormBackward"),
    "instance norm": (F.instance_norm, "BatchNorm|InstanceNorm"),
    "batch statistics": (nn.BatchNorm2d(6, track_running_stats=False), "statistics of the batch"),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), "UpsampleBilinear"),
    "attention": (lambda x: x @ x.mT, "BmmBackward|UnsafeView|Matmul"),
    "dynamic weights": (
        lambda x: F.conv2d(x, x[:1, :, :3, :3].expand(6, -1, -1, -1)),
        "weights of conv2d from the image",
    ),
    "einsum": (lambda x: torch.einsum("nchw,cd->ndhw", x, torch.ones(6, 6)), "BmmBackward"),
    "own function": (Squash.apply, "SquashBackward"),
    "dropout at work": (lambda x: F.dropout(x, 0.5), "dropout in evaluation mode too"),
    "dropout at work in place": (lambda x: F.dropout2d(x, 0.5, True, True), "dropout2d in evaluation"),
}


@pytest.mark.parametrize("step", REFUSED)
def test_a_step_without_a_rule_is_refused_by_name(
    step: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    function, part = REFUSED[step]
    model = make_net(lambda: Stepping(function))
    with pytest.raises(ValueError, match=part):
        attribute("lrp-epsilon", model, make_images(2), torch.tensor([0, 1]))


def set_in_pieces(values: Tensor) -> Tensor:
    """A copy put together by assignment."""
    result = torch.zeros_like(values)
    result[:, :3] = values[:, :3]
    result[:, 3:].copy_(values[:, 3:])
    return result


MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda x: x.flip(2).flip(2),
    "permute": lambda x: x.permute(0, 2, 3, 1).contiguous().movedim(3, 1),
    "cat of halves": lambda x: torch.cat([x[:, :3], x[:, 3:]], dim=1),
    "split and stack": lambda x: torch.stack(x.unbind(1), dim=1),
    "chunk": lambda x: torch.cat(x.chunk(2, dim=2), dim=2),
    "narrow": lambda x: torch.cat([x.narrow(1, 0, 2), x.narrow(1, 2, 4)], dim=1),
    "pad and crop": lambda x: F.pad(x, (1, 1, 1, 1))[:, :, 1:-1, 1:-1],
    "index": lambda x: x[:, [0, 1, 2, 3, 4, 5]],
    "index_select": lambda x: x.index_select(1, torch.arange(6)),
    "gather": lambda x: x.gather(1, torch.arange(6).view(1, 6, 1, 1).expand_as(x)),
    "to and back": lambda x: x.to(torch.float64).clone().type_as(x),
    "scaled": lambda x: -(x * -3.0) / torch.full((6, 1, 1), 3.0),
    "halves added": lambda x: 0.5 * x + x / 2,
    "difference": lambda x: 2 * x - x,
    "set in pieces": set_in_pieces,
    "nothing added": lambda x: 0 + x - 0,
    "roll": lambda x: x.roll(1, 2).roll(-1, 2),
    "dropout": lambda x: F.dropout2d(F.dropout(x, training=False), training=False),
    "dropout in place": nn.Dropout(inplace=True).eval(),
    "pixel shuffle": lambda x: F.pixel_unshuffle(F.pixel_shuffle(x.repeat(1, 2, 1, 1)[:, :12], 2), 2)[:, :6],
}


@pytest.mark.parametrize("name", ["lrp", "lrp-epsilon", "lrp-alpha2-beta1"])
@pytest.mark.parametrize("move", MOVES)
def test_moving_values_about_changes_no_relevance(
    move: str, name: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    images = make_images(2).double()
    expected = relevance(name, make_net(lambda: Stepping(torch.relu)).double(), images, epsilon=1e-12)
    model = make_net(lambda: Stepping(lambda x: MOVES[move](torch.relu(x).float()).double())).double()
    # Single precision of what moves, so that conversions between types are among the steps.
    assert_same(relevance(name, model, images, epsilon=1e-12), expected, 1e-5)


def test_torchscript_is_refused_by_name(make_net: MakeNet, make_images: MakeImages) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        model = torch.jit.script(make_net(PlainNet))
    with pytest.raises(ValueError, match="TorchScript"):
        attribute("lrp", model, make_images(1), torch.tensor([0]))


def test_a_passed_last_normalization_needs_a_canonical_form(
    plain_net: PlainNet, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=r"last-passed.*PlainNet"):
        relevance("lrp", plain_net, make_images(1).double(), batch_norm="last-passed")


def test_passed_normalizations_take_nothing(plain_net: PlainNet, make_images: MakeImages) -> None:
    images = make_images(2).double()
    report = relevance_report(plain_net, images, torch.tensor([0, 1]), batch_norm="all-passed", **WIDE)
    names = [layer.name for layer in report.layers]
    assert names == [
        *("head.5", "head.1", "avg_pool2d", "features.7", "features.4", "features.0"),
    ]
    assert float((report.heatmaps - relevance("lrp", plain_net, images)).abs().max()) > 0


def test_constants_and_further_inputs_get_their_share(
    two_input_net: nn.Module, make_images: MakeImages
) -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(9, 5)

        def forward(self, images: Tensor, question: Tensor) -> Tensor:
            hidden = torch.relu(self.conv(images)).mean(dim=(2, 3))
            place = torch.ones(len(images), 2, dtype=images.dtype)
            logits: Tensor = self.head(torch.cat([hidden, question.abs() + 0, place], dim=1))
            return logits

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = Joined().double().eval()
    images, question = make_images(2).double(), torch.tensor([[1.0, -2, 3], [0, 0, 0]]).double()
    report = relevance_report(
        model, images, torch.tensor([0, 3]), forward_args=(question,), method="lrp-epsilon", epsilon=1e-12
    )
    weight = model.head.weight.detach()[[0, 3]]
    torch.testing.assert_close(report.further_inputs, (weight[:, 4:7] * question.abs()).sum(dim=1))
    torch.testing.assert_close(report.constants, weight[:, 7:].sum(dim=1))
    assert float(report.further_inputs[1]) == 0


def test_only_relevance_methods_have_a_report(plain_net: PlainNet, make_images: MakeImages) -> None:
    with pytest.raises(ValueError, match="shares no relevance"):
        relevance_report(plain_net, make_images(1).double(), torch.tensor([0]), method="gradient")
    with pytest.raises(ValueError, match="at least one image"):
        relevance_report(plain_net, make_images(0).double(), torch.zeros(0, dtype=torch.int64))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("alpha", 0.5),
        ("epsilon", 0.0),
        ("gamma", -1.0),
        ("first", "gradient"),
        ("conv", "box"),
        ("sums", "all"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(
    option: str, value: Any, plain_net: PlainNet, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=f"options of method 'lrp': {option}"):
        attribute("lrp", plain_net, make_images(1).double(), torch.tensor([0]), **{option: value})
