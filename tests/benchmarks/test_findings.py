"""Yes, no or undecided, from an interval."""

from typing import Literal

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks.findings import agree, compare, decide, findings_table


@pytest.mark.parametrize(
    ("low", "high", "supports", "answer"),
    [
        (0.1, 0.2, "positive", "yes"),
        (0.1, 0.2, "negative", "no"),
        (-0.2, -0.1, "negative", "yes"),
        (-0.2, -0.1, "positive", "no"),
        (-0.1, 0.1, "positive", "undecided"),
        (0.0, 0.1, "positive", "undecided"),
        (float("nan"), float("nan"), "positive", "undecided"),
    ],
)
def test_only_an_interval_on_one_side_of_zero_decides(
    low: float, high: float, supports: Literal["positive", "negative"], answer: str
) -> None:
    assert decide(low, high, supports=supports) == answer


def values() -> pd.DataFrame:
    noise = np.random.default_rng(0).normal(scale=0.01, size=(40, 3))
    return pd.DataFrame(noise + np.array([0.2, 0.5, 0.8]), columns=["good", "fair", "poor"])


def test_a_paired_difference_answers_which_mean_is_smaller() -> None:
    found = compare("k", "s", values(), "good", "poor", less=True, source="x", quantity="deletion")
    assert found.answer == "yes"
    assert found.estimate == pytest.approx(-0.6, abs=0.01)
    assert found.low < found.estimate < found.high
    assert found.n == 40
    shared = {"source": "x", "quantity": "deletion"}
    assert compare("k", "s", values(), "poor", "good", less=True, **shared).answer == "no"
    assert compare("k", "s", values(), "good", "good", less=True, **shared).answer == "undecided"


def test_rankings_of_two_scores_agree_in_the_direction_that_is_better() -> None:
    low_is_good, high_is_good = values(), -values()
    shared = {"source": "x", "quantity": "both"}
    assert agree("k", "s", low_is_good, high_is_good, same_direction=False, **shared).answer == "yes"
    assert agree("k", "s", low_is_good, high_is_good, same_direction=True, **shared).answer == "no"


def test_the_table_has_a_row_and_an_interval_for_each_finding() -> None:
    found = compare("k", "s", values(), "good", "poor", less=True, source="x", quantity="deletion")
    table = findings_table([found, found])
    assert len(table) == 2
    assert table["interval"][0].startswith("-0.6")
    assert findings_table([])["statement"].tolist() == ["No statement is about the methods of this run."]
