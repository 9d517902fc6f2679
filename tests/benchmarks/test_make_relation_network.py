"""Making of Relation Networks, whole but tiny."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.data.clevr.tiny_release import write_clevr

from heatcheck.benchmarks.make_relation_network import (
    CLEVR_NAME,
    COMPLEX_NAME,
    SIMPLE_NAME,
    main,
    make_complex,
    make_simple,
)
from heatcheck.benchmarks.relation_card import mean_image, without_aids
from heatcheck.benchmarks.relation_clevr import (
    Published,
    clevr_accuracy,
    jittered,
    read_split,
    train_published,
)
from heatcheck.benchmarks.relation_plans import COMPLEX, SIMPLE, ComplexPlan, Plan
from heatcheck.benchmarks.relation_scenes import training_scenes
from heatcheck.benchmarks.relation_stages import Relating, between
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.models.relation_network import RelationNetwork
from heatcheck.models.relation_weights import shipped_relation_network
from heatcheck.models.shipped import WeightsError, load_shipped
from heatcheck.models.stages import Stage

INSTANT = 1e-9  # a budget that the first step exceeds


def instant(name: str) -> Stage:
    return Stage(name, INSTANT, 1e-3)


TINY = Plan(
    instant("encoder"),
    instant("question"),
    (
        (instant("fixed"), Relating(4, 1, 1, pair_aid=(1.0, 1.0), fixed=True)),
        (instant("focused"), Relating(2, 2, 2, focus=4, pair_aid=(1.0, 0.1), cell_aid=(0.5, 0.0))),
        (instant("alone"), Relating(2, 2, None, statistics=False)),
    ),
    n_scenes=5,
    n_unseen=4,
    size=64,
    batch=2,
    n_measured=6,
)
TINY_COMPLEX = ComplexPlan(
    instant("programs"),
    (
        (instant("related"), Relating(4, 1, 1, focus=4, pair_aid=(1.0, 0.3), fixed=True)),
        (instant("answered"), Relating(2, 1, None, fixed=True)),
    ),
    n_scenes=5,
    n_unseen=4,
    n_measured=6,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Weights of both kinds, made in almost no time."""
    home = tmp_path_factory.mktemp("weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATCHECK_CACHE", str(tmp_path_factory.mktemp("cache")))
        make_simple(home, TINY, checkpoints=home / "checkpoints", n_tested=8)
        make_complex(home, TINY_COMPLEX, start=home, n_tested=8)
        yield home


def manifest(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_the_manifest_says_what_each_stage_did(folder: Path) -> None:
    found = manifest(folder, SIMPLE_NAME)
    assert [stage["name"] for stage in found["stages"]] == [
        "encoder",
        "question",
        "fixed",
        "focused",
        "alone",
    ]
    assert all(stage["steps"] == 1 and len(stage["curve"]) == 1 for stage in found["stages"])
    assert found["stages"][3]["focus"] == 4
    assert 0 < found["answer_loss_alone_with_all_pairs"]["share"] < 1
    assert found["shader_sha256"] == shader_hash(default_shader())
    assert found["unseen"].keys() == {
        "n_scenes",
        "n_questions",
        "accuracy",
        "shape",
        "size",
        "material",
        "color",
    }


def test_complex_weights_name_the_simple_ones_they_began_from(folder: Path) -> None:
    simple, found = manifest(folder, SIMPLE_NAME), manifest(folder, COMPLEX_NAME)
    assert found["began_from"] == {"name": SIMPLE_NAME, "sha256": simple["sha256"]}
    families = found["unseen"]["complex"]
    assert families["all"]["n"] == sum(part["n"] for name, part in families.items() if name != "all") == 40


@pytest.mark.parametrize("name", [SIMPLE_NAME, COMPLEX_NAME])
def test_weights_that_were_made_can_be_loaded(folder: Path, name: str) -> None:
    network = RelationNetwork(64)
    assert load_shipped(network, name, folder) == manifest(folder, name)
    logits = network(torch.rand(2, 3, 64, 64), torch.tensor([[5, 6], [7, 0]]), torch.tensor([2, 1]))
    assert torch.isfinite(logits).all()


def test_an_interrupted_run_is_taken_up_from_its_checkpoints(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(torch.optim.AdamW, "step", forbidden)
    path = make_simple(tmp_path, TINY, checkpoints=folder / "checkpoints", n_tested=8)
    assert manifest(tmp_path, SIMPLE_NAME) == manifest(folder, SIMPLE_NAME)
    assert path.read_bytes() == (folder / f"{SIMPLE_NAME}.safetensors").read_bytes()


def test_the_mean_image_is_the_mean_of_the_training_images(folder: Path) -> None:
    scenes = training_scenes("train", 5, size=64)
    expected = torch.from_numpy(scenes.images).double().mean(dim=0).permute(2, 0, 1) / 255
    found = mean_image(scenes.images, chunk=2)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=3e-4)
    means = manifest(folder, SIMPLE_NAME)["channel_means"]
    torch.testing.assert_close(torch.tensor(means), expected.mean(dim=(1, 2)).float(), rtol=0, atol=1e-4)


def test_weights_of_another_size_or_with_another_mean_image_are_refused(folder: Path, tmp_path: Path) -> None:
    classifier = shipped_relation_network("tiny", SIMPLE_NAME, folder)
    assert classifier.size == 64
    assert classifier.mean_image is not None
    assert classifier.mean_image.shape == (3, 64, 64)
    for suffix in (".json", ".safetensors"):
        (tmp_path / f"{SIMPLE_NAME}{suffix}").write_bytes((folder / f"{SIMPLE_NAME}{suffix}").read_bytes())
    with pytest.raises(WeightsError, match="cannot read the mean image"):
        shipped_relation_network("tiny", SIMPLE_NAME, tmp_path)
    (tmp_path / f"{SIMPLE_NAME}_mean_image.safetensors").write_bytes(b"other")
    with pytest.raises(WeightsError, match="not the one in the manifest"):
        shipped_relation_network("tiny", SIMPLE_NAME, tmp_path)


@pytest.mark.parametrize("relations", [SIMPLE.relations, COMPLEX.relations], ids=["simple", "complex"])
def test_the_last_stage_has_the_answer_loss_alone_and_all_pairs(
    relations: tuple[tuple[Stage, Relating], ...],
) -> None:
    _, last = relations[-1]
    assert (last.rounds, last.pair_aid, last.cell_aid) == (None, (0.0, 0.0), (0.0, 0.0))


@pytest.mark.parametrize("plan", [SIMPLE, COMPLEX], ids=["simple", "complex"])
def test_it_has_at_least_three_tenths_of_the_budget(plan: Plan | ComplexPlan) -> None:
    first = (plan.encoder, plan.question) if isinstance(plan, Plan) else (plan.question,)
    stages = [*first, *(stage for stage, _ in plan.relations)]
    assert plan.relations[-1][0].seconds >= 0.3 * sum(stage.seconds for stage in stages)


def test_only_stages_with_all_pairs_and_no_aid_count_as_such() -> None:
    records: list[dict[str, Any]] = [
        {"cpu_seconds": 5.0},
        {"cpu_seconds": 2.0, "rounds": 1, "pair_aid": (0.0, 0.0)},
        {"cpu_seconds": 1.0, "rounds": None, "pair_aid": (0.0, 0.0)},
    ]
    assert without_aids(records) == {"cpu_seconds": 1.0, "share": 0.125}


def test_weights_of_aids_change_evenly() -> None:
    assert [between((1.0, 0.2), share) for share in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.6, 0.2])


@pytest.fixture(scope="module")
def clevr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_clevr(tmp_path_factory.mktemp("clevr") / "CLEVR_v1.0")
    return write_clevr(root, "val")


def test_clevr_is_trained_on_from_the_command_line(clevr: Path, tmp_path: Path) -> None:
    arguments = ["--data", "clevr", "--root", str(clevr), "--into", str(tmp_path), "--size", "64"]
    path = main([*arguments, "--epochs", "2", "--cache", str(tmp_path / "cache")])
    found = manifest(tmp_path, CLEVR_NAME)
    assert path.name == f"{CLEVR_NAME}.safetensors"
    assert found["recipe"]["learning_rate"] == 2.5e-4
    assert [row["epoch"] for row in found["curve"]] == [0, 1]
    assert found["validation_accuracy"] == max(row["accuracy"] for row in found["curve"])
    assert load_shipped(RelationNetwork(64), CLEVR_NAME, tmp_path) == found


def test_clevr_needs_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--data", "clevr"])
    assert "--root" in capsys.readouterr().err


def test_the_published_recipe_learns_six_questions_by_heart(clevr: Path, tmp_path: Path) -> None:
    data = read_split(clevr, "train", tmp_path, size=64)
    recipe = Published(epochs=12, batch=3, learning_rate=3e-3, shift=1, angle=0.0, weight_decay=0.0)
    network, curve = train_published(data, data, recipe, size=64)
    assert curve[-1]["loss"] < 0.5 * curve[0]["loss"]
    assert clevr_accuracy(network, data) == max(row["accuracy"] for row in curve)


def test_training_on_clevr_goes_on_where_it_was_stopped(clevr: Path, tmp_path: Path) -> None:
    data = read_split(clevr, "train", tmp_path, size=64)
    recipe = Published(epochs=2, batch=4)
    first, curve = train_published(data, data, recipe, size=64, folder=tmp_path)
    again, same = train_published(data, data, recipe, size=64, folder=tmp_path)
    assert same == curve
    torch.testing.assert_close(again.f3.weight, first.f3.weight)
    _, more = train_published(data, data, Published(epochs=3, batch=4), size=64, folder=tmp_path)
    assert more[:2] == curve
    assert len(more) == 3


def test_a_loss_that_is_no_number_stops_training_on_clevr(clevr: Path, tmp_path: Path) -> None:
    data = read_split(clevr, "train", tmp_path, size=64)
    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        train_published(data, data, Published(epochs=3, batch=2, learning_rate=1e18, warmup=0.0), size=64)


def test_images_are_shifted_by_whole_pixels_and_black_comes_in() -> None:
    images = torch.ones(40, 3, 16, 16)
    moved = jittered(images, Published(shift=2, angle=0.0), torch.Generator().manual_seed(0))
    rows = moved[:, 0].mean(dim=2).round(decimals=4)
    assert ((moved - moved.round()).abs() < 1e-4).all()
    lost = 16 - (rows > 0).sum(dim=1)
    assert set(lost.tolist()) == {0, 1, 2}


def test_images_are_rotated_by_at_most_the_angle() -> None:
    images = torch.zeros(64, 3, 33, 33)
    images[:, :, 16, 4:29] = 1.0  # a level line through the middle
    turned = jittered(images, Published(shift=0, angle=0.25), torch.Generator().manual_seed(0))
    heights = (turned[:, 0, :, 26] * torch.arange(33.0)[:, None].T).sum(1) / turned[:, 0, :, 26].sum(1) - 16
    assert heights.abs().max() <= 10 * torch.tan(torch.tensor(0.25)) + 0.1
    assert heights.min() < -1 < 1 < heights.max()
