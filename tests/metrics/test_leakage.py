"""Bounds on what masks give away: recorded values, channels with known information, invisible masks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heatcheck.metrics.leakage import balanced_accuracy, leak_bounds, leak_estimates, nats_to_bits

FILE = Path(__file__).parents[1] / "golden" / "roar.json"
CASE: dict[str, Any] = next(
    case
    for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]
    if case["id"] == "L1_mask_information_bounds"
)


@pytest.mark.parametrize("place", range(3))
def test_bounds_are_the_recorded_ones(place: int) -> None:
    given, expected = CASE["inputs"][place], CASE["expected"][place]
    found = leak_bounds(given["acc"], given["ce"], given["C"])
    recorded = {
        "H_C_nats": found.entropy,
        "variational_lower_bound_nats": found.variational,
        "variational_lower_bound_bits": nats_to_bits(found.variational),
        "fano_lower_bound_nats": found.fano,
        "leak_score": found.leak_score,
    }
    assert recorded.keys() == expected.keys()
    for name, value in recorded.items():
        assert value == pytest.approx(expected[name], abs=CASE["tolerance"]), name


@pytest.mark.parametrize("n_classes", [2, 10, 101])
@pytest.mark.parametrize("right", [0.3, 0.6, 0.99])
def test_both_bounds_are_exact_for_a_symmetric_channel_and_its_best_classifier(
    n_classes: int, right: float
) -> None:
    """The mask shows the class with probability ``right``, else any other class alike."""
    right = max(right, 1 / n_classes)
    wrong = (1 - right) / (n_classes - 1)
    rest = -right * np.log(right) - (n_classes - 1) * wrong * np.log(wrong)  # entropy of class given mask
    found = leak_bounds(right, rest, n_classes)
    assert found.variational == pytest.approx(np.log(n_classes) - rest)
    assert found.fano == pytest.approx(np.log(n_classes) - rest)


def test_fano_stays_below_the_information_of_a_lopsided_channel() -> None:
    """Classes come in pairs that the mask cannot tell apart: the bound from the error alone is loose."""
    n_classes = 8
    found = leak_bounds(0.5, np.log(2), n_classes)
    assert found.variational == pytest.approx(np.log(n_classes / 2))
    assert 0 < found.fano < found.variational


def test_a_perfect_classifier_proves_the_whole_entropy_and_a_blind_one_nothing() -> None:
    perfect, blind = leak_bounds(1.0, 0.0, 10), leak_bounds(0.1, np.log(10), 10)
    assert perfect.variational == perfect.fano == pytest.approx(np.log(10))
    assert (float(perfect.leak_score), float(blind.leak_score)) == (1, 0)
    assert blind.variational == pytest.approx(0, abs=1e-12)
    assert blind.fano == pytest.approx(0, abs=1e-12)


def test_a_confidently_wrong_classifier_proves_nothing_but_scores_below_chance() -> None:
    found = leak_bounds(0.05, 9.0, 10)
    assert found.variational == 0
    assert found.leak_score < 0


@pytest.mark.parametrize(
    ("accuracy", "loss", "n_classes", "message"),
    [(80.0, 0.5, 10, "not in per cent"), (0.8, -0.1, 10, "never negative"), (0.8, 0.5, 1, "2 classes")],
)
def test_impossible_values_are_refused(accuracy: float, loss: float, n_classes: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leak_bounds(accuracy, loss, n_classes)


def test_estimates_agree_with_the_bounds_of_the_means_and_lie_in_their_intervals() -> None:
    random = np.random.default_rng(0)
    correct = random.random((3, 400)) < 0.7
    losses = random.exponential(0.8, size=(3, 400))
    found = {row.quantity: row for row in leak_estimates(correct, losses, 10, n_resamples=300)}
    expected = leak_bounds(correct.mean(), losses.mean(), 10)
    assert list(found) == ["accuracy", "leak_score", "variational", "fano"]
    for name in ("leak_score", "variational", "fano"):
        assert found[name].estimate == pytest.approx(getattr(expected, name))
    for row in found.values():
        assert row.low < row.estimate < row.high
    # Answers that share nothing between runs or images are counted three times: as runs, as images, and both.
    width = 2 * 1.96 * np.sqrt(3 * 0.7 * 0.3 / 1200)
    assert found["accuracy"].high - found["accuracy"].low == pytest.approx(width, rel=0.15)


def test_answers_and_losses_of_different_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        leak_estimates(np.ones((2, 5), dtype=bool), np.ones((2, 4)), 10)


def test_balanced_accuracy_is_half_for_a_guess_and_one_for_the_mask_itself() -> None:
    truth = np.zeros((2, 4, 4), dtype=bool)
    truth[0, 0], truth[1, :3] = True, True
    assert balanced_accuracy(truth, truth).tolist() == [1, 1]
    assert balanced_accuracy(~truth, truth).tolist() == [0, 0]
    for guess in (np.zeros_like(truth), np.ones_like(truth)):
        assert balanced_accuracy(guess, truth).tolist() == [0.5, 0.5]


def test_balanced_accuracy_is_undefined_where_all_or_nothing_was_replaced() -> None:
    truth = np.zeros((3, 5), dtype=bool)
    truth[0], truth[1, :2] = True, True
    assert np.isnan(balanced_accuracy(truth, truth)).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="boolean"):
        balanced_accuracy(truth.astype(float), truth)
