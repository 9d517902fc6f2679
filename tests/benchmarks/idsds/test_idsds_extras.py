"""Ceilings, resolution, degradation, breakdowns, alignment and agreement."""

from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks.idsds import Results, SumsKey
from heatcheck.benchmarks.idsds_agreement import agreement_table
from heatcheck.benchmarks.idsds_alignment import alignment_table, difference_table
from heatcheck.benchmarks.idsds_extras import (
    ORACLE,
    breakdown_table,
    degradation_table,
    drop_facts,
    oracle_table,
    resolution_rows,
)
from heatcheck.benchmarks.idsds_scores import Score, confidences, find_scores, single_score
from heatcheck.benchmarks.patch_table import TableKey
from heatcheck.metrics.patches import single_deletion_scores
from heatcheck.metrics.scoring import ask_all, softmax_of
from heatcheck.runtime.store import ResultsStore


def records(table: pd.DataFrame, *columns: str) -> dict[Any, dict[str, Any]]:
    """Rows of a table by the values of some columns; one column's are no tuples."""
    keys = [tuple(row) if len(columns) > 1 else row[0] for row in table[list(columns)].to_numpy().tolist()]
    assert len(set(keys)) == len(keys)
    rows: list[Any] = table.to_dict("records")
    return dict(zip(keys, rows, strict=True))


def test_the_true_drops_are_the_ceiling(results: Results) -> None:
    table = oracle_table(results, results.subjects[1])
    found = records(table, "oracle", "transform")
    ceiling = found[ORACLE, "raw"]
    assert [ceiling[name] for name in ("mean", "low", "high")] == pytest.approx([1, 1, 1])
    assert set(found) == {
        (ORACLE, "raw"),
        (ORACLE, "abs"),
        (ORACLE, "relu"),
        (f"{ORACLE}, fill random", "raw"),
        (f"{ORACLE}, fill wide-blur", "raw"),
        (f"{ORACLE}, original model", "raw"),
    }
    drops = results.subjects[1].tables[results.headline].responses.drops()
    absolute = single_deletion_scores(drops.abs(), drops).values
    assert found[ORACLE, "abs"]["mean"] == pytest.approx(float(absolute.nanmean()))
    assert (table["mean"] <= 1 + 1e-12).all()
    assert set(table["stage"]) == {"tuned"}


def test_resolution_says_what_a_random_map_would_do(results: Results) -> None:
    found = resolution_rows(single_score(results.subjects[0], results.headline), counts=(4, 400))
    assert found["random"].tolist() == pytest.approx([15**-0.5 / 2, 15**-0.5 / 20])
    assert found["readable"].iloc[0] == pytest.approx(10 * found["readable"].iloc[1])
    assert (found["detectable"] > found["readable"]).all()


def test_noise_on_a_good_map_lowers_its_score(results: Results) -> None:
    subject = results.subjects[0]
    found = degradation_table(subject, results.headline, ORACLE, levels=(0.0, 1.0, 100.0))
    assert found["mean"].iloc[0] == pytest.approx(1)
    assert found["mean"].is_monotonic_decreasing
    assert (found["change_high"].iloc[1:] < 0).all()
    assert np.isnan(found["change"].iloc[0])
    assert found["change"].iloc[1] == pytest.approx(found["mean"].iloc[1] - 1)
    assert abs(found["mean"].iloc[2]) < 0.4


def test_without_noise_a_map_keeps_its_score(results: Results) -> None:
    subject = results.subjects[0]
    found = degradation_table(subject, results.headline, "grad-cam", levels=(0.0,))
    expected = single_score(subject, results.headline).values["grad-cam", "raw"].mean()
    assert found["mean"].iloc[0] == pytest.approx(expected)
    with pytest.raises(ValueError, match="there are: "):
        degradation_table(subject, results.headline, "sobel")


def test_classes_and_confidences_share_out_the_images(results: Results) -> None:
    subject = results.subjects[0]
    score = single_score(subject, results.headline)
    grad_cam = score.values["grad-cam", "raw"]
    ways: tuple[Literal["class", "confidence"], ...] = ("class", "confidence")
    for by in ways:
        found = breakdown_table(results, subject, score, by=by, n_bins=3)
        rows = found[(found["method"] == "grad-cam") & (found["transform"] == "raw")]
        assert rows["n"].sum() == grad_cam.notna().sum()
        weighted = (rows["mean"] * rows["n"]).sum() / rows["n"].sum()
        assert weighted == pytest.approx(grad_cam.mean())


def test_parts_by_confidence_are_in_order_and_equal(results: Results) -> None:
    subject = results.subjects[0]
    score = single_score(subject, results.headline)
    found = breakdown_table(results, subject, score, by="confidence", n_bins=3)
    rows = found[(found["method"] == "centre") & (found["transform"] == "raw")]
    assert rows["n"].tolist() == [4, 4, 4]
    assert (rows["from"].iloc[1:].to_numpy() >= rows["to"].iloc[:-1].to_numpy()).all()
    sure = confidences(subject.tables[results.headline])
    assert (rows["from"].iloc[0], rows["to"].iloc[-1]) == (sure.min(), sure.max())
    with pytest.raises(ValueError, match="1 to 12"):
        breakdown_table(results, subject, score, by="confidence", n_bins=13)


def test_facts_about_drops_are_shares(results: Results) -> None:
    facts = drop_facts(results, results.subjects[1])
    table = results.subjects[1].tables[results.headline]
    assert facts["protocol"] == "IDSDS"
    assert facts["accuracy"] == float(table.correct[:, 0].double().mean())
    drops = table.responses.drops()
    assert facts["negative_drops"] == pytest.approx(float((drops < 0).sum()) / drops.numel())


def test_accuracy_is_told_intact_and_deleted_for_both_stages_and_splits(results: Results) -> None:
    found = records(alignment_table(results), "stage", "split")
    assert list(found) == [
        ("original", "test"),
        ("original", "train"),
        ("tuned", "test"),
        ("tuned", "train"),
    ]
    assert [row["n"] for row in found.values()] == [12, 6, 12, 6]
    correct = results.subjects[0].tables[results.headline].correct.double()
    row = found["original", "test"]
    assert row["intact"] == pytest.approx(float(correct[:, 0].mean()))
    assert row["deleted"] == pytest.approx(float(correct[:, 1:].mean()))
    assert row["gap"] == pytest.approx(row["intact"] - row["deleted"])
    assert row["low"] <= row["gap"] <= row["high"]


def test_softmax_outputs_are_compared_over_all_classes_and_over_the_target(
    results: Results, store: ResultsStore
) -> None:
    (row,) = difference_table(results, store).to_dict("records")
    before, after = (
        ask_all(softmax_of(subject.studied.explained.classifier.module), subject.studied.explained.images)
        for subject in results.subjects
    )
    moved = (after - before).abs()
    targets = results.subjects[0].studied.explained.data.targets
    assert row["mad_all"] == pytest.approx(float(moved.mean()), abs=1e-7)
    assert row["mad_target"] == pytest.approx(float(moved.gather(1, targets[:, None]).mean()), abs=1e-7)
    same = (before.argmax(1) == after.argmax(1)).double().mean()
    assert row["agreement"] == pytest.approx(float(same))
    assert row["mad_all_low"] <= row["mad_all"] <= row["mad_all_high"]
    assert row["n"] == 12


def test_a_ranking_agrees_with_itself(scores: list[Score]) -> None:
    (score,) = find_scores(scores, stage="tuned", protocol="IDSDS", output="logit", grid=4, fill="zero")
    table = agreement_table([score, score])
    found = records(table, "family")
    assert set(found) == {"all", "raw", "absolute"}
    assert table[["spearman", "kendall"]].to_numpy() == pytest.approx(1)
    # Controls do not count.
    assert found["raw"]["n"] == 8
    assert found["all"]["n"] == 16


def test_protocols_are_compared_on_the_images_they_share(scores: list[Score]) -> None:
    headline = find_scores(scores, protocol="IDSDS", output="logit", grid=4, fill="zero")
    incremental = find_scores(scores, protocol="IDS ascending")
    descending = find_scores(scores, protocol="IDS descending")
    blurred = find_scores(scores, stage="tuned", protocol="IDSDS", fill="wide-blur")
    found = agreement_table([*headline, *incremental, *descending, *blurred])
    raw = records(found[found["family"] == "raw"], "first", "second")
    assert raw["IDSDS", "IDS ascending"]["n_images"] == 5
    assert raw["IDSDS", "IDS ascending"]["n"] == 3
    assert raw["IDSDS, fill zero", "IDSDS, fill wide-blur"]["n_images"] == 12
    assert found["spearman"].between(-1, 1).all()


def test_scores_in_opposite_directions_are_compared_the_same_way_round(scores: list[Score]) -> None:
    (score,) = find_scores(scores, protocol="IDS ascending")
    opposite = score._replace(
        values=-score.values,
        better="lower",
        condition=score.condition._replace(protocol="IDS descending"),
    )
    found = agreement_table([score, opposite])
    assert found["spearman"].to_numpy() == pytest.approx(1)


def test_scores_of_several_models_are_refused(scores: list[Score]) -> None:
    other = scores[0]._replace(condition=scores[0].condition._replace(model="other"))
    with pytest.raises(ValueError, match="other, toy"):
        agreement_table([scores[0], other])


def test_sums_exist_for_every_grid(results: Results) -> None:
    keys = results.subjects[0].sums
    assert {key.grid for key in keys} == {2, 4, 8}
    assert SumsKey("input-x-gradient", "probability", 2, "relu") in keys
    assert TableKey(2, "zero") in results.subjects[0].tables
