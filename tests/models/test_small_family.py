"""The small design-study family: what its members share, and the one factor in which they differ."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.models.catalog import get_classifier, load_models
from heatcheck.models.design.bcos import UncenteredNorm
from heatcheck.models.registry import MODELS
from heatcheck.models.shipped import WeightsError, save_weights
from heatcheck.models.small_family import FACTORS, FAMILY, file_name, small_classifier
from heatcheck.models.small_networks import small_vit

GOLDEN = Path(__file__).parents[1] / "golden" / "idsds.json"
NAMES = tuple(FAMILY)


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    return FAMILY[name].build(8).eval()


def images(n: int = 2) -> Tensor:
    return torch.rand(n, 3, 64, 64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", NAMES)
def test_a_member_gives_one_logit_per_class_independently_of_its_batch(name: str) -> None:
    model = build(name)
    with torch.no_grad():
        logits = model(images())
        assert logits.shape == (2, 8)
        torch.testing.assert_close(model(images()[1:]), logits[1:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_member_has_the_norms_and_biases_its_factors_say(name: str) -> None:
    model, member = build(name), FAMILY[name]
    kinds = {"batch": nn.BatchNorm2d, "layer": nn.LayerNorm, "uncentered": UncenteredNorm}
    found = {label for label, kind in kinds.items() if any(isinstance(m, kind) for m in model.modules())}
    assert found == ({member.norm} - {"none"})
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    biases = [value for key, value in model.named_parameters() if "bias" in key]
    if member.bias == "none":
        assert not biases
    elif member.bias == "scalar":
        assert sum(value.numel() == 1 for value in biases) == len(biases) - 1
    elif member.norm == "none":
        assert all(layer.bias is not None for layer in layers)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("resnet", "vgg"))])
def test_the_depth_is_the_number_of_layers_with_weights_beside_the_shortcuts(name: str) -> None:
    layers = [
        path
        for path, layer in build(name).named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear) and "shortcut" not in path and "downsample" not in path
    ]
    assert len(layers) == FAMILY[name].depth


def test_depth_and_width_change_alone() -> None:
    factors = {name: {key: getattr(FAMILY[name], key) for key in FACTORS} for name in NAMES}
    base = factors["resnet8"]
    for name, changed in (
        ("resnet14", {"depth"}),
        ("resnet20", {"depth"}),
        ("resnet8-wide", {"width"}),
        ("resnet8-fixup", {"norm", "bias"}),
        ("bcos-resnet8", {"kind", "norm", "bias"}),
    ):
        assert {key for key in FACTORS if factors[name][key] != base[key]} == changed
    assert {key for key in FACTORS if factors["vgg8"][key] != factors["vgg8-x"][key]} == {"bias"}
    assert {key for key in FACTORS if factors["vgg8"][key] != factors["vgg8-bn"][key]} == {"norm"}
    assert {key for key in FACTORS if factors["resnet8-fixup"][key] != factors["resnet8-x"][key]} == {"bias"}
    assert factors["resnet8-wide"]["width"] == 2 * base["width"]


@pytest.mark.parametrize("name", ["resnet8-x", "vgg8-x"])
def test_a_member_without_biases_is_positively_homogeneous(name: str) -> None:
    model = build(name).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.02 * torch.randn(weight.shape, dtype=torch.float64))
        x = images().double() - 0.5
        torch.testing.assert_close(model(3 * x), 3 * model(x))
        assert model(x).abs().max() > 0


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("bagnet")])
def test_a_bagnet_sees_windows_of_its_receptive_field(name: str) -> None:
    model: Any = build(name)
    assert (model.receptive_field, model.stride) == (FAMILY[name].receptive_field, 4)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vit"])
def test_rectifiers_are_used_once_and_not_in_place(name: str) -> None:
    model = build(name)
    calls: list[nn.Module] = []
    relus = [layer for layer in model.modules() if isinstance(layer, nn.ReLU)]
    for relu in relus:
        assert not relu.inplace
        relu.register_forward_hook(lambda module, *_: calls.append(module))
    model(images(1))
    assert len(calls) == len({id(call) for call in calls}) == len(relus)


def test_tokens_divide_the_cells_of_the_deletion_grid() -> None:
    model: Any = build("vit")
    assert (64 // 4) % model.patch_embed.patch_size[0] == 0
    assert model.blocks[0].norm1.eps == 1e-6


def test_a_transformer_of_this_arrangement_gives_the_recorded_logits() -> None:
    record = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]["tiny_vit"]
    model = small_vit(3, size=8, patch=4, width=8, depth=3, heads=2, mlp_ratio=2.0).double().eval()
    weights = {key: torch.tensor(value, dtype=torch.float64) for key, value in record["weights"].items()}
    model.load_state_dict(weights)
    with torch.no_grad():
        logits = model(torch.tensor(record["image"], dtype=torch.float64))[0]
    expected = torch.tensor(record["expected"]["logits"], dtype=torch.float64)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-6)


def test_every_member_is_registered_before_and_after_fine_tuning() -> None:
    names = load_models()
    for name in NAMES:
        assert f"small/{name}" in names
        assert f"small/{name}-tuned" in names
    assert len({file_name(name, tuned=tuned) for name in NAMES for tuned in (False, True)}) == 2 * len(NAMES)


def test_a_member_comes_with_what_its_manifest_says_about_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = {"size": 64, "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "classes": list("abcdefgh")}
    save_weights(build("vgg8-x"), "vgg8_x_tuned", manifest, tmp_path)
    monkeypatch.setattr("heatcheck.models.small_family.small_folder", lambda: tmp_path)
    classifier = get_classifier("small/vgg8-x-tuned")
    assert classifier.name == "small/vgg8-x-tuned"
    assert classifier.normalization == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert (classifier.size, classifier.classes) == (64, tuple("abcdefgh"))
    assert not classifier.module.training
    with pytest.raises(WeightsError, match=r"vgg8_x\.json"):
        MODELS["small/vgg8-x"]()


def test_weights_of_another_member_are_refused(tmp_path: Path) -> None:
    save_weights(build("vgg8"), "vgg8_x", {"size": 64}, tmp_path)
    with pytest.raises(ValueError, match=r"does not fit SmallVGG: .* unexpected"):
        small_classifier("vgg8-x", tuned=False, folder=tmp_path)
