import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank, top_candidates
from heatcheck.runtime.memory import memory_budget

Draw = Callable[..., Tensor]


def reversed_stable_rank(heatmap: np.ndarray, mask: np.ndarray) -> float:
    order = np.argsort(heatmap.ravel(), kind="stable")[::-1]
    count = int(mask.sum())
    return float(mask.ravel()[order[:count]].sum() / count)


@pytest.fixture
def batch(draw: Draw) -> tuple[Tensor, Tensor]:
    masks = draw(20, 6, 7, seed=1) > torch.linspace(-2, 1.5, 20)[:, None, None]
    masks[:, 2, 3] = True
    return draw(20, 6, 7).abs(), masks


def test_mass_is_the_share_of_the_sum_inside(batch: tuple[Tensor, Tensor]) -> None:
    heatmaps, masks = batch
    expected = (heatmaps.double() * masks).sum((1, 2)) / heatmaps.double().sum((1, 2))
    torch.testing.assert_close(relevance_mass(heatmaps, masks).values, expected)


@pytest.mark.parametrize("levels", [None, 1, 2, 5])
def test_rank_equals_a_reversed_stable_sort(batch: tuple[Tensor, Tensor], levels: int | None) -> None:
    heatmaps, masks = batch
    if levels:
        heatmaps = (heatmaps * levels).round() / levels
    found = relevance_rank(heatmaps, masks)
    for row in range(len(heatmaps)):
        assert float(found.values[row]) == pytest.approx(
            reversed_stable_rank(heatmaps[row].numpy(), masks[row].numpy())
        )
    assert (found.lowest <= found.expected + 1e-12).all()
    assert (found.expected <= found.highest + 1e-12).all()
    assert ((found.lowest <= found.values) & (found.values <= found.highest)).all()


def test_the_tie_interval_covers_all_orders_and_its_mean_is_expected() -> None:
    heatmap = torch.tensor([[[3.0, 1.0, 1.0], [1.0, 1.0, 0.0]]])
    mask = torch.tensor([[[True, True, False], [True, False, False]]])
    tied = [1, 2, 3, 4]
    scores = [
        (1 + sum(bool(mask.flatten()[pixel]) for pixel in taken)) / 3
        for taken in itertools.combinations(tied, 2)
    ]
    found = relevance_rank(heatmap, mask)
    assert [float(found.lowest), float(found.highest)] == pytest.approx([min(scores), max(scores)])
    assert float(found.expected) == pytest.approx(np.mean(scores))
    assert float(found.values) == pytest.approx((1 + 1) / 3)


def test_the_mask_itself_scores_one_and_its_complement_zero(batch: tuple[Tensor, Tensor]) -> None:
    masks = batch[1].clone()
    masks[:, 0, 0] = False
    for heatmaps, expected in ((masks.double(), 1.0), ((~masks).double(), 0.0)):
        assert set(relevance_mass(heatmaps, masks).values.tolist()) == {expected}
    assert set(relevance_rank(masks.double(), masks).values.tolist()) == {1.0}


@pytest.mark.parametrize("factor", [1e-30, 0.5, 3.0, 1e30])
def test_positive_scaling_changes_neither_score(batch: tuple[Tensor, Tensor], factor: float) -> None:
    heatmaps, masks = batch[0].double(), batch[1]
    torch.testing.assert_close(
        relevance_mass(factor * heatmaps, masks).values, relevance_mass(heatmaps, masks).values
    )
    torch.testing.assert_close(
        relevance_rank(factor * heatmaps, masks).values, relevance_rank(heatmaps, masks).values
    )


def test_a_sum_that_overflows_still_has_a_mass(batch: tuple[Tensor, Tensor]) -> None:
    heatmaps, masks = batch[0].double(), batch[1]
    huge = heatmaps / heatmaps.amax((1, 2), keepdim=True) * 1.5e308
    torch.testing.assert_close(relevance_mass(huge, masks).values, relevance_mass(heatmaps, masks).values)


def test_mass_is_additive_over_disjoint_masks(batch: tuple[Tensor, Tensor]) -> None:
    heatmaps, masks = batch
    masks[:, 0, 0] = False
    together = relevance_mass(heatmaps, masks).values + relevance_mass(heatmaps, ~masks).values
    torch.testing.assert_close(together, torch.ones_like(together))


def test_monotone_maps_of_the_relevance_keep_the_rank(batch: tuple[Tensor, Tensor]) -> None:
    heatmaps, masks = batch
    torch.testing.assert_close(
        relevance_rank(heatmaps.double() ** 3, masks).values, relevance_rank(heatmaps.double(), masks).values
    )


@pytest.mark.parametrize("levels", [0.5, 3, 1e6])
@pytest.mark.parametrize("size", [1, 31, 400, 5000])
def test_candidates_hold_every_value_up_to_the_kth_largest(draw: Draw, size: int, levels: float) -> None:
    values = (draw(size) * levels).round().double().numpy()
    for k in {1, max(1, size // 30), max(1, size // 2), size}:
        found = top_candidates(values, k)
        level = np.sort(values)[-k]
        assert set(np.flatnonzero(values >= level)) <= set(found)
        assert (np.diff(found) > 0).all()


def test_candidates_are_few_when_few_are_wanted(draw: Draw) -> None:
    assert len(top_candidates(draw(16384).double().numpy(), 300)) < 1500


@pytest.mark.parametrize("order", ["rising", "falling", "periodic"])
def test_rank_of_a_large_map_equals_a_reversed_stable_sort_however_it_is_laid_out(
    draw: Draw, order: str
) -> None:
    values = draw(64 * 64).abs().sort(descending=order == "falling").values
    if order == "periodic":  # every sampled pixel is larger than all others
        values = values.view(16, 256).T.flip(1).flatten()
    masks = draw(4, 64, 64, seed=1) > torch.tensor([0.0, 1, 2, 3]).view(4, 1, 1)
    found = relevance_rank(values.view(1, 64, 64).expand(4, 64, 64), masks)
    for row in range(4):
        expected = reversed_stable_rank(values.numpy(), masks[row].numpy())
        assert float(found.values[row]) == pytest.approx(expected)


def test_chunks_do_not_change_scores(batch: tuple[Tensor, Tensor]) -> None:
    heatmaps, masks = batch[0].round(), batch[1]
    mass, rank = relevance_mass(heatmaps, masks), relevance_rank(heatmaps, masks)
    with memory_budget("1kB", chunk=3):
        np.testing.assert_array_equal(relevance_mass(heatmaps, masks).values, mass.values)
        np.testing.assert_array_equal(relevance_rank(heatmaps, masks).values, rank.values)


def test_signed_maps_and_misfit_masks_are_refused(batch: tuple[Tensor, Tensor]) -> None:
    heatmaps, masks = batch
    for metric in (relevance_mass, relevance_rank):
        with pytest.raises(ValueError, match=r"heatmaps \[1\] hold negative values; pool"):
            metric(torch.cat([heatmaps[:1], heatmaps[1:2] - 5, heatmaps[2:]]), masks)
        with pytest.raises(ValueError, match="masks must be bool"):
            metric(heatmaps, masks.double())
        with pytest.raises(ValueError, match="masks must be bool"):
            metric(heatmaps, masks[:3])


def test_no_maps_give_no_scores() -> None:
    empty = torch.zeros(0, 4, 4)
    assert relevance_mass(empty, empty.bool()).values.shape == (0,)
    assert relevance_rank(empty, empty.bool()).values.shape == (0,)
