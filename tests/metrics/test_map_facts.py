"""Facts about heatmaps that need no model: closed forms, and what must not matter."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from heatcheck.metrics.map_facts import centrality, concentration, roughness

Fact = Callable[[Tensor], Tensor]
FACTS = (roughness, concentration, centrality)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def single_pixel(size: int) -> Tensor:
    maps = torch.zeros(1, size, size, dtype=torch.float64)
    maps[0, size // 2, size // 2] = 3
    return maps


def checkerboard(size: int) -> Tensor:
    places = torch.arange(size)
    return ((places[:, None] + places) % 2).double()[None]


@pytest.mark.parametrize("size", [4, 6, 10])
def test_a_checkerboard_is_as_rough_as_a_map_of_two_values_can_be(size: int) -> None:
    # All neighbors differ by 1, and so do (P / 2)² of the P (P - 1) / 2 pairs.
    pixels = size * size
    assert roughness(checkerboard(size)).item() == pytest.approx(2 * (pixels - 1) / pixels, abs=1e-12)


def test_roughness_of_one_pixel_is_that_of_its_four_edges() -> None:
    # 4 of 2 * 7 * 6 neighboring pairs differ, and 48 of 49 * 48 / 2 pairs of any pixels.
    assert roughness(single_pixel(7)).item() == pytest.approx((4 / 84) / (48 / (49 * 24)), abs=1e-12)


def test_roughness_of_a_ramp_is_a_ratio_of_sums() -> None:
    ramp = torch.arange(5.0).double()[None, None]
    # Neighbors differ by 1; the ten pairs of 0..4 differ by 4 x 1, 3 x 2, 2 x 3, 1 x 4.
    assert roughness(ramp).item() == pytest.approx(1 / (20 / 10), abs=1e-12)


def test_pixels_in_random_order_have_roughness_one_whatever_their_values() -> None:
    values = noise(60_000) ** 5
    assert roughness(values.view(1, 240, 250)).item() == pytest.approx(1, abs=0.02)


def test_roughness_equals_its_definition_over_all_pairs() -> None:
    maps = noise(2, 5, 4)
    for heatmap, found in zip(maps.numpy(), roughness(maps), strict=True):
        flat = heatmap.ravel()
        pairs = np.abs(flat[:, None] - flat)[np.triu_indices(20, 1)].mean()
        steps = [*np.abs(np.diff(heatmap, axis=0)).ravel(), *np.abs(np.diff(heatmap, axis=1)).ravel()]
        assert found.item() == pytest.approx(np.mean(steps) / pairs, abs=1e-12)


def test_smoothing_makes_a_map_smoother() -> None:
    rough = noise(3, 32, 32)
    smooth = torch.nn.functional.avg_pool2d(rough[:, None], 5, stride=1, padding=2)[:, 0]
    assert (roughness(smooth) < 0.6 * roughness(rough)).all()


@pytest.mark.parametrize(
    ("values", "gini"),
    [
        ([1, 1, 1, 1], 0),
        ([0, 0, 0, 5], 3 / 4),
        ([0, 0, 2, -2], 1 / 2),
        ([1, 2, 3, 4], 1 / 4),
        ([0, 1], 1 / 2),
    ],
)
def test_concentration_is_the_gini_index_of_sizes(values: list[float], gini: float) -> None:
    maps = torch.tensor(values, dtype=torch.float32)[None, None]
    assert concentration(maps).item() == pytest.approx(gini, abs=1e-12)


def test_concentration_equals_the_mean_difference_form() -> None:
    maps = noise(1, 6, 7)
    sizes = maps.abs().flatten().numpy()
    expected = np.abs(sizes[:, None] - sizes).mean() / (2 * sizes.mean())
    assert concentration(maps).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (7, 9), (5, 4), (1, 3), (2, 2)])
def test_a_map_without_preference_has_a_quarter_in_the_central_quarter(height: int, width: int) -> None:
    assert centrality(torch.full((1, height, width), -2.0)).item() == pytest.approx(0.25, abs=1e-12)


def test_centrality_counts_what_lies_in_the_middle() -> None:
    maps = torch.zeros(3, 8, 8)
    maps[0, 2:6, 2:6] = -1
    maps[1, 0, 0] = 1
    maps[2, 3, 3], maps[2, 0, 3] = 3, 1
    torch.testing.assert_close(centrality(maps), torch.tensor([1, 0, 0.75], dtype=torch.float64))


def test_a_pixel_on_the_border_of_the_quarter_counts_by_its_area() -> None:
    maps = torch.zeros(1, 6, 6)
    maps[0, 1, 3] = 1  # rows 1 to 2 of the quarter from 1.5 to 4.5
    assert centrality(maps).item() == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("fact", FACTS)
def test_scale_and_sign_do_not_matter(fact: Fact) -> None:
    maps = noise(3, 9, 8)
    for factor in (1e-30, -4.0, 1e200):
        torch.testing.assert_close(fact(factor * maps), fact(maps), rtol=1e-12, atol=1e-12)


def test_shift_does_not_matter_for_roughness_and_does_for_the_others() -> None:
    maps = noise(3, 9, 8)
    torch.testing.assert_close(roughness(maps + 100), roughness(maps), rtol=1e-10, atol=1e-10)
    assert (concentration(maps + 100) < concentration(maps) / 2).all()
    assert not torch.allclose(centrality(maps + 100), centrality(maps), atol=1e-3)


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_maps_that_show_nothing_have_no_fact_and_leave_the_others_alone(fact: Fact, value: float) -> None:
    maps = noise(3, 6, 6)
    spoiled = maps.clone()
    spoiled[1] = 0
    spoiled[1, 2, 3] = value
    found, expected = fact(spoiled), fact(maps)
    assert found[1].isnan()
    assert found[[0, 2]].tolist() == expected[[0, 2]].tolist()


def test_a_constant_map_has_no_roughness() -> None:
    assert roughness(torch.full((2, 4, 4), 7.0)).isnan().all()


@pytest.mark.parametrize("fact", FACTS)
def test_facts_are_of_one_map_and_leave_it_as_it_was(fact: Fact) -> None:
    maps = noise(4, 7, 7).float().requires_grad_()
    before = maps.detach().clone()
    together = fact(maps)
    assert together.dtype == torch.float64
    assert together.tolist() == [fact(maps[row : row + 1]).item() for row in range(4)]
    assert torch.equal(maps.detach(), before)
    assert fact(maps[:0]).shape == (0,)
    assert fact(maps.bfloat16()).isfinite().all()


@pytest.mark.parametrize("fact", FACTS)
def test_channels_must_be_pooled_first(fact: Fact) -> None:
    with pytest.raises(ValueError, match=r"\(N, H, W\)"):
        fact(noise(2, 3, 4, 4))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("fact", FACTS)
def test_devices_agree(fact: Fact) -> None:
    maps = noise(3, 9, 8)
    assert fact(maps.cuda()).cpu().tolist() == fact(maps).tolist()
