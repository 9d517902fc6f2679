"""KernelSHAP over the cells of a grid, against Shapley's own formula."""

from collections.abc import Callable
from itertools import combinations
from math import factorial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.kernel_shap import coalitions, grid_labels, shapley_values
from heatcheck.attribution.registry import attribute
from heatcheck.metrics.patches import patch_sums

load_catalog()
MakeImages = Callable[..., Tensor]


def game(kept: tuple[int, ...]) -> float:
    """A game of four players in which some work together and one hinders another."""
    alone = sum((1.0, -2.0, 0.5, 3.0)[player] for player in kept)
    return alone + 4.0 * ({0, 1} <= set(kept)) - 1.5 * ({1, 2, 3} <= set(kept))


def shapley(n_players: int) -> list[float]:
    """Shapley's formula: the mean over orders of what a player adds."""
    values = []
    for player in range(n_players):
        others = [other for other in range(n_players) if other != player]
        total = 0.0
        for size in range(n_players):
            share = factorial(size) * factorial(n_players - size - 1) / factorial(n_players)
            total += share * sum(game((*kept, player)) - game(kept) for kept in combinations(others, size))
        values.append(total)
    return values


def test_all_coalitions_give_the_exact_shapley_values() -> None:
    drawn = coalitions(4, 14, seed=0)
    assert len(drawn.bits) == 14
    kept = [tuple(row.nonzero().flatten().tolist()) for row in drawn.bits]
    scores = torch.tensor([[game(()), game((0, 1, 2, 3)), *map(game, kept)]], dtype=torch.float64)
    expected = torch.tensor([shapley(4)], dtype=torch.float64)
    torch.testing.assert_close(shapley_values(drawn, scores), expected)


def test_coalitions_come_in_complementary_pairs_and_none_is_full_or_empty() -> None:
    drawn = coalitions(16, 100, seed=3).bits
    first, second = drawn.chunk(2)
    assert torch.equal(first, ~second)
    assert bool(drawn.any(dim=1).all())
    assert not bool(drawn.all(dim=1).any())
    assert not torch.equal(drawn, coalitions(16, 100, seed=4).bits)


def test_small_and_large_coalitions_are_the_most_frequent() -> None:
    sizes = coalitions(16, 4000, seed=0).bits.sum(dim=1)
    counts = torch.bincount(sizes, minlength=17)[1:16].double()
    chances = torch.tensor([1 / (size * (16 - size)) for size in range(1, 16)], dtype=torch.float64)
    expected = chances / chances.sum() * 4000
    assert float(((counts - expected) ** 2 / expected).sum()) < 80  # chi-squared, in pairs, 7 free


def test_of_a_linear_model_every_sample_gives_the_exact_values(
    linear_model: Callable[..., nn.Module], make_images: MakeImages
) -> None:
    weights = make_images(2, side=8, seed=5).flatten(1)
    images, targets = make_images(3, side=8).double(), torch.tensor([0, 1, 1])
    maps = attribute("kernel-shap", linear_model(weights.tolist()), images, targets, n_coalitions=64)
    expected = patch_sums(images * weights.double().view(2, 3, 8, 8)[targets], 4)
    torch.testing.assert_close(patch_sums(maps, 4), expected)


def test_the_map_adds_up_to_the_fall_of_the_score_when_all_is_deleted(
    net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(2), torch.tensor([0, 4])
    maps = attribute("kernel-shap", net, images, targets, n_coalitions=60)
    with torch.no_grad():
        fall = (net(images) - net(torch.zeros_like(images))).gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(maps.sum(dim=(1, 2, 3)), fall, rtol=1e-4, atol=1e-6)


def test_every_pixel_of_a_cell_has_the_same_value(net: nn.Module, make_images: MakeImages) -> None:
    maps = attribute("kernel-shap", net, make_images(1), torch.tensor([0]), grid=3, n_coalitions=40)
    cells = maps[0, 0].view(3, 4, 3, 4).transpose(1, 2).flatten(2)
    assert bool((cells == cells[..., :1]).all())


def test_cells_of_an_image_that_does_not_divide_differ_by_a_pixel() -> None:
    labels = grid_labels((7, 9), 3)
    counts = torch.bincount(labels.flatten()).view(3, 3)
    assert counts.tolist() == [[9, 9, 9], [6, 6, 6], [6, 6, 6]]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"n_coalitions": 6}, "6 coalitions do not tell 16 cells apart; raise n_coalitions"),
        ({"grid": 13}, "grid of 13 x 13 cells is finer than images of 12 x 12 pixels"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    options: dict[str, Any], part: str, net: nn.Module, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        attribute("kernel-shap", net, make_images(1), torch.tensor([0]), **options)


@pytest.mark.parametrize("fill", ["zero", 0.5, "blur"])
def test_cells_are_filled_with_what_is_asked_for(fill: Any, net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    maps = attribute("kernel-shap", net, images, targets, grid=2, n_coalitions=14, fill=fill)
    assert bool(maps.isfinite().all())
    other = attribute("kernel-shap", net, images, targets, grid=2, n_coalitions=14, fill=1.0)
    assert not torch.allclose(maps, other)
