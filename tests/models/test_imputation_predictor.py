"""The predictor of what was replaced: what it sees, what it loses, how it is scored."""

import math

import pytest
import torch
from torch import Tensor, nn

from heatcheck.models.imputation_predictor import (
    ImputationPredictor,
    imputation_loss,
    imputation_visibility,
)


class Fixed(nn.Module):
    """Logits that are the image's first channel."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        return self.scale * images[:, :1]


@pytest.mark.parametrize("n_units", [1, 3])
def test_there_is_one_logit_per_unit(n_units: int) -> None:
    assert ImputationPredictor(n_units)(torch.zeros(2, 3, 9, 7)).shape == (2, n_units, 9, 7)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_predictor_that_knows_nothing_loses_ln_2_and_scores_one_half(share: float) -> None:
    removed = torch.rand((4, 1, 20, 20), generator=torch.Generator().manual_seed(0)) < share
    assert float(imputation_loss(torch.zeros(removed.shape), removed)) == pytest.approx(math.log(2))
    images = -torch.ones(4, 3, 20, 20)
    assert imputation_visibility(Fixed(), [(images, removed)]) == 0.5


def test_a_predictor_that_sees_all_scores_1_and_a_half_blind_one_in_between() -> None:
    removed = torch.zeros(2, 1, 4, 4, dtype=torch.bool)
    removed[:, :, 0] = True  # 8 of 32
    sees = removed.float() * 2 - 1
    assert imputation_visibility(Fixed(), [(sees, removed)]) == 1
    sees[0, :, 0] = -1
    assert imputation_visibility(Fixed(), [(sees[:1], removed[:1]), (sees[1:], removed[1:])]) == 0.75


def test_the_loss_is_that_of_the_rare_kind_as_much_as_that_of_the_frequent() -> None:
    logits = torch.tensor([2.0, -1.0, -1.0, -1.0]).view(1, 1, 2, 2)
    removed = torch.tensor([1.0, 0.0, 0.0, 0.0]).view(1, 1, 2, 2)
    expected = (math.log1p(math.exp(-2)) + math.log1p(math.exp(-1))) / 2
    assert float(imputation_loss(logits, removed)) == pytest.approx(expected)


def test_the_loss_of_images_of_one_kind_is_the_loss_of_that_kind() -> None:
    logits = torch.full((1, 1, 2, 2), 3.0)
    assert float(imputation_loss(logits, torch.zeros(1, 1, 2, 2))) == pytest.approx(math.log1p(math.exp(3)))


def test_a_score_needs_both_kinds() -> None:
    images = torch.zeros(1, 3, 2, 2)
    with pytest.raises(ValueError, match="4 units were kept and 0 replaced"):
        imputation_visibility(Fixed(), [(images, torch.zeros(1, 1, 2, 2))])
