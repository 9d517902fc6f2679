"""B-cos layers and networks against recorded values and their own definition."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.models.design.bcos import BcosBlock, BcosConv2d, BcosResNet, Encode, UncenteredNorm

GOLDEN = Path(__file__).parents[2] / "golden" / "idsds.json"


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]["bcos_contributions"]
    return found


@pytest.fixture(params=["basic", "bottleneck"])
def network(request: pytest.FixtureRequest) -> BcosResNet:
    torch.manual_seed(0)
    model = BcosResNet(5, depths=(1, 2), width=4, bottleneck=request.param == "bottleneck", small=True)
    for layer in model.modules():
        if isinstance(layer, UncenteredNorm):
            layer.running_var.uniform_(0.5, 2)
    return model.double().eval()


def golden_network(record: dict[str, Any]) -> nn.Sequential:
    conv, norm, head = BcosConv2d(6, 3, 3, padding=1), UncenteredNorm(3), BcosConv2d(3, 2)
    model = nn.Sequential(Encode(), conv, norm, head).double().eval()
    with torch.no_grad():
        conv.linear.weight.copy_(torch.tensor(record["conv_weight"]))
        head.linear.weight.copy_(torch.tensor(record["fc_weight"]))
        norm.weight.copy_(torch.tensor(record["bn_weight"]))
        norm.running_var.copy_(torch.tensor(record["bn_running_var"]))
    return model


def images(n: int = 2, size: int = 16) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(n, 3, size, size, generator=generator, dtype=torch.float64)


def test_the_recorded_scores_are_reproduced(record: dict[str, Any]) -> None:
    scores = golden_network(record)(torch.tensor(record["image"], dtype=torch.float64)).mean((2, 3))
    torch.testing.assert_close(
        scores[0], torch.tensor(record["expected"]["outputs"]).double(), rtol=0, atol=1e-6
    )


def test_the_recorded_contributions_are_input_times_gradient_with_constant_cosines(
    record: dict[str, Any],
) -> None:
    model = golden_network(record)
    for layer in model.modules():
        if isinstance(layer, BcosConv2d):
            layer.explaining = True
    encoded = model[0](torch.tensor(record["image"], dtype=torch.float64)).requires_grad_()
    scores = model[1:](encoded).mean((2, 3))[0]
    for score, expected in zip(scores, record["expected"]["contributions"], strict=True):
        (gradient,) = torch.autograd.grad(score, encoded, retain_graph=True)
        found = (encoded * gradient).sum(1)[0].detach()
        torch.testing.assert_close(found, torch.tensor(expected).double(), rtol=0, atol=1e-6)


def test_contributions_sum_to_the_logit_without_its_bias(network: BcosResNet) -> None:
    encoded = network.encode(images()).requires_grad_()
    with network.explanation_mode():
        logits = network.score(encoded)
        (gradient,) = torch.autograd.grad(logits[:, 3].sum(), encoded)
    sums = (encoded * gradient).sum(dim=(1, 2, 3))
    torch.testing.assert_close(sums, logits[:, 3] - network.logit_bias, rtol=0, atol=1e-9)


def test_explanation_mode_changes_gradients_but_no_output(network: BcosResNet) -> None:
    x = images().requires_grad_()
    plain = network(x)
    (usual,) = torch.autograd.grad(plain[:, 0].sum(), x)
    with network.explanation_mode():
        explained = network(x)
        (constant,) = torch.autograd.grad(explained[:, 0].sum(), x)
    assert torch.equal(plain, explained)
    assert (usual - constant).abs().max() > 1e-3 * usual.abs().max()


def test_explanation_mode_ends_after_an_error_and_keeps_what_was_set_before(network: BcosResNet) -> None:
    layers = [layer for layer in network.modules() if isinstance(layer, BcosConv2d | UncenteredNorm)]
    layers[0].explaining = True
    seen: list[bool] = []

    def fail() -> None:
        with network.explanation_mode():
            seen.extend(layer.explaining for layer in layers)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [True] * len(layers)
    assert [layer.explaining for layer in layers] == [True] + [False] * (len(layers) - 1)


@pytest.mark.parametrize("b", [1.0, 2.0, 2.5])
def test_a_convolution_is_its_definition_window_by_window(b: float) -> None:
    torch.manual_seed(2)
    layer = BcosConv2d(2, 3, 3, stride=2, padding=1, b=b).double()
    x = torch.randn(2, 2, 7, 7, dtype=torch.float64)
    windows = nn.functional.unfold(x, 3, padding=1, stride=2)  # (N, 18, positions)
    filters = layer.linear.weight.flatten(1)
    response = torch.einsum("kd,ndp->nkp", filters / filters.norm(dim=1, keepdim=True), windows)
    cosine = response.abs() / (windows.square().sum(1, keepdim=True) + 1e-6).sqrt()
    scale = cosine if b == 2 else (cosine + 1e-6) ** (b - 1)
    torch.testing.assert_close(layer(x).flatten(2), scale * response, rtol=1e-10, atol=1e-12)


def test_the_stored_length_of_a_filter_has_no_effect() -> None:
    torch.manual_seed(0)
    layer = BcosConv2d(2, 3, 3).double()
    longer = copy.deepcopy(layer)
    with torch.no_grad():
        longer.linear.weight *= 7
    x = torch.randn(1, 2, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(longer(x), layer(x))


def test_the_norm_divides_by_the_centered_deviation_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    norm = UncenteredNorm(2).double().train()
    x = torch.randn(8, 2, 5, 5, dtype=torch.float64) * 3 + 10
    deviation = (x.var(dim=(0, 2, 3), correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(norm(x), x / deviation)
    expected = 0.9 + 0.1 * x.var(dim=(0, 2, 3), correction=0)
    torch.testing.assert_close(norm.running_var, expected)
    torch.testing.assert_close(norm.eval()(x), x / (expected[:, None, None] + 1e-5).sqrt())


def test_nothing_in_a_network_is_a_bias_or_an_activation(network: BcosResNet) -> None:
    assert not [name for name, _ in network.named_parameters() if "bias" in name]
    allowed = (
        *(BcosResNet, BcosBlock, BcosConv2d, UncenteredNorm, Encode, nn.Sequential, nn.Identity, nn.Conv2d),
    )
    assert all(isinstance(layer, allowed) for layer in network.modules())


def test_the_encoding_adds_one_minus_the_colors() -> None:
    encoded = Encode()(images(1))
    torch.testing.assert_close(encoded.sum(1), torch.full((1, 16, 16), 3.0, dtype=torch.float64))
    assert torch.equal(encoded[:, :3], images(1))


def test_a_network_of_two_classes_has_no_logit_bias_and_of_1000_that_of_999() -> None:
    assert BcosResNet(2, depths=(1,), width=2).logit_bias == 0
    assert BcosResNet(1000, depths=(1,), width=2).logit_bias == pytest.approx(-6.9067548)
