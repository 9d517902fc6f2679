"""Training of the small design-study family."""

import json
from pathlib import Path

import pytest
import torch

from heatcheck.benchmarks import make_design_weights
from heatcheck.benchmarks.make_design_weights import (
    CPU_TUNING,
    Plan,
    make_family,
    make_member,
    recipe,
    tuning,
)
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.models.patch_deletion import FineTuning
from heatcheck.models.small_family import FAMILY, small_classifier

PLAN = Plan(
    n_train=16,
    n_heldout=8,
    n_test=8,
    epochs=1,
    tuning=FineTuning(epochs=2, batch_size=8, step=1, keep="last"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "weights"


def test_weights_before_and_after_fine_tuning_are_written_with_their_accuracies(folder: Path) -> None:
    base, tuned = make_member(FAMILY["vgg8-x"], folder, PLAN)
    before, after = (json.loads(path.with_suffix(".json").read_text()) for path in (base, tuned))
    assert before["shader_sha256"] == shader_hash(default_shader())
    assert before["factors"]["bias"] == "none"
    assert after["started_from"] == before["sha256"]
    assert after["accuracy_before"] == before["accuracy"]
    assert [entry["epoch"] for entry in after["history"]] == [0, 1]
    for measured in (before["accuracy"], after["accuracy"]):
        assert measured.keys() == {"train", "test"}
        for split in measured.values():
            assert split.keys() == {"intact", "deleted"}
            assert all(0 <= value <= 1 for value in split.values())
    first, second = (
        small_classifier("vgg8-x", tuned=state, folder=folder).module.state_dict() for state in (False, True)
    )
    assert not torch.equal(first["features.0.weight"], second["features.0.weight"])


def test_what_is_made_is_left_alone_and_what_is_missing_is_made_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, tuned = make_family(folder, ["vgg8-x"], PLAN)
    content, stamp = tuned.read_bytes(), base.stat().st_mtime_ns
    tuned.unlink()
    tuned.with_suffix(".json").unlink()
    make_family(folder, ["vgg8-x"], PLAN)
    assert base.stat().st_mtime_ns == stamp
    assert tuned.read_bytes() == content

    def refuse(*_: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(make_design_weights, "_train", refuse)
    monkeypatch.setattr(make_design_weights, "_tune", refuse)
    make_family(folder, ["vgg8-x"], PLAN)
    with pytest.raises(AssertionError, match="trained again"):
        make_family(folder, ["vgg8-x"], Plan(**{**vars(PLAN), "epochs": 2}))


def test_a_b_cos_network_sees_images_that_are_not_normalized_and_has_its_own_loss(folder: Path) -> None:
    member = FAMILY["bcos-resnet8"]
    assert recipe(member, PLAN).loss == tuning(member, PLAN).loss == "binary"
    splits = make_design_weights.load_splits(PLAN, binary=True)
    assert splits.normalization == ((0.0,) * 3, (1.0,) * 3)
    assert splits.train.images.min() >= 0
    normalized = make_design_weights.load_splits(PLAN, binary=False)
    torch.testing.assert_close(normalized.train.images.mean(dim=(0, 2, 3)), torch.zeros(3), rtol=0, atol=2e-3)


def test_the_plan_that_ships_tunes_for_a_few_epochs_with_the_published_schedule() -> None:
    how = tuning(FAMILY["resnet8"], Plan())
    assert (how.epochs, how.step, how.factor, how.momentum, how.n_patches) == (6, 2, 0.1, 0.9, 4)
    assert how == CPU_TUNING


def test_an_unknown_member_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="no members resnet9; known: resnet8, "):
        make_family(folder, ["resnet9"], PLAN)
