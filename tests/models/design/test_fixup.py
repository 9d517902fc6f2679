"""Networks without normalization, with scalars or with nothing added."""

import pytest
import torch
from torch import Tensor, nn

from heatcheck.models.design.catalog import without_biases
from heatcheck.models.design.fixup import FixupBlock, FixupBottleneck, FixupResNet


def build(*, biased: bool, bottleneck: bool = True) -> FixupResNet:
    torch.manual_seed(0)
    model = FixupResNet(5, biased=biased, bottleneck=bottleneck, depths=(2, 1), width=4, small=True).double()
    with torch.no_grad():
        # As after training: no weight is zero any more.
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, dtype=torch.float64))
    return model.eval()


def images(n: int = 3) -> Tensor:
    return torch.randn(n, 3, 16, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("bottleneck", [True, False])
def test_without_biases_a_scaled_image_gives_scaled_logits(bottleneck: bool) -> None:
    model, x = build(biased=False, bottleneck=bottleneck), images()
    torch.testing.assert_close(model(3.7 * x), 3.7 * model(x), rtol=1e-10, atol=1e-12)
    assert torch.equal(model(0 * x), torch.zeros(3, 5, dtype=torch.float64))


@pytest.mark.parametrize("bottleneck", [True, False])
def test_with_scalar_biases_it_does_not(bottleneck: bool) -> None:
    model, x = build(biased=True, bottleneck=bottleneck), images()
    assert (model(3.7 * x) - 3.7 * model(x)).abs().max() > 1e-3


@pytest.mark.parametrize("bottleneck", [True, False])
def test_without_biases_input_times_gradient_is_the_integrated_gradient_from_zero(bottleneck: bool) -> None:
    model, x = build(biased=False, bottleneck=bottleneck), images().requires_grad_()

    def gradient(scale: float) -> Tensor:
        (found,) = torch.autograd.grad(model(scale * x)[:, 2].sum(), x)
        return found / scale

    integral = torch.stack([gradient(scale) for scale in (0.03, 0.2, 0.5, 0.99)]).mean(0)
    torch.testing.assert_close(x * integral, x * gradient(1.0), rtol=1e-8, atol=1e-10)


def test_a_vgg_without_biases_is_positively_homogeneous() -> None:
    torch.manual_seed(0)
    model = without_biases(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(196, 2))
    ).double()
    assert not [name for name, _ in model.named_parameters() if "bias" in name]
    x = images()
    torch.testing.assert_close(model(2.5 * x), 2.5 * model(x))


def test_a_bottleneck_adds_its_scalars_where_the_paper_puts_them() -> None:
    torch.manual_seed(3)
    block = FixupBottleneck(4, 2, 2, biased=True).double()
    with torch.no_grad():
        for weight in block.parameters():
            weight.normal_()
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    p = dict(block.named_parameters())
    y = nn.functional.conv2d(x + p["bias1a"], p["conv1.weight"])
    y = nn.functional.conv2d((y + p["bias1b"]).relu() + p["bias2a"], p["conv2.weight"], stride=2, padding=1)
    y = nn.functional.conv2d((y + p["bias2b"]).relu() + p["bias3a"], p["conv3.weight"])
    shortcut = nn.functional.conv2d(x + p["bias1a"], p["downsample.weight"], stride=2)
    torch.testing.assert_close(block(x), (y * p["scale"] + p["bias3b"] + shortcut).relu())


def test_a_basic_block_adds_its_scalars_where_the_paper_puts_them() -> None:
    torch.manual_seed(3)
    block = FixupBlock(4, 4, 1, biased=True).double()
    with torch.no_grad():
        for weight in block.parameters():
            weight.normal_()
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    p = dict(block.named_parameters())
    y = nn.functional.conv2d(x + p["bias1a"], p["conv1.weight"], padding=1)
    y = nn.functional.conv2d((y + p["bias1b"]).relu() + p["bias2a"], p["conv2.weight"], padding=1)
    torch.testing.assert_close(block(x), (y * p["scale"] + p["bias2b"] + x).relu())


def test_initial_weights_follow_the_rule_for_16_blocks() -> None:
    torch.manual_seed(0)
    model = FixupResNet(7, biased=True, width=16)
    block = model.get_submodule("layer3.1")
    assert isinstance(block, FixupBottleneck)
    middle = block.conv2.weight
    assert middle.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5 * 16**-0.25, rel=0.03)
    assert not block.conv3.weight.any()
    assert not model.fc.weight.any()
    first = model.get_submodule("layer3.0")
    assert isinstance(first, FixupBottleneck)
    assert first.downsample is not None
    assert first.downsample.weight.std().item() == pytest.approx((2 / 256) ** 0.5, rel=0.03)


def test_basic_blocks_start_with_the_root_of_their_number() -> None:
    torch.manual_seed(0)
    model = FixupResNet(7, biased=False, depths=(1, 1, 2), width=16, bottleneck=False, small=True)
    block = model.get_submodule("layer3.1")
    assert isinstance(block, FixupBlock)
    assert block.conv1.weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5 / 2, rel=0.03)
    assert not block.conv2.weight.any()


def test_every_relu_is_used_once_and_not_in_place() -> None:
    model = build(biased=True)
    calls: list[nn.Module] = []
    relus = [layer for layer in model.modules() if isinstance(layer, nn.ReLU)]
    for relu in relus:
        assert not relu.inplace
        relu.register_forward_hook(lambda module, *_: calls.append(module))
    model(images(1))
    assert len(calls) == len({id(call) for call in calls}) == len(relus)
