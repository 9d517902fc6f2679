"""The embedded ImageNet classifier."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from heatcheck.data.batch import LabelledImages
from heatcheck.data.photographs import photograph_list, photographs
from heatcheck.models import lite0
from heatcheck.models.lite0 import build_lite0, weights_path
from heatcheck.models.registry import MODELS, Classifier
from heatcheck.models.state_dict import read_state_dict

# Stages of EfficientNet-B0, which Lite0 keeps (Tan & Le 2019, table 1): repeats, kernel, first stride.
STAGES = ((1, 3, 1), (2, 3, 2), (2, 5, 2), (3, 3, 2), (3, 5, 1), (4, 5, 2), (1, 3, 1))


class Logits(NamedTuple):
    batch: LabelledImages
    logits: Tensor


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return lite0.efficientnet_lite0()


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return read_state_dict(weights_path())


def logits_of(classifier: Classifier, images: Tensor) -> Tensor:
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in classifier.normalization)
    with torch.no_grad():
        result: Tensor = classifier.module((images - mean) / std)
    return result


@pytest.fixture(scope="module")
def shown(classifier: Classifier) -> Logits:
    batch = photographs(classifier.size, classifier.preprocessing)
    return Logits(batch, logits_of(classifier, batch.images))


def same_pad(images: Tensor, kernel: int, stride: int) -> Tensor:
    """Zeros as TensorFlow's SAME pads them: the odd one at the right and the bottom."""
    side = images.shape[-1]
    total = max(0, (-(-side // stride) - 1) * stride + kernel - side)
    return F.pad(images, (total // 2, total - total // 2) * 2)


def plain_forward(weights: Mapping[str, Tensor], images: Tensor) -> Tensor:
    """Logits by the published architecture, from the names in the file; independent of timm."""

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var, scale, shift = (
            weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(x, mean, var, scale, shift, eps=1e-3)

    def convolve(x: Tensor, name: str, kernel: int = 1, stride: int = 1, groups: int = 1) -> Tensor:
        return F.conv2d(same_pad(x, kernel, stride), weights[f"{name}.weight"], None, stride, groups=groups)

    x = F.relu6(norm(convolve(images, "_conv_stem", 3, 2), "_bn0"))
    blocks = [(kernel, stride if first == 0 else 1) for n, kernel, stride in STAGES for first in range(n)]
    for index, (kernel, stride) in enumerate(blocks):
        name, entry = f"_blocks.{index}", x
        if f"{name}._expand_conv.weight" in weights:
            x = F.relu6(norm(convolve(x, f"{name}._expand_conv"), f"{name}._bn0"))
        x = F.relu6(norm(convolve(x, f"{name}._depthwise_conv", kernel, stride, x.shape[1]), f"{name}._bn1"))
        x = norm(convolve(x, f"{name}._project_conv"), f"{name}._bn2")
        x = x + entry if stride == 1 and x.shape == entry.shape else x
    x = F.relu6(norm(convolve(x, "_conv_head"), "_bn1")).mean((2, 3))
    return F.linear(x, weights["_fc.weight"], weights["_fc.bias"])


def timm_name(key: str, *, expands: bool) -> str:
    """What timm calls the tensor ``key`` of the file."""
    match = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", key)
    if match is None:
        top = {
            "_conv_stem": "conv_stem",
            "_bn0": "bn1",
            "_conv_head": "conv_head",
            "_bn1": "bn2",
            "_fc": "classifier",
        }
        layer, kind = key.split(".")
        return f"{top[layer]}.{kind}"
    places = [(stage, block) for stage, (n, _, _) in enumerate(STAGES) for block in range(n)]
    stage, block = places[int(match[1])]
    wide = {
        "_expand_conv": "conv_pw",
        "_bn0": "bn1",
        "_depthwise_conv": "conv_dw",
        "_bn1": "bn2",
        "_project_conv": "conv_pwl",
        "_bn2": "bn3",
    }
    narrow = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
    return f"blocks.{stage}.{block}.{(wide if expands else narrow)[match[2]]}.{match[3]}"


def test_the_model_is_registered_and_says_what_it_needs(classifier: Classifier) -> None:
    assert "efficientnet-lite0" in MODELS
    assert (classifier.size, classifier.preprocessing) == (224, "squash256")
    assert classifier.normalization == ((0.5,) * 3, (0.5,) * 3)
    assert classifier.class_index("espresso") == 967
    assert classifier.wnids is not None
    assert classifier.wnids[967] == "n07920052"
    assert not classifier.module.training


def test_the_top_class_of_every_photograph_is_its_target(shown: Logits) -> None:
    assert shown.logits.argmax(1).tolist() == shown.batch.targets.tolist()
    confidence = shown.logits.softmax(1).gather(1, shown.batch.targets[:, None])[:, 0]
    assert (confidence > 0.4).all()


def test_the_top_class_does_not_hang_on_the_border(classifier: Classifier, shown: Logits) -> None:
    logits = logits_of(classifier, photographs(224, "squash224").images)
    assert logits.argmax(1).tolist() == shown.batch.targets.tolist()


def test_accepted_classes_hold_most_of_what_the_classifier_sees(
    classifier: Classifier, shown: Logits
) -> None:
    for item, row in zip(photograph_list(), shown.logits.softmax(1), strict=True):
        assert row[[classifier.class_index(name) for name in item.accepted]].sum() > 0.6


def test_logits_are_those_of_the_published_architecture(shown: Logits, weights: dict[str, Tensor]) -> None:
    images = (shown.batch.images[:2] - 0.5) / 0.5
    with torch.no_grad():
        expected = plain_forward(weights, images)
    torch.testing.assert_close(shown.logits[:2], expected, atol=2e-4, rtol=1e-4)


def test_order_puts_every_tensor_where_its_name_does(
    classifier: Classifier, weights: dict[str, Tensor]
) -> None:
    own = classifier.module.state_dict()
    assert len(own) == len(weights) == 296
    for key, value in weights.items():
        expands = key.startswith("_blocks.") and not key.startswith("_blocks.0.")
        assert torch.equal(own[timm_name(key, expands=expands)], value)


def test_a_second_load_is_equal_to_the_last_bit(shown: Logits) -> None:
    again = logits_of(lite0.efficientnet_lite0(), shown.batch.images)
    assert torch.equal(again, shown.logits)


def test_weights_lie_in_memory_channels_last(classifier: Classifier) -> None:
    kernels = [weight for weight in classifier.module.parameters() if weight.ndim == 4]
    assert all(kernel.is_contiguous(memory_format=torch.channels_last) for kernel in kernels)


def test_building_does_not_advance_random_numbers(weights: dict[str, Tensor]) -> None:
    before = torch.get_rng_state()
    build_lite0(weights)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_file_with_fewer_tensors_is_refused(weights: dict[str, Tensor]) -> None:
    fewer = dict(list(weights.items())[:-1])
    with pytest.raises(ValueError, match="efficientnet-lite0 has 296 tensors, the file has 295"):
        build_lite0(fewer)


def test_a_file_in_another_order_is_refused(weights: dict[str, Tensor]) -> None:
    items = list(weights.items())
    items[6], items[7] = items[7], items[6]
    with pytest.raises(ValueError, match=r"does not fit efficientnet-lite0: blocks\.0\.0\.conv_dw\.weight"):
        build_lite0(dict(items))


def test_a_file_with_another_shape_is_refused(weights: dict[str, Tensor]) -> None:
    other = weights | {"_fc.weight": torch.zeros(10, 1280)}
    with pytest.raises(
        ValueError, match=r"classifier\.weight \(1000, 1280\) against _fc\.weight \(10, 1280\)"
    ):
        build_lite0(other)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite0, "PACKAGE", "no_such_package")
    with pytest.raises(FileNotFoundError, match="are in no-such-package, which is not installed"):
        weights_path()
