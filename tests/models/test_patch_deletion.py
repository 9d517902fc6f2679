"""Fine-tuning with patch deletion: what is deleted, how fast is learned, what is kept."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.models.patch_deletion import (
    Deletions,
    FineTuning,
    alignment,
    delete_patches,
    draw_deletions,
    fine_tune,
    learning_rate,
    patch_deletion,
    shuffled,
    uniform_value,
)
from heatcheck.models.training import flip_horizontally

GOLDEN = Path(__file__).parents[1] / "golden" / "idsds.json"
QUICK = FineTuning(epochs=3, batch_size=8, learning_rate=0.1, step=2, n_patches=2)


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    return cases


def rectangles(images: Tensor) -> list[list[int] | None]:
    """Half-open ``[row0, row1, column0, column1]`` around the zeros of each all-one image."""
    found: list[list[int] | None] = []
    for image in images:
        holes = (image == 0).all(dim=0)
        assert torch.equal(holes, (image != 1).any(dim=0))
        rows, columns = holes.any(dim=1).nonzero().flatten(), holes.any(dim=0).nonzero().flatten()
        if not len(rows):
            found.append(None)
            continue
        box = [int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1]
        assert holes.sum() == (box[1] - box[0]) * (box[3] - box[2])
        found.append(box)
    return found


def test_the_recorded_draws_delete_the_recorded_rectangles(golden: dict[str, Any]) -> None:
    case = golden["patch_deletion_augmentation"]
    deletions = Deletions(
        torch.tensor(case["rows"]), torch.tensor(case["cols"]), torch.tensor(case["flags"]) == 0
    )
    result = delete_patches(torch.ones(8, 3, 224, 224), deletions, 4)
    assert rectangles(result) == case["expected_rectangles"]


def test_a_cpu_generator_draws_what_was_recorded(golden: dict[str, Any]) -> None:
    case = golden["patch_deletion_augmentation"]
    augmented = patch_deletion(4)(torch.ones(8, 3, 224, 224), torch.Generator().manual_seed(0))
    assert rectangles(augmented) == case["expected_rectangles"]


def test_the_recorded_learning_rates_are_those_of_the_published_recipe(golden: dict[str, Any]) -> None:
    expected = golden["learning_rate_schedule"]["expected"]
    recipe = FineTuning()
    assert recipe.epochs == len(expected)
    assert [learning_rate(epoch, recipe) for epoch in range(30)] == pytest.approx(expected, rel=1e-12)
    assert (recipe.batch_size, recipe.momentum, recipe.weight_decay, recipe.seed) == (256, 0.9, 1e-4, 0)


def test_half_of_the_images_lose_exactly_one_cell_and_every_cell_is_as_likely() -> None:
    drawn = draw_deletions(20_000, 4, torch.Generator().manual_seed(3))
    assert 9_700 < int(drawn.deleted.sum()) < 10_300
    counts = torch.bincount(4 * drawn.rows + drawn.columns, minlength=16)
    assert counts.min() > 1_100
    assert counts.max() < 1_400
    # The coin does not depend on the cell.
    hits = torch.bincount((4 * drawn.rows + drawn.columns)[drawn.deleted], minlength=16)
    assert (hits / counts - 0.5).abs().max() < 0.06


@pytest.mark.parametrize("n_patches", [2, 4, 7, 14])
def test_holes_follow_the_grid_of_the_evaluation(n_patches: int) -> None:
    images = torch.ones(40, 1, 28, 28)
    deletions = draw_deletions(40, n_patches, torch.Generator().manual_seed(0))
    side = 28 // n_patches
    boxes = rectangles(delete_patches(images, deletions, n_patches))
    for box, row, column, deleted in zip(boxes, *deletions, strict=True):
        own = [int(row) * side, (int(row) + 1) * side, int(column) * side, (int(column) + 1) * side]
        assert box == (own if deleted else None)


def test_holes_are_filled_from_the_given_images_and_nothing_is_changed_in_place() -> None:
    images, filling = torch.ones(30, 3, 8, 8), torch.full((30, 3, 8, 8), 7.0)
    before = images.clone()
    result = patch_deletion(4, lambda *_: filling)(images, torch.Generator().manual_seed(0))
    assert torch.equal(images, before)
    assert set(result.flatten().tolist()) == {1.0, 7.0}


def test_uniform_values_are_fresh_for_every_pixel_and_within_their_range() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (uniform_value(torch.zeros(20, 3, 8, 8), generator) for _ in range(2))
    assert not torch.equal(first, second)
    assert -1 <= first.min() < -0.98
    assert 0.98 < first.max() < 1
    assert abs(first.mean().item()) < 0.05


def test_a_grid_that_does_not_divide_the_images_is_refused() -> None:
    with pytest.raises(ValueError, match="grid of 5 x 5 patches does not divide images of 8 x 8"):
        patch_deletion(5)(torch.ones(1, 3, 8, 8), torch.Generator())


class Data:
    """Images of 8 pixels whose class is the sign of one pixel in each of two opposite corners."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.targets = torch.arange(64) % 2
        self.images = 0.1 * torch.randn(64, 1, 8, 8, generator=generator)
        self.images[:, 0, 0, 0] = 2.0 * self.targets - 1
        self.images[:, 0, 7, 7] = 2.0 * self.targets - 1


@pytest.fixture(scope="module")
def data() -> Data:
    return Data()


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))


def tune(data: Data, recipe: FineTuning, model: nn.Module | None = None) -> Any:
    def measure(current: nn.Module) -> dict[str, float]:
        assert not current.training
        return alignment(current, data.images, data.targets, recipe.n_patches)._asdict()

    return fine_tune(
        model or network(), shuffled(data.images, data.targets, recipe, flip_horizontally), measure, recipe
    )


def test_fine_tuning_teaches_to_do_without_one_patch(data: Data) -> None:
    model = network()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.02 * torch.randn(weight.shape))
        # Looks at one corner alone: lost when that patch is deleted.
        first, second = model.get_parameter("1.weight"), model.get_parameter("4.weight")
        first[0, 0], first[1, 0] = 1.0, -1.0
        second[:, :2] = torch.tensor([[-1.0, 1.0], [1.0, -1.0]])
    before = alignment(model.eval(), data.images, data.targets, 2)
    recipe = FineTuning(epochs=12, batch_size=8, learning_rate=0.1, step=9, n_patches=2, keep="last")
    plain = shuffled(data.images, data.targets, recipe)
    tuned = fine_tune(
        model, plain, lambda m: alignment(m, data.images, data.targets, 2)._asdict(), recipe
    ).module
    after = alignment(tuned, data.images, data.targets, 2)
    assert before.intact == after.intact == 1
    assert before.deleted < 0.95 < after.deleted


def test_the_same_recipe_gives_the_same_weights_and_another_seed_others(data: Data) -> None:
    first, second = (tune(data, QUICK).module.state_dict() for _ in range(2))
    other = tune(data, FineTuning(**{**vars(QUICK), "seed": 1})).module.state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not torch.equal(first["1.weight"], other["1.weight"])


def test_fine_tuning_leaves_the_random_state_and_the_images_alone(data: Data) -> None:
    model, images = network(), data.images.clone()
    state = torch.random.get_rng_state()
    tune(data, QUICK, model)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(data.images, images)


def test_the_history_notes_rate_loss_and_what_was_measured(data: Data) -> None:
    tuned = tune(data, QUICK)
    assert [entry["epoch"] for entry in tuned.history] == [0, 1, 2]
    assert [entry["learning_rate"] for entry in tuned.history] == pytest.approx([0.1, 0.1, 0.01])
    assert tuned.history[2]["loss"] < tuned.history[0]["loss"]
    assert {"intact", "deleted"} <= tuned.history[0].keys()
    assert not tuned.module.training


@pytest.mark.parametrize(("keep", "epoch"), [("best", 1), ("last", 3)])
def test_the_first_best_epoch_or_the_last_is_kept(data: Data, keep: Any, epoch: int) -> None:
    scores: Iterator[float] = iter([0.5, 0.9, 0.9, 0.7])
    states = []

    def measure(current: nn.Module) -> dict[str, float]:
        states.append({key: value.clone() for key, value in current.state_dict().items()})
        return {"intact": next(scores)}

    recipe = FineTuning(epochs=4, batch_size=32, learning_rate=0.1, n_patches=2, keep=keep)
    tuned = fine_tune(network(), shuffled(data.images, data.targets, recipe), measure, recipe)
    assert tuned.kept_epoch == epoch
    for key, value in tuned.module.state_dict().items():
        assert torch.equal(value, states[epoch][key])


def test_one_step_is_momentum_sgd_with_decay_of_all_parameters(data: Data) -> None:
    recipe = FineTuning(epochs=1, batch_size=64, learning_rate=0.1, weight_decay=0.5, n_patches=2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2)).eval()
    start = {key: value.detach().clone() for key, value in model.named_parameters()}
    zeros = torch.zeros_like(data.images)

    def batches(_epoch: int) -> list[tuple[Tensor, Tensor]]:
        return [(zeros, data.targets)]

    fine_tune(model, batches, lambda _: {"intact": 1.0}, recipe)
    # Zero images: the gradient of the weights is the decay alone, that of the biases has the loss in it.
    torch.testing.assert_close(model.get_parameter("1.weight").detach(), start["1.weight"] * (1 - 0.1 * 0.5))
    bias = start["1.bias"]
    slope = bias.softmax(0) - torch.tensor([0.5, 0.5]) + 0.5 * bias
    torch.testing.assert_close(model.get_parameter("1.bias").detach(), bias - 0.1 * slope)


def test_accuracy_with_deletion_is_the_mean_over_all_single_patches() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2, bias=False))
    with torch.no_grad():
        weight = model.get_parameter("1.weight").zero_()
        # Class 1 while the first pixel is there; otherwise both logits are 0 and class 0 wins.
        weight[1, 0] = 1
    images, targets = torch.ones(3, 1, 4, 4), torch.tensor([1, 1, 0])
    found = alignment(model, images, targets, 2)
    assert found.intact == pytest.approx(2 / 3)
    assert found.deleted == pytest.approx((2 * 3 + 1 * 1) / 12)
    assert alignment(model, images, targets, 2, chunk=1) == found


def test_an_epoch_without_batches_is_refused() -> None:
    with pytest.raises(ValueError, match="no batch"):
        fine_tune(network(), lambda _: [], lambda _: {"intact": 1.0}, QUICK)


def test_a_loss_that_explodes_is_reported(data: Data) -> None:
    def batches(_epoch: int) -> list[tuple[Tensor, Tensor]]:
        return [(data.images * torch.inf, data.targets)]

    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        fine_tune(network(), batches, lambda _: {"intact": 1.0}, QUICK)
