"""Levels against the recorded masks, and what must hold for any map."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heatcheck.metrics import unit_ranks
from heatcheck.metrics.levels import (
    Aggregate,
    Mode,
    apply_levels,
    grid_levels,
    grid_to_percent,
    keep_mask,
    n_selected,
    percent_levels,
    percent_to_grid,
    random_levels,
    selected,
    unit_importance,
)
from heatcheck.metrics.unit_ranks import to_raster
from heatcheck.runtime.memory import memory_budget

FILE = Path(__file__).parents[1] / "golden" / "roar.json"
CASES: dict[str, dict[str, Any]] = {
    case["id"].split("_")[0]: case for case in json.loads(FILE.read_text())["cases"]
}
INPUTS = CASES["A1"]["inputs"]
IMAGE = torch.tensor(INPUTS["image_chw"], dtype=torch.float64)[None]
# Whole tenths, as recorded: ties between sums are exact.
TENTHS = (torch.tensor(INPUTS["importance_chw"], dtype=torch.float64) * 10).round()[None]
GRID = (10, 30, 50, 70, 90)
PIXEL: dict[str, Aggregate] = {"B1": "sum", "B2": "abs_sum", "B3": "max_abs"}
every_percent = pytest.mark.parametrize("percent", GRID)


def indices(mask: Tensor) -> list[int]:
    """Units of one image that are true, in raster order."""
    return to_raster(mask)[0].nonzero()[:, 0].tolist()


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rank_by_hand(flat: list[float]) -> list[int]:
    """Rank of each value: larger first, of equal ones the first first."""
    order = sorted(range(len(flat)), key=lambda index: (-flat[index], index))
    return [order.index(index) for index in range(len(flat))]


@every_percent
@pytest.mark.parametrize("case", ["A1", "A2"])
def test_single_channel_values_are_removed_as_recorded(case: str, percent: int) -> None:
    expected = CASES[case]["expected"]
    levels = percent_levels(TENTHS.square() if case == "A2" else TENTHS)
    assert n_selected(percent, 192) == expected["k"][str(percent)]
    assert indices(selected(levels, percent)) == expected["roar_removed_hwc_sorted"][str(percent)]


@every_percent
@pytest.mark.parametrize("case", PIXEL)
def test_pixels_are_removed_as_recorded(case: str, percent: int) -> None:
    expected = CASES[case]["expected"]
    values = unit_importance(TENTHS, "pixel", PIXEL[case])
    torch.testing.assert_close(values[0, 0] / 10, torch.tensor(expected["pixel_importance_hw"]).double())
    removed = selected(percent_levels(values), percent)
    assert indices(removed) == expected["roar_removed_sorted"][str(percent)]


@pytest.mark.parametrize("case", ["A1", "A2", "B1", "B2", "B3"])
def test_levels_are_the_recorded_ones(case: str) -> None:
    expected = CASES[case]["expected"]
    values = TENTHS.square() if case == "A2" else TENTHS
    if case in PIXEL:
        values = unit_importance(values, "pixel", PIXEL[case])
    key = "grid_level" if case in PIXEL else "grid_level_hwc"
    assert to_raster(grid_levels(values, GRID))[0].tolist() == expected[key]
    if "percent_level_hwc" in expected:
        assert to_raster(percent_levels(values))[0].tolist() == expected["percent_level_hwc"]


@every_percent
@pytest.mark.parametrize("mode", ["roar", "kar"])
@pytest.mark.parametrize("case", ["A1", "B1"])
def test_images_are_the_recorded_ones(case: str, mode: Mode, percent: int) -> None:
    values = TENTHS if case == "A1" else unit_importance(TENTHS, "pixel")
    fill = torch.tensor(INPUTS["fill_per_channel"], dtype=torch.float64)
    found = apply_levels(IMAGE, percent_levels(values), percent, mode=mode, fill=fill)
    expected = CASES[case]["expected"][f"{mode}_image_chw"][str(percent)]
    assert torch.equal(found[0], torch.tensor(expected, dtype=torch.float64))


def test_a_constant_map_selects_no_more_than_its_share() -> None:
    inputs, expected = CASES["A3"]["inputs"], CASES["A3"]["expected"]
    levels = percent_levels(torch.tensor(inputs["importance"]).view(1, 1, 4, 4))
    assert indices(selected(levels, inputs["percent"])) == expected["roar_removed"]
    assert indices(keep_mask(levels, inputs["percent"], "kar")) == expected["kar_kept"]


def test_counts_are_the_recorded_ones() -> None:
    for units, counts in CASES["A4"]["expected"].items():
        assert {str(p): n_selected(p, int(units)) for p in GRID} == counts


@pytest.mark.parametrize("case", CASES["R1"]["expected"], ids=lambda case: str(case["seed"]))
def test_the_random_ranking_is_the_recorded_one(case: dict[str, Any]) -> None:
    levels = random_levels(int(case["seed"]), [int(case["image_id"])], (1, 1, case["N"]))
    found = indices(selected(levels, case["percent"]))
    assert found == case["top_k_sorted"]
    assert len(found) == case["k"]


@settings(max_examples=25, deadline=None)
@given(
    units=st.integers(1, 3),
    height=st.integers(1, 6),
    width=st.integers(1, 6),
    values=st.data(),
)
def test_any_map_selects_exactly_its_share_at_every_percentage(
    units: int, height: int, width: int, values: st.DataObject
) -> None:
    n = units * height * width
    flat = values.draw(st.lists(st.sampled_from([-2.0, -0.0, 0.0, 0.5, 3.0]), min_size=n, max_size=n))
    maps = torch.tensor(flat).view(1, height, width, units).permute(0, 3, 1, 2)
    levels = percent_levels(maps)
    ranks = rank_by_hand(flat)
    expected = [sum(rank >= m * n // 100 for m in range(1, 101)) for rank in ranks]
    assert to_raster(levels)[0].tolist() == expected
    for percent in range(101):
        assert int(selected(levels, percent).sum()) == n_selected(percent, n)
    for grid in (GRID, (1,), (33, 34, 99)):
        assert torch.equal(percent_to_grid(levels, grid), grid_levels(maps, grid))
        for percent in grid:
            again = grid_to_percent(grid_levels(maps, grid), grid)
            assert torch.equal(selected(again, percent), selected(levels, percent))


@pytest.mark.parametrize("size", [(9, 11), (60, 61)])
def test_selection_and_sorting_find_the_same_units(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = (draw(4, 3, *size) * 2).round()
    maps[0], maps[1] = 0, draw(3, *size, seed=1)
    chosen = grid_levels(maps, GRID)
    monkeypatch.setattr(unit_ranks, "_FEW", 0)
    assert torch.equal(grid_levels(maps, GRID), chosen)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_every_dtype_is_ranked(dtype: torch.dtype) -> None:
    maps = (draw(2, 2, 5, 5) * 4).round()
    assert torch.equal(percent_levels(maps.to(dtype)), percent_levels(maps))
    assert torch.equal(grid_levels(maps.to(dtype), GRID), grid_levels(maps, GRID))


def test_removed_units_are_nested_and_what_one_mode_removes_the_other_keeps() -> None:
    levels = percent_levels(draw(2, 3, 7, 8))
    before = selected(levels, 0)
    assert not before.any()
    for percent in range(1, 101):
        now = selected(levels, percent)
        assert bool((before <= now).all())
        assert torch.equal(keep_mask(levels, percent, "roar"), ~keep_mask(levels, percent, "kar"))
        before = now
    assert before.all()


def test_nothing_removed_is_the_image_and_nothing_kept_is_the_fill() -> None:
    images, levels = torch.rand(2, 3, 6, 6), percent_levels(draw(2, 1, 6, 6))
    fill = torch.tensor([0.1, 0.2, 0.3])
    flat = fill.view(1, 3, 1, 1).expand_as(images)
    assert torch.equal(apply_levels(images, levels, 0, mode="roar", fill=fill), images)
    assert torch.equal(apply_levels(images, levels, 100, mode="kar", fill=fill), images)
    assert torch.equal(apply_levels(images, levels, 0, mode="kar", fill=fill), flat)
    assert torch.equal(apply_levels(images, levels, 100, mode="roar", fill=fill), flat)


def test_a_fill_may_be_an_image_and_pixels_go_with_all_their_channels() -> None:
    images, behind = torch.rand(2, 3, 6, 6), torch.rand(2, 3, 6, 6)
    levels = percent_levels(draw(2, 1, 6, 6))
    found = apply_levels(images, levels, 40, mode="roar", fill=behind)
    removed = selected(levels, 40).expand_as(images)
    assert torch.equal(found, torch.where(removed, behind, images))
    alone = apply_levels(images, levels, 40, mode="roar", fill=behind[0])
    assert torch.equal(alone[0], found[0])


def test_replaced_units_are_zero_after_normalization() -> None:
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    levels = percent_levels(draw(1, 3, 8, 8))
    found = apply_levels(torch.rand(1, 3, 8, 8), levels, 70, mode="roar", fill=mean)
    normalized = (found - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)
    assert not normalized[selected(levels, 70)].any()


def test_a_ranking_is_the_same_for_any_scale_and_offset() -> None:
    maps = draw(3, 3, 6, 6).double()
    assert torch.equal(percent_levels(3.5 * maps - 2), percent_levels(maps))


def test_levels_do_not_depend_on_the_batch_or_the_memory_budget() -> None:
    maps = (draw(5, 3, 6, 7) * 3).round()
    together = percent_levels(maps, ties="hash", ids=[9, 8, 7, 6, 5])
    for row in range(5):
        alone = percent_levels(maps[row : row + 1], ties="hash", ids=[9 - row])
        assert torch.equal(alone[0], together[row])
    with memory_budget("10kB"):
        assert torch.equal(percent_levels(maps, ties="hash", ids=[9, 8, 7, 6, 5]), together)


def test_hashed_ties_favor_no_corner_and_change_nothing_else() -> None:
    constant = torch.zeros(200, 1, 8, 8)
    chosen = selected(percent_levels(constant, ties="hash", ids=range(200)), 25)
    assert torch.equal(chosen.sum((1, 2, 3)), torch.full((200,), 16))
    assert float((chosen.double().mean(0) - 0.25).abs().max()) < 0.15
    random = random_levels(4, range(200), (1, 8, 8))
    assert torch.equal(percent_levels(constant, ties="hash", seed=4, ids=range(200)), random)
    distinct = draw(2, 2, 6, 6)
    assert torch.equal(percent_levels(distinct, ties="hash", ids=[0, 1]), percent_levels(distinct))


def test_ranking_leaves_the_maps_alone() -> None:
    maps = draw(2, 3, 5, 5)
    before = maps.clone()
    grid_levels(maps.requires_grad_(), GRID)
    percent_levels(maps, ties="hash", ids=[0, 1])
    assert torch.equal(maps, before)


def test_an_empty_batch_has_no_levels() -> None:
    assert percent_levels(torch.zeros(0, 3, 4, 5)).shape == (0, 3, 4, 5)
    assert grid_levels(torch.zeros(0, 3, 4, 5), GRID).shape == (0, 3, 4, 5)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_map_that_is_not_finite_is_named(value: float) -> None:
    maps = torch.zeros(4, 3, 5, 5)
    maps[2, 1, 0, 0] = value
    for rank in (percent_levels, lambda maps: grid_levels(maps, GRID)):
        with pytest.raises(ValueError, match="image row 2 holds NaN or infinity"):
            rank(maps)
    with pytest.raises(ValueError, match="image row 2"):
        unit_importance(maps, "pixel")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: n_selected(101, 10), "whole number from 0 to 100, got 101"),
        (lambda: n_selected(2.5, 10), "got 2.5"),  # type: ignore[arg-type]
        (lambda: grid_levels(torch.zeros(1, 1, 2, 2), [30, 10]), r"ascending order, got \[30, 10\]"),
        (lambda: grid_levels(torch.zeros(1, 1, 2, 2), [0, 10]), "from 1 to 99"),
        (lambda: percent_levels(torch.zeros(2, 4, 4)), r"\(N, C, H, W\) floating, got \(2, 4, 4\)"),
        (lambda: percent_levels(torch.zeros(2, 1, 4, 4).long()), "torch.int64"),
        (lambda: percent_levels(torch.zeros(2, 1, 4, 4), ties="hash"), "2 images, ids: none"),
        (lambda: percent_levels(torch.zeros(2, 1, 4, 4), ties="x"), "allowed: index, hash"),  # type: ignore[arg-type]
        (lambda: unit_importance(torch.zeros(2, 1, 4, 4), "image"), "allowed: element, pixel"),  # type: ignore[arg-type]
        (lambda: unit_importance(torch.zeros(2, 1, 4, 4), "pixel", "mean"), "allowed: sum, abs_sum, max_abs"),  # type: ignore[arg-type]
        (lambda: keep_mask(torch.zeros(1, 1, 2, 2), 10, "road"), "allowed: roar, kar"),  # type: ignore[arg-type]
        (
            lambda: apply_levels(
                torch.zeros(1, 3, 4, 4), torch.zeros(1, 2, 4, 4), 10, mode="roar", fill=torch.zeros(3)
            ),
            r"need \(1, 3, 4, 4\) or \(1, 1, 4, 4\)",
        ),
        (
            lambda: apply_levels(
                torch.zeros(1, 3, 4, 4), torch.zeros(1, 1, 4, 4), 10, mode="roar", fill=torch.zeros(2)
            ),
            r"fill has shape \(2,\)",
        ),
    ],
)
def test_misuse_is_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("ties", ["index", "hash"])
def test_a_gpu_ranks_as_the_cpu_does(ties: Any) -> None:
    maps = (draw(3, 3, 9, 11) * 3).round()
    options: dict[str, Any] = {"ties": ties, "ids": [1, 2, 3]}
    assert torch.equal(percent_levels(maps.cuda(), **options).cpu(), percent_levels(maps, **options))
    assert torch.equal(grid_levels(maps.cuda(), GRID, **options).cpu(), grid_levels(maps, GRID, **options))
    random = random_levels(1, [1, 2], (3, 9, 11), device="cuda")
    assert torch.equal(random.cpu(), random_levels(1, [1, 2], (3, 9, 11)))
