from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute
from heatcheck.runtime.seeds import CounterGenerator

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
Build = Callable[..., nn.Module]


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"baseline": "zero"}, 0.0),
        ({"baseline": "black", "mean": (0.5, 0.4, 0.2), "std": (0.25, 0.2, 0.4)}, (-2.0, -2.0, -0.5)),
        ({"baseline": "white", "mean": (0.5, 0.4, 0.2), "std": (0.25, 0.2, 0.4)}, (2.0, 3.0, 2.0)),
        ({"baseline": "constant", "value": 0.7}, 0.7),
        ({"baseline": "constant", "value": (0.1, 0.2, 0.3)}, (0.1, 0.2, 0.3)),
    ],
)
def test_fixed_baselines_start_where_they_say(
    options: dict[str, Any], start: Any, linear_model: Build, make_images: MakeImages
) -> None:
    images = make_images(2, side=4).double()
    found = attribute(
        "integrated-gradients", linear_model([[1.0] * 48]), images, torch.tensor([0, 0]), **options
    )
    expected = images - torch.tensor(start, dtype=torch.float64).view(1, -1, 1, 1)
    torch.testing.assert_close(found, expected)


def start_of(images: Tensor, model: nn.Module, **options: Any) -> Tensor:
    """The baseline, read off the map of a model that sums its pixels."""
    targets = torch.zeros(len(images), dtype=torch.int64)
    return images - attribute("integrated-gradients", model, images, targets, n_steps=2, **options)


def test_the_channel_mean_is_each_images_own(linear_model: Build, make_images: MakeImages) -> None:
    images = make_images(2, side=4).double()
    start = start_of(images, linear_model([[1.0] * 48]), baseline="channel-mean")
    torch.testing.assert_close(start, images.mean(dim=(2, 3), keepdim=True).expand_as(images))


@pytest.mark.parametrize("baseline", ["mean-image", "mean-channel"])
def test_the_mean_training_image_and_its_channels_are_baselines_by_name(
    baseline: str, linear_model: Build, make_images: MakeImages
) -> None:
    images, mean_image = make_images(2, side=4).double(), make_images(1, side=4, seed=5)[0]
    start = start_of(images, linear_model([[1.0] * 48]), baseline=baseline, mean_image=mean_image)
    expected = mean_image.double()
    if baseline == "mean-channel":
        expected = expected.mean(dim=(1, 2), keepdim=True)
    torch.testing.assert_close(start, expected.expand(2, 3, 4, 4))


@pytest.mark.parametrize("mean_image", [None, torch.zeros(3, 5, 5)])
def test_a_mean_baseline_without_a_fitting_mean_image_is_refused(
    mean_image: Tensor | None, linear_model: Build, make_images: MakeImages
) -> None:
    model, images = linear_model([[1.0] * 48]), make_images(1, side=4).double()
    with pytest.raises(ValueError, match=r"'mean-channel' needs mean_image=Tensor of shape \(3, 4, 4\)"):
        start_of(images, model, baseline="mean-channel", mean_image=mean_image)


def test_a_blurred_baseline_keeps_constants_and_removes_detail(
    linear_model: Build, make_images: MakeImages
) -> None:
    model = linear_model([[1.0] * 192])
    images = make_images(2, side=8).double()
    start = start_of(images, model, baseline="blur", blur_sigma=50.0)
    assert float(start.std()) < 0.3 * float(images.std())
    flat = torch.full_like(images, 0.3)
    torch.testing.assert_close(start_of(flat, model, baseline="blur"), flat)


@pytest.mark.parametrize("baseline", ["uniform", "gaussian"])
def test_noise_is_each_images_own_unless_shared(
    baseline: str, linear_model: Build, make_images: MakeImages
) -> None:
    model, images = linear_model([[1.0] * 192]), make_images(2, side=8).double()
    own = start_of(images, model, baseline=baseline, noise_scale=0.5)
    shared = start_of(images, model, baseline=baseline, noise_scale=0.5, shared_noise=True)
    assert float((own[0] - own[1]).abs().max()) > 0.1
    torch.testing.assert_close(shared[0], shared[1])
    assert 0.2 < float(own.std()) < 0.6
    other = start_of(
        images,
        model,
        baseline=baseline,
        noise_scale=0.5,
        generator=CounterGenerator.for_images(images, seed=1),
    )
    assert float((own - other).abs().max()) > 0.1


def test_several_baselines_are_averaged(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    normalization: dict[str, Any] = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    parts = [
        attribute("integrated-gradients", net, images, targets, baseline=name, **normalization)
        for name in ("black", "white")
    ]
    both = attribute(
        "integrated-gradients", net, images, targets, baseline=["black", "white"], **normalization
    )
    torch.testing.assert_close(both, (parts[0] + parts[1]) / 2)


def test_more_noise_baselines_converge(linear_model: Build, make_images: MakeImages) -> None:
    model, images = linear_model([[1.0] * 48]), make_images(2, side=4).double()
    one = start_of(images, model, baseline="gaussian")
    many = start_of(images, model, baseline="gaussian", n_baselines=100)
    assert float(many.square().mean()) < 0.1 * float(one.square().mean())


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"baseline": "black"}, "mean="),
        ({"baseline": "white", "mean": (0.5, 0.5, 0.5)}, "std="),
        ({"baseline": "reference"}, "got nothing"),
        ({"baseline": "reference", "reference": torch.zeros(3, 5, 5)}, r"\(3, 5, 5\)"),
        ({"baseline": "constant", "value": (1.0, 2.0)}, "2 channel values"),
        ({"baseline": "zero", "n_baselines": 3}, "n_baselines is 3"),
        ({"baseline": []}, "no baseline"),
        ({"baseline": "black", "mean": (0.5,) * 3, "std": (0.0,) * 3}, "std"),
    ],
)
def test_a_baseline_that_lacks_something_is_refused(
    options: dict[str, Any], part: str, net: nn.Module, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        attribute("integrated-gradients", net, make_images(1), torch.tensor([0]), **options)
