"""Classifiers of torchvision and timm by name."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import timm
import torch
import torchvision
from torchvision import models

from heatcheck.data.imagenet_classes import imagenet_names
from heatcheck.models.zoo import load_classifier

TINY = "torchvision/shufflenet_v2_x0_5"


@pytest.fixture(scope="module")
def places_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as the authors of Places365 publish them."""
    path = tmp_path_factory.mktemp("weights") / "shufflenet_places365.pth.tar"
    state = models.shufflenet_v2_x0_5(num_classes=365).state_dict()
    named = {f"module.{key}": value for key, value in state.items() if "num_batches" not in key}
    torch.save({"epoch": 90, "arch": "shufflenet", "state_dict": named, "best_prec1": 54.6}, path)
    return path


def test_a_checkpoint_of_another_data_set_is_loaded(places_file: Path) -> None:
    names = [f"scene {index}" for index in range(365)]
    classifier = load_classifier(TINY, weights=places_file, classes=names, preprocessing="short256")
    assert classifier.name == TINY
    assert classifier.classes == tuple(names)
    assert classifier.wnids is None
    assert (classifier.size, classifier.preprocessing) == (224, "short256")
    assert not classifier.module.training
    saved = torch.load(places_file, weights_only=True)["state_dict"]["module.fc.weight"]
    assert torch.equal(classifier.module.state_dict()["fc.weight"], saved)


def test_a_checkpoint_with_another_number_of_classes_says_so(places_file: Path) -> None:
    with pytest.raises(
        ValueError, match=r"fc\.weight \(model \(1000, 1024\), file \(365, 1024\)\).* n_classes"
    ):
        load_classifier(TINY, weights=places_file)
    assert load_classifier(TINY, weights=places_file, n_classes=365).classes[364] == "class 364"


def test_a_checkpoint_of_another_architecture_is_refused(places_file: Path) -> None:
    with pytest.raises(
        ValueError, match=r"shufflenet_places365\.pth\.tar does not fit torchvision/squeezenet1_1: .* missing"
    ):
        load_classifier("torchvision/squeezenet1_1", weights=places_file)


@pytest.mark.parametrize(
    ("name", "size", "mean"),
    [
        (TINY, 224, (0.485, 0.456, 0.406)),
        ("timm/test_resnet", 160, (0.5, 0.5, 0.5)),
        ("timm/mobilenetv3_small_050", 224, (0.485, 0.456, 0.406)),
    ],
)
def test_inputs_are_normalized_as_the_published_weights_want(
    name: str, size: int, mean: tuple[float, ...]
) -> None:
    classifier = load_classifier(name, weights="random")
    assert classifier.size == size
    assert classifier.normalization.mean == pytest.approx(mean)
    assert classifier.classes == imagenet_names()
    with torch.no_grad():
        assert classifier.module(torch.zeros(1, 3, size, size)).shape == (1, 1000)


@pytest.mark.parametrize(("model", "mean"), [("efficientnet_v2_l", 0.5), ("resnet50", 0.485)])
def test_models_of_one_library_may_differ_in_normalization(
    model: str, mean: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torchvision.models, "get_model", lambda *_args, **_options: torch.nn.Identity())
    classifier = load_classifier(f"torchvision/{model}", weights="random")
    assert classifier.normalization.mean[0] == mean


@pytest.mark.parametrize("model", ["googlenet", "inception_v3"])
def test_models_that_rescale_their_input_do_so_with_a_file_as_well(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def build(_name: str, **options: Any) -> torch.nn.Module:
        seen.update(options)
        return torch.nn.Identity()

    monkeypatch.setattr(torchvision.models, "get_model", build)
    load_classifier(f"torchvision/{model}", weights="random")
    assert seen["transform_input"] is True


def test_a_file_is_read_by_timm_models(tmp_path: Path) -> None:
    state = timm.create_model("test_resnet", num_classes=5).state_dict()
    torch.save(state, tmp_path / "w.pth")
    classifier = load_classifier("timm/test_resnet", weights=tmp_path / "w.pth", n_classes=5)
    assert classifier.classes == ("class 0", "class 1", "class 2", "class 3", "class 4")
    loaded = classifier.module.state_dict()
    assert all(torch.equal(loaded[key], value) for key, value in state.items())


def test_random_weights_repeat_and_leave_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    first, second = (load_classifier("timm/test_resnet", weights="random", n_classes=3) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    pairs = zip(first.module.parameters(), second.module.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_weights_must_be_named() -> None:
    with pytest.raises(
        ValueError, match="needs weights: the path of a file, 'hub' to download them, or 'random'"
    ):
        load_classifier(TINY)


@pytest.mark.parametrize("name", ["resnet50", "keras/resnet50", "torchvision/", "timm"])
def test_a_name_without_a_library_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="allowed: torchvision/<name> and timm/<name>"):
        load_classifier(name, weights="random")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("torchvision/resnet51", "torchvision has no classifier 'resnet51'; did you mean resnet50"),
        ("torchvision/zzz", "has no classifier 'zzz'; it has"),
        ("torchvision/fcn_resnet50", "has no classifier 'fcn_resnet50'"),
        ("timm/resnet51", "timm has no classifier 'resnet51'; did you mean"),
        ("timm/resnet18.nonsense", r"timm has no weights 'resnet18\.nonsense'; allowed: .*resnet18\.a1_in1k"),
    ],
)
def test_an_unknown_model_is_refused_with_the_nearest_names(name: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        load_classifier(name, weights="random")


def test_class_names_and_their_number_must_agree() -> None:
    with pytest.raises(ValueError, match="n_classes is 3, but 2 class names were given"):
        load_classifier(TINY, weights="random", n_classes=3, classes=["a", "b"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.pth are missing"):
        load_classifier(TINY, weights=tmp_path / "absent.pth")


@pytest.mark.parametrize("name", [TINY, "timm/test_resnet"])
def test_a_hub_that_cannot_be_reached_is_said_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_args: object, **_options: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr(torchvision.models._api.WeightsEnum, "get_state_dict", unreachable)
    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(
        ConnectionError, match=rf"cannot get the weights of {name} from the hub .*give the file"
    ):
        load_classifier(name, weights="hub")


def test_the_hub_gives_the_oldest_weights_or_those_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def record(_name: str, *, weights: Any) -> torch.nn.Module:
        asked.append(weights.name)
        return torch.nn.Identity()

    monkeypatch.setattr(torchvision.models, "get_model", record)
    load_classifier("torchvision/resnet50", weights="hub")
    load_classifier("torchvision/resnet50", weights="hub:IMAGENET1K_V2")
    assert asked == ["IMAGENET1K_V1", "IMAGENET1K_V2"]


@pytest.mark.parametrize(
    ("name", "options", "fault"),
    [
        (TINY, {"weights": "hub:V9"}, "no weights 'V9'; allowed: IMAGENET1K_V1"),
        (TINY, {"weights": "hub", "n_classes": 5}, "have 1000 classes, not 5; give a weight file"),
        ("timm/test_resnet", {"weights": "hub:a1_in1k"}, "timm/test_resnet.a1_in1k with weights 'hub'"),
        ("timm/test_resnet", {"weights": "hub", "n_classes": 5}, "have 1000 classes, not 5"),
    ],
)
def test_what_the_hub_does_not_have_is_refused_before_a_download(
    name: str, options: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        load_classifier(name, **options)
