"""Networks by name, with random weights, for training from the start."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial

from torch import nn

from heatcheck.models.resnet8 import ResNet8
from heatcheck.models.resnet50_recipe import resnet50_published

Build = Callable[[int], nn.Module]
NETWORKS: dict[str, Build] = {
    "resnet8": ResNet8,
    # Images of 8 x 8 pixels leave nothing to skip.
    "resnet8-digits": partial(ResNet8, stem_stride=1),
    "resnet50-published": resnet50_published,
}


def register_network(name: str) -> Callable[[Build], Build]:
    """Register the decorated function: number of classes to a network with random weights.

    Raises:
        ValueError: The name is taken.
    """

    def decorate(build: Build) -> Build:
        if name in NETWORKS:
            raise ValueError(f"network {name!r} is registered already; choose another name")
        NETWORKS[name] = build
        return build

    return decorate


def network_builder(name: str, n_classes: int) -> Callable[[], nn.Module]:
    """Function without arguments that makes the network called ``name`` with weights drawn anew.

    Args:
        name: A key of ``NETWORKS``, ``torchvision/<name>`` or ``timm/<name>``.
        n_classes: Number of classes ``K``.

    Raises:
        ValueError: There is no such network; the message offers the nearest names.
    """
    library, _, model = name.partition("/")
    if library == "torchvision" and model:
        return _torchvision(model, n_classes)
    if library == "timm" and model:
        return _timm(model, n_classes)
    if name not in NETWORKS:
        near = get_close_matches(name, NETWORKS, n=2)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(
            f"unknown network {name!r}; {hint}known: {', '.join(sorted(NETWORKS))}, torchvision/<name>, "
            "timm/<name>"
        )
    return partial(NETWORKS[name], n_classes)


def _torchvision(model: str, n_classes: int) -> Callable[[], nn.Module]:
    # Imported here, as timm below, because the libraries take seconds.
    import torchvision  # noqa: PLC0415

    if model not in torchvision.models.list_models(module=torchvision.models):
        raise ValueError(f"torchvision has no classifier {model!r}; see torchvision.models.list_models()")
    return partial(torchvision.models.get_model, model, weights=None, num_classes=n_classes)


def _timm(model: str, n_classes: int) -> Callable[[], nn.Module]:
    import timm  # noqa: PLC0415

    if not timm.is_model(model):
        raise ValueError(f"timm has no model {model!r}; see timm.list_models()")
    return partial(timm.create_model, model, pretrained=False, num_classes=n_classes)
