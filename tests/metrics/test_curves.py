from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heatcheck.metrics.curves import Curves, area_under_curve, changed_pixels, deletion, insertion
from heatcheck.metrics.pooling import resize_heatmaps
from heatcheck.metrics.scoring import Probabilities, softmax_of
from heatcheck.removal.fills import FILLS, get_fill
from heatcheck.runtime.memory import memory_budget

Draw = Callable[..., Tensor]
Model = Callable[[Tensor], Tensor]


def one_image_loop(
    model: Model, image: Tensor, heatmap: Tensor, *, step: int, behind: Tensor, target: int
) -> list[float]:
    """Deletion as its definition reads: one image, one pixel order, one forward per step."""
    order = sorted(range(heatmap.numel()), key=lambda pixel: (-float(heatmap.flatten()[pixel]), pixel))
    current, scores = image.clone(), [float(model(image[None])[0, target])]
    for start in range(0, len(order), step):
        for pixel in order[start : start + step]:
            row, column = divmod(pixel, heatmap.shape[1])
            current[:, row, column] = behind[:, row, column]
        scores.append(float(model(current[None])[0, target]))
    return scores


class Counting:
    """Probabilities that count how many images they were asked about."""

    def __init__(self, inner: Callable[[Tensor], Tensor]) -> None:
        self.inner, self.images, self.batches = inner, 0, [0]

    def __call__(self, images: Tensor) -> Tensor:
        self.images += len(images)
        self.batches.append(len(images))
        return self.inner(images)


@pytest.fixture
def batch(draw: Draw) -> tuple[Tensor, Tensor]:
    return draw(5, 3, 9, 11), draw(5, 9, 11, seed=1)


@pytest.mark.parametrize("step", [5, 33, 1000])
@pytest.mark.parametrize("fill", ["zero", "blur", "mean", "noise"])
def test_deletion_equals_the_loop_over_single_images(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor], step: int, fill: str
) -> None:
    images, heatmaps = batch
    found = deletion(probabilities, images, heatmaps, step=step, fill=fill)
    behind = get_fill(fill).substrate(images)
    with torch.no_grad():
        for row in range(2):
            target = int(found.targets[row])
            expected = one_image_loop(
                probabilities, images[row], heatmaps[row], step=step, behind=behind[row], target=target
            )
            np.testing.assert_allclose(found.scores[row], expected, atol=1e-6)


def test_insertion_of_the_negated_map_is_deletion_read_backwards(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor]
) -> None:
    images, heatmaps = batch
    removed = deletion(probabilities, images, heatmaps, step=9)
    returned = insertion(probabilities, images, -heatmaps, step=9, fill="zero")
    torch.testing.assert_close(removed.scores, returned.scores.flip(1), rtol=0, atol=1e-6)
    torch.testing.assert_close(removed.auc, returned.auc, rtol=0, atol=1e-6)


def test_insertion_of_a_map_is_deletion_with_image_and_fill_exchanged(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor]
) -> None:
    images, heatmaps = batch
    filled = get_fill("blur").substrate(images)
    targets = torch.arange(5) % 4
    inserted = insertion(probabilities, images, heatmaps, step=10, targets=targets, fill="blur")
    deleted = deletion(probabilities, filled, heatmaps, step=10, targets=targets, fill=images)
    torch.testing.assert_close(inserted.scores, deleted.scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize("fill", [name for name in FILLS if not FILLS[name].missing])
@pytest.mark.parametrize("direction", [deletion, insertion])
def test_both_ends_of_a_curve_are_the_image_and_the_filled_image(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor], direction: Callable[..., Curves], fill: str
) -> None:
    images, heatmaps = batch
    targets = torch.full((5,), 2)
    found = direction(probabilities, images, heatmaps, targets=targets, step=40, fill=fill)
    ends = [images, get_fill(fill).substrate(images)]
    with torch.no_grad():
        original, filled = (probabilities(end)[:, 2].double() for end in ends)
    first, last = (original, filled) if direction is deletion else (filled, original)
    torch.testing.assert_close(found.scores[:, 0], first, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.scores[:, -1], last, rtol=0, atol=1e-6)


@pytest.mark.parametrize("direction", [deletion, insertion])
@pytest.mark.parametrize("chunk", [1, 2, 7, 32])
def test_chunks_do_not_change_a_curve(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor], direction: Callable[..., Curves], chunk: int
) -> None:
    whole = direction(probabilities, *batch, fill="pushpull", ties="mean")
    with memory_budget("10kB", chunk=chunk):
        parts = direction(probabilities, *batch, fill="pushpull", ties="mean")
    torch.testing.assert_close(parts.scores, whole.scores, rtol=0, atol=1e-6)


def test_a_batch_is_never_larger_than_the_chunk(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor]
) -> None:
    model = Counting(probabilities)
    with memory_budget("100MB", chunk=7):
        deletion(model, *batch, step=4)
    assert max(model.batches) == 7


@pytest.mark.parametrize("direction", [deletion, insertion])
def test_every_point_costs_one_forward_pass(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor], direction: Callable[..., Curves]
) -> None:
    model = Counting(probabilities)
    found = direction(model, *batch, step=10)
    assert model.images == found.scores.numel()


def test_random_orders_are_drawn_only_for_maps_with_ties(probabilities: Probabilities, draw: Draw) -> None:
    images, heatmaps = draw(2, 3, 6, 6), draw(2, 6, 6, seed=1)
    heatmaps[1] = heatmaps[1].round()
    model = Counting(probabilities)
    deletion(model, images, heatmaps, step=6, ties="mean", n_orders=5)
    assert model.images == 2 + 6 * (1 + 5)


def test_the_mean_over_tied_orders_is_the_mean_of_single_orders(
    probabilities: Probabilities, draw: Draw
) -> None:
    images, heatmaps = draw(3, 3, 6, 6), draw(3, 6, 6, seed=1).round()
    averaged = deletion(probabilities, images, heatmaps, step=5, ties="mean", n_orders=1)
    random = deletion(probabilities, images, heatmaps, step=5, ties="random")
    torch.testing.assert_close(averaged.scores, random.scores, rtol=0, atol=1e-6)
    other = deletion(probabilities, images, heatmaps, step=5, ties="random", seed=1)
    assert not torch.allclose(other.scores, random.scores, atol=1e-6)


@pytest.mark.parametrize("ties", ["random", "mean"])
def test_tie_rules_agree_where_nothing_is_tied(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor], ties: Literal["random", "mean"]
) -> None:
    stable = deletion(probabilities, *batch)
    torch.testing.assert_close(
        deletion(probabilities, *batch, ties=ties).scores, stable.scores, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("ties", ["stable", "random", "mean"])
def test_an_image_scores_the_same_in_any_batch_and_place(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor], ties: Literal["stable", "random", "mean"]
) -> None:
    images, heatmaps = batch[0], batch[1].round()
    together = deletion(probabilities, images, heatmaps, step=10, ties=ties)
    backwards = deletion(probabilities, images.flip(0), heatmaps.flip(0), step=10, ties=ties)
    torch.testing.assert_close(backwards.auc.flip(0), together.auc, rtol=0, atol=1e-6)


def test_the_largest_fraction_ends_the_curve_early(probabilities: Probabilities, draw: Draw) -> None:
    images, heatmaps = draw(2, 3, 10, 10), draw(2, 10, 10, seed=1)
    whole = deletion(probabilities, images, heatmaps, step=10)
    half = deletion(probabilities, images, heatmaps, step=10, max_fraction=0.5)
    torch.testing.assert_close(half.scores, whole.scores[:, :6], rtol=0, atol=1e-6)
    torch.testing.assert_close(half.fractions, torch.arange(6, dtype=torch.float64) / 10)
    torch.testing.assert_close(half.auc, area_under_curve(whole.scores[:, :6]), rtol=0, atol=1e-6)
    inserted = insertion(probabilities, images, heatmaps, step=10, max_fraction=0.25, fill="zero")
    assert inserted.scores.shape == (2, 4)
    full = insertion(probabilities, images, heatmaps, step=5, fill="zero")
    torch.testing.assert_close(inserted.scores, full.scores[:, [0, 2, 4, 5]], rtol=0, atol=1e-6)


def test_spacings_agree_when_the_step_divides_the_pixels(probabilities: Probabilities, draw: Draw) -> None:
    images, heatmaps = draw(2, 3, 8, 8), draw(2, 8, 8, seed=1)
    found = [
        deletion(probabilities, images, heatmaps, step=16, spacing=spacing)
        for spacing in ("uniform", "exact")
    ]
    torch.testing.assert_close(found[0].auc, found[1].auc)
    torch.testing.assert_close(found[0].fractions, found[1].fractions)
    ragged = deletion(probabilities, images, heatmaps, step=30, spacing="exact")
    torch.testing.assert_close(ragged.fractions, torch.tensor([0, 30, 60, 64]).double() / 64)


def test_a_coarse_heatmap_is_enlarged_first(probabilities: Probabilities, draw: Draw) -> None:
    images, coarse = draw(2, 3, 12, 12), draw(2, 4, 4, seed=1)
    large = deletion(probabilities, images, resize_heatmaps(coarse, (12, 12)))
    torch.testing.assert_close(deletion(probabilities, images, coarse).scores, large.scores)


def test_the_default_step_is_one_of_28_parts() -> None:
    assert changed_pixels(224 * 224).diff().tolist() == [1792] * 28
    assert changed_pixels(9).tolist() == list(range(10))


def test_channels_last_memory_gives_the_same_curves(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor]
) -> None:
    for fill in ("zero", "blur", "pushpull"):
        usual, last = (
            deletion(probabilities, *batch, fill=fill, channels_last=flag) for flag in (False, True)
        )
        torch.testing.assert_close(last.scores, usual.scores, rtol=0, atol=1e-6)


def test_channels_last_memory_reaches_the_model(draw: Draw) -> None:
    seen = []

    def model(images: Tensor) -> Tensor:
        seen.append(images.is_contiguous(memory_format=torch.channels_last))
        return images.flatten(1)[:, :4].softmax(1)

    deletion(model, draw(2, 3, 8, 8), draw(2, 8, 8, seed=1), channels_last=True)
    assert all(seen)


def test_nothing_the_caller_owns_changes(classifier: nn.Sequential, batch: tuple[Tensor, Tensor]) -> None:
    images, heatmaps = batch
    images.requires_grad_(True)
    classifier.train()
    classifier[1].eval()
    before = {name: value.clone() for name, value in classifier.state_dict().items()}
    copies, state = (images.detach().clone(), heatmaps.clone()), torch.get_rng_state()
    found = deletion(softmax_of(classifier), images, heatmaps, ties="mean")
    insertion(softmax_of(classifier), images, heatmaps)
    assert [part.training for part in classifier] == [True, False, True, True, True, True, True]
    assert classifier.training
    assert all(torch.equal(value, before[name]) for name, value in classifier.state_dict().items())
    assert torch.equal(images, copies[0])
    assert torch.equal(heatmaps, copies[1])
    assert torch.equal(torch.get_rng_state(), state)
    assert not found.scores.requires_grad
    assert (found.auc * torch.ones(5, dtype=torch.float64, requires_grad=True)).sum().requires_grad
    assert torch.is_grad_enabled()


def test_training_mode_scores_as_evaluation_mode(
    classifier: nn.Sequential, batch: tuple[Tensor, Tensor]
) -> None:
    expected = deletion(softmax_of(classifier), *batch).scores
    found = deletion(softmax_of(classifier.train()), *batch).scores
    torch.testing.assert_close(found, expected)


def test_training_flags_come_back_after_an_exception(classifier: nn.Sequential, draw: Draw) -> None:
    classifier.train()
    with pytest.raises(RuntimeError):
        deletion(softmax_of(classifier), draw(1, 5, 8, 8), draw(1, 8, 8))
    assert all(part.training for part in classifier.modules())


def test_a_model_that_returns_nan_spoils_only_its_row(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor]
) -> None:
    images, heatmaps = batch
    images = images.clone()
    images[2, 0, 0, 0] = 99

    def broken(chunk: Tensor) -> Tensor:
        return torch.where(chunk[:, 0, :1, 0] == 99, torch.nan, probabilities(chunk))

    found = deletion(broken, images, heatmaps, targets=torch.zeros(5, dtype=torch.int64))
    expected = deletion(probabilities, images, heatmaps, targets=torch.zeros(5, dtype=torch.int64))
    good = [0, 1, 3, 4]
    assert found.flags.tolist() == ["ok", "ok", "nonfinite", "ok", "ok"]
    torch.testing.assert_close(found.auc[good], expected.auc[good], rtol=0, atol=1e-6)
    assert found.auc[2].isnan()
