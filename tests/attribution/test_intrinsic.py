"""Maps that networks draw themselves: B-cos contributions and BagNet windows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute
from heatcheck.metrics.patches import patch_sums
from heatcheck.models.design.bagnet import BagNet
from heatcheck.models.design.bcos import BcosConv2d, BcosResNet, Encode, UncenteredNorm
from heatcheck.runtime.memory import memory_budget

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]


def exact(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def seeded(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class TinyBcos(nn.Module):
    """The recorded B-cos network; ``encoded`` images have the six channels already."""

    def __init__(self, case: dict[str, Any], *, encoded: bool) -> None:
        super().__init__()
        self.first, self.norm, self.head = BcosConv2d(6, 3, 3, padding=1), UncenteredNorm(3), BcosConv2d(3, 2)
        if not encoded:
            self.encode = Encode()
        self.double()
        with torch.no_grad():
            self.first.linear.weight.copy_(exact(case["conv_weight"]))
            self.norm.weight.copy_(exact(case["bn_weight"]))
            self.norm.running_var.copy_(exact(case["bn_running_var"]))
            self.head.linear.weight.copy_(exact(case["fc_weight"]))

    def forward(self, images: Tensor) -> Tensor:
        encoded = self.encode(images) if hasattr(self, "encode") else images
        logits: Tensor = self.head(self.norm(self.first(encoded))).mean(dim=(2, 3))
        return logits

    @contextmanager
    def explanation_mode(self) -> Iterator[None]:
        layers = (self.first, self.norm, self.head)
        for layer in layers:
            layer.explaining = True
        try:
            yield
        finally:
            for layer in layers:
                layer.explaining = False


@pytest.mark.parametrize("encoded", [False, True])
def test_recorded_contributions_of_a_b_cos_network(encoded: bool, golden: Golden) -> None:
    case = golden("idsds", "bcos_contributions")
    model = TinyBcos(case, encoded=encoded).eval()
    images = exact(case["image"]).expand(2, -1, -1, -1)
    images = torch.cat([images, 1 - images], dim=1) if encoded else images
    expected = case["expected"]
    torch.testing.assert_close(model(images)[0], exact(expected["outputs"]), atol=1e-6, rtol=0)
    maps = attribute("b-cos", model, images, torch.tensor([0, 1]))
    torch.testing.assert_close(maps[:, 0], exact(expected["contributions"]), atol=1e-6, rtol=0)
    sums = maps.sum(dim=(1, 2, 3))
    torch.testing.assert_close(sums, exact(expected["contribution_sums"]), atol=1e-6, rtol=0)


def test_contributions_add_up_to_the_logit_without_its_bias() -> None:
    torch.manual_seed(0)
    model = BcosResNet(4, depths=(1, 1), width=6, bottleneck=False, small=True).double().eval()
    images, targets = seeded(1, 3, 3, 16, 16), torch.tensor([0, 3, 2])
    maps = attribute("b-cos", model, images, targets)
    logits = model(images).gather(1, targets[:, None])[:, 0] - model.logit_bias
    torch.testing.assert_close(maps.sum(dim=(1, 2, 3)), logits, rtol=1e-6, atol=1e-9)
    assert not any(getattr(layer, "explaining", False) for layer in model.modules())


def test_b_cos_explains_networks_with_an_explanation_mode_only(net: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"SmallNet has no explanation_mode\(\)"):
        attribute("b-cos", net, torch.rand(1, 3, 12, 12), torch.tensor([0]))


class LinearBag(nn.Module):
    """Windows judged by their mean color, ``stride`` apart, as in the recorded case."""

    receptive_field = 33

    def __init__(self, weights: Tensor, bias: Tensor, stride: int) -> None:
        super().__init__()
        self.head = nn.Linear(weights.shape[1], len(weights)).double()
        self.stride = stride
        with torch.no_grad():
            self.head.weight.copy_(weights)
            self.head.bias.copy_(bias)

    def window_logits(self, images: Tensor) -> Tensor:
        means = F.avg_pool2d(images, self.receptive_field, self.stride)
        logits: Tensor = self.head(means.movedim(1, -1)).movedim(-1, 1)
        return logits

    def forward(self, images: Tensor) -> Tensor:
        return self.window_logits(images).mean(dim=(2, 3))


@pytest.mark.parametrize("stride", [3, 8])
def test_recorded_map_of_windows_by_mean_color(stride: int, golden: Golden) -> None:
    case = golden("idsds", "bagnet_heatmap")
    rows, columns = torch.meshgrid(*[torch.arange(224, dtype=torch.float64)] * 2, indexing="ij")
    channels = torch.arange(3, dtype=torch.float64)[:, None, None]
    images = (0.05 * rows + 0.03 * (channels + 1) * columns + channels).sin()[None]
    model = LinearBag(exact(case["W"]), exact(case["b"]), stride)
    maps = attribute("bagnet", model, images, torch.tensor([1]))
    for place, value in case["expected"]["pixels"].items():
        row, column = map(int, place.split(","))
        assert float(maps[0, 0, row, column]) == pytest.approx(value, abs=1e-4)
    sums = patch_sums(maps, 4)[0].tolist()
    assert sums == pytest.approx(case["expected"]["patch_sums_4x4"], abs=1e-1)


@pytest.fixture
def bag() -> BagNet:
    torch.manual_seed(3)
    model = BagNet(4, n_wide=2, depths=(1, 1), strides=(2, 1), width=4, expansion=1).double()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            layer.running_mean.normal_(0, 0.3)
    return model.eval()


class OneByOne(nn.Module):
    """The same network without a way to ask for all windows at once."""

    def __init__(self, bag: BagNet) -> None:
        super().__init__()
        self.bag = bag

    @property
    def receptive_field(self) -> int:
        return self.bag.receptive_field

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.bag(images)
        return logits


def hide(model: BagNet) -> nn.Module:
    """A model whose own modules show no ``window_logits``."""
    hidden = OneByOne(model)
    assert not hasattr(hidden, "window_logits")
    return hidden


@pytest.mark.parametrize("size", [(13, 13), (14, 11)])
def test_shifted_passes_see_the_same_windows_as_one_pass_per_window(
    size: tuple[int, int], bag: BagNet
) -> None:
    images, targets = seeded(4, 2, 3, *size), torch.tensor([1, 3])
    expected = attribute("bagnet", hide(bag), images, targets)
    torch.testing.assert_close(attribute("bagnet", bag, images, targets), expected)
    assert tuple(expected.shape) == (2, 1, *size)
    with memory_budget("100MB", chunk=3):
        torch.testing.assert_close(attribute("bagnet", bag, images, targets), expected)


def test_the_value_in_the_middle_is_the_logit_of_the_window_around_it(bag: BagNet) -> None:
    images = seeded(5, 1, 3, 15, 15)
    half = bag.receptive_field // 2
    window = images[:, :, 7 - half : 8 + half, 7 - half : 8 + half]
    maps = attribute("bagnet", bag, images, torch.tensor([2]))
    torch.testing.assert_close(maps[0, 0, 7, 7], bag(window)[0, 2].detach())


def test_the_networks_own_windows_add_up_to_its_logit(bag: BagNet) -> None:
    images, targets = seeded(6, 3, 3, 16, 17), torch.tensor([0, 1, 2])
    maps = attribute("bagnet-exact", bag, images, targets)
    logits = bag(images).gather(1, targets[:, None])[:, 0].detach()
    torch.testing.assert_close(maps.sum(dim=(1, 2, 3)), logits)


def test_pixels_that_the_network_never_sees_get_nothing(bag: BagNet) -> None:
    images = seeded(7, 1, 3, 16, 16)
    maps = attribute("bagnet-exact", bag, images, torch.tensor([0]))
    assert bag.stride == 2
    assert float(maps[..., -1, :].abs().max()) == 0
    assert float(maps[..., -2, :-1].abs().min()) > 0


@pytest.mark.parametrize("method", ["bagnet", "bagnet-exact"])
def test_bagnet_explains_bags_of_windows_only(method: str, net: nn.Module) -> None:
    with pytest.raises(ValueError, match="SmallNet has no receptive_field"):
        attribute(method, net, torch.rand(1, 3, 12, 12), torch.tensor([0]))


def test_window_logits_of_another_shape_are_refused(bag: BagNet) -> None:
    bag.stride = 3
    with pytest.raises(ValueError, match=r"window_logits must return \(9, K, 5, 5\) for windows of 9 pixels"):
        attribute("bagnet", bag, seeded(8, 1, 3, 13, 13), torch.tensor([0]))


def test_own_windows_need_a_model_that_tells_them(bag: BagNet) -> None:
    class Hidden(nn.Module):
        receptive_field = 7

        def forward(self, images: Tensor) -> Tensor:
            return images.mean(dim=(2, 3))

    with pytest.raises(ValueError, match="needs a model with window_logits"):
        attribute("bagnet-exact", Hidden(), seeded(9, 1, 3, 13, 13), torch.tensor([0]))
