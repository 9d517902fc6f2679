"""Leaks, matched controls, filters, recursive removal and cheaper ways from answers that are known."""

from collections.abc import Callable

import numpy as np
import pytest

from heatcheck.benchmarks import roar_controls, roar_tables, roar_ways
from heatcheck.benchmarks.roar import Results

Make = Callable[..., Results]
NOTHING: dict[str, object] = {
    **{name: [] for name in ("matched", "probes", "leaks", "road", "finetuned", "recursive")},
    "evaluator": False,
}


def test_masks_that_tell_the_class_have_a_leak_score(invented: Results) -> None:
    table = roar_controls.leak_table(invented)
    scores = table[table["quantity"] == "leak_score"].set_index(["ranking", "mode"])["estimate"]
    assert scores["leaky", "roar"] == pytest.approx((0.9 - 0.25) / 0.75)
    assert scores["sq-grad", "kar"] == pytest.approx((0.4 - 0.25) / 0.75)
    assert (table["low"] <= table["estimate"] + 1e-6).all()
    seen = table[(table["quantity"] == "retrained") & (table["ranking"] == "leaky")]
    expected = roar_tables.bits_of(invented, "leaky", "roar", 90).mean()
    assert seen[seen["mode"] == "roar"]["estimate"].item() == expected


def test_differences_to_matched_controls_are_paired_and_signed(invented: Results) -> None:
    table = roar_controls.matched_table(invented).set_index(["question", "mode"])["difference"]
    bits = {
        name: roar_tables.bits_of(invented, name, "roar", 90).mean()
        for name in ("random", "sq-grad", "sq-grad/shuffle", "sq-grad/shuffle-class")
    }
    assert table["class in the mask", "roar"] == pytest.approx(
        bits["sq-grad/shuffle-class"] - bits["sq-grad/shuffle"]
    )
    assert table["shape of the mask", "roar"] == pytest.approx(bits["random"] - bits["sq-grad/shuffle"])
    assert table["place in the image", "roar"] == pytest.approx(bits["sq-grad/shuffle"] - bits["sq-grad"])


def test_a_filter_s_gain_is_positive_where_the_score_gets_better(invented: Results) -> None:
    table = roar_controls.probe_table(invented)
    assert set(table["question"]) == {"max-filter", "gaussian"}
    removed, kept = (table[table["mode"] == mode] for mode in ("roar", "kar"))
    assert np.allclose(removed["gain"], -removed["difference"])
    assert np.allclose(kept["gain"], kept["difference"])


def test_accuracies_of_controls_stand_beside_the_estimator(invented: Results) -> None:
    made = roar_controls.matched_accuracies(invented, roar_tables.condition_table(invented))
    assert set(made["control"]) == {
        *("itself", "random", "shuffle", "shuffle-class", "roll", "max-filter", "gaussian")
    }
    assert (made["percent"] == 90).all()
    assert len(made) == 2 * made["control"].nunique()


def test_racu_against_a_stronger_reference_is_smaller(invented: Results) -> None:
    table = roar_controls.matched_racu(invented).set_index("reference")["racu"]
    assert set(table.index) == {"random", "shuffle", "shuffle-class", "roll"}
    assert table["shuffle"] < table["random"] < table["shuffle-class"]


def test_removal_in_steps_is_compared_at_every_percentage(invented: Results) -> None:
    table = roar_controls.recursive_table(invented)
    assert table["percent"].tolist() == [10, 50, 90]
    assert np.allclose(table["difference"], table["recursive"] - table["at_once"])
    assert (table["difference"] <= 0).all()


def test_what_was_not_asked_for_has_no_row(make: Make) -> None:
    plain = make(**NOTHING)
    for made in (
        roar_controls.leak_table,
        roar_controls.matched_table,
        roar_controls.probe_table,
        roar_controls.matched_racu,
        roar_controls.recursive_table,
    ):
        assert made(plain).empty
    assert roar_controls.matched_accuracies(plain, roar_tables.condition_table(plain)).empty
    assert [one.text for one in roar_ways.ways(plain)] == ["retrained", "not retrained"]


def test_cheaper_ways_are_compared_with_full_retraining(invented: Results) -> None:
    table = roar_ways.ways_table(invented)
    assert table["text"].iloc[0] == "retrained"
    assert np.allclose(table["spearman"].iloc[:2], 1)
    by_text = table[table["mode"] == "roar"].set_index("text")
    assert by_text["trainings"]["one evaluator"] == 2
    assert by_text["trainings"]["not retrained"] == 0
    assert by_text["percents"]["fine-tuned"] == "90"
    # Two estimators cannot be ranked in a way that says something.
    assert by_text["n"]["imputed, retrained"] == 2
    assert np.isnan(by_text["spearman"]["imputed, retrained"])
    assert by_text["spearman"]["not retrained"] > 0.8


def test_accuracies_of_all_ways_are_at_one_shared_percentage(invented: Results) -> None:
    rows = roar_ways.way_accuracies(invented, roar_tables.condition_table(invented))
    assert set(rows["percent"]) == {90}
    assert set(rows["text"]) == {one.text for one in roar_ways.ways(invented)}
    assert not rows["ranking"].str.contains("/").any()
