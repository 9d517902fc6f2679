"""Curves, areas, ranks and agreement from answers whose accuracies are known."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks import roar_tables
from heatcheck.benchmarks.roar import Results
from heatcheck.metrics.retraining_curves import racu, whole_curves

Make = Callable[..., Results]
WHOLE, CHANCE = 0.95, 0.25


@pytest.fixture(scope="module")
def table(invented: Results) -> pd.DataFrame:
    return roar_tables.condition_table(invented)


def accuracy(table: pd.DataFrame, ranking: str, mode: str, percent: int, way: str = "scratch") -> float:
    rows = table.query("ranking == @ranking and mode == @mode and percent == @percent and way == @way")
    return float(rows["mean"].iloc[0])


def test_every_condition_has_a_row_with_its_mean_in_its_interval(
    invented: Results, table: pd.DataFrame
) -> None:
    assert len(table) == len({key._replace(run=0) for key in invented.outcomes})
    assert accuracy(table, "intact", "roar", 0) == WHOLE
    assert accuracy(table, "random", "roar", 90) == pytest.approx(CHANCE + 0.7 * 0.1, abs=1e-2)
    assert (table["low"] <= table["mean"]).all()
    assert (table["mean"] <= table["high"]).all()


def test_a_network_that_is_not_retrained_has_one_run_and_no_spread(table: pd.DataFrame) -> None:
    stale = table[table["way"] == "none"]
    assert (stale["n_runs"] == 1).all()
    assert stale[["std", "t_low", "t_high"]].isna().all(axis=None)
    assert table[table["way"] == "scratch"]["std"].notna().all()


def test_curves_begin_and_end_where_nothing_or_everything_is_gone(
    invented: Results, table: pd.DataFrame
) -> None:
    curves = roar_tables.main_curves(invented, table)
    for (_, mode), rows in curves.groupby(["ranking", "mode"]):
        assert rows["percent"].tolist() == [0, 10, 50, 90, 100]
        ends = (WHOLE, CHANCE) if mode == "roar" else (CHANCE, WHOLE)
        assert (rows["mean"].iloc[0], rows["mean"].iloc[-1]) == ends
    assert curves["ranking"].unique().tolist() == invented.settings.estimators


def test_the_explained_network_s_curves_have_one_end_without_an_interval(
    invented: Results, table: pd.DataFrame
) -> None:
    stale = roar_tables.main_curves(invented, table, way="none")
    start = stale[stale["percent"] == 0]
    assert set(start["mode"]) == {"roar"}
    assert (start["mean"] == invented.accuracies[0]).all()
    assert start["low"].isna().all()
    assert set(stale[stale["mode"] == "kar"]["percent"]) == {10, 50, 90, 100}


def test_racu_is_that_of_the_mean_curves_and_ranks_follow_it(invented: Results, table: pd.DataFrame) -> None:
    summary = roar_tables.summary_table(invented)
    rows = summary[summary["quantity"] == "RACU"].set_index("estimator")
    curves = {
        name: whole_curves(
            [accuracy(table, name, "roar", percent) for percent in (10, 50, 90)], WHOLE, CHANCE, (10, 50, 90)
        )
        for name in ("random", "sq-grad")
    }
    expected = racu(*curves["random"], curves["sq-grad"][1], CHANCE)
    assert rows.loc["sq-grad", "estimate"] == pytest.approx(float(expected), abs=1e-12)
    ranked = rows.dropna(subset="rank").sort_values("rank")
    assert ranked["estimate"].is_monotonic_decreasing
    assert list(ranked.index[:3]) == ["sq-grad", "sg-sq-grad", "var-grad"]


def test_rankings_that_know_the_truth_have_no_rank(invented: Results) -> None:
    summary = roar_tables.summary_table(invented).set_index("estimator")
    assert summary.loc[["oracle", "leaky"], ["rank", "p_holm"]].isna().all(axis=None)
    assert summary["rank"]["grad"].notna().all()


def test_without_roar_or_another_estimator_there_is_nothing_to_compare(make: Make) -> None:
    nothing: dict[str, object] = {name: [] for name in ("matched", "probes", "leaks", "road", "finetuned")}
    kept = make(modes=["kar"], recursive=[], **nothing)
    assert roar_tables.summary_table(kept).empty
    assert roar_tables.agreement_table(kept).empty
    assert roar_tables.stability(kept) is None
    alone = make(estimators=["random"], recursive=[], **nothing)
    assert roar_tables.summary_table(alone).empty
    assert roar_tables.agreement_table(alone).empty


def test_removing_and_keeping_disagree_where_they_were_made_to(invented: Results) -> None:
    agreement = roar_tables.agreement_table(invented)
    assert agreement["percent"].isna().sum() == 1
    assert set(agreement["percent"].dropna()) == {10, 50, 90}
    assert (agreement["spearman"] < -0.9).all()
    assert (agreement["spearman_low"] <= agreement["spearman"]).all()
    assert (agreement["n"] == 5).all()


def test_published_areas_stand_below_ours_and_are_never_mixed(invented: Results) -> None:
    scatter, agreement = roar_tables.beside_published(invented)
    assert scatter["data"].unique().tolist() == ["this run", "Birdsnap", "Food-101", "ImageNet"]
    assert "leaky" not in set(scatter["method"])
    published = agreement[agreement["data"] == "ImageNet"]
    assert published[published["percent"].isna()]["spearman"].item() == pytest.approx(-0.94, abs=5e-3)
    assert published["spearman_low"].isna().all()


def test_runs_that_rank_alike_agree(invented: Results, make: Make) -> None:
    found = roar_tables.stability(invented)
    assert found is not None
    assert found.n_runs == 2
    assert found.spearman > 0.9
    assert roar_tables.stability(make(n_runs=1)) is None


def test_spread_is_split_between_networks_and_retrainings(invented: Results, make: Make) -> None:
    assert roar_tables.variance_table(invented).empty
    several = roar_tables.variance_table(make(n_checkpoints=2))
    assert set(several["estimator"]) == set(roar_tables.model_based(invented))
    assert (several[["between_networks", "between_runs"]] >= 0).all(axis=None)
    assert (several["t_low"] <= several["mean"]).all()


def test_rankings_that_ignore_the_network_stand_for_all_checkpoints(make: Make) -> None:
    several = make(n_checkpoints=2)
    first, second = (
        roar_tables.bits_of(several, "random", "roar", 50, checkpoint=number) for number in (0, 1)
    )
    assert np.array_equal(first, second)
    first, second = (roar_tables.bits_of(several, "grad", "roar", 50, checkpoint=number) for number in (0, 1))
    assert not np.array_equal(first, second)


def test_a_condition_that_was_not_run_is_named(invented: Results) -> None:
    with pytest.raises(KeyError, match=r"no condition.*percent=30"):
        roar_tables.bits_of(invented, "grad", "roar", 30)
