from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.metrics.curves import area_under_curve, deletion
from heatcheck.metrics.scoring import Probabilities

Draw = Callable[..., Tensor]


@pytest.fixture
def batch(draw: Draw) -> tuple[Tensor, Tensor]:
    return draw(5, 3, 9, 11), draw(5, 9, 11, seed=1)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"step": 0}, "step must be at least 1"),
        ({"max_fraction": 0.0}, "max_fraction"),
        ({"max_fraction": 1.5}, "max_fraction"),
        ({"ties": "first"}, "unknown tie rule 'first'; allowed: stable, random, mean"),
        ({"ties": "mean", "n_orders": 0}, "n_orders"),
        ({"spacing": "log"}, "unknown spacing 'log'; allowed: uniform, exact"),
        ({"fill": "grey"}, "unknown fill 'grey'; known: biharmonic, blur"),
        ({"fill": torch.zeros(5, 3, 2, 2)}, "filled images"),
        ({"targets": torch.zeros(4, dtype=torch.int64)}, "targets must be int64"),
        ({"targets": torch.full((5,), -1)}, r"targets \[-1\] are no classes"),
        ({"targets": torch.full((5,), 4)}, "allowed: 0 to 3"),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused_by_name(
    probabilities: Probabilities, batch: tuple[Tensor, Tensor], choices: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        deletion(probabilities, *batch, **choices)


def test_shapes_that_do_not_fit_are_refused(probabilities: Probabilities, draw: Draw) -> None:
    images = draw(2, 3, 8, 8)
    with pytest.raises(ValueError, match="2 images but 3 heatmaps"):
        deletion(probabilities, images, draw(3, 8, 8))
    with pytest.raises(ValueError, match="pool"):
        deletion(probabilities, images, draw(2, 3, 8, 8))
    with pytest.raises(ValueError, match="NaN or infinity"):
        deletion(probabilities, images / 0, draw(2, 8, 8))
    with pytest.raises(ValueError, match="N > 0"):
        deletion(probabilities, images[:0], draw(2, 8, 8)[:0])


def test_logits_in_place_of_probabilities_are_refused(
    classifier: nn.Sequential, batch: tuple[Tensor, Tensor]
) -> None:
    with pytest.raises(ValueError, match="softmax_of"):
        deletion(classifier, *batch)


def test_a_curve_of_one_point_has_no_area() -> None:
    with pytest.raises(ValueError, match="at least 2 points"):
        area_under_curve(torch.ones(3, 1))


def test_dividing_by_a_zero_score_is_undefined_not_infinite(draw: Draw) -> None:
    def model(images: Tensor) -> Tensor:
        return torch.stack([torch.zeros(len(images)), torch.ones(len(images))], 1)

    found = deletion(model, draw(1, 3, 4, 4), draw(1, 4, 4), targets=torch.zeros(1, dtype=torch.int64))
    assert found.auc.tolist() == [0.0]
    assert found.auc_over_first.isnan().all()
    assert found.auc_over_max.isnan().all()
