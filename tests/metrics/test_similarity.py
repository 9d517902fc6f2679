"""Similarity of two heatmaps: recorded answers, the libraries' own, and properties."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from skimage.metrics import structural_similarity
from torch import Tensor

from heatcheck.metrics.similarity import (
    average_ranks,
    compare_heatmaps,
    hog_pearson,
    hog_vectors,
    pearson,
    rescale_heatmaps,
    spearman,
    ssim,
)
from heatcheck.runtime.memory import memory_budget

Draw = Callable[..., Tensor]
FILE = Path(__file__).parents[1] / "golden" / "deletion.json"
CASES: dict[str, Any] = {case["id"]: case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]}


def recorded_maps() -> dict[str, Tensor]:
    y, x = torch.meshgrid(*[torch.arange(48, dtype=torch.float64)] * 2, indexing="ij")
    first = torch.sin(x / 7) + torch.cos(y / 5) + 0.3 * torch.sin(x * y / 90)
    second = torch.sin((x + 2) / 7) + torch.cos(y / 5) + 0.3 * torch.cos(x * y / 80)
    return {"A": first[None], "B": second[None], "negA": -first[None]}


@pytest.mark.parametrize("pair", ["A_A", "A_B", "A_negA"])
def test_recorded_similarities(pair: str) -> None:
    case, maps = CASES["similarity_48"], recorded_maps()
    expected, tolerance = case["expected"][pair], case["tolerance"]
    first, second = (maps[name] for name in pair.split("_"))
    found = compare_heatmaps(first, second, size=None)
    masks = compare_heatmaps(first, second, signed=False, size=None)
    assert float(found.ssim) == pytest.approx(expected["ssim_range2"], abs=tolerance)
    assert float(masks.ssim) == pytest.approx(expected["ssim_range1"], abs=tolerance)
    assert float(found.spearman) == pytest.approx(expected["spearman"], abs=tolerance)
    assert float(found.hog) == pytest.approx(expected["hog_pearson"], abs=tolerance)
    assert hog_vectors(first).shape == (1, case["expected"]["hog_length"])


def test_recorded_ties() -> None:
    case = CASES["spearman_ties"]
    first, second = (torch.tensor([case["inputs"][name]]) for name in "ab")
    assert float(spearman(first, second)) == pytest.approx(case["expected"]["spearman"], abs=1e-9)


@pytest.mark.parametrize("data_range", [1.0, 2.0])
@pytest.mark.parametrize("size", [(5, 5), (7, 13)])
def test_ssim_is_scikit_images(draw: Draw, size: tuple[int, int], data_range: float) -> None:
    first, second = draw(3, *size), draw(3, *size, seed=1)
    expected = [
        structural_similarity(a.double().numpy(), b.double().numpy(), win_size=5, data_range=data_range)
        for a, b in zip(first, second, strict=True)
    ]
    assert ssim(first, second, data_range=data_range).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_ranks_and_their_correlation_are_scipys(draw: Draw, levels: int) -> None:
    first, second = ((draw(4, 6, 7, seed=seed).double() * levels).round() for seed in (0, 1))
    flat = first.flatten(1).numpy(), second.flatten(1).numpy()
    assert torch.equal(average_ranks(first.flatten(1)), torch.from_numpy(stats.rankdata(flat[0], axis=1)))
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(*flat, strict=True)]
    assert spearman(first, second).tolist() == pytest.approx(expected, abs=1e-12)
    expected = [stats.pearsonr(a, b).statistic for a, b in zip(*flat, strict=True)]
    assert pearson(*(torch.from_numpy(rows) for rows in flat)).tolist() == pytest.approx(expected, abs=1e-12)


def test_ranks_of_zeros_do_not_depend_on_their_sign() -> None:
    assert average_ranks(torch.tensor([[0.0, -0.0, 1.0, -1.0]])).tolist() == [[2.5, 2.5, 4, 1]]


def test_a_map_is_itself_and_order_and_scale_do_not_matter(draw: Draw) -> None:
    first, second = draw(2, 60, 70), draw(2, 60, 70, seed=1)
    same = compare_heatmaps(first, 7 * first, size=(56, 48))
    for values in same[:3]:
        torch.testing.assert_close(values, torch.ones(2, dtype=torch.float64))
    forth, back = compare_heatmaps(first, 3 * second, size=None), compare_heatmaps(second, first, size=None)
    for one, other in zip(forth[:3], back[:3], strict=True):
        torch.testing.assert_close(one, other)
    monotone = spearman(first, first.exp())
    torch.testing.assert_close(monotone, torch.ones(2, dtype=torch.float64))


def test_maps_are_brought_to_one_resolution(draw: Draw) -> None:
    coarse, fine = draw(2, 7, 7), draw(2, 50, 60)
    found = compare_heatmaps(coarse, fine, size=(48, 64))
    resized = torch.nn.functional.interpolate(coarse[:, None].double(), (48, 64), mode="bilinear")[:, 0]
    torch.testing.assert_close(found.ssim, compare_heatmaps(resized, fine, size=(48, 64)).ssim)
    with pytest.raises(ValueError, match="resize_heatmaps brings them to one"):
        compare_heatmaps(coarse, fine, size=None)


def test_rescaling_keeps_signs_and_leaves_zeros_alone() -> None:
    maps = torch.tensor([[[-4.0, 2.0]], [[0.0, 0.0]], [[1.0, 8.0]]])
    assert rescale_heatmaps(maps).tolist() == [[[-1.0, 0.5]], [[0.0, 0.0]], [[0.125, 1.0]]]


def test_maps_without_contrast_or_with_holes_are_undefined_and_flagged(draw: Draw) -> None:
    first, second = draw(5, 48, 48), draw(5, 48, 48, seed=1)
    alone = compare_heatmaps(first[4:], second[4:], size=None)
    first[0], second[1] = 0, 0.3
    first[2, 5, 5], second[3, 0, 0] = torch.nan, torch.inf
    found = compare_heatmaps(first, second, size=None)
    assert found.flags.tolist() == ["constant", "constant", "nonfinite", "nonfinite", "ok"]
    for values, expected in zip(found[:3], alone[:3], strict=True):
        assert values[:4].isnan().all()
        torch.testing.assert_close(values[4:], expected)


def test_the_parts_too_are_undefined_without_contrast(draw: Draw) -> None:
    flat, varied = torch.full((1, 48, 48), 0.1), draw(1, 48, 48)
    assert spearman(flat, varied).isnan().all()
    assert hog_pearson(varied, flat).isnan().all()
    holed = varied.clone()
    holed[0, 3, 4] = torch.nan
    assert spearman(varied, holed).isnan().all()
    # A plane has the same gradient everywhere, but its border has none.
    plane = torch.arange(48.0).expand(1, 48, 48)
    assert float(hog_pearson(plane, 5 * plane)) == pytest.approx(1)


def test_hog_is_blind_to_signs_and_ranks_are_not(draw: Draw) -> None:
    maps = draw(1, 48, 48)
    found = compare_heatmaps(maps, -maps, size=None)
    assert float(found.hog) == pytest.approx(1)
    assert float(found.spearman) == pytest.approx(-1)


def test_pairs_do_not_depend_on_their_batch_or_chunk(draw: Draw) -> None:
    first, second = draw(5, 48, 48), draw(5, 48, 48, seed=1)
    together = compare_heatmaps(first, second, size=None)
    with memory_budget("1MB", chunk=2):
        chunked = compare_heatmaps(first, second, size=None)
    for row in range(5):
        alone = compare_heatmaps(first[row : row + 1], second[row : row + 1], size=None)
        for values, parts, single in zip(together[:3], chunked[:3], alone[:3], strict=True):
            assert float(values[row]) == pytest.approx(float(single), abs=1e-12)
            assert float(values[row]) == pytest.approx(float(parts[row]), abs=1e-12)


def test_no_pairs_give_no_values_and_inputs_stay_as_they_are(draw: Draw) -> None:
    none = compare_heatmaps(torch.zeros(0, 48, 48), torch.zeros(0, 48, 48), size=None)
    assert [len(part) for part in none] == [0, 0, 0, 0]
    first, second = draw(2, 48, 48).requires_grad_(), draw(2, 48, 48, seed=1)
    copies = first.detach().clone(), second.clone()
    assert not compare_heatmaps(first, second, size=None).ssim.requires_grad
    assert torch.equal(first.detach(), copies[0])
    assert torch.equal(second, copies[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_heatmaps(torch.zeros(1, 3, 48, 48), torch.zeros(1, 48, 48)), "pool the channels"),
        (lambda: compare_heatmaps(torch.rand(1, 48, 48), torch.rand(2, 48, 48)), "same shape"),
        (lambda: compare_heatmaps(torch.rand(1, 40, 48), torch.rand(1, 40, 48), size=None), "sides of 48"),
        (lambda: ssim(torch.rand(1, 4, 9), torch.rand(1, 4, 9), data_range=2), "sides of 5"),
        (lambda: ssim(torch.rand(1, 9, 9), torch.rand(1, 9, 9), data_range=0), "data_range must be positive"),
        (lambda: spearman(torch.rand(1, 9), torch.rand(1, 8)), "the same shape"),
        (lambda: pearson(torch.rand(3), torch.rand(3)), "the same shape"),
    ],
)
def test_misuse_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_compares_as_the_cpu_does(draw: Draw) -> None:
    first, second = (draw(4, 48, 48, seed=seed).mul(3).round() for seed in (0, 1))
    expected = compare_heatmaps(first, second, size=None)
    found = compare_heatmaps(first.cuda(), second.cuda(), size=None)
    for values, reference in zip(found[:3], expected[:3], strict=True):
        assert values.device.type == "cuda"
        torch.testing.assert_close(values.cpu(), reference, rtol=0, atol=1e-9)


def test_ranks_are_those_of_a_large_map() -> None:
    maps = np.random.default_rng(0).integers(0, 50, (1, 4000)).astype(float)
    assert torch.equal(average_ranks(torch.from_numpy(maps)), torch.from_numpy(stats.rankdata(maps, axis=1)))
