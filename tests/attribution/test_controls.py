from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute
from heatcheck.runtime.seeds import CounterGenerator

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]


def run(name: str, images: Tensor, **options: Any) -> Tensor:
    return attribute(name, nn.Identity(), images, torch.zeros(len(images), dtype=torch.int64), **options)


def test_sobel_gives_the_recorded_responses(golden: Golden) -> None:
    case = golden("roar", "E1_sobel")
    gray = torch.tensor(case["inputs"]["gray_hw"], dtype=torch.float64)[None, None]
    color = torch.tensor(case["inputs"]["rgb_hwc"], dtype=torch.float64).permute(2, 0, 1)[None]
    expected = {
        key: torch.tensor(value, dtype=torch.float64)
        for key, value in case["expected"].items()
        if isinstance(value, list)
    }
    for found, key in (
        (run("sobel", gray)[0, 0], "gray_magnitude"),
        (run("sobel", color)[0, 0], "rgb_luma_magnitude"),
        (run("sobel", color, channels="each")[0].permute(1, 2, 0), "rgb_per_channel_magnitude"),
        (run("sobel", color, channels="release")[0].permute(1, 2, 0), "rgb_release_axis0_3d"),
    ):
        torch.testing.assert_close(found, expected[key], atol=1e-9, rtol=0)


def test_sobel_equals_scipys_filter(make_images: MakeImages) -> None:
    image = make_images(1, channels=1, side=9).double()
    down, across = (ndimage.sobel(image[0, 0].numpy(), axis=axis, mode="reflect") for axis in (0, 1))
    np.testing.assert_allclose(run("sobel", image)[0, 0].numpy(), np.hypot(down, across), atol=1e-12)


def test_random_numbers_are_uniform_and_each_images_own(make_images: MakeImages) -> None:
    images = make_images(2, side=64)
    found = run("random", images)
    assert found.shape == (2, 1, 64, 64)
    assert run("random", images, per_channel=True).shape == (2, 3, 64, 64)
    assert float(found.min()) >= 0
    assert float(found.max()) < 1
    assert float(found.mean()) == pytest.approx(0.5, abs=0.02)
    assert not torch.equal(found[0], found[1])
    assert torch.equal(found, run("random", images))
    assert not torch.equal(
        found, run("random", images, generator=CounterGenerator.for_images(images, seed=1))
    )


@pytest.mark.parametrize("cell", [16, 5])
def test_random_blocks_are_constant_on_cells_and_differ_between_them(
    cell: int, make_images: MakeImages
) -> None:
    found = run("random-blocks", make_images(1, side=48), cell=cell)[0, 0]
    values = found[::cell, ::cell]
    assert len(set(values.flatten().tolist())) == values.numel()
    assert torch.equal(found, values.repeat_interleave(cell, 0).repeat_interleave(cell, 1)[:48, :48])


@pytest.mark.parametrize(("height", "width"), [(224, 224), (64, 64), (9, 14)])
def test_the_centre_gaussian_has_a_quarter_of_each_side_as_deviation(height: int, width: int) -> None:
    found = run("centre", torch.zeros(1, 3, height, width, dtype=torch.float64))[0, 0]
    torch.testing.assert_close(found, found.flip(0, 1))
    row, column = (torch.arange(side) + 0.5 - side / 2 for side in (height, width))
    expected = torch.exp(
        -(row[:, None] / (height / 4)).square() / 2 - (column / (width / 4)).square() / 2
    ).double()
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_the_constant_map_has_one_value(make_images: MakeImages) -> None:
    assert set(run("constant", make_images(2)).flatten().tolist()) == {1.0}
