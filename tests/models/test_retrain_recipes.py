"""Recipes: the published table, the rate over a run, and what is refused."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from heatcheck.models.networks import NETWORKS
from heatcheck.models.retrain_recipes import RECIPES, RetrainRecipe, autocast_dtype, finetune_recipe

SMALL = RetrainRecipe("resnet8", "adamw", 0.01, 10, epochs=10, warmup_epochs=2.0)


@pytest.mark.parametrize(
    ("name", "published", "n_images", "epochs"),
    [
        ("imagenet", (32_000, 4096, 1.6), 1_281_167, 102.3),
        ("food101", (20_000, 256, 0.7), 75_750, 67.6),
        ("birdsnap", (20_000, 256, 1.0), 47_386, 108.0),
    ],
)
def test_the_published_recipes_are_those_of_the_table(
    name: str, published: tuple[int, int, float], n_images: int, epochs: float
) -> None:
    recipe = RECIPES[name]
    assert (recipe.n_steps(n_images), recipe.batch_size, recipe.learning_rate) == published
    assert recipe.n_steps(n_images) * recipe.batch_size / n_images == pytest.approx(epochs, abs=0.05)
    assert (recipe.weight_decay, recipe.label_smoothing, recipe.momentum) == (1e-4, 0.1, 0.9)
    assert (recipe.network, recipe.augmentation) == ("resnet50-published", "published")


@pytest.mark.parametrize(
    ("epoch", "factor"),
    [
        (0, 0.0),
        (2.5, 0.5),
        (5, 1.0),
        (29.99, 1.0),
        (30, 0.1),
        (59.99, 0.1),
        (60, 0.01),
        (80, 0.001),
        (102, 0.001),
    ],
)
def test_the_published_rate_rises_for_five_epochs_and_falls_at_30_60_and_80(
    epoch: float, factor: float
) -> None:
    recipe = replace(RECIPES["birdsnap"], batch_size=100)
    assert recipe.rate(round(epoch * 100), 10_000) == pytest.approx(factor)


def test_the_food_schedule_ends_before_its_last_drop() -> None:
    recipe = RECIPES["food101"]
    assert recipe.rate(19_999, 75_750) == pytest.approx(0.7 * 0.01)


def test_the_cosine_rises_to_the_largest_rate_and_ends_near_0() -> None:
    rates = [SMALL.rate(step, 100) for step in range(SMALL.n_steps(100))]
    assert len(rates) == 100
    assert rates.index(max(rates)) == 20
    assert max(rates) == pytest.approx(0.01)
    assert rates[:20] == sorted(rates[:20])
    assert rates[20:] == sorted(rates[20:], reverse=True)
    assert rates[-1] < 1e-5


def test_a_recipe_in_epochs_takes_as_many_batches_as_hold_its_images() -> None:
    assert SMALL.n_steps(104) == 104
    assert SMALL.n_steps(1) == 1
    assert replace(SMALL, epochs=0.5).n_steps(200) == 10


def test_fine_tuning_takes_a_part_of_the_epochs_at_a_tenth_of_the_rate_and_falls_to_0() -> None:
    short = finetune_recipe(SMALL, share=0.2)
    assert short.n_steps(100) == 20
    assert short.rate(0, 100) == pytest.approx(0.001)
    assert short.rate(19, 100) < 1e-5
    assert finetune_recipe(RECIPES["imagenet"], share=0.1).n_steps(1_281_167) == 3200
    assert (short.network, short.seed) == (SMALL.network, SMALL.seed)


@pytest.mark.parametrize("name", ["color-material", "digits"])
def test_every_recipe_trains_a_network_there_is(name: str) -> None:
    assert RECIPES[name].network in NETWORKS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimizer": "lion"}, "sgd-nesterov, adamw"),
        ({"schedule": "steps"}, "published-steps, cosine"),
        ({"precision": "int8"}, "float32, bfloat16, float16"),
        ({"steps": 5}, "either epochs or steps"),
        ({"epochs": None}, "either epochs or steps"),
        ({"epochs": 0.0}, "above 0"),
        ({"learning_rate": math.inf}, "above 0"),
        ({"batch_size": 0}, "above 0"),
        ({"images_per_pass": -1}, "above 0"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)


def test_half_precision_of_16_bits_is_refused_without_cuda() -> None:
    with pytest.raises(ValueError, match="needs CUDA"):
        autocast_dtype(replace(SMALL, precision="float16"), torch.device("cpu"))
    assert autocast_dtype(replace(SMALL, precision="bfloat16"), torch.device("cpu")) is torch.bfloat16
    assert autocast_dtype(SMALL, torch.device("cpu")) is None
