from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.attribution.masks import (
    Padding,
    binarized,
    cells_of,
    crops,
    disc,
    eight_bit_blur,
    l1_term,
    over_image,
    tv_term,
    with_surround,
)

Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]


def test_recorded_penalties(golden: Golden) -> None:
    case = golden("deletion", "mp_tv_norm")
    mask = torch.tensor([[case["inputs"]["mask"]]], dtype=torch.float64)
    assert float(l1_term(mask)) == pytest.approx(case["expected"]["l1"], abs=1e-9)
    for beta in (2, 3):
        assert float(tv_term(mask, beta)) == pytest.approx(case["expected"][f"tv_beta{beta}"], abs=1e-9)


def test_recorded_discs(golden: Golden) -> None:
    case = golden("deletion", "mp_circular_mask")
    inputs, expected = case["inputs"], case["expected"]
    sharp = disc(tuple(inputs["shape"]), inputs["radius"], None)
    blurred = disc(tuple(inputs["shape"]), inputs["radius"], inputs["sigma"][1])
    assert sharp.int().tolist() == expected["disc"]
    assert blurred[8].tolist() == pytest.approx(expected["blurred_row_8"], abs=1e-7)
    assert float(blurred.sum()) == pytest.approx(expected["blurred_sum"], abs=1e-6)


def test_a_disc_need_not_be_in_a_square() -> None:
    found = disc((5, 9), 1, None)
    assert found.sum() == 5
    assert found[2, 4] == found[1, 4] == found[2, 5] == 1


def test_a_mask_that_keeps_everything_costs_nothing() -> None:
    ones = torch.ones(2, 1, 4, 4)
    assert l1_term(ones).tolist() == tv_term(ones, 3).tolist() == [0, 0]


@pytest.mark.parametrize("beta", [1.0, 2.0, 3.0])
def test_a_straight_edge_costs_its_length_times_its_height_to_the_beta(beta: float) -> None:
    mask = torch.ones(1, 1, 6, 6)
    mask[..., :3] = 0.5
    assert float(tv_term(mask, beta)) == pytest.approx(6 * 0.5**beta)
    assert float(l1_term(mask)) == 18 * 0.5


def test_recorded_thresholds_decide_what_is_kept(golden: Golden) -> None:
    for row in golden("deletion", "hole_rule")["expected"]["rows"]:
        mask = torch.tensor([[row["keep_mask"]]], dtype=torch.float64)
        expected = (mask > row["threshold"]) | (mask == 1)
        assert torch.equal(binarized(mask), expected.double())


def test_each_mask_has_its_own_threshold() -> None:
    masks = torch.tensor([[0.6, 0.7, 0.9], [0.0, 0.7, 0.9]]).view(2, 1, 1, 3)
    assert binarized(masks).flatten(1).tolist() == [[0, 0, 1], [0, 1, 1]]


def test_gradients_pass_a_binarized_mask_as_if_it_were_soft() -> None:
    mask = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    weights = torch.arange(50.0).view(2, 1, 5, 5)
    hard = binarized(mask)
    (gradient,) = torch.autograd.grad((hard * weights).sum(), mask)
    assert set(hard.flatten().tolist()) == {0.0, 1.0}
    assert torch.equal(gradient, weights)


@pytest.mark.parametrize(("padding", "jitter"), [("reflect", 4), ("replicate", 4), ("reflect", 3)])
def test_the_surround_is_that_of_padding(padding: Padding, jitter: int, make_images: MakeImages) -> None:
    images = make_images(2, side=9)[:, :, :7]
    before, after = jitter // 2, jitter - jitter // 2
    expected = F.pad(images, (before, after, before, after), mode=padding)
    assert torch.equal(with_surround(images, jitter, padding), expected)


@pytest.mark.parametrize("side", [1, 2, 3])
def test_images_smaller_than_the_surround_are_mirrored_again_and_again(side: int) -> None:
    row = torch.arange(float(side)).expand(1, 1, side, side)
    found = with_surround(row, 9, "reflect")[0, 0, 0].tolist()
    period = [*range(side), *range(side - 2, 0, -1)]
    assert found == [period[(place - 4) % len(period)] for place in range(side + 9)]


@pytest.mark.parametrize("jitter", [0, 1, 4, 5])
def test_the_middle_window_is_the_image(jitter: int, make_images: MakeImages) -> None:
    images = make_images(3, side=8)
    corners = torch.full((3, 2), jitter // 2)
    assert torch.equal(crops(with_surround(images, jitter, "reflect"), corners, (8, 8)), images)


def test_each_image_has_its_own_window(make_images: MakeImages) -> None:
    images = make_images(3, side=10)
    found = crops(images, torch.tensor([[0, 0], [1, 3], [2, 0]]), (8, 7))
    assert torch.equal(
        found, torch.stack([images[0, :, :8, :7], images[1, :, 1:9, 3:], images[2, :, 2:, :7]])
    )


@pytest.mark.parametrize("size", [(12, 12), (12, 20)])
def test_cells_and_pixels_agree(size: tuple[int, int]) -> None:
    masks = torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    large = over_image(masks, size)
    assert torch.equal(large, masks.repeat_interleave(size[0] // 4, 2).repeat_interleave(size[1] // 4, 3))
    torch.testing.assert_close(cells_of(large, 4), masks)


def test_a_blur_in_eight_bits_keeps_constants_and_gives_whole_steps() -> None:
    step = torch.zeros(2, 1, 6, 12)
    step[1, ..., 6:] = 1
    found = eight_bit_blur(step, 1.0)
    assert torch.equal(found[0], step[0])
    assert torch.equal((found * 255).round() / 255, found)
    assert bool((found[1].diff(dim=-1) >= 0).all())
    assert 0 < float(found[1, 0, 0, 5]) < 0.5
