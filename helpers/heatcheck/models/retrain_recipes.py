"""Recipes of training from random initialization: the published ones as data, small ones of our own.

Hooker et al. 2019, "A Benchmark for Interpretability Methods in Deep Neural Networks", section 4 and the
released training code.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, get_args

import torch

from heatcheck.models.training import rate_factor

Optimizer = Literal["sgd-nesterov", "adamw"]
Schedule = Literal["published-steps", "cosine"]
Precision = Literal["float32", "bfloat16", "float16"]
# Epochs from which a factor holds; from 0 to the first of them the rate rises in a straight line.
PUBLISHED_STEPS = ((5.0, 1.0), (30.0, 0.1), (60.0, 0.01), (80.0, 0.001))


@dataclass(frozen=True)
class RetrainRecipe:
    """How a network is trained from random initialization.

    Attributes:
        network: Name of what is trained; see ``heatcheck.models.networks``.
        optimizer: ``sgd-nesterov`` with momentum, or ``adamw``.
        learning_rate: Largest learning rate.
        batch_size: Images per step, the same in every step: a batch may reach into the next epoch.
        epochs: Passes over the training images; None where ``steps`` are given.
        steps: Steps of the optimizer; None where ``epochs`` are given.
        weight_decay: On all parameters but those of normalization layers.
        momentum: Of SGD.
        label_smoothing: Of the cross-entropy.
        schedule: ``published-steps``, or ``cosine``: a linear rise, then a cosine to 0.
        warmup_epochs: Epochs in which the rate of ``cosine`` rises.
        augmentation: Name of what is done to a batch after removal: ``none``, ``published`` or
            ``recommended``.
        precision: Of the forward pass: ``float32``, or autocast to ``bfloat16``, or on CUDA to ``float16``
            with a scaled loss.
        images_per_pass: Images per forward pass and per batch of a batch normalization; gradients of a
            step's passes add up. None for all of a step.
        seed: Decides initial weights, order, augmentation and dropout, and nothing else does.

    Raises:
        ValueError: A field is out of range, or not exactly one of ``epochs`` and ``steps`` is given.
    """

    network: str
    optimizer: Optimizer
    learning_rate: float
    batch_size: int
    epochs: float | None = None
    steps: int | None = None
    weight_decay: float = 1e-4
    momentum: float = 0.9
    label_smoothing: float = 0.0
    schedule: Schedule = "cosine"
    warmup_epochs: float = 1.0
    augmentation: str = "none"
    precision: Precision = "float32"
    images_per_pass: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        for name, allowed in (("optimizer", Optimizer), ("schedule", Schedule), ("precision", Precision)):
            if getattr(self, name) not in get_args(allowed):
                raise ValueError(
                    f"{name} {getattr(self, name)!r} is unknown; allowed: {', '.join(get_args(allowed))}"
                )
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(f"give either epochs or steps, got epochs={self.epochs} and steps={self.steps}")
        length = self.epochs if self.steps is None else self.steps
        least = min(self.learning_rate, self.batch_size, length or 0, self.images_per_pass or 1)
        if not least > 0 or not math.isfinite(self.learning_rate):
            raise ValueError(
                f"learning_rate, batch_size, images_per_pass and epochs or steps must be above 0, got {self}"
            )

    def n_steps(self, n_images: int) -> int:
        """Steps of the optimizer on ``n_images`` training images, at least one."""
        if self.steps is not None:
            return self.steps
        return max(1, round((self.epochs or 0) * n_images / self.batch_size))

    def rate(self, step: int, n_images: int) -> float:
        """Learning rate of ``step``, counted from 0, on ``n_images`` training images."""
        epoch = step * self.batch_size / n_images
        if self.schedule == "published-steps":
            return self.learning_rate * _published_factor(epoch)
        n_steps = self.n_steps(n_images)
        warmup = self.warmup_epochs * n_images / self.batch_size / n_steps
        return self.learning_rate * rate_factor(step, n_steps, min(1.0, warmup))


def finetune_recipe(recipe: RetrainRecipe, *, share: float = 0.15, factor: float = 0.1) -> RetrainRecipe:
    """``recipe`` for going on from trained weights: fewer epochs at a lower rate that falls to 0.

    Args:
        recipe: Of training from random initialization.
        share: Part of its epochs or steps.
        factor: Part of its largest learning rate.
    """
    return replace(
        recipe,
        epochs=None if recipe.epochs is None else share * recipe.epochs,
        steps=None if recipe.steps is None else max(1, round(share * recipe.steps)),
        learning_rate=factor * recipe.learning_rate,
        schedule="cosine",
        warmup_epochs=0.0,
    )


def autocast_dtype(recipe: RetrainRecipe, device: torch.device) -> torch.dtype | None:
    """Type of the forward pass on ``device``; None for float32 throughout.

    Raises:
        ValueError: ``float16`` elsewhere than on CUDA.
    """
    if recipe.precision == "float16" and device.type != "cuda":
        raise ValueError(f"precision 'float16' needs CUDA, not {device.type}; take 'bfloat16' or 'float32'")
    return None if recipe.precision == "float32" else getattr(torch, recipe.precision)


def _published_factor(epoch: float) -> float:
    rise = PUBLISHED_STEPS[0][0]
    if epoch < rise:
        return epoch / rise
    return next(factor for start, factor in reversed(PUBLISHED_STEPS) if epoch >= start)


def _published(steps: int, batch_size: int, base_rate: float) -> RetrainRecipe:
    """Published recipe of one data set; its rate is given per 256 images of a batch.

    The passes of at most 256 images and their precision are ours: the paper names neither.
    """
    return RetrainRecipe(
        network="resnet50-published",
        optimizer="sgd-nesterov",
        learning_rate=base_rate * batch_size / 256,
        batch_size=batch_size,
        steps=steps,
        label_smoothing=0.1,
        schedule="published-steps",
        augmentation="published",
        precision="bfloat16",
        images_per_pass=min(batch_size, 256),
    )


RECIPES: Mapping[str, RetrainRecipe] = MappingProxyType(
    {
        "imagenet": _published(32_000, 4096, 0.1),
        "food101": _published(20_000, 256, 0.7),
        "birdsnap": _published(20_000, 256, 1.0),
        "color-material": RetrainRecipe(
            network="resnet8",
            optimizer="adamw",
            learning_rate=5e-3,
            batch_size=128,
            epochs=8,
            weight_decay=0.05,
            augmentation="recommended",
        ),
        "digits": RetrainRecipe(
            network="resnet8-digits",
            optimizer="adamw",
            learning_rate=5e-3,
            batch_size=128,
            epochs=8,
            weight_decay=0.05,
        ),
    }
)
