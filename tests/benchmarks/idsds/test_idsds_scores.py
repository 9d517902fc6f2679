"""From patch sums and answers to scores per image, and from those to tables."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from heatcheck.benchmarks.idsds import Output, Results, SumsKey
from heatcheck.benchmarks.idsds_scores import (
    Outputs,
    Score,
    find_scores,
    headline_score,
    single_score,
    tidy_scores,
)
from heatcheck.benchmarks.idsds_tables import (
    compare_transforms,
    difference_interval,
    score_table,
)
from heatcheck.benchmarks.patch_table import TableKey
from heatcheck.benchmarks.published import published_scores
from heatcheck.metrics.patches import single_deletion_scores, spearman

RAW = ("input-x-gradient", "raw")


def records(table: pd.DataFrame, *columns: str) -> dict[Any, dict[str, Any]]:
    """Rows of a table by the values of some columns; one column's are no tuples."""
    keys = [tuple(row) if len(columns) > 1 else row[0] for row in table[list(columns)].to_numpy().tolist()]
    assert len(set(keys)) == len(keys)
    rows: list[Any] = table.to_dict("records")
    return dict(zip(keys, rows, strict=True))


def one(scores: list[Score], **wanted: object) -> Score:
    (found,) = find_scores(scores, **wanted)
    return found


@pytest.fixture(scope="module")
def table(scores: list[Score]) -> pd.DataFrame:
    return score_table(scores, profile="reference")


def test_a_score_is_called_by_the_domain_of_its_model(scores: list[Score]) -> None:
    headline = find_scores(scores, output="logit", grid=4, fill="zero")
    names = {(score.condition.stage, score.condition.protocol) for score in headline}
    assert ("original", "SDS") in names
    assert ("tuned", "IDSDS") in names
    assert ("original", "IDSDS") not in names


def test_all_conditions_are_there_once(scores: list[Score]) -> None:
    conditions = [score.condition for score in scores]
    assert len(set(conditions)) == len(conditions)
    tuned = {(c.protocol, c.output, c.grid, c.fill) for c in conditions if c.stage == "tuned"}
    assert tuned == {
        ("IDSDS", "logit", 4, "zero"),
        ("positive drops", "logit", 4, "zero"),
        ("linear", "logit", 4, "zero"),
        ("IDSDS", "logit", 2, "zero"),
        ("IDSDS", "logit", 8, "zero"),
        ("IDSDS", "logit", 4, "random"),
        ("IDSDS", "logit", 4, "wide-blur"),
        ("IDSDS", "probability", 4, "zero"),
        ("IDSDS", "drop", 4, "zero"),
        ("sets of 2", "logit", 4, "zero"),
        ("sets of 4", "logit", 4, "zero"),
    }
    incremental = {c.protocol for c in conditions if c.protocol.startswith("IDS ")}
    assert incremental == {
        "IDS ascending",
        "IDS ascending updated",
        "IDS descending",
        "IDS descending updated",
    }


def test_outputs_change_one_side_or_both(results: Results) -> None:
    subject = results.subjects[0]
    table = subject.tables[results.headline]
    logit, probability = (table.responses.drops(output) for output in ("logit", "probability"))
    names: tuple[Output, ...] = ("logit", "probability")
    own = {name: subject.sums[SumsKey("input-x-gradient", name, 4, "raw")] for name in names}
    cases: tuple[tuple[Outputs, Tensor, Tensor], ...] = (
        ("logit", own["logit"], logit),
        ("drop", own["logit"], probability),
        ("probability", own["probability"], probability),
    )
    for output, sums, drops in cases:
        found = single_score(subject, results.headline, output=output)
        expected = single_deletion_scores(sums, drops).values.numpy()
        np.testing.assert_allclose(found.values[RAW], expected)


def test_sets_are_scored_by_the_sum_over_their_patches(results: Results, scores: list[Score]) -> None:
    subject = results.subjects[0]
    (key,) = [key for key in subject.tables if key.sets is not None]
    table = subject.tables[key]
    sums = subject.sums[SumsKey("input-x-gradient", "logit", 4, "raw")]
    for size in (2, 4):
        rows = torch.nonzero(table.deleted.sum(1) == size)[:, 0].tolist()
        forecast = torch.stack([sums[:, table.deleted[row]].sum(1) for row in rows], 1)
        logits = table.responses.logits.double()
        drops = torch.stack([logits[:, 0] - logits[:, row] for row in rows], 1)
        found = one(scores, stage="original", protocol=f"sets of {size}")
        np.testing.assert_allclose(found.values[RAW], spearman(forecast, drops).numpy(), atol=1e-12)


def test_undefined_scores_are_flagged_and_counted(scores: list[Score], table: pd.DataFrame) -> None:
    score = one(scores, stage="tuned", protocol="IDSDS", output="logit", grid=4, fill="zero")
    assert (score.flags["constant", "raw"] == "constant").all()
    broken = score.values["half-broken", "raw"].isna()
    assert (broken == (score.flags["half-broken", "raw"] == "nonfinite")).all()
    assert 0 < broken.sum() < 12
    rows = table[(table["stage"] == "tuned") & (table["protocol"] == "IDSDS") & (table["output"] == "logit")]
    rows = rows[(rows["grid"] == 4) & (rows["fill"] == "zero") & (rows["transform"] == "raw")]
    found = records(rows, "method")
    assert (found["constant"]["n"], found["constant"]["n_excluded"]) == (0, 12)
    assert found["half-broken"]["n_nonfinite"] == broken.sum()
    assert found["half-broken"]["n"] == 12 - broken.sum()
    assert np.isnan(found["constant"]["mean"])
    assert np.isnan(found["constant"]["rank"])


def test_means_over_common_and_over_correct_images(results: Results) -> None:
    score = single_score(results.subjects[0], results.headline)
    kept = score._replace(
        values=score.values.drop(columns="constant", level="method"),
        flags=score.flags.drop(columns="constant", level="method"),
    )
    table = score_table([kept], profile="reference")
    row = records(table, "method", "transform")[RAW]
    common = kept.values.notna().all(axis=1)
    assert 0 < common.sum() < 12
    assert (table["n_common"] == common.sum()).all()
    assert row["mean_common"] == pytest.approx(kept.values[common][RAW].mean())
    right = score.correct.to_numpy()
    assert row["mean_correct"] == pytest.approx(kept.values[right][RAW].mean(), nan_ok=True)
    assert row["n_correct"] == right.sum()
    assert row["standard_error"] == pytest.approx(kept.values[RAW].sem())


def test_the_best_rank_belongs_to_the_better_mean(table: pd.DataFrame) -> None:
    for better, pick in (("higher", "max"), ("lower", "min")):
        rows = table[(table["better"] == better) & table["mean"].notna()]
        for _, group in rows.groupby(["stage", "protocol", "output", "grid", "fill"]):
            best = group[group["rank"] == group["rank"].min()]
            assert best["mean"].iloc[0] == getattr(group["mean"], pick)()
    descending = table["protocol"].str.startswith("IDS descending")
    assert set(table.loc[descending, "better"]) == {"lower"}
    assert set(table.loc[~descending, "better"]) == {"higher"}


def test_controls_are_marked(table: pd.DataFrame) -> None:
    assert set(table.loc[table["is_control"], "method"]) == {"random", "centre", "constant"}


def test_a_table_names_its_profile_and_the_rows_of_the_study(table: pd.DataFrame) -> None:
    assert set(table["profile"]) == {"reference"}
    rows = table[["method", "transform", "row"]].drop_duplicates()
    found = records(rows, "method", "transform")
    assert found["integrated-gradients", "abs"]["row"] == "IG abs."
    assert found["half-broken", "raw"]["row"] == ""


def test_maps_that_are_never_negative_do_not_care_about_signs(results: Results) -> None:
    found = records(compare_transforms(single_score(results.subjects[0], results.headline)), "method")
    for name in ("ig-vargrad", "ig-smoothgrad-squared", "grad-cam"):
        assert [found[name][column] for column in ("difference", "low", "high")] == [0, 0, 0]
    row = found["integrated-gradients"]
    assert row["difference"] == pytest.approx(row["raw"] - row["abs"])
    assert row["low"] <= row["difference"] <= row["high"]
    assert np.isnan(found["constant"]["difference"])


def test_a_difference_counts_its_pairs() -> None:
    found = difference_interval(np.array([1.0, 2.0, np.nan]), np.array([0.0, 1.0, 1.0]))
    assert found == (1, 1, 1, 2)


def test_tidy_scores_have_a_row_per_image_and_score(results: Results, scores: list[Score]) -> None:
    tidy = tidy_scores(scores, preset="test", profile="reference", data="metal-color")
    assert len(tidy) == sum(score.values.size for score in scores)
    wanted = "benchmark preset profile data model stage protocol output grid fill method transform metric"
    assert {*wanted.split(), "image", "value", "flag", "correct"} == set(tidy.columns)
    rows = tidy[(tidy["method"] == "grad-cam") & (tidy["transform"] == "raw") & (tidy["stage"] == "tuned")]
    rows = rows[(rows["protocol"] == "IDSDS") & (rows["output"] == "logit")]
    found = records(rows[(rows["grid"] == 4) & (rows["fill"] == "zero")], "image")
    score = headline_score(results, "toy-patches")
    assert {image: row["value"] for image, row in found.items()} == score.values["grad-cam", "raw"].to_dict()
    assert {image: row["correct"] for image, row in found.items()} == score.correct.to_dict()


def test_a_stage_that_was_not_run_is_refused(results: Results) -> None:
    with pytest.raises(ValueError, match=r"toy-patches \(tuned\)"):
        headline_score(results, "other")


def test_published_scores_say_where_they_come_from() -> None:
    published = published_scores("idsds")
    assert not published.isna().any().any()
    assert published["value"].between(-1, 1).all()
    assert set(published["comparable"]) == {"no"}
    assert set(published["provenance"]) == {
        "text",
        "figure",
        "figure, identified",
        "figure, ambiguous",
        "replication",
    }
    key = ["source", "model", "data", "method", "transform", "metric", "setting"]
    assert not published.duplicated(key).any()


@pytest.mark.parametrize(
    ("first", "second", "models"),
    [
        (("input-x-gradient", "raw"), ("integrated-gradients", "raw"), ["ResNet-50 w/o BN w/o bias"]),
        (("ixg-smoothgrad", "raw"), ("ig-smoothgrad", "raw"), ["ResNet-50 w/o BN w/o bias"]),
        (("grad-cam", "raw"), ("xgrad-cam", "raw"), ["ResNet-18", "ResNet-50", "ResNet-152"]),
    ],
)
def test_published_identities_hold_in_the_table(
    first: tuple[str, str], second: tuple[str, str], models: list[str]
) -> None:
    published = published_scores("idsds")
    published = published[published["source"] == "hesse2024benchmarking"]
    rows = records(published[published["metric"] == "IDSDS"], "method", "transform", "model")
    for model in models:
        assert rows[(*first, model)]["value"] == rows[(*second, model)]["value"]


def test_single_scores_follow_the_grid(results: Results) -> None:
    found = single_score(results.subjects[0], TableKey(8, "zero"))
    sums = results.subjects[0].sums[SumsKey("input-x-gradient", "logit", 8, "raw")]
    assert sums.shape == (12, 64)
    drops = results.subjects[0].tables[TableKey(8, "zero")].responses.drops()
    np.testing.assert_allclose(found.values[RAW], single_deletion_scores(sums, drops).values.numpy())
