"""Smooth Grad-CAM++ and the two variants that a library computes instead, against recorded maps."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.attribution.cam import Tapped, grad_cam_plus_sum
from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute
from heatcheck.attribution.smooth_cam import Derivatives, grad_cam_cubed_sum, smooth_cam_sum

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]


@pytest.fixture
def case(golden: Golden) -> dict[str, Any]:
    return golden("idsds", "cam_methods")


@pytest.fixture
def tap(case: dict[str, Any]) -> Tapped:
    return Tapped(exact(case["A"]), exact(case["G"]))


def exact(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def scaled(maps: Tensor) -> Tensor:
    maps = maps.clamp(min=0)
    return (maps - maps.min()) / (maps.max() - maps.min() + 1e-8)


def powers(gradients: Tensor) -> Derivatives:
    return Derivatives(gradients, gradients.square(), gradients.pow(3))


def test_recorded_grad_cam_plus_plus_of_the_library(case: dict[str, Any], tap: Tapped) -> None:
    expected = case["expected"]["Grad-CAM++ (library)"]
    found = scaled(grad_cam_cubed_sum(tap))
    torch.testing.assert_close(found[0], exact(expected["cam"]), atol=1e-6, rtol=0)
    large = F.interpolate(found[:, None], size=(12, 12), mode="bilinear", align_corners=False)
    sums = large.view(4, 3, 4, 3).sum(dim=(1, 3)).flatten()
    assert sums.tolist() == pytest.approx(expected["upsampled_12x12_patch_sums_4x4"], abs=1e-6)


@pytest.mark.parametrize(
    ("key", "noisy"), [("SG-CAM++ (library)", True), ("SG-CAM++ (clean activations)", False)]
)
def test_recorded_smooth_grad_cam_plus_plus(key: str, noisy: bool, case: dict[str, Any], tap: Tapped) -> None:
    last = exact(case["expected"]["SG-CAM++ (library)"]["noise_4x1x4x3x3"])[-1]
    used = Tapped(tap.activations + last, tap.gradients) if noisy else tap
    found = scaled(smooth_cam_sum(tap.activations, powers(tap.gradients), used, 1e-8 if noisy else 0.0))
    torch.testing.assert_close(found[0], exact(case["expected"][key]["cam"]), atol=1e-6, rtol=0)


def test_without_noise_smooth_grad_cam_plus_plus_is_grad_cam_plus_plus(tap: Tapped) -> None:
    smooth = smooth_cam_sum(tap.activations, powers(tap.gradients), tap)
    torch.testing.assert_close(smooth, grad_cam_plus_sum(tap))


def test_a_scale_of_zero_gives_grad_cam_plus_plus_of_a_network(
    net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(3).double(), torch.arange(3)
    found = attribute("smooth-grad-cam++", net.double(), images, targets, noise_scale=0.0)
    torch.testing.assert_close(found, attribute("grad-cam++", net, images, targets))


def test_silent_gradients_give_an_empty_map() -> None:
    nothing = torch.zeros(1, 2, 2, 2)
    tap = Tapped(torch.ones(1, 2, 2, 2), nothing)
    assert torch.equal(smooth_cam_sum(tap.activations, powers(nothing), tap), torch.zeros(1, 2, 2))


def test_the_variant_is_the_last_noisy_copys(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    options: dict[str, Any] = {"layer": "first", "n_samples": 1, "noise_scale": 0.5}
    clean = attribute("smooth-grad-cam++", net, images, targets, **options)
    noisy = attribute("smooth-grad-cam++-last-noisy", net, images, targets, **options)
    assert not torch.allclose(clean, noisy)


def test_a_signed_map_keeps_what_speaks_against_the_class(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(4), torch.arange(4)
    signed = attribute("grad-cam-signed", net, images, targets, layer="second")
    assert float(signed.min()) < 0
    plain = attribute("grad-cam", net, images, targets, layer="second")
    assert torch.equal(signed, attribute("grad-cam", net, images, targets, layer="second", relu=False))
    assert float(plain.min()) >= 0
