"""Training on images that are masked while they are read, beside training on the images as they are."""

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from tests.benchmarks.peers.case import Case, Sides
from torch import Tensor

from heatcheck.benchmarks.image_changes import removal
from heatcheck.benchmarks.masked_batches import MaskedImages, masked_images
from heatcheck.data.parts import Part
from heatcheck.metrics.levels import percent_levels
from heatcheck.models.networks import network_builder
from heatcheck.models.registry import Normalization
from heatcheck.models.retrain_recipes import RECIPES, RetrainRecipe
from heatcheck.models.retraining import retrain

N_IMAGES, SIDE, N_CLASSES = 1024, 32, 16
NORMALIZATION = Normalization((0.45, 0.45, 0.45), (0.2, 0.2, 0.2))


def retraining_cases() -> list[Case]:
    """One epoch of the small recipe with units removed by pixel and by channel value."""
    return [
        Case(
            f"one epoch of {N_IMAGES} images of {SIDE}², masked by {unit}",
            "the same epoch without masks",
            partial(_sides, n_units),
            # Nothing is removed, so both train the same network, and pay for every step of removal.
            tolerance=0.0,
            target=0.9,
        )
        for unit, n_units in (("pixel", 1), ("channel value", 3))
    ]


def _sides(n_units: int) -> Sides:
    numbers = np.random.default_rng(0)
    images = numbers.integers(0, 256, (N_IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
    part = Part(tuple(map(str, range(N_IMAGES))), images, torch.arange(N_IMAGES) % N_CLASSES)
    values = torch.rand((N_IMAGES, n_units, SIDE, SIDE), generator=torch.Generator().manual_seed(0))
    fill = torch.tensor(NORMALIZATION.mean)
    plain = masked_images(part, NORMALIZATION)
    masked = plain.ranked(percent_levels(values)).changed(removal(0, "roar", fill))
    recipe = replace(RECIPES["color-material"], epochs=1)
    return Sides(partial(_weights, masked, recipe), partial(_weights, plain, recipe))


def _weights(images: MaskedImages, recipe: RetrainRecipe) -> Tensor:
    module = retrain(network_builder(recipe.network, N_CLASSES), images, recipe).module
    return torch.cat([weight.detach().flatten() for weight in module.parameters()])
