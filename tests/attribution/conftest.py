import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

GOLDEN = Path(__file__).parents[1] / "golden"
N_CLASSES = 5

# Few steps, samples and masks: the properties under test do not depend on their number.
FAST: dict[str, dict[str, Any]] = {
    "integrated-gradients": {"n_steps": 5},
    "integrated-gradients-squared": {"n_steps": 5},
    "ig-uniform": {"n_steps": 5},
    "smoothgrad": {"n_samples": 5},
    "smoothgrad-squared": {"n_samples": 5},
    "vargrad": {"n_samples": 5},
    # The tests' images are not between 0 and 1. A logit near zero is all rounding, and so would be its
    # relevance: where the last layer does not divide by it, relevance starts at 1.
    "lrp": {"low": -8.0, "high": 8.0, "start": "one"},
    "lrp-alpha1-beta0": {"start": "one"},
    "lrp-alpha2-beta1": {"low": -8.0, "high": 8.0, "start": "one"},
    "lrp-epsilon-alpha": {"low": -8.0, "high": 8.0},
    "lrp-epsilon-gamma-box": {"low": -8.0, "high": 8.0},
    "sliding-patch": {"patch": 5, "stride": 4},
    "rise": {"n_masks": 11, "cells": 3, "keep": 0.4},
    "rise-uniform": {"n_masks": 11, "cells": 3, "keep": 0.4},
    "lime": {"n_samples": 13, "n_segments": 6},
    "kernel-shap": {"n_coalitions": 40, "grid": 3},
    "sliding-patch-g": {"patch": 5, "stride": 4},
    "lime-g": {"n_samples": 13, "n_segments": 6},
    "meaningful-perturbation": {"n_iterations": 4, "mask_size": 4},
    "meaningful-perturbation-g": {"n_iterations": 4, "mask_size": 4},
    "mp-fong": {"n_iterations": 4, "mask_size": 4, "n_top": 2},
    "extremal-perturbation": {
        "n_iterations": 4,
        "areas": (0.1, 0.3),
        "learning_rate": 1.0,
        "area_weight": 1.0,
        "blur_radius": 100.0,
    },
}


class SmallNet(nn.Module):
    """ReLU network with batch norm, dropout, one ReLU module used twice and one functional ReLU."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.relu = nn.ReLU()
        self.second = nn.Conv2d(6, 8, 3, stride=2, padding=1)
        self.third = nn.Conv2d(6, 6, 1)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, N_CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.relu(self.norm(self.first(images)))
        hidden = torch.relu(self.third(self.drop(hidden)))
        hidden = self.relu(self.second(hidden))
        logits: Tensor = self.head(hidden.mean(dim=(2, 3)))
        return logits


class TwoInputNet(nn.Module):
    """Network of an image and a question: the question's embedding scales the features."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 6)
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.relu = nn.ReLU()
        self.head = nn.Linear(6, N_CLASSES)

    def forward(self, images: Tensor, question: Tensor) -> Tensor:
        scale = self.words(question).mean(dim=1)
        hidden = self.relu(self.first(images) * scale[:, :, None, None])
        logits: Tensor = self.head(hidden.mean(dim=(2, 3)))
        return logits


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    """The network with random weights and running statistics, the same every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = build()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
                assert module.running_var is not None
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.5, 2)
    return model.eval()


@pytest.fixture
def net() -> nn.Module:
    return seeded(SmallNet)


@pytest.fixture
def two_input_net() -> nn.Module:
    return seeded(TwoInputNet)


@pytest.fixture
def make_net() -> Callable[[Callable[[], nn.Module]], nn.Module]:
    return seeded


@pytest.fixture
def make_images() -> Callable[..., Tensor]:
    def make(n: int, channels: int = 3, side: int = 12, seed: int = 3) -> Tensor:
        return torch.randn(n, channels, side, side, generator=torch.Generator().manual_seed(seed))

    return make


@pytest.fixture
def fast_options() -> Callable[[str], dict[str, Any]]:
    return lambda name: dict(FAST.get(name, {}))


@pytest.fixture(scope="session")
def golden() -> Callable[[str, str], dict[str, Any]]:
    """Case of a golden file by the file's name and the case's id."""

    def load(name: str, case: str) -> dict[str, Any]:
        cases = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["cases"]
        found: dict[str, Any] = cases[case] if isinstance(cases, dict) else {c["id"]: c for c in cases}[case]
        return found

    return load


@pytest.fixture
def recorded_network(golden: Callable[[str, str], dict[str, Any]]) -> tuple[nn.Module, Tensor, Tensor]:
    """Two-layer ReLU network of the recorded cases in float64, with its images and targets."""
    case = golden("idsds", "mlp_model")
    layers = [nn.Linear(192, 10).double(), nn.Linear(10, 4).double()]
    for number, layer in enumerate(layers, start=1):
        tensors = {"weight": case[f"W{number}"], "bias": case[f"b{number}"]}
        layer.load_state_dict({name: torch.tensor(values).double() for name, values in tensors.items()})
        layer.requires_grad_(False)
    model = nn.Sequential(nn.Flatten(), layers[0], nn.ReLU(), layers[1])
    return model, torch.tensor(case["images"], dtype=torch.float64), torch.tensor(case["targets"])


@pytest.fixture
def linear_model() -> Callable[..., nn.Module]:
    """Classifier ``weights @ image.flatten() + bias`` in float64."""

    def build(weights: Any, bias: Any = None) -> nn.Module:
        matrix = torch.tensor(weights, dtype=torch.float64)
        layer = nn.Linear(matrix.shape[1], matrix.shape[0]).double()
        with torch.no_grad():
            layer.weight.copy_(matrix)
            layer.bias.copy_(
                torch.tensor(bias, dtype=torch.float64) if bias is not None else torch.zeros(len(matrix))
            )
        return nn.Sequential(nn.Flatten(), layer).eval()

    return build
