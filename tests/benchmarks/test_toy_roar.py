"""The toy experiment with known truth: closed form, measured curves, and the shape they must have."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks import toy_roar
from heatcheck.benchmarks.toy_problem import (
    NOISES,
    Noise,
    ToyProblem,
    accuracies,
    closed_form_accuracy,
    compress,
    covariance,
    draw_problem,
    fit,
    sample,
)
from heatcheck.benchmarks.toy_rankings import (
    RANKINGS,
    SEPARATE,
    ground_truth,
    kept_sets,
    permutations,
    separate_places,
)
from heatcheck.benchmarks.toy_roar import ToySettings, toy_findings, toy_losses, toy_summary

FILE = Path(__file__).parents[1] / "golden" / "roar.json"
CASE: dict[str, Any] = next(
    case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"] if case["id"] == "T1_toy_linear"
)
KEYS: dict[Noise, str] = {"per-feature": "per_feature", "shared": "shared"}
SMALL = ToySettings(n_train=3000, n_test=3000, n_seeds=3, n_permutations=10)


def golden(noise: Noise) -> ToyProblem:
    return ToyProblem(np.array(CASE["inputs"]["a"]), np.array(CASE["inputs"]["d"]), noise)


def curve(noise: Noise, ranking: str, *, retrained: bool) -> np.ndarray:
    kept = kept_sets(np.array(CASE["inputs"][f"ranking_{ranking}"]))
    return closed_form_accuracy(golden(noise), kept, retrained=retrained)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return toy_roar.run(SMALL, {noise: golden(noise) for noise in NOISES})


@pytest.mark.parametrize("retrained", [True, False])
@pytest.mark.parametrize("ranking", ["ground_truth", "inverted", "random"])
@pytest.mark.parametrize("noise", NOISES)
def test_closed_form_is_the_recorded_one(noise: Noise, ranking: str, retrained: bool) -> None:
    expected = CASE["expected"][KEYS[noise]][ranking]["retrain" if retrained else "no_retrain"]
    found = curve(noise, ranking, retrained=retrained)
    assert np.allclose(found, expected, rtol=0, atol=CASE["tolerance"]["closed_form"])


@pytest.mark.parametrize("retrained", [True, False])
@pytest.mark.parametrize("noise", NOISES)
def test_closed_form_over_permutations_is_the_recorded_one(noise: Noise, retrained: bool) -> None:
    # The recorded permutations. Other 200 give curves up to 0.04 away where weights are stale.
    generator = np.random.default_rng(2)
    kept = kept_sets(np.array([generator.permutation(16) for _ in range(200)]))
    found = closed_form_accuracy(golden(noise), kept, retrained=retrained).mean(0)
    expected = CASE["expected"][KEYS[noise]]["random_mean_200"]["retrain" if retrained else "no_retrain"]
    assert np.allclose(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("noise", NOISES)
def test_random_orders_agree_with_the_mean_over_all_sets(noise: Noise) -> None:
    """With one feature gone, the mean over permutations tends to the mean over features."""
    every = closed_form_accuracy(golden(noise), ~np.eye(16, dtype=bool), retrained=False)
    drawn = closed_form_accuracy(golden(noise), kept_sets(permutations(16, 400, 0))[:, 1], retrained=False)
    assert abs(drawn.mean() - every.mean()) < 4 * every.std() / 20


def test_rankings_of_the_recorded_problem_are_the_recorded_ones() -> None:
    found = ground_truth(golden("per-feature"))
    assert found.tolist() == CASE["inputs"]["ranking_ground_truth"]
    assert found[::-1].tolist() == CASE["inputs"]["ranking_inverted"]


def test_closed_form_has_its_short_form_where_noise_is_independent() -> None:
    """``r² = s / (1 + s)`` with ``s = |a|² - (a d)² / (0.01 + |d|²)`` over the kept features."""
    problem = golden("per-feature")
    kept = np.random.default_rng(0).random((50, 16)) < 0.5
    a, d = problem.signal * kept, problem.distractor * kept
    s = (a**2).sum(1) - (a * d).sum(1) ** 2 / (0.01 + (d**2).sum(1))
    expected = 0.5 + np.arcsin(np.sqrt(s / (1 + s))) / np.pi
    assert np.allclose(closed_form_accuracy(problem, kept, retrained=True), expected)


@pytest.mark.parametrize("noise", NOISES)
def test_retraining_is_never_worse_than_the_stale_weights(noise: Noise) -> None:
    kept = kept_sets(permutations(16, 50, 1))
    pair = [closed_form_accuracy(golden(noise), kept, retrained=choice) for choice in (True, False)]
    assert (pair[0] >= pair[1] - 1e-9).all()


@pytest.mark.parametrize("noise", NOISES)
def test_samples_have_the_covariance_and_labels_of_the_problem(noise: Noise) -> None:
    problem = golden(noise)
    features, labels = sample(problem, 40_000, seed=3)
    assert np.allclose(np.cov(features.T), covariance(problem), atol=0.12)
    assert labels.mean() == pytest.approx(0.5, abs=0.01)
    # E[x | y] = +- a / 10 * sqrt(2 / pi)
    shift = features[labels].mean(0) - features[~labels].mean(0)
    assert np.allclose(shift, 0.2 * problem.signal * np.sqrt(2 / np.pi), atol=0.06)
    assert np.linalg.matrix_rank(features, tol=1e-6) == (16 if noise == "per-feature" else 3)


def test_samples_depend_on_their_seed_alone() -> None:
    problem = golden("shared")
    first, second = (sample(problem, 50, seed=(1, 2)) for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert not np.array_equal(first[0], sample(problem, 50, seed=(1, 3))[0])


@pytest.mark.parametrize("noise", NOISES)
def test_fits_are_those_of_least_squares_with_an_intercept(noise: Noise) -> None:
    features, labels = sample(golden(noise), 500, seed=0)
    kept = kept_sets(np.arange(16))[[0, 5, 12, 16]]
    found = fit(compress(features, labels), kept)
    for place, chosen in enumerate(kept):
        design = np.column_stack([features[:, chosen], np.ones(500)])
        expected = np.linalg.lstsq(design, labels.astype(float), rcond=1e-9)[0]
        scores = features @ found.weights[place] + found.intercept[place]
        assert np.allclose(scores, design @ expected, atol=1e-6)
        assert (found.weights[place][~chosen] == 0).all()


def test_accuracies_of_many_models_are_those_of_each() -> None:
    features, labels = sample(golden("per-feature"), 400, seed=0)
    fits = fit(compress(features, labels), kept_sets(permutations(16, 3, 0)))
    found = accuracies(features, labels, fits)
    assert found.shape == (3, 17)
    scores = features @ fits.weights[1, 4] + fits.intercept[1, 4]
    assert found[1, 4] == ((scores > 0.5) == labels).mean()


@pytest.mark.parametrize("noise", NOISES)
def test_measured_curves_follow_the_closed_form(noise: Noise) -> None:
    settings = ToySettings(
        noises=(noise,), rankings=("ground-truth", "inverted", "random"), n_seeds=1, n_permutations=5
    )
    summary = toy_summary(toy_roar.run(settings, {noise: golden(noise)}))
    wide = summary.pivot(index=["retrained", "ranking", "removed"], columns="source", values="mean")
    gaps = (wide["measured"] - wide["closed form"]).abs()
    assert gaps[True].max() < CASE["tolerance"]["monte_carlo_50k_retrain"]
    assert gaps[False].max() < CASE["tolerance"]["monte_carlo_50k_no_retrain"]


def test_retraining_is_flat_until_the_information_goes() -> None:
    flat = curve("per-feature", "inverted", retrained=True)
    assert np.abs(flat[:13] - flat[0]).max() < 0.01
    assert flat[13] < flat[0] - 0.01


def test_without_retraining_accuracy_falls_though_no_information_is_removed() -> None:
    stale = curve("per-feature", "inverted", retrained=False)
    assert stale[5] < stale[0] - 0.03
    assert stale[12] < stale[0] - 0.1


def test_truth_falls_before_random_and_random_before_the_inverse() -> None:
    kept = kept_sets(permutations(16, 100, 0))
    random = closed_form_accuracy(golden("per-feature"), kept, retrained=True).mean(0)
    truth, inverted = (curve("per-feature", name, retrained=True) for name in ("ground_truth", "inverted"))
    assert (truth[1:16] < random[1:16]).all()
    assert (random[1:16] < inverted[1:16]).all()


@pytest.mark.parametrize("noise", NOISES)
def test_everything_ends_at_chance(noise: Noise, table: pd.DataFrame) -> None:
    ends = table[(table["noise"] == noise) & (table["removed"] == 16)]
    closed = ends["source"] == "closed form"
    assert (ends.loc[closed, "accuracy"] == 0.5).all()
    assert (ends.loc[~closed, "accuracy"] - 0.5).abs().max() < 0.03


def test_features_that_repeat_each_other_hide_the_loss() -> None:
    truth, inverted = (curve("shared", name, retrained=True) for name in ("ground_truth", "inverted"))
    assert np.allclose(inverted[:14], 1)
    assert inverted[14] < 0.99
    assert np.allclose(truth[:4], 1)
    assert truth[4] == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(5))
def test_drawn_problems_have_readable_signals_and_little_overlap(seed: int) -> None:
    pair = [draw_problem(noise, seed=seed) for noise in NOISES]
    problem = pair[0]
    assert np.array_equal(problem.signal, pair[1].signal)
    assert np.abs(problem.signal[:4]).min() >= 0.7
    assert (problem.signal[4:] == 0).all()
    overlap = (problem.signal @ problem.distractor) ** 2 / (problem.distractor[:4] ** 2).sum()
    assert overlap <= 0.5


def test_problems_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="noise"):
        draw_problem("both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 to 3 informative"):
        draw_problem(n_features=3, n_informative=4)
    with pytest.raises(ValueError, match="smaller signals"):
        draw_problem(least_signal=50)


def test_removal_follows_the_order_one_feature_at_a_time() -> None:
    kept = kept_sets(np.array([2, 0, 1]))
    assert kept.tolist() == [[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0]]


def test_permutations_are_permutations_and_fixed_by_their_seed() -> None:
    orders = permutations(16, 30, 5)
    assert (np.sort(orders, axis=1) == np.arange(16)).all()
    assert np.array_equal(orders, permutations(16, 30, 5))
    assert len(np.unique(orders, axis=0)) == 30


def test_orders_of_each_example_follow_its_own_products() -> None:
    features, weights = np.array([[1.0, 2.0, 3.0], [3.0, -9.0, 1.0]]), np.array([6.0, 1.0, 1.0])
    places = separate_places("weight-times-input", features, weights, 0)
    assert places.tolist() == [[0, 2, 1], [0, 1, 2]]
    drawn = separate_places("random-per-example", np.zeros((40, 3)), weights, 0)
    assert (np.sort(drawn, axis=1) == np.arange(3)).all()
    assert len(np.unique(drawn, axis=0)) == 6
    with pytest.raises(ValueError, match="weight-times-input, random-per-example"):
        separate_places("random", features, weights, 0)


def test_the_table_has_every_curve_once(table: pd.DataFrame) -> None:
    key = ["noise", "ranking", "retrained", "source", "seed", "removed"]
    assert not table.duplicated(key).any()
    assert set(table["ranking"]) == set(RANKINGS)
    closed = table[table["source"] == "closed form"]
    assert closed["seed"].isna().all()
    assert not set(closed["ranking"]) & set(SEPARATE)
    curves = 2 * 2 * (len(RANKINGS) * SMALL.n_seeds + len(RANKINGS) - len(SEPARATE))
    assert len(table) == 17 * curves
    assert table["accuracy"].between(0, 1).all()


@pytest.mark.parametrize("noise", NOISES)
def test_before_anything_is_removed_all_curves_of_a_data_set_are_one(
    noise: Noise, table: pd.DataFrame
) -> None:
    start = table[(table["noise"] == noise) & (table["removed"] == 0) & (table["source"] == "measured")]
    assert (start.groupby("seed")["accuracy"].agg(np.ptp) < 1e-3).all()


def test_weights_rank_as_the_truth_does_and_products_remove_more_than_chance(table: pd.DataFrame) -> None:
    measured = table[(table["source"] == "measured") & (table["noise"] == "per-feature") & table["retrained"]]
    means = measured.pivot_table(index="ranking", columns="removed", values="accuracy")
    assert means[4]["weight"] == pytest.approx(means[4]["ground-truth"], abs=0.03)
    assert means[8]["weight-times-input"] < means[8]["random-per-example"] - 0.05


def test_summary_has_student_intervals_over_data_sets(table: pd.DataFrame) -> None:
    summary = toy_summary(table)
    closed = summary["source"] == "closed form"
    assert summary.loc[closed, ["std", "low", "high"]].isna().all().all()
    assert (summary.loc[~closed, "n"] == SMALL.n_seeds).all()
    measured = summary[~closed]
    assert (measured["low"] <= measured["mean"]).all()
    row = measured.iloc[3]
    same = table[
        (
            table[["noise", "ranking", "retrained", "source", "removed"]]
            == row[["noise", "ranking", "retrained", "source", "removed"]]
        ).all(axis=1)
    ]
    assert row["mean"] == pytest.approx(same["accuracy"].mean())


def test_turning_points_say_where_the_information_goes(table: pd.DataFrame) -> None:
    losses = toy_losses(toy_summary(table)).set_index(["noise", "ranking", "retrained", "source"])
    first = losses["first_loss"]
    assert first["per-feature", "ground-truth", True, "closed form"] == 1 / 16
    assert first["per-feature", "inverted", True, "closed form"] == 13 / 16
    assert first["per-feature", "inverted", False, "closed form"] == 5 / 16
    assert first["shared", "ground-truth", True, "closed form"] == 4 / 16
    assert first["shared", "inverted", True, "closed form"] == 14 / 16
    assert losses["steepest"]["shared", "ground-truth", True, "closed form"] == 4 / 16


def test_findings_are_computed_from_the_curves(table: pd.DataFrame) -> None:
    found = {row.key: row for row in toy_findings(table)}
    assert list(found) == [
        "toy_needs_retraining",
        "toy_flat_with_retraining",
        "toy_order",
        "toy_redundancy",
    ]
    assert found["toy_needs_retraining"].answer == "yes"
    assert all(row.n == SMALL.n_seeds for row in found.values())
    turned = table.assign(retrained=~table["retrained"])
    assert {row.key: row.answer for row in toy_findings(turned)}["toy_needs_retraining"] == "no"
    part = table[table["ranking"] == "inverted"]
    assert "toy_order" not in {row.key for row in toy_findings(part)}


def test_unknown_rankings_are_refused() -> None:
    with pytest.raises(ValueError, match="ground-truth, inverted, random"):
        ToySettings(rankings=("best",))
    with pytest.raises(ValueError, match="different"):
        ToySettings(rankings=())
