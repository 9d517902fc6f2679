"""Networks by name, and the published initial weights."""

import math

import pytest
import torch
from torch import Tensor, nn

from heatcheck.models.networks import NETWORKS, network_builder, register_network
from heatcheck.models.retrain_draws import fresh_randomness

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def resnet50() -> nn.Module:
    with fresh_randomness(3, CPU):
        return network_builder("resnet50-published", 7)()


def bottlenecks(module: nn.Module) -> list[nn.Module]:
    return [part for part in module.modules() if type(part).__name__ == "Bottleneck"]


def test_every_block_begins_as_its_shortcut(resnet50: nn.Module) -> None:
    blocks = bottlenecks(resnet50)
    assert len(blocks) == 3 + 4 + 6 + 3
    last = {id(block.bn3) for block in blocks}
    scales = [part for part in resnet50.modules() if isinstance(part, nn.BatchNorm2d)]
    assert len(scales) == 53
    for scale in scales:
        assert torch.all(scale.weight == (0 if id(scale) in last else 1))
        assert (scale.eps, scale.momentum) == (1e-5, 0.1)


def test_the_middle_convolution_of_a_block_has_its_stride_and_none_has_a_bias(resnet50: nn.Module) -> None:
    strided = [block for block in bottlenecks(resnet50) if block.downsample and block.conv2.stride == (2, 2)]
    assert len(strided) == 3
    assert all(block.conv1.stride == (1, 1) for block in bottlenecks(resnet50))
    assert all(part.bias is None for part in resnet50.modules() if isinstance(part, nn.Conv2d))


def test_convolutions_have_the_variance_of_their_fan_in_and_no_weight_beyond_the_cut(
    resnet50: nn.Module,
) -> None:
    for layer in resnet50.modules():
        if isinstance(layer, nn.Conv2d):
            fan_in = layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1]
            weight = layer.weight.detach()
            expected = math.sqrt(1 / fan_in)
            # Deviation of a sample's deviation, and twice the deviation before the cut.
            assert float(weight.std()) == pytest.approx(expected, rel=5 / math.sqrt(2 * weight.numel()))
            assert float(weight.abs().max()) <= 2 * expected / 0.8796 * (1 + 1e-6)


def test_the_classifier_is_drawn_with_a_deviation_of_one_hundredth(resnet50: nn.Module) -> None:
    head = resnet50.get_submodule("fc")
    assert isinstance(head, nn.Linear)
    assert head.weight.shape == (7, 2048)
    assert float(head.weight.detach().std()) == pytest.approx(0.01, rel=0.03)
    assert torch.all(head.bias == 0)


@pytest.mark.parametrize(("name", "side"), [("resnet8", 32), ("resnet8-digits", 8)])
def test_small_networks_give_one_logit_per_class(name: str, side: int) -> None:
    module = network_builder(name, 5)().eval()
    assert module(torch.zeros(2, 3, side, side)).shape == (2, 5)


def test_networks_of_torchvision_are_found_by_their_names() -> None:
    module = network_builder("torchvision/squeezenet1_1", 4)().eval()
    assert module(torch.zeros(1, 3, 64, 64)).shape == (1, 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet9", "did you mean resnet8"),
        ("torchvision/none", "torchvision has no"),
        ("timm/none", "timm has no"),
        ("timm/", "unknown network"),
    ],
)
def test_a_network_there_is_not_is_refused_with_what_there_is(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network_builder(name, 3)


def test_an_own_network_can_be_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heatcheck.models.networks.NETWORKS", dict(NETWORKS))

    @register_network("own")
    def own(n_classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(12, n_classes))

    found: Tensor = network_builder("own", 2)()(torch.zeros(1, 3, 2, 2))
    assert found.shape == (1, 2)
    with pytest.raises(ValueError, match="registered already"):
        register_network("own")(own)
