from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks.comparison_columns import Column
from heatcheck.benchmarks.comparison_tables import (
    agreement_table,
    concordance_table,
    kept_methods,
    matrix,
    metric_groups,
    rank_table,
    score_table,
    scores_of,
)
from heatcheck.metrics.chance import kendall_band

Make = Callable[..., Column]
METHODS = ("gradient", "rise", "lrp", "grad-cam", "smoothgrad")
NAN = float("nan")


def ordered(*methods: str) -> dict[str, float]:
    """Goodness of methods in the order of ``METHODS`` and then others, the first of ``methods`` the best."""
    worth = {method: float(-place) for place, method in enumerate(methods)}
    return {method: worth[method] for method in sorted(methods, key=(*METHODS, *methods).index)}


def row_of(table: pd.DataFrame, **wanted: object) -> dict[Any, Any]:
    rows = table[np.logical_and.reduce([table[name] == value for name, value in wanted.items()])]
    assert len(rows) == 1
    found: dict[Any, Any] = rows.to_dict("records")[0]
    return found


def test_scores_keep_the_direction_of_their_metric_and_ranks_turn_with_it(make_column: Make) -> None:
    goodness = ordered("lrp", "rise", "gradient", "random")
    table = score_table([make_column("mass", goodness), make_column("deletion", goodness)])
    for metric, sign in (("mass", 1), ("deletion", -1)):
        for method, value in goodness.items():
            row = row_of(table, metric=metric, method=method)
            assert row["mean"] == pytest.approx(sign * value)
            assert row["low"] <= row["mean"] <= row["high"]
            assert row["rank"] == 1 - value == row["rank_low"] == row["rank_high"]
            assert (row["better"], row["n"]) == ("higher" if sign > 0 else "lower", 24)
    assert list(table["benchmark"].unique()) == ["clevr_xai", "deletion"]
    assert set(table.loc[table["is_control"], "method"]) == {"random"}


def test_rank_intervals_hold_what_the_images_cannot_order(make_column: Make) -> None:
    noisy = make_column("mass", {"gradient": 1.0, "rise": 0.0, "lrp": -0.001}, noise=0.3)
    table = score_table([noisy])
    assert list(table["method"]) == ["gradient", "rise", "lrp"]
    np.testing.assert_array_equal(table[["rank", "rank_low", "rank_high"]], [[1, 1, 1], [2, 2, 3], [3, 2, 3]])


def test_refused_methods_have_the_reason_and_neither_score_nor_rank(make_column: Make) -> None:
    column = make_column("roar", {"gradient": 1.0, "rise": NAN, "lrp": 0.5}, why={"rise": "too slow"}, runs=3)
    row = row_of(score_table([column]), method="rise")
    assert all(np.isnan(row[name]) for name in ("mean", "low", "high", "rank", "rank_low", "rank_high"))
    assert (row["n"], row["why"]) == (0, "too slow")
    assert row_of(score_table([column]), method="lrp")["rank"] == 2
    assert row_of(score_table([column]), method="gradient")["why"] == ""


def test_images_without_a_score_are_not_counted(make_column: Make) -> None:
    column = make_column("mass", ordered("rise", "lrp"))
    column.values[0, :5, 1] = NAN
    table = score_table([column]).set_index("method")
    assert table["n"].to_dict() == {"rise": 24, "lrp": 19}


def test_one_row_per_metric_classifier_and_method_of_the_first_seed(make_column: Make) -> None:
    columns = [
        make_column("mass", ordered("rise", "lrp"), classifier=classifier, seed=seed)
        for seed in (7, 8)
        for classifier in ("first", "second")
    ]
    table = score_table(columns)
    assert table[["classifier", "method"]].value_counts().tolist() == [1] * 4
    pd.testing.assert_frame_equal(table, score_table(columns[:2]))


def test_tables_of_no_columns_are_empty_and_have_their_columns() -> None:
    assert list(score_table([]).columns)[:3] == ["benchmark", "metric", "label"]
    assert {"kendall", "chance_low"} <= set(agreement_table([]).columns)
    assert {"group", "p_value"} <= set(concordance_table([]).columns)
    assert rank_table([]).empty
    assert matrix(agreement_table([])).empty


def test_mean_ranks_weigh_benchmarks_alike_however_many_metrics_they_have(make_column: Make) -> None:
    good, bad = ordered("rise", "lrp", "gradient"), ordered("gradient", "lrp", "rise")
    columns = [make_column(key, good) for key in ("deletion", "insertion", "saliency-metric")]
    table = rank_table([*columns, make_column("roar", bad, runs=2)])
    assert table["mean rank"].to_dict() == {"gradient": 2, "rise": 2, "lrp": 2}
    assert list(table.columns) == ["deletion", "insertion", "saliency metric", "ROAR", "mean rank"]
    np.testing.assert_array_equal(table.loc[["rise"]], [[1, 1, 1, 3, 2]])


def test_ranks_are_among_methods_and_controls_join_when_asked(make_column: Make) -> None:
    column = make_column("mass", ordered("random", "rise", "constant", "lrp"))
    assert rank_table([column])["mass"].to_dict() == {"rise": 1, "lrp": 2}
    everyone = rank_table([column], with_controls=True)["mass"].to_dict()
    assert everyone == {"random": 1, "rise": 2, "constant": 3, "lrp": 4}
    assert rank_table([column], ["lrp", "random"])["mass"].to_dict() == {"random": 1, "lrp": 2}


def test_rows_are_sorted_by_mean_rank_and_methods_without_any_come_last(make_column: Make) -> None:
    mass = make_column("mass", {"gradient": NAN, "rise": 0.0, "lrp": 1.0, "grad-cam": 1.0})
    mass.values[:, :, 3] = mass.values[:, :, 2]
    table = rank_table([mass])
    assert list(table.index) == ["lrp", "grad-cam", "rise", "gradient"]
    np.testing.assert_array_equal(table["mean rank"], [1.5, 1.5, 3, NAN])


def test_a_metric_that_refuses_a_method_is_left_out_of_its_mean_rank(make_column: Make) -> None:
    first = make_column("mass", ordered("rise", "lrp", "gradient"))
    second = make_column("idsds", {"gradient": 1.0, "rise": NAN, "lrp": 0.0})
    table = rank_table([first, second])
    assert table["IDSDS"].isna().to_dict() == {"rise": True, "lrp": False, "gradient": False}
    assert table["mean rank"].to_dict() == {"rise": 1, "lrp": 2, "gradient": 2}


def test_ranking_methods_that_no_column_has_is_refused(make_column: Make) -> None:
    with pytest.raises(ValueError, match="no scores of lime; there are: gradient, rise"):
        rank_table([make_column("mass", ordered("rise", "gradient"))], ["lime"])


def test_groups_hold_the_metrics_that_there_are_in_the_books_order(make_column: Make) -> None:
    columns = [make_column(key, ordered("rise", "lrp")) for key in ("kar", "rank", "mass")]
    assert metric_groups(columns) == {"CLEVR-XAI": ["mass", "rank"], "Remove and retrain": ["KAR"]}


@pytest.mark.parametrize(
    ("second", "tau", "rho"),
    [
        (METHODS, 1, 1),
        (METHODS[::-1], -1, -1),
        (("rise", "gradient", "lrp", "grad-cam", "smoothgrad"), 0.8, 0.9),
    ],
)
def test_agreement_is_that_of_the_rankings(
    make_column: Make, second: tuple[str, ...], tau: float, rho: float
) -> None:
    columns = [make_column("mass", ordered(*METHODS)), make_column("deletion", ordered(*second))]
    row = agreement_table(columns).iloc[0]
    assert row["kendall"] == pytest.approx(tau) == row["kendall_low"] == row["kendall_high"]
    assert row["spearman"] == pytest.approx(rho) == row["spearman_low"] == row["spearman_high"]
    assert (row["first_label"], row["second_label"], row["n"]) == ("mass", "deletion", 5)
    assert (row["chance_low"], row["chance_high"]) == kendall_band(5)
    assert not row["same_benchmark"]


def test_agreement_of_ties_is_tau_b(make_column: Make) -> None:
    first = make_column("mass", ordered("gradient", "rise", "lrp"))
    tied = make_column("deletion", ordered("gradient", "rise", "lrp"))
    tied.values[:, :, 1] = tied.values[:, :, 0]
    assert agreement_table([first, tied])["kendall"].item() == pytest.approx(2 / np.sqrt(6))


def test_refused_methods_and_controls_do_not_count_in_agreement(make_column: Make) -> None:
    values = {"gradient": 1.0, "rise": 2.0, "lrp": 3.0, "random": 9.0}
    first, second = make_column("mass", values), make_column("sds", values | {"lrp": NAN})
    assert agreement_table([first, second])["n"].item() == 2
    assert agreement_table([first, second], with_controls=True)["n"].item() == 3


@pytest.mark.parametrize("others", [{"rise": NAN, "lrp": 1.0}, {"rise": NAN, "lrp": NAN}])
def test_without_two_methods_in_common_there_is_no_agreement(
    make_column: Make, others: dict[str, float]
) -> None:
    first, second = make_column("mass", {"rise": 1.0, "lrp": 2.0}), make_column("ids", others)
    row = agreement_table([first, second]).iloc[0]
    assert row["n"] < 2
    assert row[["kendall", "spearman", "kendall_low", "chance_high"]].isna().all()


def test_columns_that_know_other_methods_agree_over_those_in_common(make_column: Make) -> None:
    first = make_column("mass", {"rise": 1.0, "lrp": 2.0, "gradient": 3.0})
    second = make_column("ids", {"gradient": 3.0, "grad-cam": 0.0, "rise": 5.0})
    assert agreement_table([first, second])[["n", "kendall"]].iloc[0].tolist() == [2, -1]


def test_metrics_of_the_same_images_are_resampled_together(make_column: Make) -> None:
    first = make_column("mass", ordered("rise", "lrp", "gradient"), noise=6.0)
    twin = make_column("rank", ordered("rise", "lrp", "gradient"))
    twin.values[:] = first.values
    row = agreement_table([first, twin]).iloc[0]
    assert row[["kendall", "kendall_low", "kendall_high"]].tolist() == pytest.approx([1, 1, 1])
    elsewhere = make_column("ids", ordered("rise", "lrp", "gradient"))
    elsewhere.values[:] = first.values
    assert agreement_table([first, elsewhere])["kendall_low"].item() < 1


def test_every_pair_of_columns_has_a_row_across_classifiers_too(make_column: Make) -> None:
    columns = [
        make_column(key, ordered("rise", "lrp", "gradient"), classifier=classifier)
        for classifier in ("first", "second")
        for key in ("mass", "roar")
    ]
    table = agreement_table(columns)
    assert len(table) == 6
    across = table[table["classifier_first"] != table["classifier_second"]]
    assert len(across) == 4
    assert set(table.loc[table["first"] == table["second"], "same_benchmark"]) == {True}


def test_the_square_holds_the_main_columns_in_the_books_order(make_column: Make) -> None:
    up, down = ordered("rise", "lrp", "gradient"), ordered("gradient", "lrp", "rise")
    columns = [
        make_column("roar", up, runs=2),
        make_column("mass", down),
        make_column("deletion", up),
        make_column("roar", down, classifier="second", runs=2),
        make_column("mass", down, classifier="second"),
    ]
    table = agreement_table(columns)
    square = matrix(table)
    assert list(square.index) == list(square.columns) == ["mass", "deletion", "ROAR"]
    np.testing.assert_allclose(square, [[1, -1, -1], [-1, 1, 1], [-1, 1, 1]])
    assert matrix(table, "n").loc["mass", "ROAR"] == 3
    with pytest.raises(ValueError, match="no value 'tau'"):
        matrix(table, "tau")


def test_metrics_that_agree_have_a_concordance_of_one_and_those_that_do_not_of_none(
    make_column: Make,
) -> None:
    up, down = ordered(*METHODS), ordered(*METHODS[::-1])
    columns = [make_column(key, up) for key in ("mass", "rank", "deletion")] + [make_column("idsds", down)]
    table = concordance_table(columns).set_index("group")
    assert table["w"].to_dict() == pytest.approx(
        {
            "all metrics": 0.25,  # (3 - 1)² / 4²: one of four against the others
            "one metric per benchmark": 1 / 9,
            "mean rank of each benchmark": 1 / 9,
            "CLEVR-XAI": 1,
        }
    )
    assert table["raters"].tolist() == [4, 3, 3, 2]
    assert set(table["n_methods"]) == {5}
    np.testing.assert_allclose(table[["low", "high"]].to_numpy().T, [table["w"]] * 2)
    p_values = table["p_value"].to_dict()
    assert p_values["CLEVR-XAI"] < 0.05 < p_values["all metrics"]
    assert table["chance"].between(0, 1).all()


def test_one_rater_is_no_group_and_metrics_without_any_score_are_no_raters(make_column: Make) -> None:
    up = ordered("rise", "lrp", "gradient")
    columns = [make_column("mass", up), make_column("roar", up), make_column("idsds", dict.fromkeys(up, NAN))]
    table = concordance_table(columns)
    assert table["group"].tolist() == [
        "all metrics",
        "one metric per benchmark",
        "mean rank of each benchmark",
    ]
    assert set(table["raters"]) == {2}


def test_concordance_is_over_methods_that_every_metric_scores(make_column: Make) -> None:
    first = make_column("mass", {"rise": 1.0, "lrp": 2.0, "gradient": 3.0, "random": 0.0})
    table = concordance_table([first, make_column("ids", {"rise": 1.0, "lrp": NAN, "gradient": 3.0})])
    assert set(table["n_methods"]) == {2}
    unlike = make_column("ids", {"rise": 1.0, "lrp": NAN, "gradient": NAN})
    empty = concordance_table([first, unlike])
    assert set(empty["n_methods"]) == {1}
    assert empty[["w", "low", "high", "chance", "p_value"]].isna().all(axis=None)
    joined = concordance_table([first, make_column("ids", {"rise": 1.0, "random": 2.0})], with_controls=True)
    assert set(joined["n_methods"]) == {2}


def test_concordance_of_two_metrics_is_their_spearman_correlation_moved_to_0_to_1(make_column: Make) -> None:
    random = np.random.default_rng(2)
    columns = [
        make_column(key, dict(zip(METHODS, random.normal(size=5), strict=True)), noise=1.0)
        for key in ("mass", "roar")
    ]
    pair, w = agreement_table(columns).iloc[0], concordance_table(columns).iloc[0]
    for name, end in (("w", "spearman"), ("low", "spearman_low"), ("high", "spearman_high")):
        assert w[name] == pytest.approx((1 + pair[end]) / 2)


def test_tables_are_the_same_again_and_leave_columns_as_they_were(make_column: Make) -> None:
    columns = [
        make_column("mass", ordered("rise", "lrp"), noise=2.0),
        make_column("kar", ordered("lrp", "rise")),
    ]
    before = [column.values.copy() for column in columns]
    for make in (score_table, rank_table, agreement_table, concordance_table):
        pd.testing.assert_frame_equal(make(columns), make(columns))
    for column, values in zip(columns, before, strict=True):
        np.testing.assert_array_equal(column.values, values)


def test_scores_of_methods_that_a_column_lacks_are_nan(make_column: Make) -> None:
    column = make_column("deletion", {"rise": 1.0, "lrp": 2.0})
    goodness, draws = scores_of(column, ["lrp", "lime", "rise"])
    np.testing.assert_allclose(goodness, [2, NAN, 1])
    np.testing.assert_array_equal(draws[:, [0, 2]], column.draws()[:, ::-1])
    assert np.isnan(draws[:, 1]).all()


def test_kept_methods_come_in_order_and_controls_only_when_asked(make_column: Make) -> None:
    columns = [
        make_column("mass", {"sobel": 1.0, "rise": 2.0}),
        make_column("ids", {"own": 1.0, "rise": 2.0}),
    ]
    assert kept_methods(columns) == ["rise", "own"]
    assert kept_methods(columns, with_controls=True) == ["sobel", "rise", "own"]
