"""Statements of the comparison are answered by intervals, and only where their methods were run."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks.comparison_columns import METRICS, Column
from heatcheck.benchmarks.comparison_findings import findings
from heatcheck.benchmarks.findings import Finding

BIBLIOGRAPHY = Path(__file__).parents[3] / "book" / "references.bib"
METHODS = (
    *("gradient", "integrated-gradients", "smoothgrad", "smoothgrad-squared", "vargrad"),
    *("guided-backprop", "grad-cam", "lrp-epsilon", "random", "centre"),
)
# Real methods from worst to best, then controls.
RISING = (*range(8), -2.0, -1.0)
HEADLINE = ("mass", "deletion", "idsds", "roar")


def column(key: str, goodness: tuple[float, ...] = RISING, *, n: int = 12, noise: float = 0.01) -> Column:
    """A column whose methods have this goodness, with a little noise over images."""
    metric = METRICS[key]
    n_runs = 2 if metric.benchmark == "roar" else 1
    generator = np.random.default_rng(len(key))
    values = np.array(goodness) + noise * generator.normal(size=(n_runs, n, len(METHODS)))
    images = tuple(f"{metric.benchmark} {place}" for place in range(n))
    return Column(metric, "small", METHODS, images, metric.sign * values, {})


def facts(roughness: tuple[float, ...] = RISING) -> pd.DataFrame:
    rows = [
        (method, f"deletion {place}", value + 0.001 * place, value + 0.001 * place, 0.5 - value)
        for place in range(6)
        for method, value in zip(METHODS, roughness, strict=True)
    ]
    return pd.DataFrame(rows, columns=["method", "image", "roughness", "concentration", "centrality"])


def answers(columns: list[Column], maps: pd.DataFrame | None = None) -> dict[str, Finding]:
    found = findings(columns, pd.DataFrame() if maps is None else maps)
    assert len({finding.key for finding in found}) == len(found)
    return {finding.key: finding for finding in found}


@pytest.fixture(scope="module")
def alike() -> dict[str, Finding]:
    return answers([column(key) for key in METRICS], facts())


def test_benchmarks_that_rank_alike_agree(alike: dict[str, Finding]) -> None:
    for key in ("benchmarks_agree", "mean_ranks_agree", "metrics_agree"):
        assert alike[key].answer == "yes"
        assert alike[key].estimate == pytest.approx(1)
    assert alike["agree_mass_idsds"].answer == "yes"
    assert alike["agree_deletion_insertion"].estimate == pytest.approx(1)
    assert alike["winner_shared"].answer == "yes"
    assert alike["winner_shared"].estimate == 6


def test_an_opposite_ranking_does_not_agree() -> None:
    # The mirrored scores of real methods: controls stay where they are.
    mirrored = (*RISING[7::-1], *RISING[8:])
    found = answers([column("mass"), column("idsds", mirrored)])
    assert found["agree_mass_idsds"].answer == "no"
    assert found["agree_mass_idsds"].estimate == pytest.approx(-1)
    assert found["winner_shared"].answer == "no"
    assert found["itself_over_between"].answer == "yes"
    assert found["itself_over_between"].estimate == pytest.approx(2)


def test_agreement_within_chance_is_not_agreement() -> None:
    swapped = (1, 0, 7, 2, 6, 4, 3, 5, -2, -1)
    found = answers([column("mass"), column("idsds", swapped)])["agree_mass_idsds"]
    assert found.low > 0
    assert found.answer == "no"
    assert "chance reaches" in found.quantity


def test_metrics_of_one_benchmark_may_agree_more_than_others() -> None:
    mirrored = (*RISING[7::-1], *RISING[8:])
    columns = [column("mass"), column("rank"), column("idsds", mirrored), column("sds", mirrored)]
    found = answers(columns)["inside_over_between"]
    assert found.answer == "yes"
    assert found.estimate == pytest.approx(2)


def test_what_lies_between_the_answers_is_undecided() -> None:
    found = answers([column("idsds", (0.0,) * 10, noise=1.0)])
    assert found["cam_idsds"].answer == "undecided"
    assert found["cam_idsds"].low < 0 < found["cam_idsds"].high


def test_published_pairs_are_answered_by_their_metric(alike: dict[str, Finding]) -> None:
    assert alike["squared_roar"].answer == "yes"
    assert alike["squared_roar"].source == "hooker2019benchmark"
    assert alike["cam_idsds"].answer == "yes"
    assert alike["lrp_first"].answer == "yes"
    assert alike["cam_last"].answer == "no"  # integrated gradients are weaker here
    assert "masks_box" not in alike  # its methods were not run
    assert "ig_idsds" not in alike


def test_a_low_deletion_score_is_good() -> None:
    found = answers([column("mass"), column("deletion")])["ig_everywhere"]
    assert found.answer == "yes"
    spread = np.std(range(8))
    assert found.estimate == pytest.approx(1 / spread, abs=0.05)


def test_the_benchmark_that_bears_a_statement_out_least_answers() -> None:
    worse = (3.0, 0.0, *RISING[2:])
    found = answers([column("mass"), column("deletion"), column("idsds", worse)])["ig_everywhere"]
    assert found.answer == "no"
    assert "smallest by IDSDS" in found.quantity


@pytest.mark.parametrize(
    ("control", "answer", "beaten"), [(-1.0, "no", 0), (3.5, "yes", 4), (0.0, "undecided", None)]
)
def test_a_control_beats_methods_in_every_benchmark_or_not(
    control: float, answer: str, beaten: int | None
) -> None:
    goodness = (*range(8), -2.0, control)
    noise = 0.5 if beaten is None else 0.01
    found = answers([column(key, goodness, noise=noise) for key in HEADLINE])["control_beats"]
    assert found.answer == answer
    assert beaten is None or found.estimate == beaten


def test_smooth_maps_that_do_well_are_found(alike: dict[str, Finding]) -> None:
    assert alike["smooth_roar"].answer == "no"  # the better, the rougher
    assert alike["smooth_roar"].estimate == pytest.approx(-1)
    assert alike["concentrated_mass"].answer == "yes"
    smooth = answers([column("roar")], facts(tuple(-value for value in RISING)))
    assert smooth["smooth_roar"].answer == "yes"


def test_without_facts_or_columns_nothing_is_said_of_them() -> None:
    assert not any("smooth_" in key for key in answers([column("roar")]))
    assert answers([]) == {}


def test_a_method_without_scores_is_left_out_of_its_benchmark() -> None:
    whole = column("roar")
    values = whole.values.copy()
    values[:, :, METHODS.index("smoothgrad")] = np.nan
    partial = Column(whole.metric, "small", METHODS, whole.images, values, {"smoothgrad": "too slow"})
    found = answers([column("mass"), partial])
    assert "squared_roar" not in found
    assert "7 methods" in found["agree_mass_roar"].quantity


def test_sources_are_in_the_bibliography(alike: dict[str, Finding]) -> None:
    known = set(re.findall(r"@\w+\{([^,]+),", BIBLIOGRAPHY.read_text(encoding="utf-8")))
    assert {finding.source for finding in alike.values()} <= known | {"this book"}
    assert all(finding.low <= finding.high for finding in alike.values())
    assert {finding.n for finding in alike.values()} == {12}
