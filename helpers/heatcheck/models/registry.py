"""Classifiers by name: what a model is to a benchmark."""

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

from torch import Tensor, nn


class Normalization(NamedTuple):
    """Per-channel mean and standard deviation of images in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


IMAGENET = Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Classifier:
    """A model together with what its inputs must look like.

    Attributes:
        name: Registered name, used in every table.
        module: Normalized images ``(N, 3, H, W)`` to logits ``(N, K)``, in evaluation mode.
        size: Side of the square input in pixels.
        normalization: What its images are normalized with; zero afterwards is the mean color.
        classes: ``K`` class names.
        preprocessing: How photographs become inputs: ``squash256``, ``short256``, ``squash224`` or
            ``short224``.
        wnids: WordNet ids of the classes, for ImageNet.
        mean_image: ``(3, H, W)`` in [0, 1], mean of the training images; None where it is not known.
    """

    name: str
    module: nn.Module
    size: int
    normalization: Normalization
    classes: tuple[str, ...]
    preprocessing: str = "squash256"
    wnids: tuple[str, ...] | None = None
    mean_image: Tensor | None = field(default=None, compare=False)

    def class_index(self, name: str) -> int:
        """Index of the class called ``name``.

        Raises:
            ValueError: The model knows no such class; the message offers the nearest names.
        """
        if name in self.classes:
            return self.classes.index(name)
        near = get_close_matches(name, self.classes, n=3)
        hint = (
            f"; did you mean {', '.join(near)}?" if near else f"; allowed: {', '.join(self.classes[:10])} ..."
        )
        raise ValueError(f"model {self.name!r} knows no class {name!r}{hint}")


Factory = Callable[[], Classifier]
MODELS: dict[str, Factory] = {}


def register_model(name: str) -> Callable[[Factory], Factory]:
    """Register the decorated factory, a function without arguments that returns a ``Classifier``.

    Raises:
        ValueError: The name is taken.
    """

    def decorate(factory: Factory) -> Factory:
        if name in MODELS:
            raise ValueError(f"model {name!r} is registered already, by {MODELS[name].__module__}")
        MODELS[name] = factory
        return factory

    return decorate
