import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from heatcheck.metrics.pointing import class_accuracy, is_hit, masks_of_boxes, pointing_game
from heatcheck.runtime.memory import memory_budget

Draw = Callable[..., Tensor]


@pytest.mark.parametrize("tolerance", [1, 2.5, 4, 15])
def test_a_hit_is_a_mask_pixel_strictly_nearer_than_the_tolerance(draw: Draw, tolerance: float) -> None:
    heatmaps = draw(30, 8, 11)
    masks = draw(30, 8, 11, seed=1) > 2.2
    masks[:, 3, 4] = True
    found = pointing_game(heatmaps, masks, tolerance=tolerance)
    for row in range(30):
        y, x = divmod(int(heatmaps[row].argmax()), 11)
        nearest = min(math.hypot(x - u, y - v) for v, u in masks[row].nonzero().tolist())
        assert found.points[row].tolist() == [x, y]
        assert float(found.hits[row]) == float(nearest < tolerance)


def test_the_first_of_equal_maxima_is_the_point() -> None:
    heatmap = torch.tensor([[[0.0, 2.0, 1.0], [2.0, 0.0, 2.0]]])
    assert pointing_game(heatmap, torch.ones(1, 2, 3, dtype=torch.bool)).points.tolist() == [[1, 0]]


def test_chunks_do_not_change_hits(draw: Draw) -> None:
    heatmaps, masks = draw(9, 8, 8), draw(9, 8, 8, seed=1) > 2
    whole = pointing_game(heatmaps, masks, tolerance=3)
    with memory_budget("1kB", chunk=2):
        parts = pointing_game(heatmaps, masks, tolerance=3)
    np.testing.assert_array_equal(parts.hits, whole.hits)


def test_accuracy_is_the_mean_over_classes_not_images() -> None:
    hits = torch.tensor([1.0, 1, 1, 0, np.nan]).double()
    accuracy, each = class_accuracy(hits, torch.tensor([0, 0, 0, 1, 2]))
    assert each.tolist() == [1, 0, 0]
    assert float(accuracy) == pytest.approx(1 / 3)
    assert len(class_accuracy(hits, torch.tensor([0, 0, 0, 1, 2]), n_classes=7)[1]) == 7


def test_masks_of_boxes_hold_the_pixels_whose_centers_lie_inside() -> None:
    masks = masks_of_boxes(
        [torch.tensor([[1.0, 0.0, 3.0, 2.0], [3.6, 1.4, 5.0, 2.0]]), torch.zeros(0, 4)], (3, 5)
    )
    assert masks[0].int().tolist() == [[0, 1, 1, 0, 0], [0, 1, 1, 0, 1], [0, 0, 0, 0, 0]]
    assert not masks[1].any()


def test_misfits_are_refused() -> None:
    with pytest.raises(ValueError, match="masks must be bool"):
        pointing_game(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4))
    with pytest.raises(ValueError, match="tolerance must be positive"):
        is_hit(torch.zeros(1, 2, dtype=torch.int64), torch.ones(1, 4, 4, dtype=torch.bool), 0)
    with pytest.raises(ValueError, match="one class per hit"):
        class_accuracy(torch.zeros(2), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="0 to 1"):
        class_accuracy(torch.zeros(1), torch.tensor([4]), n_classes=2)
