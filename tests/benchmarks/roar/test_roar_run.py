"""A whole run of remove-and-retrain: what it holds, that it resumes, and on what its numbers depend."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.benchmarks.roar.conftest import ESTIMATORS, N_TEST, PLAIN, DigitsRun, digits_settings

from heatcheck.benchmarks import roar, roar_training
from heatcheck.benchmarks.roar_conditions import INTACT, Condition, conditions
from heatcheck.benchmarks.roar_levels import level_hashes
from heatcheck.benchmarks.roar_maps import level_task, shards
from heatcheck.benchmarks.roar_networks import load_network
from heatcheck.benchmarks.roar_settings import recipe_of
from heatcheck.models import retraining
from heatcheck.runtime.store import ResultsStore


def test_every_condition_has_an_answer_to_every_test_image(digits_run: DigitsRun) -> None:
    results = digits_run.results
    assert set(results.outcomes) == set(conditions(results.settings))
    for found in results.outcomes.values():
        assert found.correct.shape == found.losses.shape == (N_TEST,)
        assert np.isfinite(found.losses).all()
        assert found.seconds >= 0
    assert set(results.recursive) == {("grad", percent, run) for percent in (30, 70) for run in (0, 1)}


def test_the_table_has_a_row_per_network_and_says_what_it_is(digits_run: DigitsRun) -> None:
    table = roar.accuracy_table(digits_run.results)
    assert len(table) == len(digits_run.results.outcomes)
    assert set(table["granularity"]) == {"pixel"}
    assert set(table["data"]) == {"digits"}
    assert set(table["estimator"]) == {*ESTIMATORS, INTACT}
    assert table["accuracy"].between(0, 1).all()
    shuffled = table[table["ranking"] == "grad/shuffle"]
    assert set(shuffled["control"]) == {"shuffle"}
    assert set(shuffled["percent"]) == {70}


def test_bits_are_stacked_by_run_and_an_unknown_condition_is_named(digits_run: DigitsRun) -> None:
    results = digits_run.results
    bits = results.bits(ranking="grad", percent=70, mode="kar")
    assert bits.shape == (2, N_TEST)
    first = Condition("grad", "kar", 70, "mean", "scratch", 0, 0)
    assert (bits[0] == results.outcomes[first].correct).all()
    with pytest.raises(KeyError, match="percent=50"):
        results.bits(ranking="grad", percent=50)


def test_a_finished_run_computes_nothing_and_a_stopped_one_only_what_is_missing(
    digits_run: DigitsRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, store = digits_run
    copy = ResultsStore(shutil.copytree(store.root, tmp_path / "store"))
    trained = []
    judge = roar_training._judge

    def counted(settings: roar.Settings, condition: Condition, *rest: object) -> object:
        trained.append(condition)
        return judge(settings, condition, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(roar_training, "_judge", counted)
    roar.run(digits_settings(), copy)
    assert not trained
    lost = Condition("grad", "roar", 70, "mean", "scratch", 0, 1)
    hashes = level_hashes(results.settings, store)
    copy.path(roar_training.condition_cell(results.settings, hashes, lost)).unlink()
    again = roar.run(digits_settings(), copy)
    assert trained == [lost]
    assert (again.outcomes[lost].correct == results.outcomes[lost].correct).all()
    assert (again.outcomes[lost].losses == results.outcomes[lost].losses).all()


def test_another_estimator_more_computes_only_its_own_cells(
    digits_run: DigitsRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = ResultsStore(shutil.copytree(digits_run.store.root, tmp_path / "store"))
    trained = []
    judge = roar_training._judge

    def counted(settings: roar.Settings, condition: Condition, *rest: object) -> object:
        trained.append(condition.ranking)
        return judge(settings, condition, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(roar_training, "_judge", counted)
    roar.run(digits_settings(estimators=[*ESTIMATORS, "ig"]), copy)
    assert set(trained) == {"ig"}


def test_two_processes_give_the_same_answers_as_one(digits_run: DigitsRun, tmp_path: Path) -> None:
    few = digits_settings(
        estimators=["random", "grad"],
        percents=[70],
        **PLAIN,
        workers=2,
    )
    found = roar.run(few, ResultsStore(tmp_path))
    compared = 0
    for condition, outcome in found.outcomes.items():
        if condition in digits_run.results.outcomes:
            assert (outcome.losses == digits_run.results.outcomes[condition].losses).all(), condition
            compared += 1
    assert compared == len(found.outcomes)


def test_a_training_that_was_killed_goes_on_at_its_last_epoch(
    digits_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = digits_settings(
        estimators=["random"], n_train=256, epochs=3, percents=[50], modes=["roar"], n_runs=1, **PLAIN
    )
    whole = roar.run(alone, ResultsStore(tmp_path / "whole"))
    epochs: list[int] = []
    train_steps = retraining._train_steps

    def killed(steps: range, *rest: object) -> float:
        epochs.append(steps.start)
        if len(epochs) == 6:
            raise KeyboardInterrupt
        return train_steps(steps, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(retraining, "_train_steps", killed)
    store = ResultsStore(tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        roar.run(alone, store)
    assert len(list((digits_cache / "checkpoints").iterdir())) == 1
    found = roar.run(alone, store)
    # Three epochs each of the explained network and of two others; the one that was stopped is begun again.
    assert len(epochs) == 10
    for condition, outcome in whole.outcomes.items():
        assert (found.outcomes[condition].losses == outcome.losses).all()
    assert not list((digits_cache / "checkpoints").iterdir())


def test_runs_differ_and_are_paired_over_conditions(digits_run: DigitsRun) -> None:
    settings = digits_run.results.settings
    seeds = {roar_training.run_seed(settings, run) for run in range(3)}
    assert len(seeds) == 3
    cells = [
        roar_training.condition_cell(settings, level_hashes(settings, digits_run.store), condition)
        for condition in conditions(settings)
        if condition.run == 1
    ]
    assert {cell["recipe"]["seed"] for cell in cells} == {roar_training.run_seed(settings, 1)}


def test_no_retraining_is_the_explained_network_on_changed_images(digits_run: DigitsRun) -> None:
    results, store = digits_run
    module = load_network(store, results.settings, 0)
    condition = Condition("random", "roar", 30, "mean", "none", 0, 0)
    images = roar_training.images_of(results.settings, store, condition, "test")
    goals = results.data.images.test.targets
    with torch.no_grad():
        logits = torch.cat([module(batch) for batch, _ in images.evaluation(recipe_of(results.settings))])
    assert (results.outcomes[condition].correct == (logits.argmax(1) == goals).numpy()).all()


def test_removing_little_by_recursion_begins_as_plain_removal(digits_run: DigitsRun) -> None:
    results = digits_run.results
    for run in (0, 1):
        plain = results.outcomes[Condition("grad", "roar", 30, "mean", "scratch", 0, run)]
        assert (results.recursive["grad", 30, run].losses == plain.losses).all()


def test_the_masks_alone_tell_the_class_when_the_class_chose_them(digits_cache: Path, tmp_path: Path) -> None:
    settings = digits_settings(
        estimators=["random", "leaky"],
        n_train=600,
        epochs=8,
        percents=[50],
        modes=["roar"],
        n_runs=1,
        **{**PLAIN, "leaks": ["random", "leaky"]},
    )
    results = roar.run(settings, ResultsStore(tmp_path))
    leaky, random = (
        results.bits(ranking=name, percent=50, way="leak").mean() for name in ("leaky", "random")
    )
    assert leaky > 0.9
    assert random < 0.35


def test_every_explained_network_is_another_one(digits_cache: Path, tmp_path: Path) -> None:
    settings = digits_settings(
        estimators=["random", "grad"],
        n_checkpoints=2,
        n_runs=1,
        percents=[50],
        **PLAIN,
    )
    store = ResultsStore(tmp_path)
    results = roar.run(settings, store)
    first, second = (load_network(store, settings, number) for number in (0, 1))
    assert len(results.accuracies) == 2
    assert any(
        not torch.equal(one, two) for one, two in zip(first.parameters(), second.parameters(), strict=True)
    )
    hashes = level_hashes(settings, store)
    assert hashes["grad", 0] != hashes["grad", 1]
    rankings = {(c.ranking, c.checkpoint) for c in results.outcomes if c.way == "scratch"}
    assert rankings == {(INTACT, 0), ("random", 0), ("grad", 0), ("grad", 1)}


def test_shards_cover_every_image_once(digits_run: DigitsRun) -> None:
    settings = digits_run.results.settings
    rows = {(shard.split, row) for shard in shards(settings) for row in range(shard.start, shard.stop)}
    assert rows == {("train", row) for row in range(96)} | {("test", row) for row in range(40)}
    keys = [digits_run.store.path(level_task(settings, shard).cell) for shard in shards(settings)]
    assert all(path.exists() for path in keys)
