"""Levels of every kind of ranking, and what stands in place of removed units."""

import pytest
import torch
from tests.benchmarks.roar.conftest import DigitsRun, digits_settings

from heatcheck.benchmarks.image_changes import Reading
from heatcheck.benchmarks.roar_data import Split, load_data
from heatcheck.benchmarks.roar_fills import fill_of
from heatcheck.benchmarks.roar_levels import Source, level_reader
from heatcheck.benchmarks.roar_maps import map_levels, shown_images
from heatcheck.benchmarks.roar_networks import load_network
from heatcheck.benchmarks.roar_recursive import _joined
from heatcheck.metrics.levels import selected


def _levels(run: DigitsRun, ranking: str, split: Split = "test") -> torch.Tensor:
    source = Source(run.results.settings, run.store, 0, split)
    return level_reader(source, ranking)(torch.arange(len(source.part)))


@pytest.mark.parametrize("ranking", ["random", "sobel", "grad", "sq-grad", "sg-sq-gb", "leaky", "grad/roll"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_ranking_selects_exactly_its_share(digits_run: DigitsRun, ranking: str, split: Split) -> None:
    levels = _levels(digits_run, ranking, split)
    for percent in digits_run.results.settings.percents:
        counts = selected(levels, percent).flatten(1).sum(1)
        assert (counts == percent * 64 // 100).all()


@pytest.mark.parametrize(
    "ranking", ["grad", "sq-grad", "sg-sq-gb", "sobel", "input-x-gradient", "sq-grad/gaussian"]
)
def test_stored_levels_are_those_of_the_images_alone(digits_run: DigitsRun, ranking: str) -> None:
    settings = digits_run.results.settings
    network = load_network(digits_run.store, settings, 0)
    part = digits_run.results.data.images.test
    rows = [7, 3, 30]
    alone = map_levels(settings, network, shown_images(part, rows), [ranking])[ranking]
    stored = _levels(digits_run, ranking)[rows]
    for percent in settings.percents:
        assert (selected(alone, percent) == selected(stored, percent)).all()


def test_a_square_ranks_by_magnitude(digits_run: DigitsRun) -> None:
    signed, squared = (_levels(digits_run, name) for name in ("grad", "sq-grad"))
    assert not torch.equal(signed, squared)


def test_shuffled_maps_belong_to_other_images(digits_run: DigitsRun) -> None:
    own, shuffled = (_levels(digits_run, name) for name in ("grad", "grad/shuffle"))
    same = (own == shuffled).flatten(1).all(1)
    assert not same.any()
    assert sorted(map(hash, map(bytes, own.flatten(1).numpy()))) == sorted(
        map(hash, map(bytes, shuffled.flatten(1).numpy()))
    )


def test_maps_shuffled_within_a_class_stay_in_it(digits_run: DigitsRun) -> None:
    settings, part = digits_run.results.settings, digits_run.results.data.images.test
    network = load_network(digits_run.store, settings, 0)
    normalization = digits_run.results.data.normalization
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in normalization)
    with torch.no_grad():
        predicted = network((part.batch(range(len(part))) - mean) / std).argmax(1)
    own, shuffled = (_levels(digits_run, name) for name in ("grad", "grad/shuffle-class"))
    for row in range(len(part)):
        owner = torch.nonzero((own == shuffled[row]).flatten(1).all(1)).flatten()
        assert predicted[row] in predicted[owner]


def test_leaky_levels_are_the_class_and_nothing_else(digits_run: DigitsRun) -> None:
    levels, targets = _levels(digits_run, "leaky"), digits_run.results.data.images.test.targets
    for name in torch.unique(targets):
        mine = levels[targets == name]
        assert (mine == mine[0]).all()
    assert len(torch.unique(levels.flatten(1), dim=0)) == len(torch.unique(targets))


def test_the_object_comes_first_or_last() -> None:
    settings = digits_settings(data="color-material", n_train=4, n_test=16)
    from heatcheck.benchmarks.roar_data import data_key  # noqa: PLC0415

    part = load_data(data_key(settings)).images.test
    assert part.masks is not None
    for name, first in (("oracle", True), ("inverse-oracle", False)):
        source = Source(settings, None, 0, "test")  # type: ignore[arg-type]
        levels = level_reader(source, name)(torch.arange(16))[:, 0]
        inside = torch.stack([row[mask].float().mean() for row, mask in zip(levels, part.masks, strict=True)])
        outside = torch.stack(
            [row[~mask].float().mean() for row, mask in zip(levels, part.masks, strict=True)]
        )
        assert ((inside < outside) == first).all()


def test_a_data_set_without_masks_has_no_oracle(digits_run: DigitsRun) -> None:
    with pytest.raises(ValueError, match="no masks"):
        level_reader(Source(digits_run.results.settings, digits_run.store, 0, "test"), "oracle")


def test_element_rankings_have_a_level_per_channel(digits_cache: object) -> None:
    settings = digits_settings(protocol="release", percents=[50])
    levels = level_reader(Source(settings, None, 0, "test"), "random")(torch.arange(3))  # type: ignore[arg-type]
    assert levels.shape == (3, 3, 8, 8)


def test_imputed_pixels_are_made_once_and_do_not_depend_on_the_batch(digits_run: DigitsRun) -> None:
    settings, part = digits_run.results.settings, digits_run.results.data.images.test
    images = part.batch(range(6))
    removed = selected(_levels(digits_run, "random")[:6], 70)
    once, always = (fill_of(settings, "road", "test", remember=flag) for flag in (True, False))
    assert not isinstance(once, torch.Tensor)
    assert not isinstance(always, torch.Tensor)
    everything = always(images, removed, Reading(torch.arange(6), None, 0))
    rows = torch.tensor([4, 1])
    few = once(images[rows], removed[rows], Reading(rows, None, 0))
    assert torch.allclose(few, everything[rows], atol=1e-6)
    again = once(images, removed, Reading(torch.arange(6), None, 5))
    assert torch.allclose(again, everything, atol=1e-6)
    assert torch.equal(everything.masked_fill(removed, 0), images.masked_fill(removed, 0))
    assert not torch.equal(everything, images)


def test_recursion_never_gives_back_what_is_gone(digits_run: DigitsRun) -> None:
    settings = digits_run.results.settings
    old, new = (_levels(digits_run, name) for name in ("grad", "sg-sq-gb"))
    joined = _joined(settings, new, old, 30, "test")
    assert (selected(joined, 30) == selected(old, 30)).all()
    gone = selected(old, 30)
    # Among the others the new order holds: whatever it has lower is not removed later.
    for row in range(len(joined)):
        before, after = new[row][~gone[row]], joined[row][~gone[row]]
        order = torch.argsort(before.float(), stable=True)
        assert (after[order].int().diff() >= 0).all()
