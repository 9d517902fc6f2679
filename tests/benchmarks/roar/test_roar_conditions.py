"""What the networks of each condition see, and which network answers: made again by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.benchmarks.roar.conftest import PLAIN, DigitsRun, digits_settings

from heatcheck.benchmarks import roar
from heatcheck.benchmarks.image_changes import Reading
from heatcheck.benchmarks.retraining_modes import condition_network
from heatcheck.benchmarks.roar_conditions import Condition, intact
from heatcheck.benchmarks.roar_fills import fill_of
from heatcheck.benchmarks.roar_levels import Source, level_reader
from heatcheck.benchmarks.roar_maps import _maps, map_levels, shown_images
from heatcheck.benchmarks.roar_networks import finished, load_network, module_from
from heatcheck.benchmarks.roar_settings import recipe_of
from heatcheck.benchmarks.roar_training import evaluator_cell, images_of, run_seed
from heatcheck.metrics.level_controls import gaussian_filtered, maximum_filtered
from heatcheck.metrics.levels import apply_levels, keep_mask, percent_levels
from heatcheck.models.retraining import evaluate
from heatcheck.runtime.store import ResultsStore


def condition(**changes: Any) -> Condition:
    return Condition("grad", "roar", 30, "mean", "scratch", 0, 0)._replace(**changes)


def seen(run: DigitsRun, asked: Condition) -> torch.Tensor:
    """Test images of a condition, neither augmented nor normalized."""
    return torch.cat(list(images_of(run.results.settings, run.store, asked, "test").plain()))


@pytest.fixture
def pixels(digits_run: DigitsRun) -> torch.Tensor:
    part = digits_run.results.data.images.test
    return part.batch(range(len(part)))


@pytest.fixture
def levels(digits_run: DigitsRun) -> torch.Tensor:
    source = Source(digits_run.results.settings, digits_run.store, 0, "test")
    return level_reader(source, "grad")(torch.arange(len(source.part)))


@pytest.mark.parametrize("mode", ["roar", "kar"])
@pytest.mark.parametrize("percent", [30, 70])
def test_the_top_is_removed_or_kept(
    digits_run: DigitsRun, pixels: torch.Tensor, levels: torch.Tensor, mode: Any, percent: int
) -> None:
    expected = apply_levels(pixels, levels, percent, mode=mode, fill=digits_run.results.data.mean)
    assert torch.equal(seen(digits_run, condition(mode=mode, percent=percent)), expected)


@pytest.mark.parametrize("mode", ["roar", "kar"])
def test_imputed_images_are_imputed(
    digits_run: DigitsRun, pixels: torch.Tensor, levels: torch.Tensor, mode: Any
) -> None:
    impute = fill_of(digits_run.results.settings, "road", "test")
    assert not isinstance(impute, torch.Tensor)
    removed = ~keep_mask(levels, 70, mode)
    expected = impute(pixels, removed, Reading(torch.arange(len(pixels)), None, 0))
    found = seen(digits_run, condition(mode=mode, percent=70, fill="road"))
    assert torch.allclose(found, expected, atol=1e-6)
    assert not torch.allclose(found, seen(digits_run, condition(mode=mode, percent=70)), atol=1e-2)


@pytest.mark.parametrize("mode", ["roar", "kar"])
@pytest.mark.parametrize("percent", [30, 70])
def test_a_leak_is_learned_from_the_mask_of_its_own_fraction(
    digits_run: DigitsRun, levels: torch.Tensor, mode: Any, percent: int
) -> None:
    found = seen(digits_run, condition(mode=mode, percent=percent, way="leak"))
    assert torch.equal(found, keep_mask(levels, percent, mode).float().expand(-1, 3, -1, -1))


def test_intact_images_are_the_images(digits_run: DigitsRun, pixels: torch.Tensor) -> None:
    assert torch.equal(seen(digits_run, intact(digits_run.results.settings, 0)), pixels)


def test_fine_tuning_goes_on_from_the_explained_network(digits_run: DigitsRun) -> None:
    results, store = digits_run
    asked = condition(percent=70, way="finetune", run=1)
    recipe = recipe_of(results.settings, run_seed(results.settings, 1))
    module = condition_network(
        "finetune",
        images_of(results.settings, store, asked, "train"),
        recipe,
        n_classes=10,
        explained=load_network(store, results.settings, 0),
    )
    found = evaluate(module, images_of(results.settings, store, asked, "test").evaluation(recipe))
    assert (results.outcomes[asked].losses == found.losses.numpy()).all()
    assert (results.outcomes[asked].losses != results.outcomes[asked._replace(way="scratch")].losses).any()


def test_the_evaluator_of_the_run_judges(digits_run: DigitsRun) -> None:
    results, store = digits_run
    asked = condition(way="evaluator", run=1)
    table = finished(store, evaluator_cell(results.settings, 1))
    module = module_from(table, results.settings, results.data)
    images = images_of(results.settings, store, asked, "test")
    found = evaluate(module, images.evaluation(recipe_of(results.settings)))
    assert (results.outcomes[asked].losses == found.losses.numpy()).all()


def test_a_condition_has_the_levels_of_its_own_explained_network(digits_cache: Path, tmp_path: Path) -> None:
    settings = digits_settings(
        **PLAIN, estimators=["random", "grad"], n_checkpoints=2, n_runs=1, percents=[50], modes=["roar"]
    )
    store = ResultsStore(tmp_path)
    results = roar.run(settings, store)
    part = results.data.images.test
    rows = range(len(part))
    for number in (0, 1):
        network = load_network(store, results.settings, number)
        levels = map_levels(results.settings, network, shown_images(part, rows), ["grad"])["grad"]
        expected = apply_levels(part.batch(rows), levels, 50, mode="roar", fill=results.data.mean)
        asked = condition(percent=50, checkpoint=number)
        found = torch.cat(list(images_of(results.settings, store, asked, "test").plain()))
        assert torch.equal(found, expected)


def test_the_predicted_class_is_explained_unless_the_label_is_asked_for(digits_run: DigitsRun) -> None:
    settings, store = digits_run.results.settings, digits_run.store
    network = load_network(store, settings, 0)
    shown = shown_images(digits_run.results.data.images.test, range(20))
    wrong = shown._replace(targets=(shown.targets + 1) % 10)
    labelled = settings.model_copy(update={"target": "label"})
    of = {
        (chosen.target, name): map_levels(chosen, network, images, ["grad"])["grad"]
        for chosen in (settings, labelled)
        for name, images in (("right", shown), ("wrong", wrong))
    }
    assert torch.equal(of["predicted", "right"], of["predicted", "wrong"])
    assert not torch.equal(of["label", "right"], of["label", "wrong"])


@pytest.mark.parametrize(
    ("probe", "filtered"), [("max-filter", maximum_filtered), ("gaussian", gaussian_filtered)]
)
def test_a_probe_ranks_the_filtered_magnitude(digits_run: DigitsRun, probe: str, filtered: Any) -> None:
    settings, store = digits_run.results.settings, digits_run.store
    network = load_network(store, settings, 0)
    shown = shown_images(digits_run.results.data.images.test, range(8))
    found = map_levels(settings, network, shown, [f"sq-grad/{probe}"])[f"sq-grad/{probe}"]
    magnitude = _maps(settings, network, shown, ["grad"])["grad"].abs()
    assert torch.equal(found, percent_levels(filtered(magnitude).double().sum(1, keepdim=True)))
