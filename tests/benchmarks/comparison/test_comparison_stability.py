"""How far metrics agree with themselves on other images, classifiers, runs and seeds."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks.comparison_columns import METRICS, Column
from heatcheck.benchmarks.comparison_stability import (
    KINDS,
    ceiling,
    classifier_table,
    halves_table,
    run_table,
    seed_table,
    stability_table,
)
from heatcheck.benchmarks.comparison_tables import agreement_table
from heatcheck.metrics.agreement import rank_correlations
from heatcheck.metrics.chance import kendall_band

METHODS = ("gradient", "smoothgrad", "grad-cam", "lrp", "rise", "lime")
IMAGES = tuple(f"image-{number}" for number in range(21))
UP = [1.0, 2, 3, 4, 5, 6]
UPISH = [1.0, 2, 3, 4, 6, 5]
DOWN = UP[::-1]
TAU = ["kendall", "low", "high"]


def column(
    key: str,
    goodness: Sequence[float],
    *,
    classifier: str = "net",
    seed: int = 0,
    noise: float = 0.0,
    runs: Sequence[Sequence[float]] = (),
    images: tuple[str, ...] = IMAGES,
    methods: tuple[str, ...] = METHODS,
) -> Column:
    metric = METRICS[key]
    means = np.array(runs if len(runs) else [goodness])[:, None]
    spread = np.random.default_rng(seed).standard_normal((len(means), len(images), len(methods)))
    return Column(metric, classifier, methods, images, metric.sign * (means + noise * spread), {}, seed)


def test_a_metric_without_noise_agrees_with_itself_on_any_half() -> None:
    table = halves_table([column("deletion", UP)])
    np.testing.assert_allclose(table[TAU], 1)
    found = table.iloc[0]
    assert (found["n"], found["n_half"], found["n_splits"], found["seed"]) == (6, 10, 50, 0)
    assert (found["chance_low"], found["chance_high"]) == kendall_band(6)


def test_halves_of_two_images_are_the_images() -> None:
    values = np.array([[UP, UPISH]])
    two = Column(METRICS["mass"], "net", METHODS, ("first", "second"), values, {})
    np.testing.assert_allclose(halves_table([two], n_splits=3)[TAU], 1 - 2 / 15)


def test_pure_noise_agrees_with_itself_as_chance_does() -> None:
    images = tuple(map(str, range(30)))
    columns = [column("mass", [0.0] * 6, noise=1.0, images=images, seed=seed) for seed in range(100)]
    table = halves_table(columns, n_splits=10)
    # One tau of six methods has a standard deviation of 0.355.
    assert abs(table["kendall"].mean()) < 0.12
    assert (table["low"] < table["high"]).all()


def test_more_noise_means_less_agreement_between_halves() -> None:
    taus = [halves_table([column("mass", UP, noise=noise)])["kendall"].iloc[0] for noise in (0.0, 4.0, 40.0)]
    assert taus[0] > taus[1] > taus[2]


def test_splits_are_those_of_the_images_and_the_seed() -> None:
    first, same = column("mass", UP, noise=8.0), column("idsds", UP, noise=8.0)
    table = halves_table([first, same])
    assert table[TAU].iloc[0].tolist() == table[TAU].iloc[1].tolist()
    pd.testing.assert_frame_equal(table, halves_table([first, same]))
    assert table[TAU].iloc[0].tolist() != halves_table([first], seed=1)[TAU].iloc[0].tolist()


def test_halves_average_runs_and_leave_out_methods_without_scores_and_controls() -> None:
    runs = [UP, [np.nan, *UP[1:]]]
    partly = column("roar", (), runs=runs)
    assert halves_table([partly])["n"].iloc[0] == 6
    values = partly.values.copy()
    values[:, :, 1] = np.nan
    gone = Column(METRICS["roar"], "net", ("random", *METHODS[1:]), IMAGES, values, {})
    found = halves_table([gone]).iloc[0]
    assert found["n"] == 4
    assert found["kendall"] == pytest.approx(1)
    assert halves_table([gone], with_controls=True)["n"].iloc[0] == 5


def test_a_column_without_scores_has_no_tau_and_one_of_one_image_no_halves() -> None:
    empty = halves_table([column("mass", [np.nan] * 6)])
    assert empty[[*TAU, "chance_low"]].isna().all(axis=None)
    assert halves_table([column("mass", UP, images=("only",))]).empty
    with pytest.raises(ValueError, match="1 or more splits"):
        halves_table([], n_splits=0)


def test_classifiers_are_compared_metric_by_metric() -> None:
    columns = [
        column("roar", UP, classifier="one"),
        column("mass", UP, classifier="one"),
        column("mass", DOWN, classifier="two"),
        column("mass", UPISH, classifier="three"),
        column("mass", DOWN, classifier="one", seed=4),
    ]
    table = classifier_table(columns)
    assert list(zip(table["first"], table["second"], strict=True)) == [
        ("one", "two"), ("one", "three"), ("two", "three"),
    ]  # fmt: skip
    np.testing.assert_allclose(table["kendall"], [-1, 1 - 2 / 15, 2 / 15 - 1])
    assert set(table["metric"]) == {"mass"}
    assert (table["n"] == 6).all()


def test_runs_are_compared_pair_by_pair() -> None:
    found = run_table([column("kar", (), runs=[UP, UPISH, DOWN]), column("mass", UP)])
    assert len(found) == 1
    taus = [rank_correlations(first, second)[1] for first, second in ((UP, UPISH), (UP, DOWN), (UPISH, DOWN))]
    row = found.iloc[0]
    assert row[TAU].tolist() == pytest.approx([np.mean(taus), min(taus), max(taus)])
    assert (row["metric"], row["n_runs"], row["n"]) == ("kar", 3, 6)
    assert 0 < row["p_value"] < 1
    same = run_table([column("roar", (), runs=[UP, UP])]).iloc[0]
    assert (same["kendall"], same["concordance"]) == pytest.approx((1, 1))


def test_runs_leave_out_methods_that_a_run_did_not_score() -> None:
    found = run_table([column("roar", (), runs=[UP, [np.nan, *UP[1:]]])]).iloc[0]
    assert found["n"] == 5
    nothing = run_table([column("roar", (), runs=[[np.nan] * 6, UP])]).iloc[0]
    assert nothing["n"] == 0
    assert np.isnan(nothing["kendall"])
    assert np.isnan(nothing["low"])


def test_seeds_of_the_same_metric_and_classifier_are_compared() -> None:
    columns = [
        column("idsds", UP),
        column("idsds", UPISH, seed=1),
        column("idsds", DOWN, seed=2),
        column("mass", UP, seed=1),
        column("idsds", DOWN, classifier="other", seed=1),
    ]
    table = seed_table(columns)
    assert table[["first", "second"]].to_numpy().tolist() == [[0, 1], [0, 2], [1, 2]]
    np.testing.assert_allclose(table["kendall"], [1 - 2 / 15, -1, 2 / 15 - 1])
    assert set(table["classifier"]) == {"net"}


def test_intervals_are_of_the_images_and_hold_the_estimate() -> None:
    columns = [column("mass", UP, noise=3.0), column("mass", UP, noise=3.0, classifier="two", seed=9)]
    found = classifier_table([columns[0], columns[1]]).iloc[0]
    assert -1 <= found["low"] <= found["kendall"] <= found["high"] <= 1
    assert found["low"] < found["high"]


def test_one_table_holds_every_kind_of_agreement_of_each_metric() -> None:
    columns = [
        column("mass", UP),
        column("rank", UPISH),
        column("mass", UP, seed=1),
        column("mass", DOWN, classifier="two"),
        column("roar", (), runs=[DOWN, DOWN]),
    ]
    table = stability_table(columns, agreement_table([columns[0], columns[1], columns[4]]))
    mass = table[table["metric"] == "mass"]
    assert list(table["metric"].drop_duplicates()) == ["mass", "rank", "roar"]
    assert list(mass["kind"].drop_duplicates()) == [kind for kind in KINDS if kind != "other training run"]
    between = mass[mass["kind"] == "other benchmark"].iloc[0]
    assert (between["what"], between["n"]) == ("ROAR", 6)
    assert between["kendall"] == pytest.approx(-1)
    within = table[(table["metric"] == "rank") & (table["kind"] == "same benchmark")].iloc[0]
    assert (within["what"], within["benchmark"]) == ("mass", "clevr_xai")
    assert within["kendall"] == pytest.approx(1 - 2 / 15)
    assert list(table.loc[table["kind"] == "other training run", "what"]) == ["2 runs of net"]
    assert list(mass.loc[mass["kind"] == "other classifier", "what"]) == ["net and two"]
    assert table[["low", "high"]].notna().all(axis=None)


def test_the_ceiling_is_each_metrics_mean_agreement_with_itself() -> None:
    table = pd.DataFrame(
        {"metric": ["roar", "mass", "mass", "ids"], "kendall": [0.5, 0.2, 0.6, float("nan")]}
    )
    assert ceiling(table) == pytest.approx({"mass": 0.4, "roar": 0.5})
    assert list(ceiling(table)) == ["mass", "roar"]


def test_nothing_to_compare_gives_empty_tables_with_their_columns() -> None:
    one = [column("mass", UP)]
    for table in (halves_table([]), classifier_table(one), run_table(one), seed_table(one)):
        assert table.empty
        assert {"metric", "label", "benchmark", *TAU, "n"} <= set(table.columns)
        assert ceiling(table) == {}
    alone = stability_table(one, agreement_table(one))
    assert list(alone["kind"]) == ["other images"]
    assert stability_table([], agreement_table([])).empty
