"""How much a network notices a removal: closed forms of the two changes."""

import math

import pytest
import torch

from heatcheck.metrics.plausibility import entropy, entropy_change, feature_change


def test_features_change_by_the_length_of_the_difference_relative_to_what_was_there() -> None:
    before = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    after = torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, -2.0]])
    assert feature_change(before, after).tolist() == pytest.approx([0, math.sqrt(2), 2])


def test_the_change_of_features_does_not_depend_on_their_scale() -> None:
    before, after = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(feature_change(before, after), feature_change(100 * before, 100 * after))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_features_that_say_nothing_are_undefined_and_spoil_no_other_image(value: float) -> None:
    before = torch.tensor([[0.0, 0.0], [value, 1.0], [1.0, 0.0], [1.0, 0.0]])
    after = torch.tensor([[1.0, 0.0], [1.0, 1.0], [value, 0.0], [1.0, 0.5]])
    found = feature_change(before, after)
    assert found[:3].isnan().all()
    assert float(found[3]) == 0.5


@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_entropy_is_that_of_the_uniform_and_of_the_certain_answer(k: int) -> None:
    uniform, certain = torch.full((1, k), 1 / k), torch.eye(k)[:1]
    assert float(entropy(uniform)) == pytest.approx(math.log(k))
    assert float(entropy(certain)) == 0
    assert float(entropy_change(certain, uniform)) == pytest.approx(math.log(k))
    assert float(entropy_change(uniform, certain)) == pytest.approx(-math.log(k))


def test_logits_are_refused_as_probabilities() -> None:
    with pytest.raises(ValueError, match="pass the softmax"):
        entropy_change(torch.tensor([[2.0, -1.0]]), torch.tensor([[0.5, 0.5]]))


@pytest.mark.parametrize("change", [feature_change, entropy_change])
def test_other_shapes_are_refused(change: object) -> None:
    assert callable(change)
    for shapes in (((2, 3), (3, 3)), ((2, 3, 1), (2, 3, 1))):
        with pytest.raises(ValueError, match=r"same shape \(N, D\)"):
            change(*(torch.zeros(shape) for shape in shapes))
