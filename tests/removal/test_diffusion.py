"""Harmonic inpainting against the exact solution, and the solver's parts."""

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import spsolve
from torch import Tensor

from heatcheck.removal.diffusion import diffusion, windows_around
from heatcheck.removal.fills import get_fill
from heatcheck.removal.multigrid import Level, apply, build_levels, cycle
from heatcheck.runtime.memory import memory_budget


def exact(image: NDArray[np.float64], hole: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Harmonic fill of ``(C, H, W)`` by a direct solve: every hole pixel is the mean of its neighbors."""
    number = np.cumsum(hole.ravel()).reshape(hole.shape) - 1
    matrix = sparse.lil_matrix((hole.sum(), hole.sum()))
    right = np.zeros((hole.sum(), len(image)))
    for y, x in zip(*np.nonzero(hole), strict=True):
        for down, across in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            near = (y + down, x + across)
            if not (0 <= near[0] < hole.shape[0] and 0 <= near[1] < hole.shape[1]):
                continue
            matrix[number[y, x], number[y, x]] += 1
            if hole[near]:
                matrix[number[y, x], number[near]] -= 1
            else:
                right[number[y, x]] += image[:, near[0], near[1]]
    filled = image.copy()
    filled[:, hole] = spsolve(matrix.tocsc(), right).reshape(len(right), len(image)).T
    return filled


def block(height: int, width: int, rows: slice, columns: slice) -> Tensor:
    mask = torch.ones(1, 1, height, width, dtype=torch.bool)
    mask[..., rows, columns] = False
    return mask


def scattered(height: int, width: int, share: float) -> Tensor:
    mask = torch.rand(1, 1, height, width, generator=torch.Generator().manual_seed(5)) < share
    mask[..., height // 2, 0] = True
    return mask


KEPT = {
    "a patch": block(20, 24, slice(4, 15), slice(7, 20)),
    "a corner": block(20, 24, slice(0, 15), slice(0, 20)),
    "a strip across": block(17, 9, slice(3, 14), slice(0, 9)),
    "all but one pixel": ~block(13, 12, slice(5, 6), slice(4, 5)),
    "few pixels known": scattered(21, 19, 0.05),
    "half the pixels known": scattered(16, 16, 0.5),
    "one row": scattered(1, 23, 0.3),
    "one column": scattered(23, 1, 0.3),
    "odd and even": scattered(2, 33, 0.2),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_the_fill_is_the_exact_harmonic_one(kept: Tensor, dtype: torch.dtype) -> None:
    image = torch.randn(1, 3, *kept.shape[2:], dtype=dtype, generator=torch.Generator().manual_seed(0))
    expected = exact(image[0].double().numpy(), ~kept[0, 0].numpy())
    found = diffusion(image, kept.to(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found[0].double().numpy(), expected, rtol=0, atol=1e-6)
    assert torch.equal(torch.where(kept, found, 0), torch.where(kept, image, 0))


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_a_plane_is_continued_between_known_borders(offset: float) -> None:
    y, x = torch.meshgrid(torch.arange(15.0), torch.arange(18.0), indexing="ij")
    plane = (2 * x - 3 * y + offset).double()[None, None]
    found = diffusion(plane, block(15, 18, slice(1, 14), slice(1, 17)).double())
    torch.testing.assert_close(found, plane, rtol=0, atol=1e-6 * max(1, offset))


def test_a_tolerance_buys_exactness() -> None:
    image = torch.randn(1, 1, 24, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    kept = KEPT["few pixels known"][..., :19, :19].double()
    image = image[..., :19, :19]
    expected = torch.from_numpy(exact(image[0].numpy(), kept[0, 0].numpy() == 0))
    errors = [
        float((diffusion(image, kept, tolerance=tolerance)[0] - expected).abs().max())
        for tolerance in (0.3, 1e-4, 1e-12)
    ]
    assert errors[0] > 1e-3
    assert errors[1] < 1e-3
    assert errors[2] < 1e-11


def test_holes_of_any_place_and_size_share_a_batch() -> None:
    images = torch.randn(6, 2, 20, 24, generator=torch.Generator().manual_seed(0))
    kept = torch.cat(
        [
            KEPT["a patch"],
            KEPT["a corner"],
            torch.ones(1, 1, 20, 24, dtype=torch.bool),
            torch.zeros(1, 1, 20, 24, dtype=torch.bool),
            block(20, 24, slice(19, 20), slice(23, 24)),
            scattered(20, 24, 0.3),
        ]
    )
    together = diffusion(images, kept.float())
    for row in (0, 1, 4, 5):
        expected = exact(images[row].double().numpy(), ~kept[row, 0].numpy())
        np.testing.assert_allclose(together[row].double().numpy(), expected, rtol=0, atol=1e-6)
    assert torch.equal(together[2], images[2])
    assert not together[3].any()
    with memory_budget("50kB", chunk=2):
        torch.testing.assert_close(diffusion(images, kept.float()), together, rtol=0, atol=1e-6)


def test_windows_hold_the_hole_and_its_border_and_no_more() -> None:
    holes = torch.zeros(3, 1, 20, 30, dtype=torch.bool)
    holes[0, 0, 5:9, 10:12] = True
    holes[1, 0, 19, 0] = True
    holes[2, 0, 0:3, 28:] = True
    windows = windows_around(holes)
    assert windows.rows[:, [0, -1]].tolist() == [[4, 9], [14, 19], [0, 5]]
    assert windows.columns[:, [0, -1]].tolist() == [[9, 12], [0, 3], [26, 29]]
    values = torch.arange(3 * 2 * 600.0).view(3, 2, 20, 30)
    cut = windows.cut(values)
    assert torch.equal(cut[1], values[1, :, 14:20, 0:4])
    assert torch.equal(windows.paste(values, cut), values)
    assert torch.equal(windows.paste(values, -cut)[0, :, 4:10, 9:13], -values[0, :, 4:10, 9:13])


def test_coarse_equations_add_up_the_fine_ones() -> None:
    holes = ~scattered(9, 7, 0.3)
    fine, coarse = build_levels(holes)[:2]
    weights = torch.linspace(1, 2, 20, dtype=torch.float64).view(1, 1, 5, 4)
    spread = weights.repeat_interleave(2, 2).repeat_interleave(2, 3)[..., :9, :7]
    energy = float((spread * apply(fine, spread)).sum())
    assert float((weights * apply(coarse, weights)).sum()) == pytest.approx(0.6 * energy)


def test_a_cycle_is_symmetric_and_positive() -> None:
    holes = ~scattered(6, 5, 0.2)
    levels: list[Level] = build_levels(holes)
    inside = holes[0, 0].nonzero()
    units = torch.zeros(len(inside), 1, 6, 5, dtype=torch.float64)
    for row, (y, x) in enumerate(inside.tolist()):
        units[row, 0, y, x] = 1
    answers = torch.cat([cycle(levels, unit[None]) for unit in units])
    matrix = (answers.flatten(1) @ units.flatten(1).T).numpy()
    np.testing.assert_allclose(matrix, matrix.T, rtol=0, atol=1e-14)
    assert np.linalg.eigvalsh(matrix).min() > 0


def test_steps_hardly_grow_with_the_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {}
    for side in (16, 64):
        image = torch.randn(1, 1, side, side, generator=torch.Generator().manual_seed(0))
        kept = block(side, side, slice(1, side - 1), slice(1, side - 1)).float()
        for most in itertools.count(1):
            monkeypatch.setattr("heatcheck.removal.diffusion._MOST_STEPS", most)
            try:
                diffusion(image, kept)
            except RuntimeError:
                continue
            steps[side] = most
            break
    # Plain conjugate gradients need four times as many.
    assert steps[64] < 2 * steps[16] < 50


def test_what_is_out_of_reach_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    image = torch.randn(1, 1, 20, 24, generator=torch.Generator().manual_seed(0))
    kept = KEPT["a patch"].float()
    monkeypatch.setattr("heatcheck.removal.diffusion._MOST_STEPS", 2)
    with pytest.raises(RuntimeError, match="not settled after 2 steps; give a larger tolerance"):
        diffusion(image, kept)
    with pytest.raises(ValueError, match="positive tolerance, got 0"):
        diffusion(image, kept, tolerance=0)


def test_an_image_with_nan_is_refused_and_does_not_hang() -> None:
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    kept = block(8, 8, slice(2, 5), slice(2, 5)).expand(2, 1, 8, 8)
    images[0, 0, 1, 3] = torch.nan
    with pytest.raises(ValueError, match="fill 'diffusion' returned NaN"):
        get_fill("diffusion")(images, kept)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["diffusion", "pushpull", "superpixel-mean", "biharmonic", "telea", "ns"])
def test_a_gpu_fills_as_the_cpu_does(name: str) -> None:
    images = torch.rand(3, 3, 20, 24, generator=torch.Generator().manual_seed(0))
    kept = torch.cat([KEPT["a patch"], KEPT["a corner"], scattered(20, 24, 0.3)])
    found = get_fill(name)(images.cuda(), kept.cuda())
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), get_fill(name)(images, kept), rtol=0, atol=1e-5)
