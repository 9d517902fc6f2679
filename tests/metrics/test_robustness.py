"""From similarities over settings to means, deviations, intervals and differences."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from heatcheck.metrics.robustness import accuracy_spread, aggregate_similarity, compare_similarity

FILE = Path(__file__).parents[1] / "golden" / "deletion.json"
CASES: dict[str, Any] = {case["id"]: case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]}


@pytest.fixture
def table() -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(-1, 1, (12, 4))


def test_recorded_aggregation() -> None:
    case = CASES["similarity_aggregation"]
    found = aggregate_similarity(case["inputs"]["scores"])
    assert found.mean.mean == pytest.approx(case["expected"]["mean"], abs=1e-9)
    assert found.deviation == pytest.approx(case["expected"]["deviation"], abs=1e-9)


def test_the_deviation_is_that_of_settings_and_not_of_images() -> None:
    images_differ = aggregate_similarity([[0.9, 0.9], [0.1, 0.1]])
    assert images_differ.deviation == 0
    assert images_differ.mean.low < images_differ.mean.high
    settings_differ = aggregate_similarity([[0.9, 0.1], [0.1, 0.9]])
    assert settings_differ.deviation == pytest.approx(0.4)
    assert settings_differ.mean.low == pytest.approx(settings_differ.mean.high)


def test_undefined_values_are_left_out_and_counted(table: NDArray[np.float64]) -> None:
    with_holes = table.copy()
    with_holes[0], with_holes[3, 1] = np.nan, np.nan
    found = aggregate_similarity(with_holes)
    rows = [row[~np.isnan(row)] for row in with_holes[1:]]
    assert found.mean.mean == pytest.approx(np.mean([row.mean() for row in rows]))
    assert found.deviation == pytest.approx(np.sqrt(np.mean([row.var() for row in rows])))
    assert (found.mean.n, found.mean.n_excluded, found.n_undefined) == (11, 1, 5)


def test_nothing_defined_gives_nan() -> None:
    found = aggregate_similarity(np.full((3, 2), np.nan))
    assert np.isnan([found.mean.mean, found.deviation]).all()
    assert found.n_undefined == 6


def test_the_interval_holds_the_mean_and_repeats(table: NDArray[np.float64]) -> None:
    found = aggregate_similarity(table, seed=3)
    assert found.mean.low < found.mean.mean < found.mean.high
    assert aggregate_similarity(table, seed=3) == found
    narrow = aggregate_similarity(table, seed=3, level=0.5)
    assert found.mean.low < narrow.mean.low < narrow.mean.high < found.mean.high


def test_a_constant_gain_is_found_with_certainty(table: NDArray[np.float64]) -> None:
    found = compare_similarity(table + 0.25, table)
    assert found[:3] == pytest.approx((0.25, 0.25, 0.25))
    back = compare_similarity(table, table + 0.25)
    assert back.mean == pytest.approx(-0.25)


def test_only_settings_defined_for_both_count(table: NDArray[np.float64]) -> None:
    generative = table + 0.25
    generative[0, 1], generative[1] = np.nan, np.nan
    base = table.copy()
    base[0, 2] = np.nan
    found = compare_similarity(generative, base)
    assert found.mean == pytest.approx(0.25)
    assert (found.n, found.n_excluded) == (11, 1)


def test_the_spread_shows_what_the_mean_hides() -> None:
    # Two settings with the same mean, but every image changes.
    values = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert values.mean(0).tolist() == [0.5, 0.5]
    assert accuracy_spread(values).mean == pytest.approx(0.5)


def test_the_spread_is_the_mean_of_the_images_deviations(table: NDArray[np.float64]) -> None:
    assert accuracy_spread(table).mean == pytest.approx(table.std(1).mean())
    with_holes = table.copy()
    with_holes[2, 1:] = np.nan
    found = accuracy_spread(with_holes)
    assert found.mean == pytest.approx(np.delete(table, 2, 0).std(1).mean())
    assert (found.n, found.n_excluded) == (11, 1)


@pytest.mark.parametrize("values", [[0.5, 0.6], [[[0.5]]], np.zeros((3, 0)), [[np.inf, 0.0]]])
def test_what_is_no_table_is_refused(values: Any) -> None:
    for function in (aggregate_similarity, accuracy_spread):
        with pytest.raises(ValueError, match="a row per image and a column per setting"):
            function(values)


def test_tables_of_other_settings_are_not_compared(table: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match=r"same images and settings, got \(12, 4\) and \(12, 3\)"):
        compare_similarity(table, table[:, :3])
