from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.metrics.boxes import ALPHAS
from heatcheck.metrics.saliency_metric import saliency_metric, saliency_values
from heatcheck.metrics.scoring import Probabilities
from heatcheck.runtime.memory import memory_budget

Draw = Callable[..., Tensor]


@pytest.fixture
def batch(draw: Draw) -> tuple[Tensor, Tensor]:
    rows, columns = torch.meshgrid(torch.arange(10.0), torch.arange(12.0), indexing="ij")
    centers = torch.tensor([[2.0, 3.0], [7.0, 8.0], [4.0, 10.0]])
    bumps = torch.stack([(-((rows - y) ** 2 + (columns - x) ** 2) / 12).exp() for y, x in centers])
    return draw(3, 3, 10, 12), bumps


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_the_crop_alone_is_shown_to_the_model(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor], interpolation: Any
) -> None:
    images, heatmaps = batch
    found = saliency_metric(probabilities, images, heatmaps, alpha=0.5, interpolation=interpolation)
    for row, (x0, y0, x1, y1) in enumerate(found.boxes.tolist()):
        crop = F.interpolate(images[row : row + 1, :, y0:y1, x0:x1], size=(10, 12), mode=interpolation)
        with torch.no_grad():
            score = probabilities(crop)[0, found.targets[row]].double()
        area = (x1 - x0) * (y1 - y0) / 120
        assert float(found.areas[row]) == pytest.approx(area)
        assert float(found.probabilities[row]) == pytest.approx(float(score), abs=1e-6)
        assert float(found.values[row]) == pytest.approx(
            float(torch.log(max(torch.tensor(area), torch.tensor(0.05)) / score)), abs=1e-5
        )


def test_many_thresholds_give_what_each_gives_alone_and_equal_boxes_cost_one_call(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor]
) -> None:
    images, heatmaps = batch
    asked = []

    def model(chunk: Tensor) -> Tensor:
        asked.append(len(chunk))
        return probabilities(chunk)

    together = saliency_metric(model, images, heatmaps, alpha=ALPHAS)
    pairs = {
        (row, *box)
        for boxes in together.boxes.tolist()
        for row, box in enumerate(boxes)
        if box != [0, 0, 12, 10]
    }
    assert sum(asked) == len(images) + len(pairs)
    for index in (0, 7, 18):
        alone = saliency_metric(probabilities, images, heatmaps, alpha=ALPHAS[index])
        torch.testing.assert_close(alone.values, together.values[index], rtol=0, atol=1e-6)


def test_chunks_do_not_change_the_values(probabilities: Probabilities, batch: tuple[Tensor, Tensor]) -> None:
    whole = saliency_metric(probabilities, *batch, alpha=ALPHAS)
    with memory_budget("1kB", chunk=2):
        parts = saliency_metric(probabilities, *batch, alpha=ALPHAS)
    torch.testing.assert_close(parts.values, whole.values, rtol=0, atol=1e-6)


def test_an_empty_map_shows_the_whole_image_at_no_further_call(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor]
) -> None:
    images, heatmaps = batch
    asked = []

    def model(chunk: Tensor) -> Tensor:
        asked.append(len(chunk))
        return probabilities(chunk)

    found = saliency_metric(model, images, -heatmaps)
    with torch.no_grad():
        scores = probabilities(images).double().max(1).values
    torch.testing.assert_close(found.values, -scores.log(), rtol=0, atol=1e-6)
    assert found.flags.tolist() == ["empty"] * 3
    assert found.boxes.tolist() == [[0, 0, 12, 10]] * 3
    assert sum(asked) == 3


def test_floors_keep_the_value_finite_and_bounded() -> None:
    values = saliency_values(torch.tensor([0.001, 1.0]), torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(values, torch.tensor([0.05, 1e12]).double().log())


def test_targets_choose_the_class(probabilities: Probabilities, batch: tuple[Tensor, Tensor]) -> None:
    every = torch.stack(
        [
            saliency_metric(probabilities, *batch, targets=torch.full((3,), label), alpha=0.5).probabilities
            for label in range(4)
        ]
    )
    torch.testing.assert_close(every.sum(0), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"interpolation": "nearest"}, "allowed: bilinear, bicubic"),
        ({"alpha": 2.0}, "alpha"),
        ({"targets": torch.zeros(2)}, "targets"),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor], choices: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        saliency_metric(probabilities, *batch, **choices)


def test_one_heatmap_per_image_is_needed(probabilities: Probabilities, batch: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(ValueError, match="one per heatmap"):
        saliency_metric(probabilities, batch[0][:2], batch[1])
