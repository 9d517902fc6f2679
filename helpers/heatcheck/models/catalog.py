"""All models by name: built-in ones, plug-ins, and everything in torchvision and timm."""

import dataclasses
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from heatcheck.models import lite0, relation_weights, resnet8, small_family
from heatcheck.models.registry import MODELS, Classifier

# Importing a module registers its models; the names are here so that linters see the use.
BUILT_IN = (lite0, relation_weights, resnet8, small_family)


def load_models() -> list[str]:
    """Names of all registered models, sorted: the built-in ones and those of plug-ins so far."""
    return sorted(MODELS)


def get_classifier(
    name: str,
    *,
    weights: Path | str | None = None,
    n_classes: int | None = None,
    classes: Sequence[str] | None = None,
    device: str = "cpu",
) -> Classifier:
    """Classifier called ``name``, in evaluation mode on ``device``.

    Args:
        name: A registered model, ``torchvision/<name>``, ``timm/<name>`` or ``design/<name>``.
        weights: Not for registered models; see ``heatcheck.models.zoo.load_classifier`` and, for
            ``design/<name>``, ``heatcheck.models.design.catalog.load_design``.
        n_classes: Not for registered models: number of classes of the weights.
        classes: Not for registered models: class names.
        device: Where to put the model.

    Raises:
        ValueError: No such model; the message lists those there are. Or weights for a model that has its own,
            or a factory that returns no classifier.
        RuntimeError: The factory of a registered model failed; the message names it.
    """
    if name.startswith(("torchvision/", "timm/")):
        # Imported here because the libraries behind it take seconds.
        from heatcheck.models.zoo import load_classifier  # noqa: PLC0415

        return load_classifier(name, weights=weights, n_classes=n_classes, classes=classes, device=device)
    if name.startswith("design/"):
        from heatcheck.models.design.catalog import load_design  # noqa: PLC0415

        return load_design(name, weights=weights, n_classes=n_classes, classes=classes, device=device)
    known = load_models()
    if name not in MODELS:
        near = get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ValueError(
            f"unknown model {name!r}; {hint}known: {', '.join(known)}, design/<name>, torchvision/<name>, "
            "timm/<name>"
        )
    if weights is not None or n_classes is not None or classes is not None:
        raise ValueError(
            f"model {name!r} has its own weights and classes; only design/..., torchvision/... and timm/... "
            "take them"
        )
    classifier = _make(name)
    return dataclasses.replace(classifier, module=classifier.module.to(device).eval())


def _make(name: str) -> Classifier:
    try:
        classifier: object = MODELS[name]()
    except (ValueError, FileNotFoundError):
        raise
    except Exception as error:
        raise RuntimeError(
            f"the factory of model {name!r} failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(classifier, Classifier):
        raise ValueError(
            f"the factory of model {name!r} returned {type(classifier).__name__}; it must return a Classifier"
        )
    return classifier
