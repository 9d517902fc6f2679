from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from skimage.transform import resize
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.fills import uniform_fill
from heatcheck.attribution.passes import Query
from heatcheck.attribution.registry import attribute
from heatcheck.attribution.rise import enlarge_mask, rise_map, rise_mask
from heatcheck.attribution.windows import mirrored_weights
from heatcheck.runtime.seeds import CounterGenerator

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
Build = Callable[..., nn.Module]


def test_recorded_masks_give_the_recorded_map_of_every_class(golden: Golden, linear_model: Build) -> None:
    case = golden("deletion", "rise_saliency")
    inputs = case["inputs"]
    masks = torch.tensor(inputs["masks"], dtype=torch.float64)
    expected = torch.tensor(case["expected"]["saliency"], dtype=torch.float64)
    images = torch.tensor([inputs["image"]], dtype=torch.float64).expand(len(expected), -1, -1, -1)
    model = linear_model(inputs["weights"], inputs["bias"])
    query = Query(model, images, torch.arange(len(expected)), output="probability")
    found = rise_map(
        query, lambda number: masks[number].squeeze(), len(masks), images.new_zeros(()), inputs["p1"]
    )
    torch.testing.assert_close(found[:, 0], expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize("fill", ["zero", "uniform"])
def test_recorded_masks_give_the_recorded_map_of_a_relu_network(
    fill: str, golden: Golden, recorded_network: tuple[nn.Module, Tensor, Tensor]
) -> None:
    model, images, _ = recorded_network
    case = golden("idsds", "rise")
    masks = torch.tensor(case["masks"], dtype=torch.float64)[:, 0]
    noise = torch.tensor(golden("idsds", "mlp_single_deletion")["uniform_baseline"], dtype=torch.float64)
    under = noise if fill == "uniform" else torch.zeros_like(noise)
    query = Query(model, images[:1], torch.tensor([0]), output="probability")
    found = rise_map(query, lambda number: masks[number], 6, under, 0.1)
    expected = torch.tensor(case["expected"][fill]["saliency"], dtype=torch.float64)
    torch.testing.assert_close(found[0, 0], expected, atol=1e-6, rtol=0)


def test_recorded_draws_give_the_recorded_masks(golden: Golden) -> None:
    expected = torch.tensor(golden("idsds", "rise")["generated_masks"])
    draws = np.random.RandomState(0)
    grids = draws.rand(2, 4, 4) < 0.5
    for grid, mask in zip(grids, expected, strict=True):
        corner = (int(draws.randint(0, 4)), int(draws.randint(0, 4)))
        torch.testing.assert_close(
            enlarge_mask(torch.from_numpy(grid), (16, 16), corner), mask, atol=1e-6, rtol=0
        )


@pytest.mark.parametrize(("cells", "size"), [(8, 252), (4, 20), (3, 16), (1, 5), (2, 7), (7, 256)])
def test_resizing_is_that_of_scikit_image(cells: int, size: int) -> None:
    grid = np.random.default_rng(cells).random((cells, cells))
    expected = resize(grid, (size, size), order=1, mode="reflect", anti_aliasing=False)
    weights = mirrored_weights(cells, size).numpy()
    np.testing.assert_allclose(weights.T @ grid @ weights, expected, atol=1e-6)


@pytest.mark.parametrize("size", [(12, 12), (9, 14), (5, 5)])
def test_masks_lie_in_the_unit_interval_with_the_kept_share_as_mean(size: tuple[int, int]) -> None:
    masks = torch.stack([rise_mask(0, number, size, 4, 0.3) for number in range(800)])
    assert masks.shape == (800, *size)
    assert float(masks.min()) >= 0
    assert float(masks.max()) <= 1
    assert float(masks.mean()) == pytest.approx(0.3, abs=0.02)
    assert not torch.equal(masks[0], masks[1])


def test_all_images_see_the_masks_of_the_seed_and_no_other(make_images: MakeImages) -> None:
    class Sees(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Tensor] = []

        def forward(self, images: Tensor) -> Tensor:
            self.seen.append(images.clone())
            return images.mean(dim=(2, 3))

    def seen(seed: int, n: int) -> Tensor:
        model, images = Sees(), torch.ones(n, 3, 8, 8)
        generator = CounterGenerator.for_images(images, seed=seed)
        attribute(
            "rise",
            model,
            images,
            torch.zeros(n, dtype=torch.int64),
            generator=generator,
            n_masks=4,
            cells=3,
            keep=0.5,
        )
        return torch.cat(model.seen[1:]).view(4, n, 3, 8, 8)

    together = seen(0, 3)
    assert torch.equal(together[:, 0], together[:, 2])
    assert torch.equal(together[:, 0], seen(0, 1)[:, 0])
    assert not torch.equal(together[:, 0], seen(1, 1)[:, 0])


def test_the_map_points_at_the_only_pixels_that_count(linear_model: Build) -> None:
    weights = torch.zeros(2, 1, 16, 16)
    weights[1, 0, 4:8, 8:12] = 0.5
    model = linear_model(weights.flatten(1).tolist())
    image = torch.ones(1, 1, 16, 16, dtype=torch.float64)
    found = attribute("rise", model, image, torch.tensor([1]), n_masks=600, cells=4, keep=0.4)[0, 0]
    row, column = divmod(int(found.argmax()), 16)
    assert 4 <= row < 8
    assert 8 <= column < 12


def test_a_uniform_fill_is_one_noise_image_for_all(net: nn.Module, make_images: MakeImages) -> None:
    # With images that equal the noise, hiding changes nothing: the map is a multiple of the mean mask.
    images = uniform_fill(make_images(1), seed=0).expand(2, -1, -1, -1)
    assert float(images.abs().max()) <= 1
    found = attribute("rise-uniform", net, images, torch.tensor([0, 1]), n_masks=20, cells=3, keep=0.4)
    with torch.no_grad():
        scores = net(images).softmax(dim=1)[[0, 1], [0, 1]]
    torch.testing.assert_close(found[0] / scores[0], found[1] / scores[1], atol=1e-5, rtol=1e-5)
