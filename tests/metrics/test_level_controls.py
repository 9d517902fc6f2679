"""Level maps that have nothing to do with their image."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor

from heatcheck.metrics.level_controls import (
    derangement,
    gaussian_filtered,
    leaky_levels,
    maximum_filtered,
    random_levels,
    rolled,
    shuffled,
)
from heatcheck.metrics.levels import n_selected, percent_levels, selected
from heatcheck.runtime.memory import memory_budget

SHAPE = (3, 6, 7)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("percent", [0, 1, 37, 90, 100])
def test_a_random_ranking_selects_exactly_its_share(percent: int) -> None:
    chosen = selected(random_levels(1, range(5), SHAPE), percent)
    assert torch.equal(chosen.sum((1, 2, 3)), torch.full((5,), n_selected(percent, 126)))


def test_a_random_ranking_belongs_to_its_image_and_seed() -> None:
    together = random_levels(1, [5, 6, 7], SHAPE)
    assert torch.equal(random_levels(1, [7, 5], SHAPE), together[[2, 0]])
    with memory_budget("4kB"):
        assert torch.equal(random_levels(1, [5, 6, 7], SHAPE), together)
    assert not torch.equal(random_levels(2, [5], SHAPE), together[:1])
    assert not torch.equal(together[0], together[1])
    assert random_levels(1, [], SHAPE).shape == (0, *SHAPE)


def test_independent_selection_has_a_random_count_of_the_right_mean() -> None:
    levels = random_levels(0, range(300), (1, 10, 10), exact=False)
    for percent in (10, 50, 90):
        counts = selected(levels, percent).sum((1, 2, 3)).double()
        share = percent / 100
        assert float(counts.mean()) == pytest.approx(percent, abs=1.5)
        assert float(counts.std()) == pytest.approx((100 * share * (1 - share)) ** 0.5, rel=0.2)
    assert (int(levels.min()), int(levels.max())) == (0, 99)


@pytest.mark.parametrize("exact", [True, False])
def test_another_draw_is_another_ranking_that_repeats(exact: bool) -> None:
    draws = [random_levels(1, [5], SHAPE, exact=exact, draw=number) for number in (0, 1, 2)]
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[1], draws[2])
    assert torch.equal(random_levels(1, [5], SHAPE, exact=exact, draw=2), draws[2])
    assert torch.equal(random_levels(1, [5], SHAPE, exact=exact), draws[0])


def test_a_leaky_pattern_tells_the_class_and_nothing_else() -> None:
    classes = torch.tensor([4, 0, 4, 1, 0])
    levels = leaky_levels(3, classes, SHAPE)
    assert torch.equal(levels[0], levels[2])
    assert torch.equal(levels[1], levels[4])
    assert len({levels[row].numpy().tobytes() for row in range(5)}) == 3
    assert torch.equal(selected(levels, 30).sum((1, 2, 3)), torch.full((5,), n_selected(30, 126)))
    assert torch.equal(leaky_levels(3, classes[3:], SHAPE), levels[3:])
    assert not torch.equal(levels[1], random_levels(3, [0], SHAPE)[0])


@pytest.mark.parametrize("n", [2, 3, 50])
def test_every_image_gets_the_map_of_another_and_every_map_is_used(n: int) -> None:
    rows = derangement(n, 7)
    assert sorted(rows.tolist()) == list(range(n))
    assert not (rows == torch.arange(n)).any()
    levels = percent_levels(draw(n, 1, 4, 4))
    assert torch.equal(shuffled(levels, 7), levels[rows])


def test_maps_stay_within_their_group() -> None:
    groups = torch.tensor([2, 9, 2, 9, 9, 2, 4, 4])
    rows = derangement(8, 0, groups)
    assert torch.equal(groups[rows], groups)
    assert sorted(rows.tolist()) == list(range(8))
    assert not (rows == torch.arange(8)).any()


def test_a_derangement_follows_identities_not_rows() -> None:
    ids = [101, 55, 7, 3000, 12]
    whose = {ids[row]: ids[other] for row, other in enumerate(derangement(5, 1, ids=ids).tolist())}
    turned = ids[::-1]
    again = {turned[row]: turned[other] for row, other in enumerate(derangement(5, 1, ids=turned).tolist())}
    assert whose == again
    assert any(derangement(50, seed).tolist() != derangement(50, 0).tolist() for seed in (1, 2))


def test_an_image_alone_in_its_group_is_refused_or_keeps_its_map() -> None:
    groups = torch.tensor([1, 1, 8, 1])
    with pytest.raises(ValueError, match=r"1 group\(s\), such as 8, hold a single image"):
        derangement(4, 0, groups)
    rows = derangement(4, 0, groups, alone="keep")
    assert rows[2] == 2
    assert not (rows[[0, 1, 3]] == torch.tensor([0, 1, 3])).any()


@pytest.mark.parametrize("size", [(8, 8), (9, 13), (2, 5), (3, 2)])
def test_a_map_is_rolled_by_a_quarter_of_each_side_at_least(size: tuple[int, int]) -> None:
    height, width = size
    places = torch.arange(height * width).view(1, 1, height, width).expand(40, 2, -1, -1)
    moved = rolled(places, 0, range(40))
    offsets = set()
    for row in range(40):
        corner = (moved[row, 0] == 0).nonzero()[0].tolist()
        for shift, side in zip(corner, size, strict=True):
            assert min(shift, side - shift) >= side / 4
        assert torch.equal(moved[row], places[row].roll(corner, (1, 2)))
        offsets.add(tuple(corner))
    assert len(offsets) > 1 or size in ((2, 5), (3, 2))


def test_an_offset_belongs_to_its_image() -> None:
    levels = percent_levels(draw(4, 3, 8, 8))
    moved = rolled(levels, 5, [3, 1, 4, 9])
    assert torch.equal(rolled(levels[[2, 0]], 5, [4, 3]), moved[[2, 0]])
    assert not torch.equal(rolled(levels, 6, [3, 1, 4, 9]), moved)


def test_filters_of_the_blur_probe_are_the_ordinary_ones() -> None:
    maps = draw(2, 3, 9, 12).double()
    for row, channel in np.ndindex(2, 3):
        plain = maps[row, channel].numpy()
        largest = ndimage.maximum_filter(plain, size=3, mode="nearest")
        np.testing.assert_array_equal(maximum_filtered(maps)[row, channel].numpy(), largest)
        for sigma in (1.0, 0.7):
            blurred = ndimage.gaussian_filter(plain, sigma, mode="nearest")
            found = gaussian_filtered(maps, sigma)[row, channel].numpy()
            np.testing.assert_allclose(found, blurred, rtol=0, atol=1e-12)


def test_small_maps_can_be_blurred() -> None:
    assert torch.equal(gaussian_filtered(torch.ones(1, 1, 2, 3)).round(decimals=5), torch.ones(1, 1, 2, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rolled(torch.zeros(2, 1, 4, 4), 0, [1]), r"levels \(2, 1, 4, 4\) with 1 ids"),
        (lambda: rolled(torch.zeros(2, 1, 1, 4), 0, [1, 2]), "sides of 2 or more"),
        (lambda: derangement(3, 0, ids=[1, 2]), "got 2 ids"),
        (lambda: derangement(3, 0, torch.zeros(2)), r"needs 3 ids, \(3,\) groups"),
        (lambda: derangement(3, 0, alone="ignore"), "alone='ignore'"),  # type: ignore[arg-type]
        (lambda: derangement(1, 0), "hold a single image"),
    ],
)
def test_misuse_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
