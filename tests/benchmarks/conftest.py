"""A small run of the deletion benchmark that all its tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from heatcheck.attribution.registry import METHODS, register
from heatcheck.benchmarks import deletion
from heatcheck.models.registry import MODELS, Classifier, Normalization, register_model
from heatcheck.runtime.store import ResultsStore

METHOD_NAMES = ["gradient", "grad-cam", "sliding-patch", "random", "random-blocks", "centre", "broken"]


def toy_imagenet() -> Classifier:
    """A thousand classes and next to no computation: the photographs are only shown."""
    generator = torch.Generator().manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 9, stride=8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    module.append(nn.Linear(32, 1000))
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) / 8)
    return Classifier("toy", module.eval(), 64, Normalization((0.5,) * 3, (0.5,) * 3), ("class",) * 1000)


@pytest.fixture(scope="session")
def registered() -> Iterator[None]:
    """The toy model, and a method whose maps are not finite for some images."""
    methods, models = dict(METHODS), dict(MODELS)
    register_model("toy")(toy_imagenet)

    @register("broken", family="own")
    def broken(model: nn.Module, images: torch.Tensor, targets: torch.Tensor, **_: object) -> torch.Tensor:
        """Brightness, and NaN for the images of class 0."""
        return torch.where(targets[:, None, None, None] == 0, torch.nan, images.mean(1, keepdim=True))

    yield
    for registry, before in ((METHODS, methods), (MODELS, models)):
        registry.clear()
        registry.update(before)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def settings() -> deletion.Settings:
    return deletion.Settings(
        preset="test",
        methods=METHOD_NAMES,
        options={"sliding-patch": {"patch": 16, "stride": 16}},
        shown_model="toy",
        n_shown=2,
        n_images=12,
        n_heldout=8,
        fills=["zero", "blur"],
        device="cpu",
    )


@pytest.fixture(scope="session")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def results(registered: None, settings: deletion.Settings, store_path: Path) -> deletion.Results:
    return deletion.run(settings, ResultsStore(store_path))
