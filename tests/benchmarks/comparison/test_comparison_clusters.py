"""Which metrics rank methods alike, and how firmly the data say so."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks.comparison_clusters import cluster, cluster_support, cluster_table
from heatcheck.benchmarks.comparison_columns import METRICS, Column

METHODS = ("gradient", "smoothgrad", "grad-cam", "lrp", "rise", "lime")
IMAGES = tuple(f"image-{number}" for number in range(16))
UP = [1.0, 2, 3, 4, 5, 6]
UPISH = [1.0, 2, 3, 4, 6, 5]
DOWN = UP[::-1]
DOWNISH = UPISH[::-1]


def column(key: str, goodness: Sequence[float], *, noise: float = 0.0, seed: int = 0) -> Column:
    metric = METRICS[key]
    spread = noise * np.random.default_rng(seed).standard_normal((1, len(IMAGES), len(goodness)))
    return Column(metric, "net", METHODS, IMAGES, metric.sign * (np.array(goodness) + spread), {})


def square(rows: Sequence[Sequence[float]]) -> pd.DataFrame:
    names = list("abcdefg"[: len(rows)])
    return pd.DataFrame(rows, index=names, columns=names)


FOUR = square([[1, 0.2, 0.8, 0], [0.2, 1, 0, 0.6], [0.8, 0, 1, 0.2], [0, 0.6, 0.2, 1]])


def test_average_linkage_joins_the_nearest_first_and_averages_the_rest() -> None:
    found = cluster(FOUR)
    # a and c at (1 - 0.8) / 2, b and d at (1 - 0.6) / 2, the four cross distances at mean tau 0.1.
    np.testing.assert_allclose(found.linkage[:, 2], [0.1, 0.2, 0.45])
    np.testing.assert_array_equal(np.sort(found.linkage[:, :2], axis=1), [[0, 2], [1, 3], [4, 5]])
    assert found.labels == {"a": 1, "b": 2, "c": 1, "d": 2}
    assert {frozenset(found.order[:2]), frozenset(found.order[2:])} == {frozenset("ac"), frozenset("bd")}


def test_opposite_metrics_are_at_distance_one_and_equal_ones_at_none() -> None:
    found = cluster(square([[1, 1, -1], [1, 1, -1], [-1, -1, 1]]))
    np.testing.assert_allclose(found.linkage[:, 2], [0, 1])
    assert found.labels == {"a": 1, "b": 1, "c": 2}


def test_the_tree_does_not_depend_on_the_order_of_metrics() -> None:
    turned = FOUR.iloc[::-1, ::-1]
    first, second = cluster(FOUR), cluster(turned)
    np.testing.assert_allclose(first.linkage[:, 2], second.linkage[:, 2])
    assert {name for name in "abcd" if second.labels[name] == second.labels["a"]} == {"a", "c"}
    # 1 is the cluster of the first metric of the matrix.
    assert second.labels["d"] == 1


def test_two_metrics_that_disagree_are_two_clusters_and_all_tied_metrics_still_two() -> None:
    assert cluster(square([[1, 0], [0, 1]])).labels == {"a": 1, "b": 2}
    tied = cluster(square(np.ones((4, 4)).tolist()))
    assert sorted(set(tied.labels.values())) == [1, 2]
    assert tied == cluster(square(np.ones((4, 4)).tolist()))._replace(linkage=tied.linkage)


def test_a_metric_without_any_tau_is_not_in_the_tree() -> None:
    wider = FOUR.reindex(index=list("aebcd"), columns=list("aebcd"))
    wider.loc["e", "e"] = 1
    found, expected = cluster(wider), cluster(FOUR)
    assert found.order == expected.order
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.linkage, expected.linkage)


def test_the_matrix_is_left_as_it_was() -> None:
    before = FOUR.copy()
    cluster(FOUR)
    pd.testing.assert_frame_equal(FOUR, before)


@pytest.mark.parametrize(
    ("matrix", "fault"),
    [
        (square([[1]]), "2 or more"),
        (FOUR.iloc[:2], "named alike"),
        (FOUR.rename(columns={"a": "z"}), "named alike"),
        (square([[1, np.nan], [np.nan, 1]]), "2 or more metrics with a tau, got 0"),
        (square([[1, np.nan, 0], [np.nan, 1, 0], [0, 0, 1]]), "pairs of a, b"),
        (square([[1, 0.5], [0.2, 1]]), "symmetric"),
        (square([[1, 1.5], [1.5, 1]]), "lie in"),
    ],
)
def test_what_is_no_matrix_of_taus_is_refused(matrix: pd.DataFrame, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        cluster(matrix)


def test_clear_groups_are_found_in_every_resample() -> None:
    columns = [column("mass", UP), column("deletion", DOWN), column("idsds", UPISH), column("roar", DOWNISH)]
    table = cluster_table(columns)
    assert list(table["metric"]) == ["mass", "deletion", "idsds", "roar"]
    assert list(table["cluster"]) == [1, 2, 1, 2]
    assert list(table["nearest"]) == ["idsds", "roar", "mass", "deletion"]
    assert list(table["nearest_label"]) == ["IDSDS", "ROAR", "mass", "deletion"]
    assert list(table["nearest_benchmark"]) == ["idsds", "roar", "clevr_xai", "deletion"]
    np.testing.assert_allclose(table["tau"], 1 - 2 / 15)
    assert (table["support"] == 1).all()
    assert (table["cluster_support"] == 1).all()


def test_support_is_symmetric_where_it_should_be_and_nearest_shares_add_up_to_one() -> None:
    columns = [
        column(key, np.random.default_rng(place).random(6).tolist(), noise=1.0, seed=place)
        for place, key in enumerate(("mass", "deletion", "insertion", "idsds", "roar"))
    ]
    pairs = cluster_support(columns)
    assert len(pairs) == 5 * 4
    together = pairs.pivot(index="first", columns="second", values="together")
    np.testing.assert_allclose(together.to_numpy(), together.T.to_numpy())
    assert pairs["together"].between(0, 1).all()
    assert 0.02 < pairs["together"].mean() < 0.98
    np.testing.assert_allclose(pairs.groupby("first")["nearest"].sum(), 1)
    pd.testing.assert_frame_equal(pairs, cluster_support(columns))
    assert not pairs["together"].equals(cluster_support(columns, seed=1)["together"])


def test_metrics_equally_near_share_the_place_of_the_nearest() -> None:
    pairs = cluster_support([column("mass", UP), column("idsds", UP), column("roar", UP)])
    assert (pairs["nearest"] == 0.5).all()


def test_noisy_metrics_have_less_support_than_clear_ones() -> None:
    swapped = [2.0, 1, 4, 3, 6, 5]
    clear = [column("mass", UP), column("idsds", UPISH), column("roar", swapped)]
    noisy = [column("mass", UP), column("idsds", UPISH, noise=10, seed=3), column("roar", swapped)]
    supports = [cluster_table(columns).set_index("metric")["support"] for columns in (clear, noisy)]
    assert supports[0]["mass"] == 1
    assert supports[1]["mass"] < 1


def test_metrics_without_scores_are_left_out_and_alone_ones_have_no_cluster_support() -> None:
    columns = [column("mass", UP), column("ids", [np.nan] * 6), column("idsds", UP), column("roar", DOWN)]
    table = cluster_table(columns).set_index("metric")
    assert list(table.index) == ["mass", "idsds", "roar"]
    np.testing.assert_array_equal(table["cluster_support"], [1, 1, np.nan])


def test_controls_count_only_where_asked_for() -> None:
    names = (*METHODS, "random", "sobel")
    columns = [
        Column(METRICS[key], "net", names, IMAGES, np.tile([*UP, *ends], (1, len(IMAGES), 1)), {})
        for key, ends in (("mass", (7, 8)), ("roar", (0, -1)))
    ]
    np.testing.assert_allclose(cluster_table(columns)["tau"], 1)
    np.testing.assert_allclose(cluster_table(columns, with_controls=True)["tau"], 1 - 2 * 13 / 28)


def test_fewer_than_two_metrics_give_an_empty_table_with_its_columns() -> None:
    for columns in ([], [column("mass", UP)]):
        assert cluster_table(columns).empty
        assert "support" in cluster_table(columns).columns
        assert cluster_support(columns).empty
