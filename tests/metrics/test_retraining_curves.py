"""Areas between retraining curves, RACU and DiffROAR: recorded values, closed forms, properties."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heatcheck.metrics.agreement import rank_correlations
from heatcheck.metrics.retraining_curves import GRID, area_between, diff_roar, racu, whole_curves

FILE = Path(__file__).parents[1] / "golden" / "roar.json"
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]
}
TABLE = CASES["M1_published_table_and_curve_metrics"]
DATA = ("Birdsnap", "Food101", "ImageNet")
CELLS = [(data, name) for data in DATA for name in TABLE["inputs"]["table"][data]]


def published(data: str, name: str, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions and the whole published curve, in per cent."""
    inputs = TABLE["inputs"]
    ends = inputs["baseline"][data], inputs["chance"][data]
    first, last = ends if mode == "ROAR" else ends[::-1]
    return whole_curves(inputs["table"][data][name][mode], first, last, inputs["percentages"])


@pytest.mark.parametrize(("data", "name"), CELLS)
def test_areas_of_the_published_table_are_the_recorded_ones(data: str, name: str) -> None:
    expected, tolerance = TABLE["expected"][data][name], TABLE["tolerance"]
    x, random = published(data, "Random", "ROAR")
    curve = published(data, name, "ROAR")[1]
    kept, random_kept = (published(data, other, "KAR")[1] for other in (name, "Random"))
    areas = tolerance["areas"]
    assert area_between(x, random, curve) == pytest.approx(expected["ABC_ROAR_points"], abs=areas)
    assert area_between(x, kept, random_kept) == pytest.approx(expected["ABC_KAR_points"], abs=areas)
    share = racu(x, random, curve, TABLE["inputs"]["chance"][data])
    assert share == pytest.approx(expected["RACU"], abs=tolerance["RACU"])


@pytest.mark.parametrize(("data", "name"), CELLS)
def test_diff_roar_of_the_published_table_is_the_recorded_one(data: str, name: str) -> None:
    cells = TABLE["inputs"]["table"][data][name]
    found = diff_roar(cells["KAR"], cells["ROAR"], TABLE["inputs"]["percentages"])
    assert np.allclose(found, TABLE["expected"][data][name]["DiffROAR"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("data", DATA)
def test_removing_and_keeping_disagree_as_recorded(data: str) -> None:
    names = [name for name in TABLE["inputs"]["table"][data] if name not in ("Random", "Sobel")]
    curves = {mode: np.stack([published(data, name, mode)[1] for name in names]) for mode in ("ROAR", "KAR")}
    x, random = published(data, "Random", "ROAR")
    removed = racu(x, random, curves["ROAR"], TABLE["inputs"]["chance"][data])
    kept = area_between(x, curves["KAR"], published(data, "Random", "KAR")[1])
    expected = TABLE["expected"][data]["_spearman_RACU_vs_ABC_KAR_12_estimators"]
    assert rank_correlations(removed, kept)[0] == pytest.approx(expected, abs=1e-4)


def test_the_hand_checked_racu_is_reproduced() -> None:
    case = CASES["M2_racu_tiny"]
    x, random, estimator, chance = (case["inputs"][key] for key in ("x", "random", "estimator", "chance"))
    floor = [chance] * len(x)
    assert area_between(x, random, estimator) == pytest.approx(case["expected"]["ABC"], abs=1e-12)
    assert area_between(x, random, floor) == pytest.approx(case["expected"]["denominator"], abs=1e-12)
    assert racu(x, random, estimator, chance) == pytest.approx(case["expected"]["RACU"], abs=1e-12)


def falling(seed: int = 0, *shape: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).uniform(0.2, 0.8, size=(*shape, len(GRID)))
    return -np.sort(-drawn, axis=-1)


def test_random_has_racu_zero_and_losing_all_at_once_has_nearly_one() -> None:
    x, random = whole_curves(falling(), 0.9, 0.1)
    assert racu(x, random, random, 0.1) == 0
    # Only the fall between 0 and the first threshold is left over chance.
    lost = np.where(x == 0, 0.9, 0.1)
    left = 0.5 * 0.1 * 0.8
    assert racu(x, random, lost, 0.1) == pytest.approx(1 - left / area_between(x, random, 0 * random + 0.1))


def test_better_and_worse_than_random_differ_in_sign_under_both_modes() -> None:
    x, random = whole_curves(falling(), 0.9, 0.1)
    better = random.copy()
    better[1:-1] -= 0.05
    worse = 2 * random - better
    assert racu(x, random, better, 0.1) > 0 > racu(x, random, worse, 0.1)
    assert area_between(x, random, better) == pytest.approx(-area_between(x, random, worse))


def test_racu_does_not_depend_on_the_unit_of_accuracy() -> None:
    x, random = whole_curves(falling(0), 0.9, 0.1)
    _, curve = whole_curves(falling(1), 0.9, 0.1)
    assert racu(x, 100 * random, 100 * curve, 10.0) == pytest.approx(racu(x, random, curve, 0.1))


def test_racu_is_limited_only_when_asked() -> None:
    x, random = whole_curves([0.2] * 5, 0.2, 0.1)
    high = np.full_like(random, 0.9)
    assert racu(x, random, high, 0.1) == -1
    assert racu(x, random, high, 0.1, clip=False) < -1


def test_a_random_curve_at_chance_leaves_racu_undefined() -> None:
    x, random = whole_curves([0.1] * 5, 0.1, 0.1)
    assert np.isnan(racu(x, random, random, 0.1))


def test_many_curves_at_once_are_those_of_single_ones() -> None:
    x, random = whole_curves(falling(0, 4, 1), np.full((4, 1), 0.9), 0.1)
    _, curves = whole_curves(falling(1, 4, 3), np.full((4, 3), 0.9), 0.1)
    chance = np.array([0.1, 0.12, 0.1, 0.05])[:, None]
    found = racu(x, random, curves, chance)
    assert found.shape == (4, 3)
    for row in range(4):
        for column in range(3):
            single = racu(x, random[row, 0], curves[row, column], chance[row, 0])
            assert found[row, column] == pytest.approx(single)


def test_whole_curves_span_the_axis_and_keep_what_they_are_given() -> None:
    x, curves = whole_curves(falling(0, 2), [0.9, 0.8], 0.1)
    assert x.tolist() == [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1]
    assert curves[:, 0].tolist() == [0.9, 0.8]
    assert (curves[:, -1] == 0.1).all()
    assert np.array_equal(curves[:, 1:-1], falling(0, 2))


def test_diff_roar_compares_as_much_of_the_top_as_of_the_bottom() -> None:
    kar, roar = [0.5, 0.6, 0.7], [0.65, 0.3, 0.1]
    # Top 10 % kept against bottom 10 % kept, which is top 90 % removed; and so on.
    assert np.allclose(diff_roar(kar, roar, (10, 50, 90)), [0.4, 0.3, 0.05])


def test_thresholds_without_a_counterpart_are_named() -> None:
    with pytest.raises(ValueError, match="no counterpart for 10, 20"):
        diff_roar([0.5] * 3, [0.5] * 3, (10, 20, 50))


@pytest.mark.parametrize("percents", [(), (0, 50), (50, 100), (30, 10), (10, 10)])
def test_thresholds_that_do_not_rise_between_the_ends_are_refused(percents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="thresholds must be rising numbers in 1 to 99"):
        whole_curves([0.5] * len(percents), 0.9, 0.1, percents)


def test_curves_that_do_not_fit_their_thresholds_are_refused() -> None:
    with pytest.raises(ValueError, match="one accuracy per threshold"):
        whole_curves([0.5] * 4, 0.9, 0.1)
    with pytest.raises(ValueError, match="must have 3 points"):
        area_between([0, 0.5, 1], [1, 1, 1], [0, 0])
    with pytest.raises(ValueError, match="rising"):
        area_between([0, 1, 0.5], [1, 1, 1], [0, 0, 0])
