"""Answers of the decision table come from the columns, not from words."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from heatcheck.attribution.catalog import load_catalog
from heatcheck.benchmarks.comparison_columns import METRICS, Column
from heatcheck.benchmarks.comparison_decisions import ONE_PASS, best_methods, decision_table

BIBLIOGRAPHY = Path(__file__).parents[3] / "book" / "references.bib"
PAGE = Path(__file__).parents[3] / "book" / "decisions.md"
METHODS = ("gradient", "integrated-gradients", "grad-cam", "rise", "lrp-epsilon", "random", "centre")
GOODNESS = (1.0, 2.0, 3.0, 5.0, 4.0, -2.0, -1.0)


def column(
    key: str, goodness: tuple[float, ...] = GOODNESS, *, noise: float = 0.01, classifier: str = "small"
) -> Column:
    metric = METRICS[key]
    generator = np.random.default_rng(len(key))
    values = np.array(goodness) + noise * generator.normal(size=(1, 10, len(METHODS)))
    images = tuple(f"{metric.benchmark} {place}" for place in range(10))
    return Column(metric, classifier, METHODS, images, metric.sign * values, {})


def facts() -> pd.DataFrame:
    rows = [
        (method, f"deletion {place}", value, value, value)
        for place in range(4)
        for method, value in zip(METHODS, GOODNESS, strict=True)
    ]
    return pd.DataFrame(rows, columns=["method", "image", "roughness", "concentration", "centrality"])


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    columns = [column(key) for key in METRICS]
    return decision_table([*columns, column("idsds", classifier="other")], facts())


def answer(table: pd.DataFrame, words: str) -> str:
    rows = table[table["question"].str.contains(words, regex=False)]
    assert len(rows) == 1, words
    return str(rows["answer"].iloc[0])


def test_the_best_method_is_that_of_the_highest_goodness() -> None:
    for key in ("mass", "deletion"):
        best = best_methods(column(key))
        assert best.method == "rise"
        assert best.alike == ()
        assert best.control == "centre"
        assert best.beaten == ("rise", "lrp-epsilon", "grad-cam", "integrated-gradients", "gradient")


def test_methods_that_are_not_told_apart_are_named_best_first() -> None:
    close = (0.0, 0.0, 4.9, 5.0, 4.95, -2.0, -9.0)
    best = best_methods(column("mass", close, noise=1.0))
    assert {best.method, *best.alike} == {"grad-cam", "rise", "lrp-epsilon"}
    means = dict(zip(METHODS, column("mass", close, noise=1.0).means(), strict=True))
    assert [means[name] for name in best.alike] == sorted((means[name] for name in best.alike), reverse=True)


def test_controls_are_no_methods() -> None:
    high = (*GOODNESS[:5], 9.0, 0.0)
    best = best_methods(column("mass", high))
    assert (best.method, best.control, best.beaten) == ("rise", "random", ())
    found = decision_table([column("mass", high)], pd.DataFrame())
    assert answer(found, "decides the answer").startswith("none surely: the control random is not beaten")


def test_a_column_of_controls_alone_has_no_best_method() -> None:
    alone = column("mass").take(["random", "centre"])
    with pytest.raises(ValueError, match="no method has a score by mass"):
        best_methods(alone)
    assert not (decision_table([alone], pd.DataFrame())["about"] == "method").any()


def test_there_are_at_least_eight_questions_each_asked_once(table: pd.DataFrame) -> None:
    assert len(table) >= 8
    assert not table["question"].duplicated().any()
    assert "" not in table.to_numpy()
    assert list(table["about"]) == sorted(table["about"], reverse=True)  # methods first


def test_uses_are_answered_by_their_metric(table: pd.DataFrame) -> None:
    assert answer(table, "decides the answer") == "rise"
    assert answer(table, "without which this network") == "rise"
    assert answer(table, "one method for everything") == "rise"
    other = decision_table([column("mass"), column("idsds", (9.0, *GOODNESS[1:]))], pd.DataFrame())
    assert answer(other, "patches in the order") == "gradient"
    assert answer(other, "decides the answer") == "rise"


def test_one_backward_pass_excludes_methods_of_many(table: pd.DataFrame) -> None:
    assert answer(table, "one backward pass") == "lrp-epsilon"
    assert set(load_catalog()) >= ONE_PASS
    assert not {"integrated-gradients", "smoothgrad", "rise", "lime"} & ONE_PASS


def test_each_family_has_its_best_method(table: pd.DataFrame) -> None:
    found = answer(table, "certain family").split(", ")
    assert "gradient: integrated-gradients" in found
    assert "lrp: lrp-epsilon" in found


def test_the_sharper_metric_tells_methods_apart_best() -> None:
    found = decision_table([column("mass", noise=30.0), column("idsds")], pd.DataFrame())
    assert answer(found, "tells methods apart") == "IDSDS"
    assert answer(found, "other images") == "IDSDS"


def test_controls_to_beat_are_named_for_each_benchmark(table: pd.DataFrame) -> None:
    assert answer(table, "Which control") == "mass: centre, deletion: centre, IDSDS: centre, ROAR: centre"


def test_a_metric_may_stand_for_another_where_they_surely_agree(table: pd.DataFrame) -> None:
    assert "mass for deletion" in answer(table, "stand for one of another")
    opposite = (*reversed(GOODNESS[:5]), *GOODNESS[5:])
    found = decision_table([column("mass"), column("idsds", opposite)], pd.DataFrame())
    assert answer(found, "stand for one of another").startswith("no:")


@pytest.mark.parametrize(("mirrored", "verdict"), [(False, "yes"), (True, "no")])
def test_removing_and_keeping_are_compared(mirrored: bool, verdict: str) -> None:
    kept = tuple(-value for value in GOODNESS) if mirrored else GOODNESS
    found = decision_table([column("roar"), column("kar", kept)], pd.DataFrame())
    assert answer(found, "worth keeping") == verdict


def test_published_answers_need_no_run() -> None:
    found = decision_table([], pd.DataFrame())
    assert list(found["source"]) == ["hesse2024benchmarking", "hooker2019benchmark"]
    assert found["answer"].str.startswith("yes: beyond chance in").all()


def test_sources_and_citations_are_in_the_bibliography(table: pd.DataFrame) -> None:
    known = set(re.findall(r"@\w+\{([^,]+),", BIBLIOGRAPHY.read_text(encoding="utf-8")))
    assert set(table["source"]) <= known | {"this book"}
    cited = set(re.findall(r"\{cite(?::t)?\}`([^`]+)`", PAGE.read_text(encoding="utf-8")))
    assert cited <= known


def test_no_number_on_the_page_is_typed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    prose = re.sub(r"\{\{.*?\}\}|\{cite.*?`.*?`|:::.*|^:.*|^\d\.", "", text, flags=re.MULTILINE)
    # Levels of intervals and the name of a network.
    assert set(re.findall(r"\d+", prose)) == {"95", "100", "50"}
