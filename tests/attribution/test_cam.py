import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from captum.attr import GuidedGradCam, LayerGradCam
from torch import Tensor, nn

from heatcheck.attribution import cam
from heatcheck.attribution.cam import Tapped, Weighting, find_layer
from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.passes import Query
from heatcheck.attribution.registry import attribute, get_method

METHODS = sorted(name for name in load_catalog() if get_method(name).family == "cam")
MAPS = [name for name in METHODS if name != "guided-grad-cam"]
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
MakeNet = Callable[[Callable[[], nn.Module]], nn.Module]


def make_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


@pytest.mark.parametrize(
    ("weighting", "key"),
    [
        (cam.grad_cam_sum, "Grad-CAM"),
        (cam.xgrad_cam_sum, "XGrad-CAM"),
        (cam.layer_cam_sum, "Layer-CAM"),
        (cam.grad_cam_plus_sum, "Grad-CAM++ (closed form)"),
    ],
)
def test_recorded_activations_give_the_recorded_map(weighting: Weighting, key: str, golden: Golden) -> None:
    case = golden("idsds", "cam_methods")
    tap = Tapped(*(torch.tensor(case[part], dtype=torch.float64) for part in ("A", "G")))
    found = weighting(tap).clamp(min=0)
    scaled = (found - found.min()) / (found.max() - found.min() + 1e-8)
    expected = case["expected"][key]
    torch.testing.assert_close(
        scaled[0], torch.tensor(expected["cam"], dtype=torch.float64), atol=1e-6, rtol=0
    )
    if "upsampled_12x12_patch_sums_4x4" in expected:
        large = F.interpolate(scaled[:, None], size=(12, 12), mode="bilinear", align_corners=False)
        sums = large.view(4, 3, 4, 3).sum(dim=(1, 3)).flatten()
        assert sums.tolist() == pytest.approx(expected["upsampled_12x12_patch_sums_4x4"], abs=1e-6)


def test_grad_cam_plus_plus_gives_silent_channels_no_weight() -> None:
    tap = Tapped(torch.ones(1, 2, 2, 2), torch.tensor([0.0, 0.5]).view(1, 2, 1, 1).expand(1, 2, 2, 2))
    # alpha = g**2 / (2 g**2 + 4 g**3) = 1 / (2 + 4 g), four positions of the second channel.
    torch.testing.assert_close(cam.grad_cam_plus_sum(tap), torch.full((1, 2, 2), 4 * 0.5 / (2 + 4 * 0.5)))


@pytest.mark.parametrize("layer", ["0", "1", "2", "3", "4"])
@pytest.mark.parametrize("relu", [True, False])
def test_grad_cam_equals_captum(layer: str, relu: bool, make_net: MakeNet, make_images: MakeImages) -> None:
    model, images, targets = make_net(make_cnn), make_images(3), torch.tensor([0, 1, 2])
    coarse = LayerGradCam(model, model.get_submodule(layer)).attribute(
        images, target=targets, relu_attributions=relu
    )
    expected = F.interpolate(coarse, size=(12, 12), mode="bilinear", align_corners=False).detach()
    found = attribute("grad-cam", model, images, targets, layer=layer, relu=relu)
    torch.testing.assert_close(found, expected, atol=1e-7, rtol=1e-5)


def test_guided_grad_cam_equals_captum(make_net: MakeNet, make_images: MakeImages) -> None:
    model, images, targets = make_net(make_cnn), make_images(3), torch.tensor([0, 1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum warns that it sets hooks
        expected = GuidedGradCam(model, model.get_submodule("3")).attribute(
            images.clone().requires_grad_(), target=targets, interpolate_mode="bilinear"
        )
    # captum interpolates with aligned corners off as well.
    found = attribute("guided-grad-cam", model, images, targets, layer="3")
    torch.testing.assert_close(found, expected.detach(), atol=1e-7, rtol=1e-4)


def test_global_average_pooling_makes_grad_cam_and_xgrad_cam_coincide(
    make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images, targets = make_net(make_cnn), make_images(3), torch.tensor([0, 1, 2])
    maps = [attribute(name, model, images, targets, layer="4") for name in ("grad-cam", "xgrad-cam")]
    torch.testing.assert_close(maps[0], maps[1], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", MAPS)
def test_without_relu_maps_are_signed_and_with_it_they_are_not(
    name: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5)
        )

    model, images, targets = make_net(build), make_images(3), torch.tensor([0, 1, 2])
    signed = attribute(name, model, images, targets, layer="0", relu=False)
    rectified = attribute(name, model, images, targets, layer="0", relu=True)
    assert float(signed.min()) < 0
    assert float(rectified.min()) >= 0
    assert torch.equal(
        rectified, signed.clamp(min=0)
    )  # this layer has the images' size: nothing is upsampled


@pytest.mark.parametrize(
    ("build", "layer"),
    [
        (make_cnn, "4"),
        (lambda: torchvision.models.resnet18(num_classes=5), "layer4"),
        (lambda: timm.create_model("efficientnet_lite0", num_classes=5), "bn2"),
    ],
)
def test_the_default_layer_is_the_last_with_more_than_one_position(
    build: Callable[[], nn.Module], layer: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images = make_net(build), make_images(1, side=64)
    assert find_layer(Query(model, images, torch.tensor([0])), None) == layer


def test_a_layer_used_twice_is_tapped_at_its_last_use(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    # The same network up to its last rectifier: activations 6 x 6 under global pooling and a linear head.
    hidden: list[Tensor] = []
    handle = net.get_submodule("relu").register_forward_hook(
        lambda _m, _i, output: hidden.append(output.detach())
    )
    net(images)
    handle.remove()
    weights = net.get_submodule("head").get_parameter("weight")[targets] / 36
    expected = (weights[:, :, None, None] * hidden[-1]).sum(dim=1, keepdim=True).clamp(min=0)
    found = attribute("grad-cam", net, images, targets, layer="relu")
    torch.testing.assert_close(
        found, F.interpolate(expected.detach(), size=(12, 12), mode="bilinear"), atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("layer", ["layer4", "", "head", "7", "5"])
def test_a_wrong_layer_is_refused_with_a_list_of_those_there_are(
    name: str, layer: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=r"such layers: 0, 1, 2, 3, 4$") as caught:
        attribute(name, make_net(make_cnn), make_images(1), torch.tensor([0]), layer=layer)
    assert repr(layer) in str(caught.value)


@pytest.mark.parametrize("name", METHODS)
def test_a_model_without_maps_is_refused(
    name: str, linear_model: Callable[..., nn.Module], make_images: MakeImages
) -> None:
    model = linear_model([[1.0] * 48] * 2)
    with pytest.raises(ValueError, match="such layers: none"):
        attribute(name, model, make_images(1, side=4).double(), torch.tensor([0]))


@pytest.mark.parametrize("name", MAPS)
def test_a_layer_before_one_that_works_in_place_is_tapped_as_it_was(
    name: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    def build(in_place: bool) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 6, 3),
            nn.ReLU(inplace=in_place),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(6, 5),
        )

    images, targets = make_images(2), torch.tensor([0, 1])
    maps = [attribute(name, make_net(partial(build, b)), images, targets, layer="0") for b in (True, False)]
    assert torch.equal(maps[0], maps[1])
