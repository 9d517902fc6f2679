"""The published table of remove and retrain as data, and what is computed from it."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from heatcheck.benchmarks.published import published_scores
from heatcheck.benchmarks.roar_published import (
    Statement,
    published_agreement,
    published_curves,
    published_statements,
    published_summary,
)

FILE = Path(__file__).parents[1] / "golden" / "roar.json"
TABLE: dict[str, Any] = next(
    case
    for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]
    if case["id"] == "M1_published_table_and_curve_metrics"
)
# Names of the recorded table and of ours.
DATA = {"Birdsnap": "Birdsnap", "Food101": "Food-101", "ImageNet": "ImageNet"}


@pytest.fixture(scope="module")
def statements() -> dict[str, Statement]:
    return {row.key: row for row in published_statements()}


@pytest.fixture(scope="module")
def agreement() -> pd.DataFrame:
    return published_agreement()


def test_every_cell_is_the_recorded_one() -> None:
    found = published_curves().set_index(["data", "mode", "percent", "method"])["value"]
    inputs = TABLE["inputs"]
    expected = {
        (ours, mode.lower(), percent, name.lower()): value / 100
        for theirs, ours in DATA.items()
        for name, modes in inputs["table"][theirs].items()
        for mode, values in modes.items()
        for percent, value in zip(inputs["percentages"], values, strict=True)
    }
    for theirs, ours in DATA.items():
        expected[ours, "unmodified", 0, "unmodified"] = inputs["baseline"][theirs] / 100
        expected[ours, "chance", 100, "chance"] = inputs["chance"][theirs] / 100
    expected["ImageNet", "deletion", 90, "random"] = 0.005
    assert found.to_dict() == pytest.approx(expected, abs=1e-8)
    assert len(found) == 3 * (14 * 2 * 5 + 2) + 1


def test_every_cell_says_where_it_comes_from() -> None:
    table = published_scores("roar")
    assert not table.drop(columns="note").isna().any().any()
    assert set(table["source"]) == {"hooker2019benchmark", "this book"}
    assert set(table.loc[table["source"] == "this book", "mode"]) == {"chance"}
    assert set(table["comparable"]) == {"no"}


def test_the_two_doubtful_cells_are_marked() -> None:
    table = published_curves()
    doubtful = table[table["doubtful"]]
    cells = doubtful[["data", "mode", "percent", "method"]].itertuples(index=False, name=None)
    assert set(cells) == {("ImageNet", "kar", 10, "var-grad"), ("ImageNet", "kar", 30, "sg-sq-ig")}


@pytest.mark.parametrize("theirs", DATA)
def test_the_summary_is_the_recorded_one(theirs: str) -> None:
    summary = published_summary()
    rows = summary[summary["data"] == DATA[theirs]].set_index("method")
    expected = {name: row for name, row in TABLE["expected"][theirs].items() if not name.startswith("_")}
    assert list(rows.index) == [name.lower() for name in expected]
    for name, recorded in expected.items():
        row = rows.loc[name.lower()]
        assert row["racu"] == pytest.approx(recorded["RACU"], abs=1e-4)
        assert 100 * row["abc_roar"] == pytest.approx(recorded["ABC_ROAR_points"], abs=1e-3)
        assert 100 * row["abc_kar"] == pytest.approx(recorded["ABC_KAR_points"], abs=1e-3)
        differences = [100 * row[f"diff_roar_{percent}"] for percent in (10, 30, 50, 70, 90)]
        assert differences == pytest.approx(recorded["DiffROAR"], abs=1e-6)
        assert row["doubtful"] == ((theirs, name) in {("ImageNet", "VAR-GRAD"), ("ImageNet", "SG-SQ-IG")})


@pytest.mark.parametrize(
    ("percent", "imagenet", "birdsnap", "food"),
    [
        (None, -0.94, -0.80, -0.64),
        (10, -0.84, -0.89, -0.93),
        (50, -0.55, -0.70, -0.67),
        (90, 0.92, -0.55, -0.42),
    ],
)
def test_removing_and_keeping_rank_in_opposite_directions(
    agreement: pd.DataFrame, percent: int | None, imagenet: float, birdsnap: float, food: float
) -> None:
    rows = agreement[agreement["first"] == "roar"]
    chosen = rows[rows["percent"].isna() if percent is None else rows["percent"] == percent]
    found = chosen.set_index("data")["spearman"].round(2)
    assert found["ImageNet"] == imagenet
    assert found["Birdsnap"] == birdsnap
    assert found["Food-101"] == food


def test_the_doubtful_cells_do_not_make_the_disagreement(agreement: pd.DataFrame) -> None:
    row = agreement[agreement["data"] == "ImageNet, without doubtful cells"].iloc[0]
    assert row["n"] == 10
    assert row["spearman"] < -0.9


def test_data_sets_agree_on_the_ranking_by_removal(agreement: pd.DataFrame) -> None:
    rows = agreement[agreement["data"] == "RACU"]
    found = {
        frozenset(pair): round(rho, 2) for *pair, rho in rows[["first", "second", "spearman"]].to_numpy()
    }
    assert found == {
        frozenset({"ImageNet", "Food-101"}): 0.98,
        frozenset({"ImageNet", "Birdsnap"}): 0.92,
        frozenset({"Food-101", "Birdsnap"}): 0.93,
    }


@pytest.mark.parametrize(
    ("key", "cells", "exceptions"),
    [
        ("random_mirrors_itself", 15, []),
        ("squared_better_than_random", 90, []),
        ("smoothgrad_gb_better", 15, []),
        ("roar_against_kar", 3, []),
        ("bases_worse_than_random", 45, ["Birdsnap 10 gb", "Food-101 10 gb", "ImageNet 10 gb"]),
        ("smoothgrad_grad_worse", 15, ["ImageNet 10 sg-grad", "ImageNet 30 sg-grad"]),
        ("smoothgrad_ig_worse", 15, ["Food-101 10 sg-ig", "ImageNet 10 sg-ig", "ImageNet 30 sg-ig"]),
        ("top_outweighs_bottom", 45, ["ImageNet 90 gb"]),
        (
            "smoothgrad_worse_than_random",
            45,
            [
                "Birdsnap 10 sg-gb",
                "Birdsnap 30 sg-gb",
                "Food-101 10 sg-gb",
                "Food-101 30 sg-gb",
                "Food-101 50 sg-gb",
                "ImageNet 10 sg-gb",
                "ImageNet 10 sg-grad",
                "ImageNet 10 sg-ig",
                "ImageNet 30 sg-gb",
            ],
        ),
        (
            "squared_keep_more_than_random",
            90,
            [
                "Food-101 10 sg-sq-gb",
                "Food-101 10 var-gb",
                "Food-101 30 var-gb",
                "ImageNet 10 sg-sq-gb",
                "ImageNet 10 sg-sq-grad",
                "ImageNet 10 var-gb",
                "ImageNet 10 var-grad",
            ],
        ),
    ],
)
def test_statements_name_the_cells_that_contradict_them(
    statements: dict[str, Statement], key: str, cells: int, exceptions: list[str]
) -> None:
    found = statements[key]
    assert sorted(filter(None, found.exceptions.split("; "))) == exceptions
    assert (found.cells, found.agreeing) == (cells, cells - len(exceptions))
    assert found.holds is (not exceptions)
