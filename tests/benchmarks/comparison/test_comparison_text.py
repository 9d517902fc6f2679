"""What a page shows and prose quotes of a comparison, from columns of known means."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks import (
    comparison,
    comparison_chance,
    comparison_conflicts,
    comparison_examples,
    comparison_published,
    comparison_summary,
    comparison_tables,
    comparison_text,
    kept_runs,
)
from heatcheck.benchmarks.comparison_columns import METRICS, Column

DASH = "\N{EN DASH}"
GOOD = {"lrp": 3.0, "gradient": 2.0, "grad-cam": 1.0, "sobel": 0.0, "random": -1.0}
TURNED = {"lrp": 1.0, "gradient": 2.0, "grad-cam": 3.0, "sobel": 0.0, "random": -1.0}


@pytest.fixture
def columns(make_column: Any) -> list[Column]:
    """Two benchmarks rank alike, the third the other way round and not LRP, the fourth as the first."""
    turned = TURNED | {"lrp": float("nan")}
    return [
        make_column("mass", GOOD),
        make_column("deletion", GOOD),
        make_column("insertion", GOOD),
        make_column("idsds", turned, why={"lrp": "no rule for this layer"}),
        make_column("roar", GOOD, runs=2),
    ]


def test_a_glance_has_one_metric_per_benchmark_and_controls_last(columns: list[Column]) -> None:
    table = comparison_text.glance_text(columns)
    assert list(table.columns) == ["method", "mean rank", "mass ↑", "deletion ↓", "IDSDS ↑", "ROAR ↑"]
    assert table["method"].tolist()[-2:] == ["sobel", "random"]
    lrp = table.set_index("method").loc["lrp"]
    assert lrp["IDSDS ↑"] == DASH
    assert lrp["mean rank"] == "1.0"
    # A low deletion score is good, so the goodness of 3 is a score of -3.
    assert lrp["deletion ↓"].startswith("-3.00 [")
    assert lrp["mass ↑"].startswith("3.00 [")


def test_metrics_are_listed_with_their_question_network_and_images(columns: list[Column]) -> None:
    table = comparison_text.metric_text(columns).set_index("metric")
    assert table.index.tolist() == ["mass ↑", "deletion ↓", "insertion ↑", "IDSDS ↑", "ROAR ↑"]
    roar = table.loc[["ROAR ↑"]].to_dict("records")[0]
    assert (roar["benchmark"], roar["explains"], roar["images"]) == ("Remove and retrain", "first", 24)
    assert table["trainings"].tolist() == [0, 0, 0, 0, 2]
    assert table["asks"].nunique() == 5


def test_refusals_are_listed_with_the_words_of_the_method() -> None:
    table = comparison_text.refusal_text({"roar": {}, "idsds": {"lrp": "no rule for this layer"}})
    assert table.to_dict("records") == [
        {"benchmark": "Single deletion", "method": "lrp", "why": "no rule for this layer"}
    ]


def test_headline_agreement_is_of_one_metric_per_benchmark(columns: list[Column]) -> None:
    text = comparison_text.agreement_text(comparison_tables.agreement_table(columns))
    assert len(text) == 6
    rows = text.set_index("metrics")
    assert rows.loc["mass and deletion", "Kendall's tau"] == "+1.00 [+1.00, +1.00]"
    assert str(rows.loc["mass and IDSDS", "Kendall's tau"]).startswith("-1.00 [")
    assert rows.loc["mass and IDSDS", "methods"] == 2
    assert not text["metrics"].str.contains("insertion").any()


def test_concordance_stands_beside_that_of_random_rankings(columns: list[Column]) -> None:
    text = comparison_text.concordance_text(comparison_tables.concordance_table(columns[:3]))
    assert text.loc[0, "Kendall's W"] == "1.00 [1.00, 1.00]"
    assert text["p"].str.match(r"\d\.\d{3}").all()


def test_contradictions_are_counted_among_pairs_that_both_decide(columns: list[Column]) -> None:
    table = comparison_conflicts.benchmark_contradictions(columns)
    text = comparison_text.contradiction_text(table).set_index("benchmarks")
    row = text.loc["CLEVR-XAI / Single deletion"]
    assert (row["decided by both"], row["oppositely"], row["share"]) == (1, 1, "100%")
    assert "gradient" in row["strongest contradiction"]
    assert text.loc["CLEVR-XAI / Remove and retrain", "oppositely"] == 0


def test_controls_beat_methods_with_worse_scores_only(columns: list[Column]) -> None:
    text = comparison_text.control_text(comparison_chance.control_ranks(columns)).set_index("control")
    assert text.loc["sobel", "mass"] == "0"
    assert text.loc["sobel", "IDSDS"] == "0"
    assert list(text.columns) == ["mass", "deletion", "insertion", "IDSDS", "ROAR"]


def test_metrics_are_grouped_by_the_titles_of_their_benchmarks() -> None:
    labels = ["method", "ROAR", "mass", "IDSDS", "mean rank"]
    assert comparison_text.groups_of(labels) == {
        "CLEVR-XAI": ["mass"],
        "Single deletion": ["IDSDS"],
        "Remove and retrain": ["ROAR"],
    }
    assert comparison_text.groups_of([]) == {}


def test_published_pairs_are_of_two_benchmarks_and_keep_their_notes() -> None:
    pairs = comparison_published.published_pairs()
    text = comparison_text.published_text(pairs)
    assert len(text) == (~pairs["same_benchmark"].astype(bool)).sum()
    few = pairs[~pairs["same_benchmark"].astype(bool)]["n"].to_numpy() < 3
    assert (text["tau"].to_numpy()[few] == DASH).all()
    assert text["tau"].to_numpy()[~few].tolist() != []


def test_benchmark_ranks_are_means_over_a_benchmarks_metrics(columns: list[Column]) -> None:
    ranks = comparison_examples.benchmark_ranks(columns)
    assert ranks.index[0] == "lrp"
    assert ranks.loc["lrp", "Deletion and localization"] == 1
    assert ranks["Single deletion"].isna()["lrp"]
    assert ranks.loc["grad-cam", "Single deletion"] == 1
    assert "sobel" not in ranks.index
    assert "sobel" in comparison_examples.benchmark_ranks(columns, with_controls=True).index


def test_without_deletion_there_is_no_image_to_show(columns: list[Column]) -> None:
    settings = comparison.Settings(methods=list(GOOD), benchmarks=["roar"])
    results = comparison.Results(settings, tuple(columns), (), {}, pd.DataFrame(), None)
    with pytest.raises(ValueError, match="add 'deletion' to the benchmarks"):
        comparison_examples.example(results)


def test_quoted_numbers_are_those_of_the_tables(columns: list[Column]) -> None:
    settings = comparison.Settings(methods=list(GOOD))
    refused: Any = {"idsds": {"lrp": "no rule"}, "roar": {}}
    results = comparison.Results(settings, tuple(columns), (), refused, pd.DataFrame(), None)
    agreement = comparison_tables.agreement_table(columns)
    concordance = comparison_tables.concordance_table(columns)
    opposed = comparison_conflicts.benchmark_contradictions(columns)
    quoted = comparison_summary.quotable(results, agreement, concordance, opposed)
    assert (quoted["n_methods"], quoted["n_controls"], quoted["n_metrics"]) == (3, 2, 5)
    assert quoted["best"] == "lrp"
    assert quoted["first"] == {"mass": "lrp", "deletion": "lrp", "idsds": "grad-cam", "roar": "lrp"}
    assert quoted["widest"] == "grad-cam"
    assert (quoted["widest_best"], quoted["widest_worst"]) == (1, 3)
    between = agreement[~agreement["same_benchmark"].astype(bool)]
    counted = [quoted[name] for name in ("n_agreeing", "n_like_random", "n_opposed")]
    assert sum(counted) == quoted["n_pairs"] == len(between) == 9
    assert quoted["contradicted"] == opposed["contradicted"].sum() > 0
    assert quoted["refused"] == {"Single deletion": 1, "Remove and retrain": 0}
    assert set(quoted["concordance"]) == {"all", "one_each", "benchmarks"}


def test_partial_means_leave_out_what_has_no_partial_tau() -> None:
    table = pd.DataFrame(
        {
            "same_benchmark": [False, False, True, False],
            "kendall": [0.5, 0.1, 1.0, 0.9],
            "partial": [0.3, 0.1, 1.0, np.nan],
        }
    )
    found = comparison_summary.partial_means(table)
    assert found == {"before": pytest.approx(0.3), "after": pytest.approx(0.2)}
    assert comparison_summary.partial_means(table.head(0)) == {"before": None, "after": None}


def test_kept_ranks_come_back_as_they_were_kept(columns: list[Column], tmp_path: Path) -> None:
    ranks = comparison_tables.rank_table(columns, with_controls=True)
    ranks.reset_index().to_csv(tmp_path / "all_ranks.csv", index=False)
    kept = kept_runs.kept_table(tmp_path, "all_ranks").set_index("method")
    pd.testing.assert_frame_equal(kept, ranks, check_names=False)
    groups = comparison_text.groups_of(kept.columns)
    assert groups == comparison_tables.metric_groups(columns)


def test_kept_texts_keep_their_signs(tmp_path: Path) -> None:
    (tmp_path / "signs.csv").write_text("metrics,tau,n\nIDSDS and mass,+0.03,\n", encoding="utf-8")
    table = kept_runs.kept_text(tmp_path, "signs")
    assert table.to_dict("records") == [{"metrics": "IDSDS and mass", "tau": "+0.03", "n": ""}]
    assert kept_runs.kept_text(tmp_path, "other").empty


def test_every_metric_belongs_to_a_titled_benchmark() -> None:
    labels = [metric.label for metric in METRICS.values()]
    assert sorted(label for group in comparison_text.groups_of(labels).values() for label in group) == sorted(
        labels
    )
