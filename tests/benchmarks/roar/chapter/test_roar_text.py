"""What the page shows: tables as text, numbers for the prose, a larger run beside this one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks import kept_runs, roar_controls, roar_summary, roar_tables, roar_text, roar_ways
from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_findings import roar_findings
from heatcheck.figures.export import export_table

Make = Callable[..., Results]


@pytest.fixture(scope="module")
def table(invented: Results) -> pd.DataFrame:
    return roar_tables.condition_table(invented)


def test_accuracies_are_laid_out_as_the_published_table(invented: Results, table: pd.DataFrame) -> None:
    text = roar_text.accuracy_text(table, invented)
    assert list(text.columns) == [
        "estimator",
        *(f"{mode} {p}" for mode in ("ROAR", "KAR") for p in (10, 50, 90)),
    ]
    assert text["estimator"].tolist()[:4] == ["Random", "Sobel", "GRAD", "SQ-GRAD"]
    assert str(text["ROAR 90"].iloc[0]).startswith("32.0 ±")


def test_one_run_has_no_deviation(make: Make) -> None:
    single = make(n_runs=1)
    text = roar_text.accuracy_text(roar_tables.condition_table(single), single)
    assert "±" not in text.to_string()
    assert "not known" in roar_text.spread_text(single, roar_tables.variance_table(single)).to_string()


def test_the_best_estimator_comes_first(invented: Results) -> None:
    text = roar_text.summary_text(roar_tables.summary_table(invented))
    assert text["estimator"].tolist()[:2] == ["ORACLE", "SQ-GRAD"]
    assert "RACU ↑" in text
    assert list(text.columns)[-2:] == ["KAR area ↑", "DiffROAR 50"]
    ranks = dict(zip(text["estimator"], text["rank"], strict=True))
    assert ranks["LEAKY"] == ""
    assert ranks["SQ-GRAD"] == "1 [1, 1]"


def test_published_values_stand_beside_ours_and_nothing_is_left_out(invented: Results) -> None:
    text = roar_text.published_text(roar_tables.summary_table(invented))
    here, there = (
        dict(zip(text["estimator"], text[column], strict=True))
        for column in ("this run", "ImageNet, published")
    )
    assert there["SG-SQ-GRAD"] == "+0.36"
    assert there["SQ-GRAD"] == ""
    assert here["VAR-GB"] == ""
    assert there["VAR-GB"] == "+0.31"
    assert "Random" not in here


def test_an_answer_and_its_interval_share_a_cell(invented: Results) -> None:
    found = roar_findings(invented)
    short = kept_runs.answers_text(kept_runs.findings_text(found, pd.DataFrame()))
    assert str(short["holds here?"].iloc[0]).startswith("yes: +0.0")
    assert (short["in the larger run?"] == "").all()
    assert len(short) == len(found)


def test_agreement_has_a_column_per_threshold_in_order(invented: Results) -> None:
    _, agreement = roar_tables.beside_published(invented)
    text = roar_text.agreement_text(agreement)
    assert list(text.columns) == [
        "data",
        "estimators",
        "whole curves",
        *(f"{p} %" for p in (10, 30, 50, 70, 90)),
    ]
    assert text.loc[0, "30 %"] == ""
    assert "[" in str(text["whole curves"].iloc[0])


def test_every_table_of_the_page_has_text_in_every_cell(invented: Results, tmp_path: Path) -> None:
    tables = [
        roar_text.ways_text(roar_ways.ways_table(invented)),
        roar_text.leak_text(roar_controls.leak_table(invented)),
        roar_text.control_text(invented),
        roar_text.recursive_text(roar_controls.recursive_table(invented)),
        roar_text.spread_text(invented, roar_tables.variance_table(invented)),
    ]
    for number, text in enumerate(tables):
        assert text.notna().all(axis=None)
        assert not text.astype(str).isin(["nan", ""]).any(axis=None)
        export_table(text, tmp_path / str(number), caption="c", label="l")


def test_a_filter_s_gain_in_the_text_has_its_interval_the_right_way_round(invented: Results) -> None:
    text = roar_text.control_text(invented).set_index("what is compared")
    for cell in text.loc[["max-filter", "gaussian"], "ROAR 90 %"]:
        mean, low, high = (float(part.strip("[],")) for part in cell.split())
        assert low <= mean <= high


def test_what_was_not_run_says_so(make: Make) -> None:
    plain = make(matched=[], probes=[], leaks=[], recursive=[], road=[], finetuned=[], evaluator=False)
    for text in (
        roar_text.leak_text(roar_controls.leak_table(plain)),
        roar_text.control_text(plain),
        roar_text.recursive_text(roar_controls.recursive_table(plain)),
        roar_text.summary_text(pd.DataFrame()),
    ):
        assert text.shape == (1, 1)


def test_prose_gets_plain_numbers_of_the_run(invented: Results, table: pd.DataFrame) -> None:
    quoted = roar_summary.quotable(invented, table, roar_tables.summary_table(invented))
    assert quoted["best"] == "SQ-GRAD"
    assert quoted["worst"] == "SG-GRAD"
    assert quoted["percents"] == "10, 50 and 90"
    assert quoted["extra"] == "90"
    assert quoted["intact_accuracy"] == 0.95
    assert quoted["random_last"] > quoted["random_last_not_retrained"]
    assert quoted["n_estimators"] == 8
    assert all(value is None or np.isscalar(value) for value in quoted.values())


def test_a_larger_run_stands_beside_in_the_same_row(invented: Results, tmp_path: Path) -> None:
    found = roar_findings(invented)
    alone = kept_runs.findings_text(found, kept_runs.kept_table(tmp_path, "findings"))
    assert (alone[kept_runs.KEPT_ANSWER] == "").all()
    larger = alone.copy()
    larger.loc[0, kept_runs.ANSWER] = "no"
    larger.loc[len(larger)] = [
        "Only the larger run asked this.",
        "yes",
        "m",
        "+1 [+1, +1]",
        "paper",
        "",
        "",
    ]
    export_table(larger, tmp_path / "findings", caption="c", label="l")
    both = kept_runs.findings_text(found, kept_runs.kept_table(tmp_path, "findings"))
    assert both.loc[0, "statement"] == found[0].statement
    assert both[kept_runs.KEPT_ANSWER].iloc[0] == "no"
    last = both.iloc[-1]
    assert (last["statement"], last[kept_runs.ANSWER], last["source"]) == (
        "Only the larger run asked this.",
        "",
        "paper",
    )
    assert both["statement"].tolist()[: len(found)] == [finding.statement for finding in found]


def test_a_run_that_is_not_kept_is_a_notice_and_not_an_error(tmp_path: Path) -> None:
    empty = kept_runs.kept_table(tmp_path / "embedded-3-seeds", "scores")
    assert empty.empty
    notice = kept_runs.kept_or_notice(empty, tmp_path / "embedded-3-seeds")
    assert notice.iloc[0, 0] == "none is kept in embedded-3-seeds yet"
    full = pd.DataFrame({"a": [1]})
    assert kept_runs.kept_or_notice(full, tmp_path) is full


@pytest.mark.parametrize(
    ("size", "text"), [(999, "999 bytes"), (33.4e9, "33.4 GB"), (36.07e12, "36.1 TB"), (1500, "1.5 kB")]
)
def test_bytes_are_written_in_decimal_units(size: float, text: str) -> None:
    assert roar_text.bytes_text(size) == text
