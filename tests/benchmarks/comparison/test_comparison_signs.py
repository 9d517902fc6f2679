import dataclasses
from typing import Any

import pytest

from heatcheck.benchmarks import comparison_signs, comparison_text
from heatcheck.benchmarks.comparison_columns import UNSIGNED, Column

GOOD = {"lrp": 3.0, "gradient": 2.0, "grad-cam": 1.0, "sobel": 9.0}
TURNED = {"lrp": 1.0, "gradient": 2.0, "grad-cam": 3.0, "sobel": 9.0}


def unsigned(column: Column) -> Column:
    return dataclasses.replace(column, metric=UNSIGNED[column.key])


@pytest.fixture
def columns(make_column: Any) -> list[Column]:
    return [make_column("mass", GOOD), make_column("idsds", TURNED), make_column("sds", GOOD)]


def test_absolute_maps_that_rank_the_other_way_turn_tau(make_column: Any, columns: list[Column]) -> None:
    table = comparison_signs.sign_table(columns, [unsigned(make_column("idsds", GOOD))])
    (row,) = table.to_dict("records")
    assert (row["metric"], row["other"], row["n"]) == ("idsds", "mass", 3)
    assert (row["signed"], row["absolute"], row["difference"]) == (-1, 1, 2)
    assert (row["low"], row["high"]) == (2, 2)
    assert comparison_signs.sign_taus(table) == {"idsds": {"mass": {"signed": -1, "absolute": 1}}}
    text = comparison_text.sign_text(table).iloc[0]
    assert text["metrics"] == "IDSDS and mass"
    assert text["difference"] == "+2.00 [+2.00, +2.00]"


def test_equal_maps_differ_by_nothing_in_every_resample(columns: list[Column]) -> None:
    noisy = [dataclasses.replace(one, values=one.values + 0.0) for one in columns]
    table = comparison_signs.sign_table(noisy, [unsigned(noisy[1]), unsigned(noisy[2])])
    assert set(table["metric"]) == {"idsds", "sds"}
    assert (table[["difference", "low", "high"]] == 0).all().all()


def test_only_metrics_of_other_benchmarks_and_with_a_twin_are_compared(columns: list[Column]) -> None:
    assert comparison_signs.sign_table(columns, []).empty
    table = comparison_signs.sign_table(columns, [unsigned(columns[2])])
    assert table["other_benchmark"].tolist() == ["clevr_xai"]


def test_the_twin_is_that_of_the_main_classifier(make_column: Any, columns: list[Column]) -> None:
    other = unsigned(make_column("idsds", GOOD, classifier="second"))
    mine = unsigned(make_column("idsds", TURNED))
    table = comparison_signs.sign_table(columns, [other, mine])
    assert table["absolute"].tolist() == [-1]


def test_answers_follow_the_interval_of_the_difference(make_column: Any, columns: list[Column]) -> None:
    closer = comparison_signs.sign_table(columns, [unsigned(make_column("idsds", GOOD))])
    (finding,) = comparison_signs.sign_findings(closer)
    assert (finding.key, finding.answer, finding.estimate, finding.n) == ("signs_mass", "yes", 2, 3)
    (decision,) = comparison_signs.sign_decisions(closer)
    assert decision.answer == "it comes closer to mass"
    assert decision.evidence == "Kendall's tau with mass -1.00 signed, +1.00 absolute"
    same = comparison_signs.sign_table(columns, [unsigned(columns[1])])
    assert comparison_signs.sign_findings(same)[0].answer == "undecided"
    assert "not told apart" in comparison_signs.sign_decisions(same)[0].answer
    further = comparison_signs.sign_table(
        [columns[0], make_column("idsds", GOOD)], [unsigned(make_column("idsds", TURNED))]
    )
    assert comparison_signs.sign_findings(further)[0].answer == "no"
    assert comparison_signs.sign_decisions(further)[0].answer == "it comes further from mass"
    nothing = comparison_signs.sign_table(columns, [])
    assert comparison_signs.sign_findings(nothing) == []
    assert comparison_signs.sign_decisions(nothing) == []
