"""A small run of the single-deletion benchmark that all its tests share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from heatcheck.attribution.registry import METHODS, register
from heatcheck.benchmarks import idsds
from heatcheck.benchmarks.idsds_scores import Score, all_scores
from heatcheck.models.registry import MODELS, Classifier, Normalization, register_model
from heatcheck.runtime.store import ResultsStore

N_CLASSES = 8
SMOOTH: dict[str, Any] = {"n_samples": 2, "base_options": {"quadrature": "gauss-legendre", "n_steps": 3}}
OPTIONS: dict[str, dict[str, Any]] = {
    "integrated-gradients": {"n_steps": 6},
    "ig-smoothgrad": SMOOTH,
    "ig-smoothgrad-squared": SMOOTH,
    "ig-vargrad": SMOOTH,
}
METHOD_NAMES = [
    "input-x-gradient",
    "integrated-gradients",
    "ig-smoothgrad",
    "ig-smoothgrad-squared",
    "ig-vargrad",
    "grad-cam",
    "random",
    "centre",
    "constant",
    "half-broken",
]


def toy_network(seed: int) -> nn.Sequential:
    """Two convolutions, a global average, a linear layer."""
    generator = torch.Generator().manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=4, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, N_CLASSES),
    )
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) / 3)
    return module.eval()


def toy_factory(name: str, seed: int) -> Callable[[], Classifier]:
    def factory() -> Classifier:
        classes = tuple(f"class {number}" for number in range(N_CLASSES))
        return Classifier(name, toy_network(seed), 64, Normalization((0.5,) * 3, (0.25,) * 3), classes)

    return factory


@pytest.fixture(scope="session")
def registered() -> Iterator[None]:
    """Two toy models, one as if fine-tuned, and a method whose maps are not finite for some images."""
    methods, models = dict(METHODS), dict(MODELS)
    for name, seed in (("toy-patches", 0), ("toy-patches-tuned", 1)):
        register_model(name)(toy_factory(name, seed))

    @register("half-broken", family="own")
    def half_broken(
        model: nn.Module, images: torch.Tensor, targets: torch.Tensor, **_: object
    ) -> torch.Tensor:
        """Brightness, and NaN for images of the even classes."""
        return torch.where(targets[:, None, None, None] % 2 == 0, torch.nan, images.mean(1, keepdim=True))

    yield
    for registry, before in ((METHODS, methods), (MODELS, models)):
        registry.clear()
        registry.update(before)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def settings() -> idsds.Settings:
    return idsds.Settings(
        preset="test",
        methods=METHOD_NAMES,
        options=OPTIONS,
        variants={"ig, 2 steps": {"method": "integrated-gradients", "options": {"n_steps": 2}}},  # type: ignore[dict-item]
        models=["toy-patches"],
        tuned={"toy-patches": "toy-patches-tuned"},
        n_images=12,
        n_train=6,
        grids=[2, 8],
        fills=["random", "wide-blur"],
        softmax=True,
        set_sizes=[2, 4],
        n_sets=6,
        incremental=["input-x-gradient", "integrated-gradients", "grad-cam", "random"],
        updated=["input-x-gradient"],
        n_incremental=5,
        n_steps=4,
        directions=["ascending", "descending"],
        device="cpu",
    )


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultsStore:
    return ResultsStore(Path(tmp_path_factory.mktemp("idsds")))


@pytest.fixture(scope="session")
def results(registered: None, settings: idsds.Settings, store: ResultsStore) -> idsds.Results:
    return idsds.run(settings, store)


@pytest.fixture(scope="session")
def scores(results: idsds.Results) -> list[Score]:
    return all_scores(results)
