"""Answers to published statements: they follow the intervals and nothing else."""

from collections.abc import Callable

import numpy as np
import pytest

from heatcheck.benchmarks import roar_tables
from heatcheck.benchmarks.findings import Finding
from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_claims import all_claims
from heatcheck.benchmarks.roar_findings import roar_findings, separation_table

Make = Callable[..., Results]


@pytest.fixture(scope="module")
def found(invented: Results) -> dict[str, Finding]:
    return {finding.key: finding for finding in roar_findings(invented)}


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("sg_sq_grad_below_random", "yes"),
        ("var_grad_beyond_edges", "yes"),
        ("more_than_mask_sq_grad", "no"),
        ("var_grad_below_random", "yes"),
        ("grad_not_below_random", "yes"),
        ("squaring_grad", "yes"),
        ("classic_grad", "yes"),
        ("var_close_grad", "yes"),
        ("top_outweighs_bottom_grad", "no"),
        ("random_mirrors_itself", "yes"),
        ("leaky_survives", "yes"),
        ("leaky_as_whole", "yes"),
        ("class_in_mask_sq_grad", "yes"),
        ("place_of_mask_sq_grad", "yes"),
        ("gaussian_sq_grad", "undecided"),
        ("retraining_matters", "yes"),
        ("roar_against_kar", "yes"),
        ("mask_leaks_leaky", "yes"),
    ],
)
def test_answers_are_those_the_accuracies_were_made_for(
    found: dict[str, Finding], key: str, answer: str
) -> None:
    assert found[key].answer == answer


def test_estimates_lie_in_their_intervals_and_are_of_all_images(found: dict[str, Finding]) -> None:
    for finding in found.values():
        assert finding.low <= finding.estimate + 1e-12
        assert finding.estimate <= finding.high + 1e-12
        assert finding.n == 400


def test_statements_about_other_estimators_are_left_out(found: dict[str, Finding], make: Make) -> None:
    assert not any(key.endswith(("_ig", "_gb")) for key in found)
    few = make(
        estimators=["random", "grad"], modes=["roar"], matched=[], probes=[], leaks=[], road=[],
        finetuned=[], recursive=[],
    )  # fmt: skip
    keys = {finding.key for finding in roar_findings(few)}
    assert keys == {"grad_not_below_random", "retraining_matters"}


def test_one_percentage_that_contradicts_decides_for_all(make: Make) -> None:
    claim = next(claim for claim in all_claims(make().settings) if claim.key == "sg_sq_grad_below_random")
    assert [point.percent for point in claim.points] == [50, 50, 90, 90]
    gaps = claim.value(np.array([0.9, 0.5, 0.3, 0.4]))
    assert gaps == pytest.approx([0.4, -0.1])


def test_every_statement_has_a_key_of_its_own_and_a_source(invented: Results) -> None:
    claims = all_claims(invented.settings)
    assert len({claim.key for claim in claims}) == len(claims)
    known = {"this book", "hooker2019benchmark", "rong2022consistent", "song2023pitfalls"}
    assert {claim.source for claim in claims} <= known


def test_distance_from_random_is_in_pooled_standard_deviations(invented: Results) -> None:
    table = roar_tables.condition_table(invented)
    table.loc[table["way"] == "scratch", "std"] = 0.02
    apart = separation_table(invented, table)
    assert set(apart["ranking"]) == set(roar_tables.model_based(invented))
    assert (apart["ratio"] * 0.02).tolist() == pytest.approx(apart["below"].tolist())
    assert (apart[apart["ranking"] == "sq-grad"]["below"] > 0).all()
