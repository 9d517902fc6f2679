"""Any classifier of torchvision or timm by name, with a weight file, the hub's weights or random ones."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import timm
import torchvision
from torch import nn
from torchvision import models

from heatcheck.data.imagenet_classes import imagenet_names, imagenet_wnids
from heatcheck.models.registry import Classifier, Normalization
from heatcheck.models.state_dict import load_by_name, own_randomness, read_state_dict

LIBRARIES = ("torchvision", "timm")
# With published weights these two rescale their input themselves; without, they warn about slow starts.
_REBUILT = ("googlenet", "inception_v3")


class _Built(NamedTuple):
    """A model with what its published weights say about inputs."""

    module: nn.Module
    size: int
    normalization: Normalization
    n_classes: int


def load_classifier(
    name: str,
    *,
    weights: Path | str | None = None,
    n_classes: int | None = None,
    classes: Sequence[str] | None = None,
    size: int | None = None,
    preprocessing: str = "squash256",
    device: str = "cpu",
) -> Classifier:
    """Classifier ``torchvision/<name>`` or ``timm/<name>``, in evaluation mode.

    Mean, standard deviation and input size are those its published weights were made with.

    Args:
        name: For example ``torchvision/resnet50`` or ``timm/resnet50.a1_in1k``.
        weights: A weight file (``read_state_dict`` says which); ``hub`` to download the published ones, of
            torchvision the oldest, or ``hub:IMAGENET1K_V2`` the ones of that name; ``random`` for none.
        n_classes: Number of classes; by default that of ``classes`` or of the published weights.
        classes: Class names in the order of the outputs; by default ImageNet's where there are 1000, else
            ``class 0``, ``class 1``, ...
        size: Side of the input in pixels, where it is not that of the published weights.
        preprocessing: How photographs become inputs.
        device: Where to put the model.

    Raises:
        FileNotFoundError: The weight file is missing.
        ValueError: Unknown model, no weights named, or weights of another architecture.
        ConnectionError: The hub cannot be reached.
    """
    library, _, model = name.partition("/")
    if library not in LIBRARIES or not model:
        raise ValueError(f"unknown model {name!r}; allowed: torchvision/<name> and timm/<name>")
    if weights is None:
        raise ValueError(f"{name} needs weights: the path of a file, 'hub' to download them, or 'random'")
    if classes is not None and n_classes not in (None, len(classes)):
        raise ValueError(f"n_classes is {n_classes}, but {len(classes)} class names were given")
    count = len(classes) if classes is not None else n_classes
    file = None if _is_hub(weights) or weights == "random" else read_state_dict(weights)
    tag = str(weights).partition(":")[2] if _is_hub(weights) else None
    with own_randomness():
        built = _build(library, model, count, hub=_is_hub(weights), tag=tag)
    if file is not None:
        load_by_name(built.module, file, name=name, source=f"weights {weights}")
    names = tuple(classes) if classes is not None else _class_names(built.n_classes)
    wnids = imagenet_wnids() if names == imagenet_names() else None
    module = built.module.eval().to(device)
    return Classifier(name, module, size or built.size, built.normalization, names, preprocessing, wnids)


def _is_hub(weights: Path | str) -> bool:
    return str(weights) == "hub" or str(weights).startswith("hub:")


def _class_names(count: int) -> tuple[str, ...]:
    return (
        imagenet_names()
        if count == len(imagenet_names())
        else tuple(f"class {index}" for index in range(count))
    )


def _build(library: str, model: str, count: int | None, *, hub: bool, tag: str | None) -> _Built:
    build = _torchvision if library == "torchvision" else _timm
    return build(model, count, hub=hub, tag=tag or None)


def _torchvision(model: str, count: int | None, *, hub: bool, tag: str | None) -> _Built:
    known = models.list_models(module=torchvision.models)
    if model not in known:
        raise ValueError(f"torchvision has no classifier {model!r}{_near(model, known)}")
    published = models.get_model_weights(model)
    if tag is not None and tag not in published.__members__:
        raise ValueError(
            f"torchvision/{model} has no weights {tag!r}; allowed: {', '.join(published.__members__)}"
        )
    # The papers used the oldest weights; later ones are from other training recipes.
    entry = published[tag] if tag is not None else next(iter(published))
    transforms = entry.transforms()
    normalization = Normalization(tuple(transforms.mean), tuple(transforms.std))
    available = len(entry.meta["categories"])
    if hub:
        _refuse_count(f"torchvision/{model}", count, available)
        module = _fetch(f"torchvision/{model}", lambda: models.get_model(model, weights=entry))
    else:
        extra: dict[str, Any] = {"init_weights": False, "transform_input": True} if model in _REBUILT else {}
        module = models.get_model(model, weights=None, num_classes=count or available, **extra)
    return _Built(module, transforms.crop_size[0], normalization, count or available)


def _timm(model: str, count: int | None, *, hub: bool, tag: str | None) -> _Built:
    architecture = model.partition(".")[0]
    if not timm.is_model(architecture):
        raise ValueError(f"timm has no classifier {model!r}{_near(model, timm.list_models())}")
    if tag is not None:
        raise ValueError(f"timm weights are named in the model: timm/{architecture}.{tag} with weights 'hub'")
    config = _timm_config(model)
    if hub:
        _refuse_count(f"timm/{model}", count, config.num_classes)
        module = _fetch(f"timm/{model}", lambda: timm.create_model(model, pretrained=True))
    else:
        module = timm.create_model(model, pretrained=False, num_classes=count or config.num_classes)
    normalization = Normalization(tuple(config.mean), tuple(config.std))
    return _Built(module, config.input_size[-1], normalization, count or config.num_classes)


def _timm_config(model: str) -> Any:
    """What timm knows of the published weights of ``model``."""
    try:
        config = timm.models.get_pretrained_cfg(model)
    except RuntimeError as error:
        tags = timm.list_pretrained(f"{model.partition('.')[0]}.*")
        raise ValueError(f"timm has no weights {model!r}; allowed: {', '.join(tags)}") from error
    if config is None or not config.num_classes:
        raise ValueError(
            f"timm publishes no classifier weights of {model!r}, so its input size and normalization are "
            "unknown; register a model factory of your own that states them"
        )
    return config


def _fetch(name: str, build: Callable[[], nn.Module]) -> nn.Module:
    try:
        return build()
    # The libraries raise whatever their download code meets: URLError, HTTPError, OSError, RuntimeError, ...
    except Exception as error:
        raise ConnectionError(
            f"cannot get the weights of {name} from the hub ({type(error).__name__}: {error}); download them "
            "elsewhere and give the file as weights"
        ) from error


def _refuse_count(name: str, count: int | None, available: int) -> None:
    if count not in (None, available):
        raise ValueError(
            f"the hub's weights of {name} have {available} classes, not {count}; give a weight file"
        )


def _near(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=3)
    return (
        f"; did you mean {', '.join(near)}?"
        if near
        else f"; it has {len(known)}, such as {', '.join(known[:5])}"
    )
