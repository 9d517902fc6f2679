import json
from pathlib import Path

import pytest
import torch
from torch import nn

from heatcheck.models.resnet8 import ResNet8
from heatcheck.models.shipped import WeightsError, load_shipped, read_manifest, save_weights


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save_weights(ResNet8(8), "some", {"license": "Apache-2.0"}, tmp_path)
    return tmp_path


def test_saved_weights_come_back_with_their_manifest(folder: Path) -> None:
    torch.manual_seed(0)
    saved, loaded = ResNet8(8), ResNet8(8)
    manifest = load_shipped(loaded, "some", folder)
    assert manifest["license"] == "Apache-2.0"
    assert not loaded.training
    for key, value in saved.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[key])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (ResNet8(9), "head.weight"),
        (nn.Linear(2, 2), "Linear.*missing"),
        (nn.Sequential(ResNet8(8)), "Sequential.*unexpected"),
    ],
)
def test_another_architecture_is_refused_and_left_alone(
    folder: Path, module: nn.Module, message: str
) -> None:
    before = {key: value.clone() for key, value in module.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        load_shipped(module, "some", folder)
    for key, value in module.state_dict().items():
        assert torch.equal(value, before[key])


def test_changed_weights_are_refused(folder: Path) -> None:
    path = folder / "some.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(WeightsError, match=r"some\.safetensors have sha256 .* their manifest says"):
        load_shipped(ResNet8(8), "some", folder)


def test_missing_files_are_named(folder: Path) -> None:
    (folder / "some.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"some\.safetensors"):
        load_shipped(ResNet8(8), "some", folder)
    with pytest.raises(WeightsError, match=r"other\.json"):
        read_manifest("other", folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"license": "none"})])
def test_a_damaged_manifest_is_named(folder: Path, text: str) -> None:
    (folder / "some.json").write_text(text)
    with pytest.raises(WeightsError, match=r"some\.json"):
        load_shipped(ResNet8(8), "some", folder)
