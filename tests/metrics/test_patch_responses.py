"""Answers of a classifier to images without some patches."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from heatcheck.metrics.patch_responses import patch_responses, single_deletions
from heatcheck.removal.fills import get_fill
from heatcheck.runtime.memory import memory_budget

Draw = Callable[..., Tensor]
TARGETS = torch.tensor([0, 2, 1])


def plain_logits(model: nn.Module, images: Tensor, behind: Tensor, grid: int) -> Tensor:
    """Logits ``(N, P * P + 1, K)`` of a loop over images and patches."""
    side = images.shape[2] // grid
    rows = []
    for image, under in zip(images, behind, strict=True):
        variants = [image]
        for patch in range(grid**2):
            row, column = divmod(patch, grid)
            place = (
                slice(None),
                slice(row * side, (row + 1) * side),
                slice(column * side, (column + 1) * side),
            )
            changed = image.clone()
            changed[place] = under[place]
            variants.append(changed)
        with torch.no_grad():
            rows.append(model(torch.stack(variants)))
    return torch.stack(rows)


@pytest.mark.parametrize("fill", ["zero", "random", "wide-blur", "pushpull"])
@pytest.mark.parametrize("grid", [2, 4])
def test_answers_are_those_of_a_plain_loop(
    fill: str, grid: int, classifier: nn.Sequential, draw: Draw
) -> None:
    images = draw(3, 3, 8, 8)
    found = patch_responses(classifier, images, TARGETS, grid, fill=fill)
    operator = get_fill(fill)
    if operator.uses_mask:
        masks = [
            ~mask.view(1, grid, grid).repeat_interleave(8 // grid, 1).repeat_interleave(8 // grid, 2)
            for mask in single_deletions(grid)
        ]
        with torch.no_grad():
            logits = torch.stack(
                [classifier(operator(images, mask[None].expand(3, -1, -1, -1))) for mask in masks], 1
            )
    else:
        logits = plain_logits(classifier, images, operator.substrate(images), grid)
    assert found.logits.shape == (3, grid**2 + 1)
    wanted = TARGETS[:, None, None].expand(-1, grid**2 + 1, 1)
    torch.testing.assert_close(found.logits, logits.gather(2, wanted)[..., 0], rtol=0, atol=1e-5)
    torch.testing.assert_close(found.normalizers, logits.logsumexp(2), rtol=0, atol=1e-5)
    torch.testing.assert_close(found.top_logits, logits.amax(2), rtol=0, atol=1e-5)
    assert torch.equal(found.top, logits.argmax(2))
    probabilities = logits.softmax(2).gather(2, wanted)[..., 0].double()
    torch.testing.assert_close(found.probabilities, probabilities, rtol=0, atol=1e-6)


def test_drops_are_differences_to_the_intact_image(classifier: nn.Sequential, draw: Draw) -> None:
    found = patch_responses(classifier, draw(3, 3, 8, 8), TARGETS, 2)
    for output, scores in (("logit", found.logits.double()), ("probability", found.probabilities)):
        assert torch.equal(found.drops(output), scores[:, :1] - scores[:, 1:])
    with pytest.raises(ValueError, match="logit, probability"):
        found.drops("score")


@pytest.mark.parametrize("chunk", [1, 5, 51, 1000])
def test_answers_do_not_depend_on_how_they_are_cut(chunk: int, classifier: nn.Sequential, draw: Draw) -> None:
    images = draw(3, 3, 8, 8)
    expected = patch_responses(classifier, images, TARGETS, 4)
    with memory_budget("1GB", chunk=chunk):
        found = patch_responses(classifier, images, TARGETS, 4, channels_last=chunk == 5)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    alone = patch_responses(classifier, images[1:2], TARGETS[1:2], 4)
    torch.testing.assert_close(alone.logits[0], expected.logits[1], rtol=0, atol=1e-5)


def test_several_patches_are_deleted_together(classifier: nn.Sequential, draw: Draw) -> None:
    images = draw(3, 3, 8, 8)
    deleted = torch.tensor([[False] * 4, [True, True, False, False], [True] * 4])
    found = patch_responses(classifier, images, TARGETS, 2, deleted=deleted)
    with torch.no_grad():
        half, nothing = images.clone(), torch.zeros_like(images)
        half[:, :, :4] = 0
        logits = torch.stack([classifier(batch) for batch in (images, half, nothing)], 1)
    expected = logits.gather(2, TARGETS[:, None, None].expand(-1, 3, 1))[..., 0]
    torch.testing.assert_close(found.logits, expected, rtol=0, atol=1e-5)


def test_the_model_the_images_and_the_random_state_are_left_as_they_were(
    classifier: nn.Sequential, draw: Draw
) -> None:
    images = draw(3, 3, 8, 8)
    before, state = images.clone(), torch.get_rng_state()
    classifier.train()
    weights = {name: value.clone() for name, value in classifier.state_dict().items()}
    found = patch_responses(classifier, images, TARGETS, 2, fill="random")
    assert classifier.training
    assert all(module.training for module in classifier)
    assert all(torch.equal(value, weights[name]) for name, value in classifier.state_dict().items())
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert not found.logits.requires_grad


@pytest.mark.parametrize(
    ("targets", "grid", "deleted", "message"),
    [
        (torch.tensor([0, 1, 9]), 2, None, "no classes"),
        (torch.tensor([0, 1]), 2, None, r"shape \(3,\)"),
        (TARGETS, 3, None, "do not tile"),
        (TARGETS, 2, torch.zeros(2, 9, dtype=torch.bool), r"\(V, 4\) bool"),
        (TARGETS, 2, torch.zeros(2, 4), "bool"),
    ],
)
def test_impossible_questions_are_refused(
    targets: Tensor, grid: int, deleted: Tensor | None, message: str, classifier: nn.Sequential
) -> None:
    with pytest.raises(ValueError, match=message):
        patch_responses(classifier, torch.ones(3, 3, 8, 8), targets, grid, deleted=deleted)


def test_a_wider_model_keeps_its_precision(classifier: nn.Sequential, draw: Draw) -> None:
    found = patch_responses(classifier.double(), draw(3, 3, 8, 8).double(), TARGETS, 2)
    assert found.logits.dtype == torch.float64
