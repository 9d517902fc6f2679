"""Models by name."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from heatcheck.models.catalog import get_classifier, load_models
from heatcheck.models.registry import MODELS, Classifier, Normalization, register_model


@pytest.fixture
def own_model() -> Iterator[str]:
    @register_model("own")
    def own() -> Classifier:
        module = nn.Sequential(nn.Flatten(), nn.Linear(12, 2)).train()
        return Classifier("own", module, 2, Normalization((0.0,) * 3, (1.0,) * 3), ("a", "b"))

    yield "own"
    del MODELS["own"]


def test_the_built_in_models_are_listed() -> None:
    names = load_models()
    assert "efficientnet-lite0" in names
    assert names == sorted(names)
    assert load_models() == names


def test_a_registered_model_comes_in_evaluation_mode(own_model: str) -> None:
    classifier = get_classifier(own_model)
    assert classifier.classes == ("a", "b")
    assert not classifier.module.training
    assert classifier.module(torch.zeros(1, 3, 2, 2)).shape == (1, 2)


def test_models_of_the_libraries_are_found_by_their_prefix() -> None:
    classifier = get_classifier("timm/test_resnet", weights="random", n_classes=3)
    assert classifier.name == "timm/test_resnet"
    assert len(classifier.classes) == 3


def test_an_unknown_model_lists_those_there_are() -> None:
    with pytest.raises(
        ValueError,
        match=r"unknown model 'efficientnet-lite'; did you mean efficientnet-lite0\? known: .*timm/<name>",
    ):
        get_classifier("efficientnet-lite")


def test_weights_for_a_model_with_its_own_are_refused(own_model: str) -> None:
    with pytest.raises(ValueError, match="model 'own' has its own weights"):
        get_classifier(own_model, weights="w.pth")


def test_a_factory_that_fails_is_named() -> None:
    MODELS["broken"] = lambda: 1 / 0  # type: ignore[assignment, return-value]
    try:
        with pytest.raises(RuntimeError, match="factory of model 'broken' failed: ZeroDivisionError"):
            get_classifier("broken")
    finally:
        del MODELS["broken"]


def test_a_factory_that_returns_something_else_is_named() -> None:
    MODELS["bare"] = nn.Identity  # type: ignore[assignment]
    try:
        with pytest.raises(
            ValueError, match="factory of model 'bare' returned Identity; it must return a Classifier"
        ):
            get_classifier("bare")
    finally:
        del MODELS["bare"]
