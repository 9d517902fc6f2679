"""Networks and inputs of the cases, the same at every run."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatcheck.models.resnet8 import ResNet8
from heatcheck.removal.color import round_to_bytes

N_CLASSES = 10


class Problem(NamedTuple):
    """A classifier and what it is asked about.

    Attributes:
        model: Images ``(N, C, H, W)`` to logits ``(N, K)``, in evaluation mode.
        images: ``(N, C, H, W)`` float32.
        targets: ``(N,)`` int64.
        heatmaps: ``(N, H, W)`` float64 in [0, 1), no two pixels of a map equal.
    """

    model: nn.Module
    images: Tensor
    targets: Tensor
    heatmaps: Tensor


def make_problem(make_model: Callable[[], nn.Module], shape: tuple[int, int, int, int]) -> Problem:
    """Problem with random weights and ``shape`` images; the caller's random state is not touched."""
    n, _, height, width = shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        model = make_model().eval()
        images, targets = torch.randn(shape), torch.randint(N_CLASSES, (n,))
        ranks = torch.stack([torch.randperm(height * width) for _ in range(n)])
    return Problem(model, images, targets, ranks.view(n, height, width).double() / (height * width))


def make_pictures(n: int, side: int) -> Tensor:
    """Images ``(n, 3, side, side)`` of patches that run into each other, colors of 8 bits in [0, 1]."""
    generator = torch.Generator().manual_seed(7)
    coarse = torch.rand((n, 3, 9, 9), generator=generator)
    smooth = F.interpolate(coarse, size=(side, side), mode="bilinear", align_corners=False)
    grain = 0.02 * torch.randn((n, 3, side, side), generator=generator)
    return round_to_bytes((smooth + grain).clamp(0, 1))


def make_linear(channels: int, side: int) -> nn.Module:
    """A single linear layer: next to no work, so that what is around the model shows."""
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * side * side, N_CLASSES))


def make_pooled(channels: int, side: int) -> nn.Module:
    """Average pooling to 8 x 8, then a linear layer."""
    cells = 8
    return nn.Sequential(
        nn.AvgPool2d(side // cells), nn.Flatten(), nn.Linear(channels * cells * cells, N_CLASSES)
    )


def make_cnn() -> nn.Module:
    """Four convolutions with ReLU, average pooling, a linear layer."""
    widths = (3, 16, 32, 32, 64)
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(pairwise(widths)):
        layers += [nn.Conv2d(before, after, 3, stride=1 if index == 0 else 2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], N_CLASSES))


def make_resnet8() -> nn.Module:
    """The residual network of the rendered scenes, with random weights."""
    return ResNet8(N_CLASSES)
