import math
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.mask_search import (
    Objective,
    Scene,
    circular_start,
    composites,
    mask_draws,
    mask_losses,
    resampled,
    search_masks,
)
from heatcheck.attribution.masks import cells_of, disc, over_image
from heatcheck.attribution.meaningful import mask_maps
from heatcheck.attribution.passes import Query
from heatcheck.attribution.registry import attribute, get_method
from heatcheck.removal.registry import FILLS, Fill
from heatcheck.runtime.seeds import CounterGenerator

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
Build = Callable[..., nn.Module]
MP = "meaningful-perturbation"


def recorded_scene(golden: Golden, linear_model: Build) -> tuple[Scene, Tensor]:
    case = golden("deletion", "mp_adam_steps")
    inputs, classes = case["inputs"], torch.tensor([[case["expected"]["explained_class"]]])
    image, null = (torch.tensor([inputs[key]], dtype=torch.float64) for key in ("image", "null_image"))
    model = linear_model(inputs["weights"], inputs["bias"])
    query = Query(model, image, classes[0], output="probability")
    return Scene(query, classes, null, (8, 8)), torch.tensor([[inputs["mask_init"]]], dtype=torch.float64)


@pytest.mark.parametrize(("case_name", "binary"), [("mp_adam_steps", False), ("mp_g_binarised_steps", True)])
def test_recorded_steps(case_name: str, binary: bool, golden: Golden, linear_model: Build) -> None:
    scene, start = recorded_scene(golden, linear_model)
    expected = golden("deletion", case_name)["expected"]
    objective, corners = Objective(binary=binary), torch.zeros(10, 1, 2, dtype=torch.int64)

    leaf = start.clone().requires_grad_(True)
    total = mask_losses(scene, leaf, corners[0], objective).total(objective).sum()
    (gradient,) = torch.autograd.grad(total, leaf)
    masks = list(search_masks(scene, start, corners, objective, 0.1))
    with torch.no_grad():
        parts = [mask_losses(scene, mask, corners[0], objective) for mask in masks[:-1]]
    losses = [[float(value) for value in (p.total(objective), *p)] for p in parts]

    def close(found: Tensor, key: str) -> None:
        torch.testing.assert_close(found[0, 0], torch.tensor(expected[key]).double(), atol=1e-6, rtol=0)

    close(gradient, "first_gradient")
    for step in (1, 2, 10):
        if f"mask_after_{step}" in expected:
            close(masks[step], f"mask_after_{step}")
    np.testing.assert_allclose(losses, expected["loss_prob_l1_tv"], atol=1e-6)
    if "heatmap_after_10" in expected:
        close(mask_maps(masks[10], (4, 4), "bilinear"), "heatmap_after_10")


@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_without_roughness_each_cell_of_a_linear_model_goes_to_the_better_end(
    l1: float, linear_model: Build, make_images: MakeImages
) -> None:
    images = make_images(3, channels=1, side=8).double()
    weights = make_images(1, channels=1, side=8, seed=5).double().flatten(1)
    model, targets = linear_model(weights.tolist()), torch.zeros(3, dtype=torch.int64)
    options: dict[str, Any] = {"output": "logit", "n_iterations": 40, "mask_size": 4, "jitter": 0}
    found = attribute(MP, model, images, targets, l1=l1, tv=0.0, fill="zero", upsample="nearest", **options)
    # Removing a cell gains what it holds and costs l1.
    gain = 4 * cells_of(images * weights.view(1, 1, 8, 8), 4)
    assert torch.equal(over_image((gain > l1).double(), (8, 8)), found)


def test_roughness_joins_what_small_gains_would_tear_apart(linear_model: Build) -> None:
    weights = torch.full((8, 8), 0.01, dtype=torch.float64)
    weights[::2] = -0.005
    model, image = linear_model([weights.flatten().tolist()]), torch.ones(1, 1, 8, 8, dtype=torch.float64)

    def spread(tv: float) -> float:
        options: dict[str, Any] = {"output": "logit", "mask_size": 8, "l1": 0.0, "jitter": 0, "fill": 0.0}
        return float(attribute(MP, model, image, torch.tensor([0]), tv=tv, **options).std())

    assert spread(10.0) < 0.1 < spread(0.0)


@pytest.mark.parametrize("init", ["random", "ones", "circular"])
def test_no_iterations_give_one_minus_the_initial_mask(
    init: str, net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    generator = CounterGenerator(3, (11, 12))
    options: dict[str, Any] = {"n_iterations": 0, "mask_size": 4, "upsample": "nearest", "init": init}
    found = attribute(MP, net, images, targets, generator=generator, **options)
    start = 1 - found[:, :, ::3, ::3]
    assert torch.equal(found, over_image(1 - start, (12, 12)))
    if init == "ones":
        assert float(found.abs().max()) == 0
    elif init == "random":
        torch.testing.assert_close(start, mask_draws(generator, 4, 0, 4)[0])
    else:
        assert bool((start[..., 1:3, 1:3] <= start[..., :1, :1]).all())


def test_an_image_has_one_stream_for_its_mask_and_then_its_shifts() -> None:
    generator = CounterGenerator(5, (7, 8))
    masks, corners = mask_draws(generator, 3, 20, 4)
    for row in range(2):
        numbers = generator.numpy(row)
        assert np.array_equal(masks[row, 0].numpy(), numbers.random((3, 3), dtype=np.float32))
        assert corners[:, row].tolist() == [numbers.integers(4, size=2).tolist() for _ in range(20)]
    assert set(corners.flatten().tolist()) == {0, 1, 2, 3}
    assert torch.equal(mask_draws(generator, 3, 6, 4)[1], corners[:6])


def test_fewer_iterations_are_the_beginning_of_more(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    scene = Scene(Query(net, images, targets, output="probability"), targets[:, None], images * 0, (12, 12))
    start, _ = mask_draws(CounterGenerator.for_images(images), 4, 0, 0)
    corners = torch.zeros(6, 2, 2, dtype=torch.int64)
    third = next(islice(search_masks(scene, start, corners, Objective(), 0.1), 3, None))
    found = attribute(
        MP, net, images, targets, n_iterations=3, mask_size=4, jitter=0, fill="zero", upsample="nearest"
    )
    torch.testing.assert_close(found, over_image(1 - third, (12, 12)))


def test_images_searched_together_go_the_way_they_go_alone(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    options: dict[str, Any] = {"n_iterations": 60, "mask_size": 6}
    together = attribute(MP, net.double(), images.double(), targets, **options)
    for row in range(3):
        alone = attribute(MP, net, images[row : row + 1].double(), targets[row : row + 1], **options)
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-9, rtol=0)


def test_the_default_mask_is_an_eighth_of_the_image(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(1, side=24), torch.tensor([0])
    default, named = (attribute(MP, net, images, targets, n_iterations=2, mask_size=m) for m in (None, 3))
    assert torch.equal(default, named)


def test_penalties_per_area_are_those_of_a_mask_of_28_cells(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    options: dict[str, Any] = {"n_iterations": 5, "mask_size": 7}
    scaled = attribute(MP, net, images, targets, reg_scale="per_area", **options)
    by_hand = attribute(MP, net, images, targets, l1=16e-4, tv=4e-2, **options)
    torch.testing.assert_close(scaled, by_hand)
    assert not torch.equal(scaled, attribute(MP, net, images, targets, **options))


def test_the_top_classes_are_explained_by_their_sum(linear_model: Build, make_images: MakeImages) -> None:
    image = make_images(1, channels=1, side=8).double()
    weights = make_images(3, channels=1, side=8, seed=6).double().flatten(1)
    weights = weights[(weights @ image.flatten()).argsort()]
    options: dict[str, Any] = {"output": "logit", "n_iterations": 6, "mask_size": 4}
    found = attribute("mp-fong", linear_model(weights.tolist()), image, torch.tensor([0]), n_top=2, **options)
    merged = linear_model([(weights[1] + weights[2]).tolist()])
    expected = attribute(MP, merged, image, torch.tensor([0]), l1=1e-3, beta=2.0, mask_blur=5.0, **options)
    torch.testing.assert_close(found, expected)


def test_explaining_all_classes_at_once_is_refused(net: nn.Module, make_images: MakeImages) -> None:
    with pytest.raises(ValueError, match=r"n_top 5 leaves out none of the model's 5 classes; use 1 to 4"):
        attribute("mp-fong", net, make_images(1), torch.tensor([0]), mask_size=4)


def test_a_mask_finer_than_the_image_is_refused(net: nn.Module, make_images: MakeImages) -> None:
    with pytest.raises(ValueError, match="mask_size 28 is finer than the image, 12 pixels; use 1 to 12"):
        attribute(MP, net, make_images(1), torch.tensor([0]), mask_size=28)


def circle_scene(model: nn.Module, image: Tensor) -> Scene:
    query, side = Query(model, image, torch.tensor([0])), image.shape[-1]
    return Scene(query, torch.tensor([[0]]), torch.zeros_like(image), (side, side))


def test_the_initial_disc_is_the_first_that_removes_enough(linear_model: Build) -> None:
    # All evidence lies within 6 pixels of the middle of 32, which is radius 42 of 224.
    evidence = disc((32, 32), 6, None)
    model, image = linear_model([evidence.flatten().tolist()]), torch.ones(1, 1, 32, 32, dtype=torch.float64)
    found = circular_start(circle_scene(model, image), 8, 0)
    radii, sigma = [5 * step / 7 for step in range(35)], 10 / 7
    kept = [float(((1 - disc((32, 32), radius, sigma)) * evidence).sum()) for radius in radii]
    enough = [(value - kept[-1]) / (float(evidence.sum()) - kept[-1]) < 0.01 for value in kept]
    radius = radii[enough.index(True)]
    assert 6 < radius < radii[-1]
    expected = cells_of((1 - disc((32, 32), radius, sigma))[None, None], 8)
    torch.testing.assert_close(found, expected)


def test_a_model_that_no_disc_moves_gets_the_largest(linear_model: Build) -> None:
    model, image = linear_model([[0.0] * 1024], [1.0]), torch.ones(1, 1, 32, 32, dtype=torch.float64)
    found = circular_start(circle_scene(model, image), 4, 0)
    largest = 1 - disc((32, 32), 170 / 7, 10 / 7)
    torch.testing.assert_close(found, cells_of(largest[None, None], 4), atol=1e-12, rtol=0)


def test_a_blur_of_the_mask_leaves_a_constant_mask_alone(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    scene = Scene(Query(net, images, targets), targets[:, None], images.flip(0), (12, 12))
    corners = torch.zeros(2, 2, dtype=torch.int64)
    flat, edged = torch.full((2, 1, 4, 4), 0.4), torch.full((2, 1, 4, 4), 0.4)
    edged[..., :2] = 0.9
    sharp, blurred = (
        [mask_losses(scene, mask, corners, Objective(sigma=sigma)).score for mask in (flat, edged)]
        for sigma in (0.0, 2.0)
    )
    torch.testing.assert_close(sharp[0], blurred[0])
    assert not torch.allclose(sharp[1], blurred[1])


@pytest.mark.parametrize("upsample", ["bilinear", "nearest", "nearest-blur"])
def test_maps_are_one_minus_the_mask_at_the_images_size(upsample: Any) -> None:
    masks = torch.tensor([0.1, 0.3, 0.5, 0.7]).expand(2, 1, 4, 4)
    found = mask_maps(masks, (16, 12), upsample)
    assert found.shape == (2, 1, 16, 12)
    assert bool(((found >= 0) & (found <= 1)).all())
    torch.testing.assert_close(cells_of(found, 4), 1 - masks, atol=0.05, rtol=0)
    assert torch.equal(mask_maps(torch.ones(1, 1, 4, 4), (16, 12), upsample), torch.zeros(1, 1, 16, 12))


def test_the_shift_changes_what_is_seen_and_not_the_stream(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    options: dict[str, Any] = {"n_iterations": 8, "mask_size": 4}
    reflected, repeated, still = (
        attribute(MP, net, images, targets, **options, **shift)
        for shift in ({}, {"padding": "replicate"}, {"jitter": 0})
    )
    assert not torch.equal(reflected, still)
    assert not torch.equal(reflected, repeated)


def test_the_inpainter_is_asked_in_every_iteration_for_the_hole_of_its_mask(
    net: nn.Module, make_images: MakeImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Tensor, Tensor]] = []

    def record(images: Tensor, keep_mask: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        seen.append((images.clone(), keep_mask.clone()))
        return torch.zeros_like(images)

    monkeypatch.setitem(FILLS, "recording", Fill("recording", record, uses_mask=True))
    images, targets = make_images(2), torch.tensor([0, 1])
    options: dict[str, Any] = {"n_iterations": 5, "mask_size": 4, "upsample": "nearest"}
    found = attribute(f"{MP}-g", net, images, targets, fill="recording", **options)
    assert len(seen) == 5
    assert all(set(keep.flatten().tolist()) == {0.0, 1.0} for _, keep in seen)
    assert len({image.sum().item() for image, _ in seen}) > 1
    # An inpainter that paints zeros is the constant fill: the pair differs in nothing else.
    assert torch.equal(found, attribute(MP, net, images, targets, fill="zero", binary=True, **options))


def generative_scene(net: nn.Module, images: Tensor, kept: Any) -> Scene:
    targets = torch.arange(len(images))
    query = Query(net, images, targets, output="probability")
    return Scene(query, targets[:, None], FILLS["pushpull"], (12, 12), kept)


@pytest.mark.parametrize("kept", ["exact", "resampled"])
def test_kept_cells_get_a_gradient_only_from_what_the_inpainter_changes_in_them(
    kept: str, net: nn.Module, make_images: MakeImages
) -> None:
    images, corners = make_images(2), torch.zeros(2, 2, dtype=torch.int64)
    scene = generative_scene(net, images, kept)
    masks = torch.full((2, 1, 4, 4), 0.9)
    masks[..., :2] = 0.1
    leaf = masks.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(
        mask_losses(scene, leaf, corners, Objective(binary=True)).score.sum(), leaf
    )
    assert bool((gradient[..., :2] != 0).all())
    assert bool((gradient[..., 2:] != 0).all()) == (kept == "resampled")
    assert bool((gradient[..., 2:] == 0).all()) == (kept == "exact")


@pytest.mark.parametrize("kept", ["exact", "resampled"])
def test_what_stands_behind_kept_pixels_is_not_seen_by_the_model(
    kept: Any, net: nn.Module, make_images: MakeImages
) -> None:
    images, corners = make_images(2), torch.zeros(2, 2, dtype=torch.int64)
    keep = torch.ones(2, 1, 12, 12)
    keep[..., 3:7, 2:9] = 0
    seen = composites(generative_scene(net, images, kept), keep, corners, keep)
    torch.testing.assert_close(seen, FILLS["pushpull"](images, keep))


def test_a_mask_of_ones_is_left_only_where_kept_cells_get_a_gradient(
    net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    options: dict[str, Any] = {"n_iterations": 20, "mask_size": 4, "init": "ones", "l1": 0.0}
    exact, moved = (
        attribute(f"{MP}-g", net, images, targets, kept=kept, **options) for kept in ("exact", "resampled")
    )
    assert float(exact.abs().max()) == 0
    assert float(moved.max()) > 0


def test_resampling_keeps_constants_and_loses_detail() -> None:
    flat, fine = torch.full((1, 1, 14, 21), 0.3), torch.zeros(1, 1, 14, 21)
    fine[..., ::2] = 1
    torch.testing.assert_close(resampled(flat), flat)
    assert resampled(fine).shape == fine.shape
    assert float(resampled(fine).std()) < float(fine.std())


def test_variants_name_their_paper_and_share_everything_else() -> None:
    plain, generative, localizing = (get_method(name) for name in (MP, f"{MP}-g", "mp-fong"))
    assert (plain.cites, generative.cites) == ("fong2017interpretable", "agarwal2020explaining")
    assert generative.preset == {"fill": "pushpull", "binary": True}
    assert localizing.preset == {"l1": 1e-3, "beta": 2.0, "n_top": 5, "mask_blur": 5.0}
    defaults = plain.options().model_dump()
    published = {"l1": 1e-4, "tv": 1e-2, "beta": 3.0, "learning_rate": 0.1, "n_iterations": 300, "jitter": 4}
    assert {key: defaults[key] for key in published} == published
    assert math.isclose(defaults["blur_radius"], 10.0)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"fill_options": {"radius": 3}}, "set blur_radius"),
        ({"fill": 0.5, "fill_options": {"radius": 3}}, "belong to a removal operator"),
        ({"fill": "pushpull", "fill_options": {"radius": 3}}, "has no option radius"),
        ({"fill": "cement"}, "unknown fill 'cement'"),
        ({"n_iterations": -1}, "n_iterations"),
        ({"beta": 0.5}, "beta"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    options: dict[str, Any], part: str, net: nn.Module, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        attribute(MP, net, make_images(1), torch.tensor([0]), **options)
