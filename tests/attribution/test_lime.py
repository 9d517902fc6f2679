from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.lime import (
    fit_ridge,
    perturbed_scores,
    sample_bits,
    sample_weights,
    superpixel_means,
)
from heatcheck.attribution.passes import Query
from heatcheck.attribution.registry import attribute
from heatcheck.attribution.superpixels import SlicOptions, relabel, superpixels

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
Build = Callable[..., nn.Module]


def test_recorded_regression(golden: Golden) -> None:
    case = golden("deletion", "lime_ridge")
    inputs, expected = case["inputs"], case["expected"]
    bits = torch.tensor(inputs["samples"], dtype=torch.bool)
    weights = sample_weights(bits, inputs["kernel_width"])
    found = fit_ridge(
        bits,
        torch.tensor(inputs["probabilities"]).double(),
        kernel_width=inputs["kernel_width"],
        alpha=inputs["ridge_alpha"],
    )
    assert weights.tolist() == pytest.approx(expected["weights"], abs=1e-7)
    assert found.tolist() == pytest.approx(expected["coefficients"], abs=1e-7)


def test_recorded_kernel(golden: Golden) -> None:
    case = golden("deletion", "lime_kernel_variants")
    for distance, weight in zip(case["inputs"]["distances"], case["expected"]["lime"], strict=True):
        # A share of kept superpixels that has this distance.
        kept = torch.full((1, 1), (1 - distance) ** 2, dtype=torch.float64)
        assert float(sample_weights(kept, case["inputs"]["kernel_width"])) == pytest.approx(weight, abs=1e-8)


def test_recorded_sampling_stream(golden: Golden) -> None:
    case = golden("deletion", "lime_sampling_stream")
    inputs = case["inputs"]
    found = sample_bits(inputs["seed"], inputs["num_samples"], inputs["superpixels"])
    assert found.int().tolist() == case["expected"]["samples"]


def test_recorded_example_end_to_end(golden: Golden, linear_model: Build) -> None:
    case = golden("deletion", "lime_end_to_end")
    inputs, expected = case["inputs"], case["expected"]
    query = Query(
        linear_model(inputs["weights"], inputs["bias"]),
        torch.tensor([inputs["image"]], dtype=torch.float64),
        torch.tensor([expected["explained_class"]]),
        output="probability",
    )
    segments = torch.tensor([inputs["segments"]])
    bits = torch.tensor(inputs["samples"], dtype=torch.bool)
    scores = perturbed_scores(query, segments, [bits], torch.zeros(1, 1, 1, 1, dtype=torch.float64))
    weights = fit_ridge(bits, scores[0], kernel_width=inputs["kernel_width"], alpha=inputs["ridge_alpha"])
    assert scores[0].tolist() == pytest.approx(expected["probabilities"], abs=1e-9)
    torch.testing.assert_close(
        weights[segments[0]], torch.tensor(expected["heatmap"]).double(), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("alpha", [0.01, 1.0, 10.0])
def test_the_closed_form_is_scikit_learns_ridge(alpha: float) -> None:
    bits = sample_bits(3, 40, 9)
    scores = torch.from_numpy(np.random.default_rng(1).random(40))
    model = Ridge(alpha=alpha).fit(
        bits.numpy().astype(float), scores.numpy(), sample_weight=sample_weights(bits, 0.25).numpy()
    )
    found = fit_ridge(bits, scores, kernel_width=0.25, alpha=alpha)
    np.testing.assert_allclose(found.numpy(), model.coef_, atol=1e-10)


def test_without_penalty_and_with_too_few_samples_the_fit_stays_finite() -> None:
    assert bool(
        torch.isfinite(
            fit_ridge(sample_bits(0, 3, 9), torch.tensor([0.1, 0.2, 0.3]), kernel_width=0.25, alpha=0)
        ).all()
    )
    assert (
        fit_ridge(torch.ones(1, 4, dtype=torch.bool), torch.ones(1), kernel_width=0.25, alpha=1).tolist()
        == [0] * 4
    )


@pytest.mark.parametrize("segments", [[[1, 1], [2, 3]], [[0, 0], [5, 9]], [[7, 7], [-1, 3]]])
def test_labels_are_consecutive_from_zero_in_their_old_order(segments: list[list[int]]) -> None:
    labels = relabel(np.array(segments))
    found = sorted(set(labels.flatten().tolist()))
    assert found == list(range(len(found)))
    flat = np.array(segments).flatten()
    assert (np.argsort(flat, kind="stable") == np.argsort(labels.flatten().numpy(), kind="stable")).all()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_superpixels_number_every_pixel_from_zero_without_gaps(
    channels: int, make_images: MakeImages
) -> None:
    images = make_images(3, channels=channels, side=24)
    for labels in superpixels(images, SlicOptions(n_segments=9, sigma=0.5)):
        assert labels.shape == (24, 24)
        assert sorted(torch.unique(labels).tolist()) == list(range(int(labels.max()) + 1))


@pytest.mark.parametrize("n_segments", [2, 9, 30])
def test_every_superpixel_is_hidden_and_kept_in_some_sample(n_segments: int, make_images: MakeImages) -> None:
    labels = superpixels(make_images(1, side=32), SlicOptions(n_segments=n_segments, sigma=0.5))[0]
    bits = sample_bits(0, 50, int(labels.max()) + 1)
    assert not bool(bits.all(dim=0).any())
    assert bool(bits.any(dim=0).all())


@pytest.mark.parametrize("place", ["first", "last"])
def test_evidence_in_the_first_or_last_superpixel_is_found(place: str, linear_model: Build) -> None:
    # Case 16: with labels from 1 the last superpixel is never hidden, and all coefficients are 0.
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)).double()
    options = SlicOptions(n_segments=9, sigma=0.5)
    labels = superpixels(image, options)[0]
    chosen = labels == (0 if place == "first" else int(labels.max()))
    weights = torch.stack([torch.zeros(3, 32, 32), chosen.float().expand(3, -1, -1) * 0.02])
    model = linear_model(weights.flatten(1).tolist())
    found = attribute("lime", model, image, torch.tensor([1]), n_samples=200, n_segments=9, sigma=0.5)[0, 0]
    assert float(found[chosen].min()) > 0.1
    assert float(found[~chosen].abs().max()) < 0.1 * float(found[chosen].min())


def test_a_map_is_constant_on_each_superpixel(net: nn.Module, make_images: MakeImages) -> None:
    images = make_images(2, side=24)
    found = attribute("lime", net, images, torch.tensor([0, 1]), n_samples=30, n_segments=8, sigma=0.5)
    for labels, values in zip(superpixels(images, SlicOptions(8, 30.0, 0.5)), found[:, 0], strict=True):
        for label in torch.unique(labels):
            assert len(set(values[labels == label].tolist())) == 1


def test_images_with_different_numbers_of_superpixels_share_a_batch(
    net: nn.Module, make_images: MakeImages
) -> None:
    images = make_images(4, side=24)
    counts = superpixels(images, SlicOptions(12, 30.0, 0.5)).flatten(1).amax(dim=1)
    assert len(set(counts.tolist())) > 1
    options: dict[str, Any] = {"n_samples": 20, "n_segments": 12, "sigma": 0.5}
    together = attribute("lime", net, images, torch.tensor([0, 1, 2, 3]), **options)
    alone = [attribute("lime", net, images[i : i + 1], torch.tensor([i]), **options) for i in range(4)]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=0)


def test_the_mean_colour_fill_paints_each_superpixel_with_its_mean(make_images: MakeImages) -> None:
    images = make_images(2, side=8)
    segments = torch.stack([torch.arange(64).view(8, 8) // 20, torch.arange(64).view(8, 8) % 5])
    found = superpixel_means(images, segments)
    for row in range(2):
        for label in torch.unique(segments[row]):
            inside = segments[row] == label
            expected = images[row][:, inside].mean(dim=1, keepdim=True)
            torch.testing.assert_close(found[row][:, inside], expected.expand(-1, int(inside.sum())))


def test_colours_are_segmented_as_they_were_before_normalization(make_images: MakeImages) -> None:
    pictures = torch.rand(1, 3, 24, 24, generator=torch.Generator().manual_seed(1))
    pictures = (pictures * 255).round() / 255
    mean, std = (0.485, 0.456, 0.406), (0.1, 0.5, 0.9)
    normalized = (pictures - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)
    plain = superpixels(pictures, SlicOptions(9, 30.0, 0.5))
    assert torch.equal(superpixels(normalized, SlicOptions(9, 30.0, 0.5, mean, std)), plain)
    assert not torch.equal(superpixels(normalized, SlicOptions(9, 30.0, 0.5)), plain)


@pytest.mark.parametrize(
    ("options", "part"),
    [({"mean": (0.5,) * 3}, "give both or none"), ({"mean": (0.5,), "std": (0.5,)}, "1 channel values")],
)
def test_half_a_normalization_is_refused(
    options: dict[str, Any], part: str, net: nn.Module, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        attribute("lime", net, make_images(1), torch.tensor([0]), **options)
