"""Agreement of published tables: nothing but what the assets hold, and exact where few methods overlap."""

import json
import re
from itertools import permutations
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

from heatcheck.benchmarks.comparison_published import (
    MIN_METHODS,
    Source,
    published_names,
    published_numbers,
    published_overlap,
    published_pairs,
    published_sources,
)
from heatcheck.benchmarks.published import published_scores

BIBLIOGRAPHY = Path(__file__).parents[3] / "book" / "references.bib"


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    return {source.label: source for source in published_sources()}


@pytest.fixture(scope="module")
def pairs() -> pd.DataFrame:
    return published_pairs()


def _pair(pairs: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    return pairs[(pairs["first"] == first) & (pairs["second"] == second)]


def test_labels_are_different_and_papers_are_in_the_bibliography(sources: dict[str, Source]) -> None:
    assert len(sources) == len(published_sources())
    known = set(re.findall(r"@\w+\{([^,]+),", BIBLIOGRAPHY.read_text(encoding="utf-8")))
    assert {source.paper for source in sources.values()} <= known
    assert set(published_names()["paper"]) <= known


def test_single_deletion_values_are_those_of_the_table(sources: dict[str, Source]) -> None:
    table = published_scores("idsds")
    own = table[(table["source"] == "hesse2024benchmarking") & (table["metric"] == "IDSDS")]
    for model in ("ResNet-50", "VGG-16", "ViT-B/16"):
        rows = own[own["model"] == model]
        source = sources[f"IDSDS, {model}"]
        assert sorted(source.values.values()) == sorted(rows["value"])
        assert sorted(source.provenance.values()) == sorted(rows["provenance"])
    assert sources["IDSDS, ResNet-50"].values["integrated-gradients"] == 0.196
    assert sources["IDSDS, ResNet-50"].values["integrated-gradients abs"] == 0.111


def test_means_over_networks_are_of_methods_that_all_of_them_have(sources: dict[str, Source]) -> None:
    mean = sources["IDSDS, mean of 3 networks"].values
    assert mean["rise"] == pytest.approx((0.131 + 0.308 + 0.110) / 3)
    assert "grad-cam" not in mean  # the transformer has none
    assert "chefer-relevance" not in mean


def test_controls_are_in_no_source(sources: dict[str, Source]) -> None:
    assert not any({"random", "sobel"} & set(source.values) for source in sources.values())


def test_removing_and_keeping_have_twelve_methods_and_opposite_orders(pairs: pd.DataFrame) -> None:
    for data, spearman in (("ImageNet", -0.94), ("Birdsnap", -0.80), ("Food-101", -0.64)):
        row = _pair(pairs, f"ROAR, {data}", f"KAR, {data}").iloc[0]
        assert row["n"] == 12
        assert round(row["spearman"], 2) == spearman
        assert row["relation"] == "other question"
        assert row["kendall"] < row["chance_low"]


def test_markers_that_cannot_be_told_apart_give_two_readings(pairs: pd.DataFrame) -> None:
    rows = _pair(pairs, "ROAR, ImageNet", "IDSDS, ResNet-50")
    assert list(rows["n"]) == [4, 4]
    assert rows["note"].str.contains("if the upper marker is ig-smoothgrad-squared").tolist() == [True, False]
    # IG-SG is worst by ROAR and by IDSDS, IG second worst by ROAR and best by IDSDS; VAR is over SQ by ROAR.
    assert list(rows["kendall"]) == pytest.approx([0, 1 / 3])
    methods = {"integrated-gradients", "ig-smoothgrad", "ig-smoothgrad-squared", "ig-vargrad"}
    assert set(rows["methods"].iloc[0].split(", ")) == methods
    within = pairs[pairs["relation"] == "other network"]
    assert not within["methods"].str.contains("ig-vargrad|ig-smoothgrad-squared").any()


def test_no_two_benchmarks_share_enough_published_methods_to_leave_chance(pairs: pd.DataFrame) -> None:
    between = pairs[~pairs["same_benchmark"]]
    assert between["n"].max() == 4
    few = between[between["n"] < MIN_METHODS]
    assert len(few)
    assert few[["kendall", "spearman", "p_value", "chance_low"]].isna().all().all()
    known = between.dropna(subset=["kendall"])
    assert (known["chance_high"] == 1).all()


def test_p_values_are_those_of_all_orders(pairs: pd.DataFrame, sources: dict[str, Source]) -> None:
    row = _pair(pairs, "box error, energy", "box error, value").iloc[0]
    first, second = (sources[str(row[side])].values for side in ("first", "second"))
    values = [first[name] for name in second]
    taus = [stats.kendalltau(order, values).statistic for order in permutations(range(len(values)))]
    found = sum(abs(tau) >= abs(row["kendall"]) - 1e-12 for tau in taus) / len(taus)
    assert row["p_value"] == pytest.approx(found)
    assert row["p_method"] == "exact"


def test_ties_have_no_exact_p_value(pairs: pd.DataFrame) -> None:
    tied = _pair(pairs, "IDSDS, ResNet-50", "IDSDS, ResNet-101").iloc[0]
    assert tied["p_method"] == "normal approximation, for ties"


def test_a_low_error_is_good(pairs: pd.DataFrame, sources: dict[str, Source]) -> None:
    assert {label for label, source in sources.items() if source.better == "lower"} == {
        *("box error, energy", "box error, value", "box error, mean"),
        "deletion",
    }
    assert _pair(pairs, "box error, energy", "box error, value")["kendall"].iloc[0] == pytest.approx(11 / 15)


def test_a_replication_ranks_as_the_study_does(pairs: pd.DataFrame) -> None:
    row = pairs[pairs["relation"] == "replication"].iloc[0]
    assert (row["n"], row["kendall"]) == (4, 1)


def test_every_row_says_where_its_values_were_read(pairs: pd.DataFrame) -> None:
    assert (pairs.loc[pairs["n"] > 0, "provenance"] != "").all()
    figures = pairs["provenance"].str.contains("figure")
    assert pairs.loc[figures, "note"].str.contains("read from a figure").all()
    assert not pairs.loc[~figures, "note"].str.contains("read from a figure").any()
    doubtful = pairs["provenance"].str.contains("doubtful")
    rows = pairs[doubtful]
    assert len(rows)
    assert ((rows["first"] == "KAR, ImageNet") | (rows["second"] == "KAR, ImageNet")).all()


def test_the_overlap_counts_benchmarks_of_each_method() -> None:
    table = published_overlap().set_index("method")
    assert table.index[0] == "integrated-gradients"
    assert table.loc["integrated-gradients", "benchmarks"] == 3
    assert table.loc["rise", "insertion"] == pytest.approx((0.76540 + 0.77845) / 2)
    scored = table.drop(columns="benchmarks").notna()
    assert (scored.any(axis=1)).all()


def test_numbers_agree_with_the_pairs_and_can_be_written(pairs: pd.DataFrame) -> None:
    numbers = json.loads(json.dumps(published_numbers()))
    between = pairs[~pairs["same_benchmark"]].drop_duplicates(["first", "second"])
    assert numbers["n_between"] == len(between)
    assert numbers["n_overlapping"] == (between["n"] >= MIN_METHODS).sum() == 6
    assert numbers["n_outside"] == 0
    assert numbers["network_beyond"] == numbers["network_pairs"] == 8
    assert numbers["question_beyond"] == 0
    assert numbers["question_high"] < 0 < numbers["data_low"]


def test_names_say_what_differs_for_every_method_that_two_papers_share() -> None:
    names = published_names()
    assert not names["differs"].eq("").any()
    smoothed = names[names["method"] == "ig-smoothgrad-squared"].iloc[0]
    assert smoothed["published"] == "SG-SQ-IG"
    assert "noise" in smoothed["differs"]
