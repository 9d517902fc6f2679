"""Patch sums and single-deletion scores: closed forms and invariances."""

import math
from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor

from heatcheck.metrics.patches import (
    TRANSFORMS,
    aggregate,
    linear_scores,
    patch_side,
    patch_sums,
    positive_drop_scores,
    rescale_to_unit,
    single_deletion_scores,
    spearman,
)

Draw = Callable[..., Tensor]


def test_patches_are_numbered_row_by_row() -> None:
    maps = torch.zeros(1, 1, 6, 6)
    maps[0, 0, 2, 5] = 3.0
    assert patch_sums(maps, 3).tolist() == [[0, 0, 0, 0, 0, 3, 0, 0, 0]]


def test_channels_are_added_before_signs_are_dropped(draw: Draw) -> None:
    map_ = draw(1, 1, 4, 4)
    opposed = torch.cat([map_, -map_], 1)
    for transform in TRANSFORMS:
        assert patch_sums(opposed, 2, transform).abs().max() == 0  # type: ignore[arg-type]


def test_positive_and_negative_parts_make_up_the_raw_and_absolute_sums(draw: Draw) -> None:
    maps = draw(3, 2, 8, 8)
    positive, negative = patch_sums(maps, 4, "relu"), patch_sums(-maps, 4, "relu")
    torch.testing.assert_close(positive - negative, patch_sums(maps, 4))
    torch.testing.assert_close(positive + negative, patch_sums(maps, 4, "abs"))


def test_sums_are_those_of_double_precision(draw: Draw) -> None:
    maps = draw(2, 3, 8, 8) * 1e4
    torch.testing.assert_close(patch_sums(maps, 2), patch_sums(maps.double(), 2), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("maps", "grid", "transform", "message"),
    [
        (torch.zeros(1, 1, 8, 8), 3, "raw", "allowed counts per side: 2, 4, 8"),
        (torch.zeros(1, 1, 8, 6), 2, "raw", "square"),
        (torch.zeros(1, 8, 8), 2, "raw", r"\(N, C, H, W\)"),
        (torch.zeros(1, 1, 8, 8, dtype=torch.int64), 2, "raw", "floating"),
        (torch.zeros(1, 1, 8, 8), 2, "square", "raw, abs, relu"),
    ],
)
def test_maps_that_have_no_such_patches_are_refused(
    maps: Tensor, grid: int, transform: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        patch_sums(maps, grid, transform)  # type: ignore[arg-type]


def test_a_patch_of_224_pixels_in_four_has_56() -> None:
    assert patch_side((224, 224), 4) == 56


@pytest.mark.parametrize("length", [2, 5, 16, 80])
@pytest.mark.parametrize("levels", [3, 1000])
def test_rank_correlations_are_scipys(length: int, levels: int, draw: Draw) -> None:
    tables = [(draw(40, length, seed=seed) * levels).round() / levels for seed in (0, 1)]
    found = spearman(*tables)
    for row, value in enumerate(found.tolist()):
        pair = [table[row].double().numpy() for table in tables]
        if any((side == side[0]).all() for side in pair):
            assert math.isnan(value)
        else:
            assert value == pytest.approx(stats.spearmanr(*pair).statistic, abs=1e-12)


def test_infinities_are_ranked_as_extremes_and_nan_has_no_rank() -> None:
    first = torch.tensor([[-torch.inf, 0.0, torch.inf], [torch.nan, 0.0, 1.0]])
    second = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    assert float(spearman(first, second)[0]) == pytest.approx(1)
    scores = single_deletion_scores(first, second)
    assert scores.flags.tolist() == ["ok", "nonfinite"]
    assert torch.isnan(scores.values[1])


def test_a_score_is_that_of_any_increasing_function_of_the_sums(draw: Draw) -> None:
    sums, drops = draw(20, 16), draw(20, 16, seed=1)
    expected = single_deletion_scores(sums, drops).values
    for changed in (sums + 7, 3 * sums, sums.exp(), sums**3):
        torch.testing.assert_close(single_deletion_scores(changed, drops).values, expected)
    torch.testing.assert_close(single_deletion_scores(-sums, drops).values, -expected)


def test_the_true_drops_score_one(draw: Draw) -> None:
    drops = draw(4, 16)
    assert single_deletion_scores(drops, drops).values.tolist() == pytest.approx([1] * 4)


def test_a_constant_side_has_no_score() -> None:
    line = torch.arange(4.0)[None]
    for pair in ((torch.ones(1, 4), line), (line, torch.ones(1, 4))):
        scores = single_deletion_scores(*pair)
        assert scores.flags.tolist() == ["constant"]
        assert torch.isnan(scores.values).all()


def test_scores_over_positive_drops_ignore_the_other_patches(draw: Draw) -> None:
    sums, drops = (draw(30, 9, seed=seed).round(decimals=1) for seed in (0, 1))
    found = positive_drop_scores(sums, drops)
    for row in range(30):
        kept = drops[row] > 0
        if not kept.any():
            assert math.isnan(float(found.values[row]))
            continue
        alone = single_deletion_scores(sums[row][kept][None], drops[row][kept][None])
        torch.testing.assert_close(found.values[row : row + 1], alone.values, equal_nan=True)


def test_fewer_than_two_positive_drops_have_no_score() -> None:
    scores = positive_drop_scores(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, -1.0, -2.0]]))
    assert scores.flags.tolist() == ["constant"]
    assert torch.isnan(scores.values).all()


def test_tables_of_other_shapes_are_refused() -> None:
    for function in (spearman, single_deletion_scores, positive_drop_scores, linear_scores):
        with pytest.raises(ValueError, match=r"\(2, 4\) and \(2, 5\)"):
            function(torch.zeros(2, 4), torch.zeros(2, 5))


def test_a_mean_counts_what_it_leaves_out() -> None:
    values = torch.tensor([1.0, torch.nan, 0.0, 0.5])
    found = aggregate(values)
    assert (found.mean, found.n, found.n_excluded) == (0.5, 3, 1)
    assert found.standard_error == pytest.approx(0.5 / 3**0.5)
    part = aggregate(values, torch.tensor([True, True, False, False]))
    assert (part.mean, part.n, part.n_excluded) == (1.0, 1, 1)
    nothing = aggregate(torch.full((2,), torch.nan))
    assert math.isnan(nothing.mean)
    assert (nothing.n, nothing.n_excluded) == (0, 2)


def test_correlations_fill_the_unit_interval() -> None:
    assert rescale_to_unit(torch.tensor([-1.0, 0.0, 1.0])).tolist() == [0, 0.5, 1]


def test_linear_scores_are_linear_correlations(draw: Draw) -> None:
    sums, drops = draw(4, 16), draw(4, 16)
    expected = [stats.pearsonr(*pair).statistic for pair in zip(sums.numpy(), drops.numpy(), strict=True)]
    assert linear_scores(sums, drops).values.tolist() == pytest.approx(expected, abs=1e-6)
    assert linear_scores(3 * drops + 2, drops).values.tolist() == pytest.approx([1.0] * 4)


def test_maps_without_a_linear_correlation_are_flagged() -> None:
    sums = torch.tensor([[1.0, 2.0, 4.0], [1.0, 1.0, 1.0], [1.0, math.inf, 2.0], [1.0, math.nan, 2.0]])
    found = linear_scores(sums, torch.tensor([[1.0, 2.0, 4.0]]).expand(4, 3))
    assert list(found.flags) == ["ok", "constant", "nonfinite", "nonfinite"]
    assert torch.isnan(found.values).tolist() == [False, True, True, True]
