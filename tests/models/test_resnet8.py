from pathlib import Path

import pytest
import torch
from torch import nn

from heatcheck.data.rendered import metal_color
from heatcheck.data.scenes import COLORS
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.models.registry import MODELS
from heatcheck.models.resnet8 import METAL_COLOR, ResNet8, resnet8_metal_color
from heatcheck.models.shipped import read_manifest
from heatcheck.models.training import accuracy


def test_the_network_has_about_78000_parameters() -> None:
    assert sum(weight.numel() for weight in ResNet8(8).parameters()) == 77_912


@pytest.mark.parametrize(("size", "stem"), [(64, 2), (32, 2), (32, 1), (33, 2)])
def test_images_of_any_size_give_one_logit_per_class(size: int, stem: int) -> None:
    assert ResNet8(16, stem).eval()(torch.zeros(2, 3, size, size)).shape == (2, 16)


def test_every_relu_is_a_module_of_its_own_used_once_and_not_in_place() -> None:
    model = ResNet8(8).eval()
    calls: list[nn.Module] = []
    relus = [module for module in model.modules() if isinstance(module, nn.ReLU)]
    for relu in relus:
        assert not relu.inplace
        relu.register_forward_hook(lambda module, *_: calls.append(module))
    model(torch.zeros(1, 3, 64, 64))
    assert len(calls) == len(relus) == 7
    assert {id(call) for call in calls} == {id(relu) for relu in relus}


def test_the_shipped_weights_were_trained_on_the_shipped_shader() -> None:
    assert read_manifest(METAL_COLOR)["shader_sha256"] == shader_hash(default_shader())


def test_the_manifest_says_where_the_weights_come_from() -> None:
    manifest = read_manifest(METAL_COLOR)
    assert manifest["license"] == "Apache-2.0"
    assert manifest["made_by"] == "python -m heatcheck.benchmarks.make_weights"
    assert manifest["n_test"] >= 1000
    assert manifest["test_accuracy"] >= 0.99
    assert {"source", "seed", "cpu_seconds"} <= manifest.keys()


def test_the_classifier_is_registered_with_what_its_inputs_look_like() -> None:
    assert MODELS["resnet8-metal-color"] is resnet8_metal_color
    classifier = resnet8_metal_color()
    assert classifier.classes == COLORS
    assert classifier.size == 64
    assert len(classifier.normalization.mean) == len(classifier.normalization.std) == 3
    assert not classifier.module.training


def test_the_shipped_weights_name_the_color_on_unseen_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path))
    data = metal_color("test", 100)
    classifier = resnet8_metal_color()
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in classifier.normalization)
    assert accuracy(classifier.module, (data.images - mean) / std, data.targets) >= 0.95
