from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from heatcheck.metrics.scoring import Probabilities, softmax_of


def small_classifier(channels: int = 3, classes: int = 4, seed: int = 0) -> nn.Sequential:
    """Convolutional classifier whose batch norm and dropout would show in training mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Conv2d(channels, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            head := nn.Linear(96, classes),
        )
        nn.init.normal_(head.weight, std=0.5)
    return network.eval()


@pytest.fixture
def classifier() -> nn.Sequential:
    return small_classifier()


@pytest.fixture
def probabilities(classifier: nn.Sequential) -> Probabilities:
    return softmax_of(classifier)


@pytest.fixture
def draw() -> Callable[..., Tensor]:
    """Standard normal numbers of a shape and seed, without touching the global generator."""

    def normal(*shape: int, seed: int = 0) -> Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

    return normal
