from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heatcheck.metrics.boxes import Boxes, boxes_from_heatmaps
from heatcheck.metrics.localization import (
    GroundTruth,
    best_iou,
    choose_alpha,
    iou,
    localization_error,
    union_area,
    union_iou,
)
from heatcheck.metrics.pointing import masks_of_boxes

Draw = Callable[..., Tensor]
SIZE = (12, 15)


def random_boxes(count: int, seed: int) -> Tensor:
    """Half-open boxes ``(count, 4)`` on whole pixels inside ``SIZE``."""
    generator = torch.Generator().manual_seed(seed)
    xs = torch.rand(count, SIZE[1] + 1, generator=generator).argsort(1)[:, :2].sort(1).values
    ys = torch.rand(count, SIZE[0] + 1, generator=generator).argsort(1)[:, :2].sort(1).values
    return torch.stack([xs[:, 0], ys[:, 0], xs[:, 1], ys[:, 1]], 1)


def test_overlap_equals_counting_pixels() -> None:
    first, second = random_boxes(40, 0), random_boxes(40, 1)
    masks = [masks_of_boxes(list(boxes[:, None]), SIZE).flatten(1) for boxes in (first, second)]
    expected = (masks[0] & masks[1]).sum(1) / (masks[0] | masks[1]).sum(1)
    torch.testing.assert_close(iou(first, second), expected.double(), rtol=0, atol=1e-7)
    torch.testing.assert_close(iou(second, first), iou(first, second))


def test_union_overlap_equals_counting_pixels() -> None:
    predicted = random_boxes(20, 2)
    truth = [random_boxes(1 + index % 4, 10 + index) for index in range(20)]
    inside = masks_of_boxes(list(predicted[:, None]), SIZE).flatten(1)
    drawn = masks_of_boxes(truth, SIZE).flatten(1)
    expected = (inside & drawn).sum(1) / (inside | drawn).sum(1)
    torch.testing.assert_close(union_iou(predicted, truth), expected.double(), rtol=0, atol=1e-7)


def test_both_modes_agree_on_a_single_box() -> None:
    predicted, truth = random_boxes(20, 3), list(random_boxes(20, 4)[:, None])
    torch.testing.assert_close(union_iou(predicted, truth), best_iou(predicted, truth))


def test_the_best_of_several_boxes_counts() -> None:
    predicted, truth = random_boxes(6, 5), [random_boxes(3, 20 + index) for index in range(6)]
    expected = torch.stack([iou(box, boxes).max() for box, boxes in zip(predicted, truth, strict=True)])
    torch.testing.assert_close(best_iou(predicted, truth), expected)


def test_fractional_boxes_overlap_exactly() -> None:
    first, second = torch.tensor([0.0, 0.0, 1.5, 2.0]), torch.tensor([0.5, 0.5, 2.0, 2.0])
    assert float(iou(first, second)) == pytest.approx(1.5 / (3 + 2.25 - 1.5))
    assert union_area(torch.stack([first, second])) == pytest.approx(3 + 2.25 - 1.5)


@pytest.mark.parametrize("mode", ["best", "union"])
def test_several_thresholds_are_scored_as_each_alone(draw: Draw, mode: GroundTruth) -> None:
    heatmaps = draw(6, *SIZE)
    truth = [random_boxes(2, 30 + index) for index in range(6)]
    together = localization_error(boxes_from_heatmaps(heatmaps, (0.3, 0.5, 0.9)), truth, mode=mode)
    assert together.error.shape == (3,)
    for index, alpha in enumerate((0.3, 0.5, 0.9)):
        alone = localization_error(boxes_from_heatmaps(heatmaps, alpha), truth, mode=mode)
        torch.testing.assert_close(together.ious[index], alone.ious)
        torch.testing.assert_close(together.error[index], alone.error)


def test_images_without_ground_truth_are_left_out_of_the_error_and_flagged() -> None:
    heatmaps = torch.zeros(3, *SIZE)
    heatmaps[:2, 2:4, 3:6] = 1
    truth = [torch.tensor([[3.0, 2.0, 6.0, 4.0]]), torch.zeros(0, 4), torch.tensor([[0.0, 0.0, 4.0, 4.0]])]
    found = localization_error(boxes_from_heatmaps(heatmaps, 0.5), truth)
    np.testing.assert_array_equal(found.ious, [1, np.nan, 0])
    np.testing.assert_array_equal(found.errors, [0, np.nan, 1])
    assert float(found.error) == 0.5
    assert found.flags.tolist() == ["ok", "no-box", "empty"]


def test_an_error_over_no_image_is_undefined() -> None:
    found = localization_error(boxes_from_heatmaps(torch.ones(1, 4, 4), 0.5), [torch.zeros(0, 4)])
    assert found.error.isnan()


def test_the_smallest_error_decides_and_the_smallest_threshold_on_ties() -> None:
    assert choose_alpha((0.3, 0.1, 0.2), [0.5, 0.4, 0.4]) == (0.1, 0.4)
    assert choose_alpha((0.1, 0.2), torch.tensor([torch.nan, 0.7], dtype=torch.float64)) == (0.2, 0.7)
    with pytest.raises(ValueError, match="at least one defined"):
        choose_alpha((0.1, 0.2), [float("nan")] * 2)
    with pytest.raises(ValueError, match="one error per threshold"):
        choose_alpha((0.1, 0.2), [0.5])


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ([torch.tensor([[5.0, 0.0, 1.0, 4.0]])], "x0 <= x1"),
        ([torch.tensor([[0.0, 0.0, 1.0]])], r"\(n, 4\)"),
        ([torch.tensor([[0.0, 0.0, torch.nan, 4.0]])], "finite"),
        ([], "1 predicted boxes but ground truth of 0 images"),
    ],
)
def test_ground_truth_that_is_not_well_formed_is_refused(truth: list[Tensor], message: str) -> None:
    predicted = Boxes(torch.tensor([[0, 0, 2, 2]]), torch.tensor([True]), np.array(["ok"]))
    with pytest.raises(ValueError, match=message):
        localization_error(predicted, truth)


def test_an_unknown_mode_is_refused_by_name() -> None:
    predicted = Boxes(torch.tensor([[0, 0, 2, 2]]), torch.tensor([True]), np.array(["ok"]))
    choices: dict[str, Any] = {"mode": "mean"}
    with pytest.raises(ValueError, match="unknown mode 'mean'; allowed: best, union"):
        localization_error(predicted, [torch.zeros(0, 4)], **choices)
