"""Which network judges a condition: one retrained for it, a cheaper substitute, or the explained one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor, nn

from heatcheck.benchmarks.image_changes import Imputation, random_removal
from heatcheck.benchmarks.masked_batches import MaskedImages
from heatcheck.models.networks import network_builder
from heatcheck.models.retrain_recipes import RetrainRecipe, finetune_recipe
from heatcheck.models.retraining import continued, retrain

RetrainMode = Literal["scratch", "finetune", "evaluator", "none"]
# What a table or a legend calls the modes: only the first is the published protocol.
MODES: Mapping[RetrainMode, str] = MappingProxyType(
    {
        "scratch": "retrained from random weights",
        "finetune": "fine-tuned from the explained weights",
        "evaluator": "one evaluator trained on random masks",
        "none": "not retrained",
    }
)


def condition_network(
    mode: RetrainMode,
    train: MaskedImages,
    recipe: RetrainRecipe,
    *,
    n_classes: int,
    explained: nn.Module | None = None,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
) -> nn.Module:
    """Network that judges one estimator, fraction and kind of removal; a trained one in evaluation mode.

    Args:
        mode: ``scratch``; ``finetune``, a tenth of the largest learning rate for 15 % of the steps; or
            ``none``, which returns ``explained`` itself. See ``evaluator_network`` for ``evaluator``.
        train: Training images of this condition.
        recipe: Of training from random weights; its seed is the run's.
        n_classes: Number of classes ``K``.
        explained: The explained network, for ``finetune`` and ``none``; it is not changed.
        device: Where to train.
        checkpoint: See ``retrain``.

    Raises:
        ValueError: The mode is unknown, of another function, or needs an explained network.
    """
    if mode not in ("scratch", "finetune", "none"):
        raise ValueError(
            f"mode {mode!r} judges no single condition; allowed: scratch, finetune, none; 'evaluator' is "
            "trained once for all conditions, by evaluator_network"
        )
    if mode == "scratch":
        build = network_builder(recipe.network, n_classes)
        return retrain(build, train, recipe, device=device, checkpoint=checkpoint).module
    if explained is None:
        raise ValueError(f"mode {mode!r} needs the explained network; give it as explained")
    if mode == "none":
        return explained
    short = finetune_recipe(recipe)
    return retrain(continued(explained), train, short, device=device, checkpoint=checkpoint).module


def evaluator_network(
    train: MaskedImages,
    recipe: RetrainRecipe,
    *,
    n_classes: int,
    percents: Sequence[int],
    fill: Tensor | Imputation,
    n_units: int,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
) -> nn.Module:
    """One network for all estimators, fractions and kinds of removal, trained on masks that know no image.

    It cannot learn what an estimator's masks give away. See ``random_removal`` for the masks.

    Args:
        train: Training images; their own change and levels are not used.
        recipe: How to train; its seed is the run's.
        n_classes: Number of classes ``K``.
        percents: Grid of fractions that will be judged; 0 is added.
        fill: What stands where units are removed, the same as in the conditions.
        n_units: Units per pixel: 1, or the number of channels.
        device: Where to train.
        checkpoint: See ``retrain``.
    """
    # KAR at p removes 100 - p, which the grid may not hold.
    removed = sorted({*percents, *(100 - percent for percent in percents)} - {0, 100})
    change = random_removal(removed, fill, n_units=n_units, seed=recipe.seed)
    build = network_builder(recipe.network, n_classes)
    images = train.ranked(None).changed(change)
    return retrain(build, images, recipe, device=device, checkpoint=checkpoint).module
