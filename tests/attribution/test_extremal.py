import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.extremal import area_targets, blur_pyramid, perturbed
from heatcheck.attribution.registry import attribute, get_method
from heatcheck.attribution.smooth_max import make_grid, smooth_max, smooth_max_gradient

load_catalog()
MakeImages = Callable[..., Tensor]
Build = Callable[..., nn.Module]
DOUBLE = torch.zeros(0, dtype=torch.float64)
FAST: dict[str, Any] = {"n_iterations": 6, "learning_rate": 1.0, "area_weight": 1.0, "blur_radius": 100.0}


def random_nodes(shape: tuple[int, int], n: int = 2) -> Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_a_pixel_is_the_softmax_average_of_the_nodes_around_it() -> None:
    # One row of five pixels with nodes at 0, 2 and 4; three are near either way, mirrored beyond the ends.
    grid = make_grid((1, 5), 2, 3.0, 4.0, DOUBLE)
    nodes = random_nodes(grid.shape, 1)
    found = smooth_max(nodes, grid).masks[0, 0]
    mirrored = [0, 1, 2, 1]
    for nearest in range(3):
        terms = []
        for down in range(-3, 4):
            for node in range(nearest - 3, nearest + 4):
                distance = 2 * math.hypot(down, node - nearest)
                kernel = math.exp(-2 * max(distance / 3 - 0.5, 0) ** 2)
                terms.append(kernel * float(nodes[0, 0, mirrored[node % 4]]))
        weights = [math.exp(4 * term) for term in terms]
        average = sum(term * weight for term, weight in zip(terms, weights, strict=True)) / sum(weights)
        assert float(found[2 * nearest]) == pytest.approx(average)


@pytest.mark.parametrize(("size", "step", "reach"), [((13, 9), 2, 3.0), ((6, 6), 1, 0.4), ((4, 11), 7, 21.0)])
def test_the_closed_gradient_is_that_of_automatic_differentiation(
    size: tuple[int, int], step: int, reach: float
) -> None:
    grid = make_grid(size, step, reach, 20.0, DOUBLE)
    nodes = random_nodes(grid.shape).requires_grad_(True)
    weights = torch.randn(2, *size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = smooth_max(nodes, grid)
    (expected,) = torch.autograd.grad((found.masks * weights).sum(), nodes)
    by_hand = smooth_max_gradient(nodes.detach(), smooth_max(nodes.detach(), grid), weights, grid)
    torch.testing.assert_close(by_hand, expected)


def test_a_mask_is_between_zero_and_its_largest_node() -> None:
    grid = make_grid((20, 20), 3, 9.0, 20.0, DOUBLE)
    masks = smooth_max(random_nodes(grid.shape) * 0.8, grid).masks
    assert 0 <= float(masks.min()) <= float(masks.max()) <= 0.8
    assert torch.equal(
        smooth_max(torch.zeros(1, *grid.shape).double(), grid).masks, torch.zeros(1, 20, 20).double()
    )


@pytest.mark.parametrize("size", [(14, 14), (15, 10)])
def test_mirrored_nodes_make_the_mirrored_mask(size: tuple[int, int]) -> None:
    grid = make_grid(size, 3, 6.0, 20.0, DOUBLE)
    nodes = random_nodes(grid.shape)
    for dims in ((1,), (2,)):
        torch.testing.assert_close(
            smooth_max(nodes.flip(dims), grid).masks, smooth_max(nodes, grid).masks.flip(dims)
        )


def test_the_levels_of_the_pyramid_are_reached_exactly(make_images: MakeImages) -> None:
    images = make_images(2).double()
    levels = blur_pyramid(images, 4, 3.0)
    assert torch.equal(levels[-1], images)
    for level in range(4):
        masks = torch.full((2, 1, 12, 12), level / 3, dtype=torch.float64)
        torch.testing.assert_close(perturbed(levels, masks), levels[level])
    halfway = perturbed(levels, torch.full((2, 1, 12, 12), 0.5, dtype=torch.float64))
    torch.testing.assert_close(halfway, (levels[1] + levels[2]) / 2)


def test_each_level_is_sharper_than_the_one_before(make_images: MakeImages) -> None:
    spread = blur_pyramid(make_images(1, side=32), 5, 8.0).flatten(1).std(dim=1)
    assert bool((spread.diff() > 0).all())


def test_the_slope_of_a_pixel_is_the_difference_of_its_two_levels(make_images: MakeImages) -> None:
    levels = blur_pyramid(make_images(1, channels=1).double(), 3, 3.0)
    masks = torch.full((1, 1, 12, 12), 0.8, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(perturbed(levels, masks).sum(), masks)
    torch.testing.assert_close(slope, 2 * (levels[2] - levels[1]))


@pytest.mark.parametrize("area", [0.1, 0.25, 0.5])
def test_well_separated_values_get_ones_on_the_area_and_zeros_elsewhere(area: float) -> None:
    values = torch.randperm(40, generator=torch.Generator().manual_seed(0)).double()[None] / 40
    expected = values >= values.sort(dim=1).values[:, round(40 * (1 - area))]
    torch.testing.assert_close(area_targets(values, [area]), expected.double())


def test_a_mask_without_a_preference_is_asked_for_its_area_everywhere() -> None:
    flat = torch.full((2, 50), 0.7)
    torch.testing.assert_close(area_targets(flat, [0.1, 0.3]), torch.tensor([[0.1], [0.3]]).expand(2, 50))


def test_equal_values_share_the_ones_that_are_left_for_them() -> None:
    values = torch.tensor([[0.9, 0.2, 0.2, 0.2, 0.2, 0.0]])
    found = area_targets(values, [0.5])
    torch.testing.assert_close(found, torch.tensor([[1, 0.5, 0.5, 0.5, 0.5, 0]]))


def test_rounding_does_not_decide_between_equal_values() -> None:
    values = torch.rand(3, 500, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 0.01
    noise = 1e-8 * torch.randn(3, 500, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    areas = [0.05, 0.1, 0.2]
    torch.testing.assert_close(
        area_targets(values + noise, areas), area_targets(values, areas), atol=1e-3, rtol=0
    )


def test_the_mask_finds_planted_evidence_and_has_its_area(linear_model: Build) -> None:
    # A checkerboard vanishes under the blur; only the one within the square counts for the class.
    side, inside = 32, (slice(6, 16), slice(16, 26))
    board = (torch.arange(side)[:, None] + torch.arange(side)) % 2 - 0.5
    weights = torch.zeros(side, side)
    weights[inside] = board[inside]
    model = linear_model([weights.flatten().tolist()])
    options: dict[str, Any] = {"n_iterations": 150, "learning_rate": 0.05, "areas": (100 / side**2,)}
    found = attribute(
        *("extremal-perturbation", model, board[None, None].double(), torch.tensor([0])),
        smooth=0.0,
        **options,
    )[0, 0]
    outside = found.sum() - found[inside].sum()
    assert float(found[inside].mean()) > 0.8
    assert float(outside / (side**2 - 100)) < 0.1
    assert float(found.mean()) == pytest.approx(100 / side**2, abs=0.05)


def test_several_areas_are_searched_alone_and_added(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    both, first, second = (
        attribute("extremal-perturbation", net, images, targets, areas=areas, smooth=0.0, **FAST)
        for areas in ((0.1, 0.4), (0.1,), (0.4,))
    )
    torch.testing.assert_close(both, first + second, atol=1e-5, rtol=0)
    assert not torch.allclose(first, second, atol=1e-3)


def test_every_other_iteration_sees_the_image_mirrored(make_images: MakeImages) -> None:
    seen: list[Tensor] = []

    class Witness(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(images.detach().clone())
            return images.mean(dim=(2, 3))

    images = make_images(1)
    attribute("extremal-perturbation", Witness(), images, torch.tensor([0]), areas=(0.1,), n_iterations=4)
    for step, found in enumerate(seen[-4:]):
        expected = images.flip(3) if step % 2 == 0 else images
        torch.testing.assert_close(found, expected, atol=0.1, rtol=0)


def test_no_iterations_keep_the_whole_image(net: nn.Module, make_images: MakeImages) -> None:
    found = attribute(
        "extremal-perturbation",
        net,
        make_images(2, side=32),
        torch.tensor([0, 1]),
        n_iterations=0,
        areas=(0.1,),
    )
    assert float(found.min()) > 0.9
    assert float(found.max()) <= 1 + 1e-6


def test_the_defaults_are_the_published_settings() -> None:
    defaults = get_method("extremal-perturbation").options().model_dump()
    published = {
        **{"areas": (0.025, 0.05, 0.1, 0.2), "n_iterations": 800, "learning_rate": 0.01, "step": 7.0},
        **{"area_weight": 300.0, "growth": 1.0035, "reach": 21.0, "coldness": 20.0, "n_levels": 8},
        **{"blur_radius": 20.0, "smooth": 0.09, "output": "logit"},
    }
    assert defaults == published


@pytest.mark.parametrize("areas", [(), (0.0,), (1.0,), (0.2, -0.1)])
def test_areas_that_are_no_shares_are_refused(areas: Any, net: nn.Module, make_images: MakeImages) -> None:
    with pytest.raises(ValueError, match="areas"):
        attribute("extremal-perturbation", net, make_images(1), torch.tensor([0]), areas=areas)
