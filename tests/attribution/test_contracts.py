"""What every registered method promises, whatever it computes (cases 7, 8, 9, 10 and 13)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute, get_method
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.seeds import CounterGenerator

# Those that explain one kind of model only are in test_special_contracts.
METHODS = sorted(
    name for name, entry in load_catalog().items() if entry.family not in ("attention", "intrinsic")
)
ONE_INPUT = [name for name in METHODS if get_method(name).family != "own"]
CONTROLS = [name for name in METHODS if get_method(name).family == "control"]
MODEL_BASED = [name for name in METHODS if name not in CONTROLS]
Options = Callable[[str], dict[str, Any]]
MakeImages = Callable[..., Tensor]


def targets_for(images: Tensor) -> Tensor:
    return torch.arange(len(images)) % 5


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-6, *, name: str = "") -> bool:
    """Equal up to rounding, relative to the map's largest value.

    Perturbation methods subtract probabilities, so their rounding is relative to 1.
    """
    scale = float(expected.abs().max())
    if name and get_method(name).family == "perturbation":
        scale = max(scale, 1.0)
    return float((found - expected).abs().max()) <= tolerance * scale


@pytest.mark.parametrize("name", METHODS)
def test_a_map_is_float32_of_the_images_shape_or_one_channel_and_finite(
    name: str, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(2)
    maps = attribute(name, net, images, targets_for(images), **fast_options(name))
    assert tuple(maps.shape) in {(2, 3, 12, 12), (2, 1, 12, 12)}
    assert maps.dtype == torch.float32
    assert bool(torch.isfinite(maps).all())
    assert not maps.requires_grad


@pytest.mark.parametrize("name", METHODS)
def test_double_precision_stays_double_and_agrees_with_single(
    name: str, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(2)
    generator = CounterGenerator.for_images(images)
    single = attribute(name, net, images, targets_for(images), generator=generator, **fast_options(name))
    double = attribute(
        name, net.double(), images.double(), targets_for(images), generator=generator, **fast_options(name)
    )
    assert double.dtype == torch.float64
    assert close(single.double(), double, 1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_images_need_not_be_square_and_may_have_one_channel(
    name: str,
    make_net: Callable[[Callable[[], nn.Module]], nn.Module],
    make_images: MakeImages,
    fast_options: Options,
) -> None:
    model = make_net(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
        )
    )
    images = make_images(2, channels=1, side=14)[:, :, :9]
    maps = attribute(name, model, images, targets_for(images), **fast_options(name))
    assert tuple(maps.shape) == (2, 1, 9, 14)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_a_map_does_not_depend_on_the_batch_it_is_computed_in(
    name: str, size: int, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(7)
    targets = targets_for(images)
    if size == 64:
        # The seven images at the end of a large batch whose last chunk is ragged.
        many = torch.cat([make_images(57, seed=9), images])
        classes = torch.cat([torch.zeros(57, dtype=torch.int64), targets])
        found = attribute(name, net, many, classes, **fast_options(name))[57:]
    else:
        parts = zip(torch.split(images, size), torch.split(targets, size), strict=True)
        found = torch.cat([attribute(name, net, *part, **fast_options(name)) for part in parts])
    expected = attribute(name, net, images, targets, **fast_options(name))
    assert close(found, expected, name=name)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("chunk", [1, 2, 5, 64])
def test_a_map_does_not_depend_on_the_chunk_size(
    name: str, chunk: int, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(3)
    expected = attribute(name, net, images, targets_for(images), **fast_options(name))
    with memory_budget("100MB", chunk=chunk):
        found = attribute(name, net, images, targets_for(images), **fast_options(name))
    assert close(found, expected, name=name)


@pytest.mark.parametrize("name", METHODS)
def test_a_map_does_not_depend_on_how_images_lie_in_memory(
    name: str, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(3).double()
    expected = attribute(name, net.double(), images, targets_for(images), **fast_options(name))
    by_pixel = images.contiguous(memory_format=torch.channels_last)
    found = attribute(name, net, by_pixel, targets_for(images), **fast_options(name))
    assert found.is_contiguous()
    assert close(found, expected, 1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_repeats_exactly_and_the_order_of_images_does_not_matter(
    name: str, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(4)
    targets = targets_for(images)
    first = attribute(name, net, images, targets, **fast_options(name))
    again = attribute(name, net, images, targets, **fast_options(name))
    turned = attribute(name, net, images.flip(0), targets.flip(0), **fast_options(name)).flip(0)
    assert torch.equal(first, again)
    assert close(turned, first, name=name)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("targets", "part"),
    [
        ([0, 5], "5"),
        ([-1, 0], "-1"),
        ([0, 1, 2], "(2,)"),
        ([[0], [1]], "(2,)"),
        ([0.0, 1.0], "int64"),
    ],
)
def test_unusable_targets_are_refused_before_the_model_runs(
    name: str, targets: Any, part: str, net: nn.Module, make_images: MakeImages
) -> None:
    calls: list[object] = []
    handle = net.register_forward_pre_hook(lambda _module, inputs: calls.append(inputs))
    with pytest.raises(ValueError, match="target") as caught:
        attribute(name, net, make_images(2), torch.tensor(targets))
    assert part in str(caught.value)
    handle.remove()
    assert calls == []


@pytest.mark.parametrize("name", MODEL_BASED)
def test_a_target_beyond_a_model_of_unknown_size_is_refused_by_name(
    name: str, make_images: MakeImages, fast_options: Options
) -> None:
    class Bare(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.relu(images).mean(dim=(2, 3))

    with pytest.raises(ValueError, match=r"target 3 is no class|no layer"):
        attribute(name, Bare(), make_images(2), torch.tensor([0, 3]), **fast_options(name))


@pytest.mark.parametrize("name", MODEL_BASED)
def test_a_model_that_does_not_return_logits_is_refused(
    name: str,
    make_net: Callable[[Callable[[], nn.Module]], nn.Module],
    make_images: MakeImages,
    fast_options: Options,
) -> None:
    model = make_net(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 1)))
    with pytest.raises(ValueError, match=r"logits of shape \(\d+, K\)"):
        attribute(name, model, make_images(2), torch.tensor([0, 1]), **fast_options(name))


@pytest.mark.parametrize("name", MODEL_BASED)
def test_further_inputs_follow_their_image_when_the_batch_is_enlarged(
    name: str, two_input_net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(3)
    questions = torch.tensor([[1, 2], [3, 3], [6, 0]])
    together = attribute(
        name, two_input_net, images, targets_for(images), forward_args=(questions,), **fast_options(name)
    )
    for row in range(3):
        part = slice(row, row + 1)
        alone = attribute(
            name,
            two_input_net,
            images[part],
            targets_for(images)[part],
            forward_args=(questions[part],),
            **fast_options(name),
        )
        assert close(together[part], alone, name=name)
    other = attribute(
        name,
        two_input_net,
        images,
        targets_for(images),
        forward_args=(questions.flip(0),),
        **fast_options(name),
    )
    assert not close(other, together)


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_of_no_images_gives_no_maps(
    name: str, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    maps = attribute(name, net, make_images(0), torch.zeros(0, dtype=torch.int64), **fast_options(name))
    assert len(maps) == 0


@pytest.mark.parametrize("name", [n for n in MODEL_BASED if "output" in get_method(n).options.model_fields])
def test_logit_and_probability_are_explained_differently(
    name: str, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(2)
    logit, probability = (
        attribute(name, net, images, targets_for(images), output=output, **fast_options(name))
        for output in ("logit", "probability")
    )
    assert not close(logit, probability, 1e-3)


@pytest.mark.parametrize("name", METHODS)
def test_an_unknown_option_is_refused_by_name(name: str, net: nn.Module, make_images: MakeImages) -> None:
    with pytest.raises(ValueError, match="n_stpes"):
        attribute(name, net, make_images(1), torch.tensor([0]), n_stpes=3)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("integrated-gradients", "n_steps", 0),
        ("integrated-gradients", "n_steps", 2.5),
        ("integrated-gradients", "baseline", "grey"),
        ("integrated-gradients", "quadrature", "simpson"),
        ("integrated-gradients", "noise_scale", float("nan")),
        ("smoothgrad", "n_samples", 0),
        ("vargrad", "noise_scale", -0.1),
        ("vargrad", "noise", "percent"),
        ("sliding-patch", "patch", 0),
        ("sliding-patch", "stride", -3),
        ("sliding-patch", "fill", "blue"),
        ("rise", "keep", 0.0),
        ("rise", "keep", 1.0),
        ("rise", "cells", 0),
        ("lime", "n_samples", 0),
        ("lime", "kernel_width", 0.0),
        ("gradient", "output", "softmax"),
        ("centre", "sigma", 0.0),
        ("random-blocks", "cell", 0),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(
    name: str, option: str, value: Any, net: nn.Module, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=f"options of method '{name}': {option}"):
        attribute(name, net, make_images(1), torch.tensor([0]), **{option: value})


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_do_not_look_at_the_model(name: str, make_images: MakeImages) -> None:
    class Forbidden(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            raise AssertionError("a control ran the model")

    images = make_images(2)
    assert len(attribute(name, Forbidden(), images, torch.tensor([0, 1]))) == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", METHODS)
def test_a_map_on_the_gpu_is_the_map_on_the_cpu(
    name: str, net: nn.Module, make_images: MakeImages, fast_options: Options
) -> None:
    images = make_images(5).double()
    targets = targets_for(images)
    expected = attribute(name, net.double(), images, targets, **fast_options(name))
    found = attribute(name, net.double().cuda(), images.cuda(), targets.cuda(), **fast_options(name))
    assert found.device.type == "cuda"
    assert close(found.cpu(), expected, 1e-6, name=name)
