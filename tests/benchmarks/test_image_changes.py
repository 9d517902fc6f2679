"""What is done to images: which units go, what stands there, and what depends on nothing else."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from heatcheck.benchmarks.image_changes import (
    EVALUATION,
    Change,
    Mode,
    Reading,
    counter_uniform,
    mask_normalization,
    mask_only,
    random_removal,
    redrawn_removal,
    removal,
    removed_units,
)
from heatcheck.metrics.levels import percent_levels
from heatcheck.models.retrain_draws import derived_seed
from heatcheck.runtime.counter_stream import counter_integers

N, SIDE = 6, 16
FILL = torch.tensor([0.25, 0.5, 0.75])


def images() -> Tensor:
    return torch.rand((N, 3, SIDE, SIDE), generator=torch.Generator().manual_seed(1)) * 0.2


def reading(n_units: int = 1, visit: int = 0) -> Reading:
    values = torch.randn((N, n_units, SIDE, SIDE), generator=torch.Generator().manual_seed(2))
    return Reading(torch.arange(N), percent_levels(values), visit)


def replaced(result: Tensor, fill: Tensor = FILL) -> Tensor:
    """Which channel values are the fill's; no image here has a value as large."""
    return result == fill[:, None, None]


@pytest.mark.parametrize("n_units", [1, 3])
@pytest.mark.parametrize("percent", [10, 50, 90])
def test_roar_replaces_exactly_the_units_that_kar_keeps(percent: int, n_units: int) -> None:
    roar, kar = (removal(percent, mode, FILL)(images(), reading(n_units)) for mode in ("roar", "kar"))
    count = percent * n_units * SIDE**2 // 100
    gone = replaced(roar)
    assert gone.sum(dim=(1, 2, 3)).tolist() == [count * 3 // n_units] * N
    assert torch.equal(gone, ~replaced(kar))
    assert torch.equal(torch.where(gone, kar, roar), images())


def test_removed_units_are_nested_in_the_percent() -> None:
    masks = [removed_units(reading(), percent, "roar") for percent in range(0, 101, 10)]
    assert all(bool((small <= large).all()) for small, large in pairwise(masks))
    assert not masks[0].any()
    assert masks[-1].all()


def test_nothing_removed_is_the_image_and_nothing_kept_is_the_fill() -> None:
    assert torch.equal(removal(0, "roar", FILL)(images(), reading()), images())
    assert replaced(removal(0, "kar", FILL)(images(), reading())).all()


@pytest.mark.parametrize("kind", ["image", "function"])
def test_units_are_replaced_by_an_image_or_by_what_a_function_makes(kind: str) -> None:
    picture = torch.linspace(0.3, 0.9, 3 * SIDE**2).view(3, SIDE, SIDE)

    def impute(given: Tensor, removed: Tensor, found: Reading) -> Tensor:
        assert found.rows.tolist() == list(range(N))
        return torch.where(removed, picture, given)

    fill = picture if kind == "image" else impute
    result = removal(30, "roar", fill)(images(), reading())
    gone = removed_units(reading(), 30, "roar")
    assert torch.equal(result, torch.where(gone, picture, images()))


def test_a_change_leaves_its_images_as_they_were() -> None:
    given = images()
    changes: list[Change] = [
        removal(50, "roar", FILL),
        redrawn_removal(50, "kar", FILL, n_units=3, seed=0),
        random_removal([50, 90], FILL, n_units=1, seed=0),
        mask_only(50, "kar"),
    ]
    for change in changes:
        change(given, reading())
        assert torch.equal(given, images())


def test_ranked_removal_needs_levels_and_a_mode_there_is() -> None:
    with pytest.raises(ValueError, match="levels"):
        removal(50, "roar", FILL)(images(), Reading(torch.arange(N), None, 0))
    with pytest.raises(ValueError, match="roar, kar"):
        removal(50, "morf", FILL)  # type: ignore[arg-type]


DRAWN: list[Callable[[int], Change]] = [
    lambda seed: redrawn_removal(40, "roar", FILL, n_units=3, seed=seed),
    lambda seed: random_removal([30, 60], FILL, n_units=3, seed=seed),
]


@pytest.mark.parametrize("make", DRAWN, ids=["redrawn", "random"])
def test_a_draw_depends_on_seed_row_and_visit_alone(make: Callable[[int], Change]) -> None:
    whole = make(7)(images(), reading(visit=3))
    rows = torch.tensor([4, 1])
    assert torch.equal(make(7)(images()[rows], Reading(rows, None, 3)), whole[rows])
    assert not torch.equal(make(7)(images(), reading(visit=4)), whole)
    assert not torch.equal(make(7)(images(), reading(visit=EVALUATION)), whole)
    assert not torch.equal(make(8)(images(), reading(visit=3)), whole)


def test_redrawn_units_are_chosen_independently_with_their_probability() -> None:
    roar = replaced(redrawn_removal(30, "roar", FILL, n_units=3, seed=0)(images(), reading()))
    assert float(roar.double().mean()) == pytest.approx(0.3, abs=0.03)
    assert len(set(roar.sum(dim=(1, 2, 3)).tolist())) > 1
    kept = replaced(redrawn_removal(30, "kar", FILL, n_units=3, seed=0)(images(), reading()))
    assert torch.equal(kept, ~roar)
    whole_pixels = replaced(redrawn_removal(30, "roar", FILL, n_units=1, seed=0)(images(), reading()))
    assert torch.equal(whole_pixels[:, 0], whole_pixels[:, 2])


def test_masks_of_the_evaluator_have_exact_counts_of_the_grid_and_half_of_them_are_blocky() -> None:
    n = 400
    change = random_removal([30, 70], FILL, n_units=1, seed=3)
    result = change(torch.zeros(n, 3, SIDE, SIDE), Reading(torch.arange(n), None, 0))
    gone = replaced(result)[:, 0]
    counts = gone.sum(dim=(1, 2))
    sizes = {percent * SIDE**2 // 100 for percent in (0, 30, 70)}
    assert set(counts.tolist()) == sizes
    assert all(100 < int((counts == size).sum()) < 170 for size in sizes)
    some = gone[counts > 0]
    same = (some[:, :, 1:] == some[:, :, :-1]).double().mean(dim=(1, 2))  # 0.58 for independent units
    assert 0.4 < float((same > 0.7).double().mean()) < 0.6
    assert float(((same > 0.64) & (same < 0.7)).double().mean()) < 0.05


@pytest.mark.parametrize(("mode", "share"), [("roar", 0.7), ("kar", 0.3)])
def test_a_mask_alone_is_1_where_a_unit_is_kept_and_its_expected_mean_is_taken_off(
    mode: Mode, share: float
) -> None:
    mask = mask_only(30, mode)(images(), reading())
    assert mask.shape == (N, 3, SIDE, SIDE)
    assert torch.equal(mask[:, :1] == 0, removed_units(reading(), 30, mode))
    assert torch.equal(mask[:, 0], mask[:, 2])
    normalization = mask_normalization(30, mode)
    assert normalization.mean == pytest.approx((share,) * 3)
    assert normalization.std == (1.0,) * 3
    assert float(mask.mean()) == pytest.approx(share, abs=1 / SIDE**2)


def test_counted_numbers_are_the_first_bits_of_the_random_control() -> None:
    rows = [0, 5, 1_000_003]
    found = counter_uniform(9, Reading(torch.tensor(rows), None, 4), (2, 3), torch.device("cpu"))
    integers = counter_integers(derived_seed(9, "visit", 4), rows, 6)
    assert torch.equal(found.flatten(1).double(), (integers >> 29).double() / 2**24)
    assert found.shape == (3, 2, 3)
