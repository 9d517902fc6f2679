"""Fine-tuning on a folder of images."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from heatcheck.benchmarks.tune_folder import accuracies, open_folders, tune_folder
from heatcheck.models.patch_deletion import FineTuning
from heatcheck.models.registry import Classifier, Normalization
from heatcheck.models.shipped import load_shipped


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 2))


@pytest.fixture
def classifier() -> Classifier:
    return Classifier("own", network(), 16, Normalization((0.5,) * 3, (0.25,) * 3), ("blue", "red"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, n in (("train", 6), ("val", 3)):
        for name, color in (("blue", (0, 0, 255)), ("red", (255, 0, 0))):
            place = tmp_path / "images" / split / name
            place.mkdir(parents=True)
            for number in range(n):
                pixels = np.full((20, 24, 3), color, dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{number}.png")
    return tmp_path / "images"


def test_a_classifier_is_tuned_and_written_with_what_was_measured(
    classifier: Classifier, folder: Path, tmp_path: Path
) -> None:
    recipe = FineTuning(epochs=3, batch_size=4, learning_rate=0.1, step=2)
    path = tune_folder(classifier, folder, tmp_path / "own.safetensors", recipe, workers=0)
    manifest = json.loads(path.with_suffix(".json").read_text())
    assert manifest["n_train"] == 12
    assert len(manifest["history"]) == 3
    assert manifest["history"][-1]["intact"] == 1
    assert {"intact", "deleted"} == manifest["accuracy_before"].keys()
    fresh = network()
    load_shipped(fresh, "own", tmp_path)
    for key, value in fresh.state_dict().items():
        assert torch.equal(value, classifier.module.state_dict()[key])


def test_images_are_cropped_to_the_input_and_normalized(classifier: Classifier, folder: Path) -> None:
    folders = open_folders(classifier, folder)
    for part in folders:
        image, target = part[0]
        assert image.shape == (3, 16, 16)
        assert target == 0
        torch.testing.assert_close(image.amax((1, 2)), torch.tensor([-2.0, -2.0, 2.0]))


def test_a_folder_of_other_classes_is_refused(classifier: Classifier, folder: Path) -> None:
    (folder / "val" / "red").rename(folder / "val" / "blue" / "red")
    with pytest.raises(ValueError, match=r"val has 1 classes, own has 2"):
        open_folders(classifier, folder)


def test_accuracy_with_one_patch_deleted_loses_what_hung_on_that_patch() -> None:
    class FirstCell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, images: Tensor) -> Tensor:
            seen = images[:, 0, 0, 0] * self.scale
            return torch.stack([torch.full_like(seen, 0.5), seen], dim=1)

    batches = [(torch.ones(100, 3, 4, 4), torch.ones(100, dtype=torch.int64))] * 4
    found = accuracies(FirstCell().eval(), batches=batches, n_patches=2)
    assert found["intact"] == 1
    assert 0.68 < found["deleted"] < 0.82
