"""Batches of masked images: the order of the steps, pairing by seed, and what networks learn from them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.benchmarks.image_changes import (
    EVALUATION,
    mask_normalization,
    mask_only,
    removal,
    removed_units,
)
from heatcheck.benchmarks.masked_batches import MaskedImages, augmentations, masked_images
from heatcheck.benchmarks.retraining_modes import MODES, condition_network, evaluator_network
from heatcheck.data.parts import Part
from heatcheck.metrics.levels import percent_levels
from heatcheck.models.imputation_predictor import ImputationPredictor, imputation_loss, imputation_visibility
from heatcheck.models.registry import Normalization
from heatcheck.models.retrain_recipes import RetrainRecipe
from heatcheck.models.retraining import evaluate, retrain

N, SIDE, CLASSES = 20, 8, 4
NORMALIZATION = Normalization((0.4, 0.5, 0.6), (0.2, 0.3, 0.25))
FILL = torch.tensor(NORMALIZATION.mean)
RECIPE = RetrainRecipe("resnet8-digits", "adamw", 0.01, 8, epochs=2, seed=3)


def part_of(images: NDArray[np.uint8], targets: Tensor) -> Part:
    return Part(tuple(map(str, range(len(images)))), images, targets)


@pytest.fixture(scope="module")
def part() -> Part:
    numbers = np.random.default_rng(0)
    images = numbers.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
    return part_of(images, torch.arange(N) % CLASSES)


@pytest.fixture(scope="module")
def levels() -> Tensor:
    return percent_levels(torch.randn((N, 1, SIDE, SIDE), generator=torch.Generator().manual_seed(4)))


@pytest.fixture(scope="module")
def masked(part: Part, levels: Tensor) -> MaskedImages:
    return masked_images(part, NORMALIZATION, levels=levels, change=removal(50, "roar", FILL))


def together(batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    images, targets = zip(*batches, strict=True)
    return torch.cat(images), torch.cat(targets)


def test_images_are_scaled_changed_and_normalized_in_that_order(
    masked: MaskedImages, part: Part, levels: Tensor
) -> None:
    images, targets = together(masked.evaluation(RECIPE))
    values = torch.from_numpy(part.images).permute(0, 3, 1, 2) / 255
    shown = torch.where(levels < 50, FILL[:, None, None], values)
    mean, std = (torch.tensor(numbers)[:, None, None] for numbers in NORMALIZATION)
    torch.testing.assert_close(images, (shown - mean) / std)
    assert targets.tolist() == part.targets.tolist()
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_filled_units_are_exactly_0_after_normalization(masked: MaskedImages, levels: Tensor) -> None:
    images, _ = together(masked.evaluation(RECIPE))
    assert torch.all(images[(levels < 50).expand_as(images)] == 0)


@pytest.mark.parametrize("chunk", [1, 7, 20, 100])
def test_all_images_are_evaluated_and_chunks_do_not_matter(masked: MaskedImages, chunk: int) -> None:
    whole, found = together(masked.evaluation(RECIPE)), together(masked.evaluation(RECIPE, chunk=chunk))
    assert torch.equal(whole[0], found[0])
    assert torch.equal(whole[1], found[1])


def test_nothing_removed_through_the_pipeline_is_the_plain_image(masked: MaskedImages) -> None:
    none, plain = masked.changed(removal(0, "roar", FILL)), masked.changed(None)
    for ours, theirs in zip(none.training(range(4), RECIPE), plain.training(range(4), RECIPE), strict=True):
        assert torch.equal(ours[0], theirs[0])


@pytest.mark.parametrize("augmentation", ["none", "recommended"])
def test_order_and_augmentation_are_the_same_for_every_ranking_and_change(
    part: Part, levels: Tensor, augmentation: str
) -> None:
    recipe = replace(RECIPE, augmentation=augmentation)
    # Ids as colors: red tells the image, green and blue the place.
    images = np.zeros((N, SIDE, SIDE, 3), dtype=np.uint8)
    images[..., 0] = np.arange(N)[:, None, None] * 10
    images[..., 1:] = np.indices((SIDE, SIDE)).transpose(1, 2, 0) * 16 + 8
    plain = masked_images(part_of(images, part.targets), NORMALIZATION)
    removed = plain.ranked(levels).changed(removal(50, "roar", FILL))
    other = removed.ranked(levels.flip(0))
    for first, second, third in zip(
        *(data.training(range(9), recipe) for data in (plain, removed, other)), strict=True
    ):
        assert torch.equal(first[1], second[1])
        assert torch.equal(first[1], third[1])
        for changed in (second[0], third[0]):
            # A unit is either the one that stands there without removal, or the fill.
            assert torch.all((changed == first[0]) | (changed == 0))


def test_other_seeds_show_other_orders(masked: MaskedImages) -> None:
    first = together(masked.training(range(5), RECIPE))[1]
    assert not torch.equal(first, together(masked.training(range(5), replace(RECIPE, seed=4)))[1])
    assert torch.equal(first[16:], together(masked.training(range(2, 5), RECIPE))[1])


def test_units_are_removed_before_augmentation(
    masked: MaskedImages, levels: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []

    def look(images: Tensor) -> Tensor:
        seen.append(images)
        return images[:, :, 1:-1, 1:-1]

    monkeypatch.setattr("heatcheck.data.augmentation.published_eval", look)
    images, _ = together(masked.evaluation(replace(RECIPE, augmentation="published")))
    assert images.shape == (N, 3, SIDE - 2, SIDE - 2)
    gone = (levels < 50).expand_as(seen[0])
    assert torch.all((seen[0] == FILL[:, None, None]) | ~gone)
    assert seen[0].min() >= 0
    assert seen[0].max() <= 1


def test_mapped_files_and_functions_of_rows_give_the_same_batches(
    masked: MaskedImages, part: Part, levels: Tensor, tmp_path: Path
) -> None:
    np.save(tmp_path / "images.npy", part.images)
    mapped = part_of(np.load(tmp_path / "images.npy", mmap_mode="r"), part.targets)
    asked: list[Tensor] = []

    def read(rows: Tensor) -> Tensor:
        asked.append(rows)
        return levels[rows]

    lazy = masked_images(mapped, NORMALIZATION, levels=read, change=masked.change)
    assert lazy.ahead
    assert torch.equal(together(lazy.evaluation(RECIPE, chunk=6))[0], together(masked.evaluation(RECIPE))[0])
    for ours, theirs in zip(lazy.training(range(5), RECIPE), masked.training(range(5), RECIPE), strict=True):
        assert torch.equal(ours[0], theirs[0])
    assert all(len(rows) <= 8 for rows in asked)


def test_an_error_in_a_mapped_file_reaches_the_reader(part: Part, tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", part.images)
    mapped = part_of(np.load(tmp_path / "images.npy", mmap_mode="r"), part.targets)

    def broken(rows: Tensor) -> Tensor:
        raise ValueError("block 3 is damaged")

    lazy = masked_images(mapped, NORMALIZATION, levels=broken, change=removal(50, "roar", FILL))
    with pytest.raises(ValueError, match="block 3"):
        next(iter(lazy.evaluation(RECIPE)))


def test_changed_images_can_be_looked_at(masked: MaskedImages, levels: Tensor) -> None:
    images = torch.cat(list(masked.plain(chunk=6)))
    assert torch.all((images == FILL[:, None, None]) | (levels >= 50))


@pytest.mark.parametrize("shape", [(N - 1, 1, SIDE, SIDE), (N, SIDE, SIDE), (N, 1, SIDE, SIDE + 1)])
def test_levels_that_do_not_fit_are_refused(part: Part, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="levels must be uint8"):
        masked_images(part, NORMALIZATION, levels=torch.zeros(shape, dtype=torch.uint8))


def test_an_augmentation_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="none, published, recommended"):
        augmentations("strong", flip_safe=False)


def coded(seed: int) -> tuple[Part, Tensor]:
    """Images of noise, and levels with the pattern of the class: the mask tells all, the image nothing."""
    numbers = np.random.default_rng(seed)
    images = numbers.integers(0, 256, (64, SIDE, SIDE, 3), dtype=np.uint8)
    targets = torch.arange(64) % CLASSES
    patterns = torch.randn((CLASSES, 1, SIDE, SIDE), generator=torch.Generator().manual_seed(9))
    return part_of(images, targets), percent_levels(patterns[targets])


def test_the_probe_reads_the_class_from_masks_that_tell_it_and_not_from_others() -> None:
    recipe = replace(RECIPE, epochs=5)
    accuracies = []
    for tells in (True, False):
        (seen, seen_levels), (unseen, unseen_levels) = coded(0), coded(1)
        if not tells:
            draw = torch.Generator().manual_seed(5)
            seen_levels, unseen_levels = (
                levels[torch.randperm(64, generator=draw)] for levels in (seen_levels, unseen_levels)
            )
        train, test = (
            masked_images(part, mask_normalization(30, "roar"), levels=levels, change=mask_only(30, "roar"))
            for part, levels in ((seen, seen_levels), (unseen, unseen_levels))
        )
        module = condition_network("scratch", train, recipe, n_classes=CLASSES)
        accuracies.append(evaluate(module, test.evaluation(recipe)).accuracy)
    assert accuracies[0] == 1
    assert accuracies[1] < 0.6


def test_a_predictor_sees_a_constant_fill(part: Part, levels: Tensor) -> None:
    change = removal(30, "roar", FILL)
    images = masked_images(part, NORMALIZATION, levels=levels, change=change).aiming(
        lambda reading: removed_units(reading, 30, "roar").float()
    )
    recipe = replace(RECIPE, epochs=25, learning_rate=0.03)
    module = retrain(ImputationPredictor, images, recipe, loss=imputation_loss).module
    assert imputation_visibility(module, images.evaluation(recipe)) > 0.9
    with pytest.raises(ValueError, match="do not move"):
        next(iter(images.evaluation(replace(recipe, augmentation="recommended"))))


def test_every_mode_judges_with_the_network_it_says(masked: MaskedImages) -> None:
    recipe = replace(RECIPE, epochs=1)
    scratch = condition_network("scratch", masked, recipe, n_classes=CLASSES)
    explained = condition_network("scratch", masked.changed(None), recipe, n_classes=CLASSES)
    assert condition_network("none", masked, recipe, n_classes=CLASSES, explained=explained) is explained
    tuned = condition_network("finetune", masked, recipe, n_classes=CLASSES, explained=explained)
    weights = [module.state_dict()["head.weight"] for module in (explained, tuned, scratch)]
    near, far = (float((weights[0] - other).abs().max()) for other in weights[1:])
    assert 0 < near < far
    with pytest.raises(ValueError, match="explained"):
        condition_network("finetune", masked, recipe, n_classes=CLASSES)
    with pytest.raises(ValueError, match="evaluator_network"):
        condition_network("evaluator", masked, recipe, n_classes=CLASSES)
    assert set(MODES) == {"scratch", "finetune", "evaluator", "none"}


def test_the_evaluator_does_not_depend_on_a_ranking(masked: MaskedImages, levels: Tensor) -> None:
    recipe = replace(RECIPE, epochs=1)
    first, second = (
        evaluator_network(images, recipe, n_classes=CLASSES, percents=[10, 50], fill=FILL, n_units=1)
        for images in (masked, masked.ranked(levels.flip(0)).changed(None))
    )
    assert torch.equal(first.state_dict()["head.weight"], second.state_dict()["head.weight"])


def test_a_visit_of_evaluation_is_no_step_of_training() -> None:
    assert EVALUATION < 0
