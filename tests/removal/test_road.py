"""Noisy linear imputation against the recorded fills, and its two solvers against each other."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from heatcheck.removal.fills import get_fill
from heatcheck.removal.road import SOLVERS, Imputation, block_sum, impute_road
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.seeds import CounterGenerator

FILE = Path(__file__).parents[1] / "golden" / "roar.json"
CASES: list[dict[str, Any]] = next(
    case["expected"] for case in json.loads(FILE.read_text())["cases"] if case["id"].startswith("F1")
)
EXACT: dict[str, Any] = {"noise": 0.0, "tolerance": 1e-12}
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def smooth_and_scattered(n: int = 4, height: int = 18, width: int = 21) -> Tensor:
    """Keep masks ``(n, 1, height, width)``: two of blobs, the others of single pixels."""
    generator = torch.Generator().manual_seed(2)
    coarse = torch.rand(n, 1, 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bilinear") < 0.45
    scattered = torch.rand(n, 1, height, width, generator=generator) < 0.3
    return torch.where(torch.arange(n).view(-1, 1, 1, 1) < 2, smooth, scattered)


def colors(n: int = 4, height: int = 18, width: int = 21) -> Tensor:
    return torch.rand(n, 3, height, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@every_solver
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_fills_are_the_recorded_ones(case: dict[str, Any], solver: str) -> None:
    image = torch.tensor(case["image_chw"], dtype=torch.float64)[None]
    keep = torch.tensor(case["keep_mask_hw"], dtype=torch.float64)[None, None]
    found = get_fill("road", solver=solver, **EXACT)(image, keep)
    expected = torch.tensor(case["imputed_chw"], dtype=torch.float64)[None]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)


def test_an_imputed_pixel_is_the_weighted_mean_of_the_neighbors_it_has() -> None:
    images, keep = colors(), smooth_and_scattered()
    found = get_fill("road", **EXACT)(images, keep)
    everywhere = block_sum(torch.ones(1, 1, 18, 21, dtype=torch.float64)) - 4
    mean = (block_sum(found) - 4 * found) / everywhere
    torch.testing.assert_close(torch.where(keep, images, mean), found, rtol=0, atol=1e-9)


def test_a_block_counts_edges_twice_corners_and_the_border_has_no_neighbors_outside() -> None:
    point = torch.zeros(1, 1, 5, 5)
    point[..., 2, 2] = 1
    assert block_sum(point)[0, 0, 1:4, 1:4].tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
    assert block_sum(torch.ones(1, 1, 3, 3))[0, 0].tolist() == [[9, 12, 9], [12, 16, 12], [9, 12, 9]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_conjugate_gradients_find_what_the_factorization_finds(dtype: torch.dtype) -> None:
    images, keep = colors().to(dtype), smooth_and_scattered()
    direct = get_fill("road", noise=0.0, solver="direct")(images, keep)
    torch.testing.assert_close(get_fill("road", noise=0.0)(images, keep), direct, rtol=0, atol=2e-6)


@every_solver
def test_channels_removed_apart_are_imputed_apart(solver: str) -> None:
    images = colors()
    keep = torch.cat([smooth_and_scattered(), ~smooth_and_scattered(), smooth_and_scattered().flip(3)], dim=1)
    found = get_fill("road", solver=solver, **EXACT)(images, keep)
    for channel in range(3):
        own = slice(channel, channel + 1)
        alone = get_fill("road", solver=solver, **EXACT)(images[:, own], keep[:, own])
        torch.testing.assert_close(found[:, own], alone, rtol=0, atol=1e-9)


def test_a_result_depends_on_neither_the_batch_nor_the_memory_budget() -> None:
    images, keep = colors(), smooth_and_scattered()
    together = get_fill("road")(images, keep)
    with memory_budget("50kB"):
        torch.testing.assert_close(get_fill("road")(images, keep), together, rtol=0, atol=1e-6)
    for row in range(4):
        alone = get_fill("road")(images[row : row + 1], keep[row : row + 1])
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-6)


def test_noise_falls_on_removed_entries_only_and_is_normal() -> None:
    images = torch.full((2, 3, 40, 40), 0.5)
    keep = smooth_and_scattered(2, 40, 40)
    noise = get_fill("road", noise=0.1)(images, keep) - images
    removed = ~keep.expand_as(images)
    assert not noise[~removed].any()
    assert float(noise[removed].mean()) == pytest.approx(0, abs=0.005)
    assert float(noise[removed].std()) == pytest.approx(0.1, rel=0.05)
    assert abs(float(torch.corrcoef(noise.flatten(2)[0])[0, 1])) < 0.1


def test_noise_belongs_to_the_image_and_seed_whatever_is_removed() -> None:
    images = torch.full((2, 3, 18, 21), 0.5)
    generator, mean = CounterGenerator(3, (10, 11)), torch.full((1, 3, 1, 1), 0.5)
    few, many = smooth_and_scattered(2), smooth_and_scattered(2) & (torch.arange(21) > 9)
    first = impute_road(images, few, mean, generator)
    second = impute_road(images, many, mean, generator)
    both = ~few.expand_as(images)
    torch.testing.assert_close(first[both], second[both], rtol=0, atol=1e-6)
    alone = impute_road(images[1:], few[1:], mean, generator.take([1]))
    torch.testing.assert_close(alone[0], first[1], rtol=0, atol=1e-6)
    other = impute_road(images, few, mean, CounterGenerator(4, (10, 11)))
    assert not torch.allclose(other[both], first[both], atol=1e-3)


def test_where_nothing_is_kept_the_mean_color_stands() -> None:
    images, keep = colors(2), torch.zeros(2, 1, 18, 21, dtype=torch.bool)
    keep[1] = True
    found = get_fill("road", noise=0.0, fallback=(0.1, 0.2, 0.3))(images, keep)
    expected = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64).view(3, 1, 1).expand(3, 18, 21)
    torch.testing.assert_close(found[0], expected)
    assert torch.equal(found[1], images[1])
    by_channel = torch.ones(1, 3, 18, 21, dtype=torch.bool)
    by_channel[:, 1] = False
    found = get_fill("road", noise=0.0, fallback=0.7)(images[:1], by_channel)
    assert torch.equal(found[:, ::2], images[:1, ::2])
    torch.testing.assert_close(found[:, 1], torch.full((1, 18, 21), 0.7, dtype=torch.float64))


def test_normalized_images_are_filled_as_their_colors_are() -> None:
    images, keep = colors(), smooth_and_scattered()
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.1)
    shift, scale = (torch.tensor(part).view(1, 3, 1, 1).double() for part in (mean, std))
    generator, nothing = CounterGenerator(0, (1, 2, 3, 4)), torch.zeros(1, 3, 1, 1)
    plain = impute_road(images, keep, nothing, generator)
    how = Imputation(noise=tuple(0.01 / float(deviation) for deviation in std))
    normalized = impute_road((images - shift) / scale, keep, nothing, generator, how)
    torch.testing.assert_close(normalized * scale + shift, plain, rtol=0, atol=2e-6)
    noise = get_fill("road", noise=0.5, mean=mean, std=std)(
        torch.zeros(1, 3, 60, 60), torch.zeros(1, 1, 60, 60)
    )
    torch.testing.assert_close(noise.std((0, 2, 3)), 0.5 / torch.tensor(std), rtol=0.05, atol=0)


@every_solver
def test_nothing_of_the_callers_changes(solver: str) -> None:
    images, keep = colors(), smooth_and_scattered().double()
    copies, state = (images.clone(), keep.clone()), torch.get_rng_state()
    get_fill("road", solver=solver)(images, keep)
    assert torch.equal(images, copies[0])
    assert torch.equal(keep, copies[1])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "lu"}, "unknown solver 'lu' of fill 'road'; allowed: cg, direct"),
        ({"tolerance": 0.0}, "positive tolerance, got 0"),
        ({"noise": -0.1}, "noise of 0 or more, got -0.1"),
        ({"mean": (0.5,) * 3}, "give both or none"),
        ({"fallback": (0.5, 0.5)}, "2 channel values given"),
    ],
)
def test_misuse_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_fill("road", **options).substrate(torch.zeros(1, 3, 8, 8))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_imputes_as_the_cpu_does() -> None:
    images, keep = colors().float(), smooth_and_scattered()
    found = get_fill("road")(images.cuda(), keep.cuda())
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), get_fill("road")(images, keep), rtol=0, atol=1e-5)
