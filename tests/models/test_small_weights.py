"""The weights of the small design-study family that ship with the package."""

from collections.abc import Iterator

import pytest
import torch

from heatcheck.data.batch import LabelledImages
from heatcheck.data.rendered import metal_color
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.models.catalog import get_classifier
from heatcheck.models.shipped import read_manifest
from heatcheck.models.small_family import FACTORS, FAMILY, file_name, small_folder
from heatcheck.models.training import accuracy

NAMES = tuple(FAMILY)
# What the least accurate member, the transformer, reached on 1000 unseen images is 0.947.
LEAST = 0.94
# Three standard errors below that on the 100 images of the last test: 0.94 - 3 sqrt(0.94 0.06 / 100).
LEAST_OF_FEW = 0.87


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelledImages]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATCHECK_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield metal_color("test", 100)


@pytest.mark.parametrize("name", NAMES)
def test_shipped_weights_say_how_they_were_made_and_how_good_they_are(name: str) -> None:
    before, after = (read_manifest(file_name(name, tuned=state), small_folder()) for state in (False, True))
    assert before["shader_sha256"] == after["shader_sha256"] == shader_hash(default_shader())
    assert after["started_from"] == before["sha256"]
    assert after["accuracy_before"] == before["accuracy"]
    for manifest in (before, after):
        assert manifest["license"] == "Apache-2.0"
        assert manifest["factors"] == {key: getattr(FAMILY[name], key) for key in FACTORS}
        assert manifest["n_test"] >= 1000
        assert manifest["accuracy"]["test"]["intact"] >= LEAST


@pytest.mark.parametrize("name", NAMES)
def test_fine_tuning_brings_deleted_images_closer_to_intact_ones(name: str) -> None:
    manifest = read_manifest(file_name(name, tuned=True), small_folder())
    before, after = manifest["accuracy_before"]["test"], manifest["accuracy"]["test"]
    assert after["intact"] - after["deleted"] < before["intact"] - before["deleted"]
    assert after["deleted"] > before["deleted"]
    # A standard error of the difference between two accuracies of 0.985 on 1000 images is about 0.005.
    assert after["intact"] > before["intact"] - 0.005


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_shipped_weights_fit_and_name_the_color_on_unseen_images(
    name: str, tuned: bool, unseen: LabelledImages
) -> None:
    classifier = get_classifier(f"small/{name}{'-tuned' if tuned else ''}")
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in classifier.normalization)
    assert accuracy(classifier.module, (unseen.images - mean) / std, unseen.targets) >= LEAST_OF_FEW


def test_the_whole_family_takes_at_most_eight_mebibytes() -> None:
    files = list(small_folder().iterdir())
    assert len(files) == 4 * len(NAMES)
    assert sum(file.stat().st_size for file in files) <= 8 * 2**20
