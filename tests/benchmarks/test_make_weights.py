import json
from pathlib import Path

import pytest
import torch

from heatcheck.benchmarks.make_weights import image_statistics, make_metal_color, normalized
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.models.resnet8 import METAL_COLOR, ResNet8
from heatcheck.models.shipped import load_shipped
from heatcheck.models.training import Recipe


def test_weights_are_written_with_a_manifest_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path / "cache"))
    recipe = Recipe(epochs=1, batch_size=8, seed=4)
    path = make_metal_color(tmp_path / "weights", n_train=16, n_test=8, size=16, recipe=recipe)
    manifest = json.loads(path.with_suffix(".json").read_text())
    assert manifest["shader_sha256"] == shader_hash(default_shader())
    assert (manifest["seed"], manifest["size"], manifest["n_train"], manifest["n_test"]) == (4, 16, 16, 8)
    assert 0 <= manifest["test_accuracy"] <= 1
    assert load_shipped(ResNet8(8), METAL_COLOR, tmp_path / "weights") == manifest


def test_normalized_images_have_mean_zero_and_deviation_one() -> None:
    images = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [1, 0.5, 0.2]
    ).view(3, 1, 1)
    result = normalized(images, image_statistics(images)).transpose(0, 1).flatten(1)
    torch.testing.assert_close(result.mean(dim=1), torch.zeros(3), rtol=0, atol=2e-3)
    torch.testing.assert_close(result.std(dim=1, correction=0), torch.ones(3), rtol=2e-3, atol=0)
