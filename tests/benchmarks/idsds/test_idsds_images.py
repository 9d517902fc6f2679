"""Which images are scored: a fixed draw of all, right or wrong."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from heatcheck.benchmarks.idsds_images import load_sample
from heatcheck.data.catalog import PLACES365_ROOT
from heatcheck.data.places365 import CATEGORIES, LABELS
from heatcheck.models.registry import Classifier, Normalization

N_CLASSES = 365
PLAIN = Normalization((0.5,) * 3, (0.5,) * 3)


def model(n_classes: int = N_CLASSES, size: int = 32) -> Classifier:
    return Classifier("toy-patches", nn.Identity(), size, PLAIN, ("class",) * n_classes)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of eight tiny photographs of class 7, in a folder that the environment names."""
    (tmp_path / "val_256").mkdir()
    names = [f"Places365_val_{number:08d}.jpg" for number in range(1, 9)]
    for number, name in enumerate(names):
        pixels = np.full((40, 50, 3), 30 * number, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "val_256" / name)
    categories = [f"/a/scene_{number} {number}" for number in range(N_CLASSES)]
    (tmp_path / CATEGORIES).write_text("\n".join(categories) + "\n", encoding="utf-8")
    (tmp_path / LABELS).write_text("".join(f"{name} 7\n" for name in names), encoding="utf-8")
    monkeypatch.setenv(PLACES365_ROOT, str(tmp_path))
    return names


def test_a_larger_sample_of_an_archive_begins_with_a_smaller_one(archive: list[str]) -> None:
    small, large = (load_sample("places365", model(), n) for n in (3, 6))
    assert large.ids[:3] == small.ids
    assert torch.equal(large.images[:3], small.images)
    assert large.targets.tolist() == [7] * 6
    assert large.images.shape == (6, 3, 32, 32)
    # Drawn in a random order, or the first classes would be all there is.
    assert list(large.ids) != sorted(large.ids)


def test_another_classifier_gets_the_same_images_at_its_own_size(archive: list[str]) -> None:
    first, second = (load_sample("places365", model(size=size), 5) for size in (32, 48))
    assert first.ids == second.ids
    assert second.images.shape[2:] == (48, 48)


def test_rendered_scenes_have_three_splits() -> None:
    classifier = model(8, size=64)
    splits = [load_sample("metal-color", classifier, 6, split=split) for split in ("test", "train")]
    assert not set(splits[0].ids) & set(splits[1].ids)


def test_samples_that_cannot_be_are_refused(archive: list[str]) -> None:
    with pytest.raises(ValueError, match="known: metal-color, imagenet, places365"):
        load_sample("no-such-data", model(), 3)
    with pytest.raises(ValueError, match="validation images alone"):
        load_sample("places365", model(), 3, split="train")
    with pytest.raises(ValueError, match="ask for fewer"):
        load_sample("places365", model(), 9)
    with pytest.raises(ValueError, match="choose the model that was trained for it"):
        load_sample("places365", model(7), 3)
