"""Memory beyond the caller's, by the allocator's own record (case 12)."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute
from heatcheck.runtime.memory import Limits, memory_budget

load_catalog()
MakeNet = Callable[[Callable[[], nn.Module]], nn.Module]
MakeImages = Callable[..., Tensor]
MEGABYTE = 10**6


def make_wide() -> nn.Module:
    """About 3 MB of activations per image of 64 x 64."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
        nn.Conv2d(32, 32, 3, padding=1, stride=2), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5),
    )  # fmt: skip


def peak(call: Callable[[], Any]) -> int:
    """Most bytes the CPU allocator has handed out at once during ``call``."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        call()
    live = most = 0
    events = record.profiler.kineto_results.events()
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            live += event.nbytes()
            most = max(most, live)
    assert most > 0
    return most


def fixed_chunks() -> AbstractContextManager[Limits]:
    """Chunks that the smaller count fills too; otherwise it would need less for being small."""
    return memory_budget("128MB", chunk=16)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("integrated-gradients", "n_steps"),
        ("smoothgrad", "n_samples"),
        ("smoothgrad-squared", "n_samples"),
        ("vargrad", "n_samples"),
        ("smooth-grad-cam++", "n_samples"),
        ("rise", "n_masks"),
        ("lime", "n_samples"),
        ("lime-g", "n_samples"),
    ],
)
def test_memory_stays_within_the_budget_and_does_not_grow_with_the_count(
    name: str, option: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images, targets = make_net(make_wide), make_images(8, side=64), torch.arange(8) % 5

    def call(count: int) -> Tensor:
        options: dict[str, Any] = {option: count}
        return attribute(name, model, images, targets, **options)

    assert peak(partial(call, 50)) < 150 * MEGABYTE
    with fixed_chunks():
        few, many = (peak(partial(call, count)) for count in (10, 50))
    assert many <= few + MEGABYTE // 4


def test_sliding_patch_never_builds_all_masks(make_net: MakeNet, make_images: MakeImages) -> None:
    model, images = make_net(make_wide), make_images(1, side=64)

    def call(stride: int) -> Tensor:
        return attribute("sliding-patch", model, images, torch.tensor([0]), patch=16, stride=stride)

    assert peak(partial(call, 4)) < 150 * MEGABYTE
    with fixed_chunks():
        few, many = (peak(partial(call, stride)) for stride in (12, 4))
    assert many <= few + MEGABYTE // 4


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("integrated-gradients", {"n_steps": 8}),
        ("guided-backprop", {}),
        ("deep-lift", {}),
        ("grad-cam", {}),
        ("lrp", {"low": -8.0, "high": 8.0}),
        ("lrp-epsilon", {}),
        ("lrp-epsilon-gamma-box", {"low": -8.0, "high": 8.0}),
    ],
)
def test_a_smaller_budget_is_kept_to(
    name: str, options: dict[str, Any], make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images, targets = make_net(make_wide), make_images(8, side=64), torch.arange(8) % 5
    with memory_budget("30MB"):
        assert peak(lambda: attribute(name, model, images, targets, **options)) < 35 * MEGABYTE


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("meaningful-perturbation", {}),
        ("meaningful-perturbation-g", {}),
        ("mp-fong", {"n_top": 2}),
        ("extremal-perturbation", {"areas": (0.1,)}),
    ],
)
def test_a_search_keeps_nothing_of_past_iterations(
    name: str, options: dict[str, Any], make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images, targets = make_net(make_wide), make_images(8, side=64), torch.arange(8) % 5

    def call(count: int) -> Tensor:
        return attribute(name, model, images, targets, n_iterations=count, **options)

    call(1)
    few, many = (peak(partial(call, count)) for count in (2, 6))
    assert many < 150 * MEGABYTE
    assert many <= few + MEGABYTE // 4


@pytest.mark.parametrize("areas", [(0.1,), (0.05, 0.1, 0.2, 0.3)])
def test_extremal_masks_of_several_areas_share_one_budget(
    areas: tuple[float, ...], make_net: MakeNet, make_images: MakeImages
) -> None:
    model, images, targets = make_net(make_wide), make_images(8, side=64), torch.arange(8) % 5
    options: dict[str, Any] = {"areas": areas, "n_iterations": 1}
    with memory_budget("30MB"):
        assert (
            peak(lambda: attribute("extremal-perturbation", model, images, targets, **options))
            < 35 * MEGABYTE
        )
