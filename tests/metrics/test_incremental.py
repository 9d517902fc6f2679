"""Incremental deletion: closed forms, ties, and what must not matter."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.metrics.incremental import Direction, deleted_pixels, incremental_deletion
from heatcheck.metrics.scoring import Probabilities
from heatcheck.runtime.memory import memory_budget

Draw = Callable[..., Tensor]
TARGETS = torch.tensor([0, 1, 0])


def share_of_ones(images: Tensor) -> Tensor:
    """Two classes: the share of pixels that are 1, and the rest."""
    kept = images.mean((1, 2, 3)).clamp(0, 1)
    return torch.stack([kept, 1 - kept], 1)


def test_the_empty_image_is_no_step_and_parts_of_pixels_are_not_deleted() -> None:
    assert deleted_pixels(50_176, 32).tolist()[:3] == [0, 1568, 3136]
    assert deleted_pixels(10, 4).tolist() == [0, 2, 5, 7]
    assert deleted_pixels(2, 4).tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="at least 1"):
        deleted_pixels(4, 0)


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_the_curve_of_a_counting_model_is_known(direction: Direction, draw: Draw) -> None:
    found = incremental_deletion(
        share_of_ones,
        torch.ones(3, 1, 4, 4),
        draw(3, 4, 4),
        TARGETS,
        n_steps=5,
        direction=direction,
    )
    kept = 1 - torch.tensor([0, 3, 6, 9, 12]) / 16
    torch.testing.assert_close(found.curves[0], kept.double())
    torch.testing.assert_close(found.curves[1], 1 - kept.double())
    torch.testing.assert_close(found.values, found.curves.mean(1))


def test_equal_pixels_go_row_by_row_in_both_directions() -> None:
    images = torch.arange(4.0).view(1, 1, 2, 2).div(6)

    def pixel_sum(batch: Tensor) -> Tensor:
        total = batch.sum((1, 2, 3))
        return torch.stack([total, 1 - total], 1)

    for direction in ("ascending", "descending"):
        found = incremental_deletion(
            pixel_sum,
            images,
            torch.ones(1, 2, 2),
            TARGETS[:1],
            n_steps=4,
            direction=direction,
        )
        torch.testing.assert_close(found.curves[0], torch.tensor([6.0, 6, 5, 3]).double() / 6)
        assert found.flags.tolist() == ["constant"]


def test_one_direction_is_the_other_of_the_negative_map(probabilities: Probabilities, draw: Draw) -> None:
    images, maps = draw(3, 3, 8, 8), draw(3, 8, 8)
    first = incremental_deletion(probabilities, images, maps, TARGETS, n_steps=6)
    second = incremental_deletion(probabilities, images, -maps, TARGETS, n_steps=6, direction="descending")
    torch.testing.assert_close(first.curves, second.curves)


@pytest.mark.parametrize("fill", ["zero", "blur", "pushpull"])
def test_scores_do_not_depend_on_batch_or_chunk(fill: str, probabilities: Probabilities, draw: Draw) -> None:
    images, maps = draw(3, 3, 8, 8), draw(3, 8, 8).round()
    expected = incremental_deletion(probabilities, images, maps, TARGETS, n_steps=6, fill=fill)
    with memory_budget("1MB", chunk=2):
        found = incremental_deletion(probabilities, images, maps, TARGETS, n_steps=6, fill=fill)
    torch.testing.assert_close(found.curves, expected.curves, rtol=0, atol=1e-6)
    alone = incremental_deletion(
        probabilities, images[2:], maps[2:], TARGETS[2:], n_steps=6, fill=fill, channels_last=True
    )
    torch.testing.assert_close(alone.curves[0], expected.curves[2], rtol=0, atol=1e-6)


def test_an_update_that_says_the_same_changes_nothing(probabilities: Probabilities, draw: Draw) -> None:
    images, maps = draw(3, 3, 8, 8), draw(3, 8, 8)
    for direction in ("ascending", "descending"):
        for fill in ("zero", "blur"):
            fixed, updated = (
                incremental_deletion(
                    probabilities,
                    images,
                    maps,
                    TARGETS,
                    n_steps=6,
                    direction=direction,
                    fill=fill,
                    update=update,
                )
                for update in (None, lambda batch: maps)
            )
            torch.testing.assert_close(updated.curves, fixed.curves, rtol=0, atol=1e-6)


def test_an_update_sees_the_partly_deleted_images(draw: Draw) -> None:
    seen: list[Tensor] = []

    def update(images: Tensor) -> Tensor:
        seen.append(images)
        return images[:, 0]

    images = draw(1, 1, 4, 4).abs() + 1
    incremental_deletion(share_of_ones, images / 10, images[:, 0], TARGETS[:1], n_steps=4, update=update)
    assert [int((batch == 0).sum()) for batch in seen] == [0, 4, 8]


def test_a_map_that_is_not_finite_spoils_only_its_own_row(probabilities: Probabilities, draw: Draw) -> None:
    images, maps = draw(3, 3, 8, 8), draw(3, 8, 8)
    expected = incremental_deletion(probabilities, images, maps, TARGETS, n_steps=3)
    maps[1, 0, 0] = torch.nan
    found = incremental_deletion(probabilities, images, maps, TARGETS, n_steps=3)
    assert found.flags.tolist() == ["ok", "nonfinite", "ok"]
    assert torch.isnan(found.values[1])
    torch.testing.assert_close(found.curves[[0, 2]], expected.curves[[0, 2]])


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"direction": "up"}, "ascending, descending"),
        ({"n_steps": 0}, "n_steps"),
        ({"fill": "pushpull", "update": lambda batch: batch[:, 0]}, "depends on the mask"),
        ({"heatmaps": torch.zeros(3, 4, 4)}, r"\(3, 8, 8\)"),
        ({"targets": torch.tensor([0, 1, 99])}, "no classes"),
    ],
)
def test_impossible_choices_are_refused(
    choices: dict[str, Any], message: str, classifier: nn.Sequential, draw: Draw
) -> None:
    inputs: dict[str, Any] = {"heatmaps": draw(3, 8, 8), "targets": TARGETS}
    with pytest.raises(ValueError, match=message):
        incremental_deletion(Probabilities(classifier), draw(3, 3, 8, 8), **(inputs | choices))
