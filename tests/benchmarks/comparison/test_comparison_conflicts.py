from collections.abc import Callable
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks.comparison_columns import Column
from heatcheck.benchmarks.comparison_conflicts import (
    benchmark_contradictions,
    contradiction_table,
    decided_share,
    method_contradictions,
)
from heatcheck.metrics.resampling import resampled_means

Make = Callable[..., Column]
NAN = float("nan")
UP = {"gradient": 3.0, "rise": 2.0, "lrp": 1.0}
DOWN = {"gradient": 1.0, "rise": 2.0, "lrp": 3.0}
TABLES = (contradiction_table, benchmark_contradictions, method_contradictions)


@pytest.mark.parametrize(("second", "contradicted", "share"), [(UP, 0, 0.0), (DOWN, 3, 1.0)])
def test_equal_rankings_never_contradict_and_reversed_ones_always(
    make_column: Make, second: dict[str, float], contradicted: int, share: float
) -> None:
    row = contradiction_table([make_column("mass", UP), make_column("deletion", second)]).iloc[0]
    assert (row["first"], row["second"], row["second_label"]) == ("mass", "deletion", "deletion")
    assert (row["pairs"], row["decided"], row["contradicted"], row["share"]) == (3, 3, contradicted, share)
    assert bool(row["worst"]) == bool(contradicted)


def test_metrics_of_one_benchmark_are_not_compared(make_column: Make) -> None:
    columns = [make_column("mass", UP), make_column("rank", DOWN), make_column("ids", UP)]
    table = contradiction_table(columns)
    assert list(zip(table["first"], table["second"], strict=True)) == [("mass", "ids"), ("rank", "ids")]
    assert table["contradicted"].tolist() == [0, 3]


@pytest.mark.parametrize("noisy", [0, 1])
def test_pairs_that_one_metric_cannot_decide_are_no_contradiction(make_column: Make, noisy: int) -> None:
    columns = [
        make_column(key, UP, noise=50.0 if place == noisy else 0.01)
        for place, key in enumerate(("mass", "roar"))
    ]
    table = contradiction_table(columns)
    assert table[["pairs", "decided", "contradicted"]].to_numpy().tolist() == [[3, 0, 0]]
    assert table["share"].isna().item()
    assert table["worst"].item() == ""


def test_a_pair_is_decided_where_its_paired_interval_leaves_zero_out(make_column: Make) -> None:
    goodness = {f"own-{number}": 0.02 * number for number in range(12)}
    column = make_column("mass", goodness, noise=0.2)
    differences = np.stack(
        [column.values[0, :, i] - column.values[0, :, j] for i, j in combinations(range(12), 2)], axis=1
    )
    ends = np.quantile(resampled_means(differences, n_resamples=1000, seed=9), [0.025, 0.975], axis=0)
    wanted = int(((ends[0] > 0) | (ends[1] < 0)).sum())
    row = decided_share([column]).to_dict("records")[0]
    assert 5 < wanted < 61
    # The draws differ, so pairs at the edge may differ.
    assert row["decided"] == pytest.approx(wanted, abs=3)
    assert (row["metric"], row["pairs"], row["share"]) == ("mass", 66, row["decided"] / 66)
    assert decided_share([column], level=0.999)["decided"].item() < row["decided"]


def test_noise_that_methods_share_does_not_hide_their_order(make_column: Make) -> None:
    column = make_column("mass", UP, noise=0.0)
    shared = 100 * np.random.default_rng(0).normal(size=(1, len(column.images), 1))
    shaken = Column(column.metric, "first", column.methods, column.images, column.values + shared, {})
    assert decided_share([shaken])["decided"].item() == 3


def test_equal_scores_are_decided_by_no_metric(make_column: Make) -> None:
    column = make_column("mass", {f"own-{number}": 0.1 for number in range(9)})
    column.values[:] = column.values[:, :, :1]
    assert decided_share([column])["decided"].item() == 0


def test_the_worst_contradiction_is_the_one_whose_weaker_side_is_strongest(make_column: Make) -> None:
    first = {"gradient": 0.0, "rise": 1.0, "lrp": 5.0, "grad-cam": 6.0}
    second = {"gradient": 0.6, "rise": 0.0, "lrp": 8.0, "grad-cam": 5.0}
    columns = [make_column("mass", first, noise=0.3), make_column("roar", second, noise=0.3)]
    table = contradiction_table(columns)
    assert table["contradicted"].item() == 2
    assert table["worst"].item() == "grad-cam over lrp by mass, lrp over grad-cam by ROAR"
    # Much stronger under one metric alone does not count.
    columns[1] = make_column("roar", second | {"gradient": 3.5, "lrp": 5.3}, noise=0.3)
    assert (
        contradiction_table(columns)["worst"].item()
        == "rise over gradient by mass, gradient over rise by ROAR"
    )


def test_refused_methods_are_in_no_pair_and_controls_only_when_asked(make_column: Make) -> None:
    first = make_column("mass", UP | {"random": 0.0})
    second = make_column("sds", DOWN | {"rise": NAN, "random": 9.0}, why={"rise": "refused"})
    row = contradiction_table([first, second]).iloc[0]
    assert (row["pairs"], row["decided"], row["contradicted"]) == (1, 1, 1)
    row = contradiction_table([first, second], with_controls=True).iloc[0]
    assert (row["pairs"], row["contradicted"]) == (3, 3)
    methods = method_contradictions([first, second])
    refused = methods[methods["method"] == "rise"]
    assert refused[["decided", "contradicted"]].to_numpy().tolist() == [[0, 0]]
    assert refused["share"].isna().item()


def test_methods_that_are_fought_about_most_come_first(make_column: Make) -> None:
    first = {"gradient": 4.0, "rise": 3.0, "lrp": 2.0, "grad-cam": 1.0}
    columns = [make_column("mass", first), make_column("idsds", first | {"grad-cam": 5.0})]
    table = method_contradictions(columns)
    assert table["method"].tolist() == ["grad-cam", "gradient", "rise", "lrp"]
    assert table["decided"].tolist() == [3, 3, 3, 3]
    assert table["contradicted"].tolist() == [3, 1, 1, 1]
    assert table["share"].tolist() == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3])


def test_every_contradiction_is_of_two_methods(make_column: Make) -> None:
    random = np.random.default_rng(1)
    columns = [
        make_column(key, {name: random.normal() for name in UP}, noise=0.5) for key in ("rank", "kar", "ids")
    ]
    pairs, methods = contradiction_table(columns), method_contradictions(columns)
    assert methods[["decided", "contradicted"]].sum().tolist() == [
        2 * pairs[name].sum() for name in ("decided", "contradicted")
    ]


def test_benchmarks_sum_up_their_metrics(make_column: Make) -> None:
    columns = [
        make_column("mass", UP),
        make_column("rank", DOWN),
        make_column("deletion", UP),
        make_column("insertion", UP | {"rise": 9.0}),
        make_column("kar", DOWN, runs=2),
    ]
    table = benchmark_contradictions(columns).set_index(["first", "second"])
    assert table[["pairs", "decided", "contradicted"]].to_numpy().tolist() == [
        [12, 12, 6],
        [6, 6, 3],
        [6, 6, 5],
    ]
    assert list(table.index) == [("clevr_xai", "deletion"), ("clevr_xai", "roar"), ("deletion", "roar")]
    assert table["first_label"].tolist()[-1] == "Deletion and localization"
    assert [text[-6:] for text in table["worst"]][1:] == ["by KAR", "by KAR"]
    by_metric = contradiction_table(columns)
    for name in ("pairs", "decided", "contradicted"):
        assert table[name].sum() == by_metric[name].sum()


def test_the_main_column_of_each_metric_counts(make_column: Make) -> None:
    main = [make_column("mass", UP), make_column("ids", UP)]
    more = [make_column("ids", DOWN, classifier="second"), make_column("mass", DOWN, seed=1)]
    for table in TABLES:
        pd.testing.assert_frame_equal(table([*main, *more]), table(main))


def test_a_single_benchmark_contradicts_nothing(make_column: Make) -> None:
    columns = [make_column("mass", UP), make_column("rank", DOWN)]
    for table in TABLES[:2]:
        found = table(columns)
        assert found.empty
        assert {"decided", "contradicted", "share", "worst"} <= set(found.columns)
    assert method_contradictions(columns)["decided"].tolist() == [0, 0, 0]
    assert method_contradictions([]).empty
