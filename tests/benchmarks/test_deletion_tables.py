"""From scores to the tables, examples and findings of the chapter."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heatcheck.benchmarks import deletion, deletion_examples, deletion_summary, deletion_tables, sources
from heatcheck.benchmarks.deletion_findings import deletion_findings
from heatcheck.benchmarks.deletion_tables import BETTER, all_scores, find_score, score_table
from heatcheck.benchmarks.published import published_scores, published_table
from heatcheck.figures.deletion import alpha_figure
from heatcheck.figures.tables import wide_table
from heatcheck.runtime.store import ResultsStore


def test_means_are_means_and_lie_in_their_intervals(results: deletion.Results) -> None:
    scores = all_scores(results)
    table = score_table(scores)
    score = find_score(scores, "metal-color", "deletion", "zero")
    row = table[
        (table["data"] == "metal-color") & (table["metric"] == "deletion") & (table["fill"] == "zero")
    ]
    mean = row.set_index("method")["mean"]["gradient"]
    assert mean == pytest.approx(score.values["gradient"].mean())
    defined = table.dropna(subset="mean")
    assert (defined["low"] <= defined["mean"] + 1e-12).all()
    assert (defined["mean"] <= defined["high"] + 1e-12).all()


def test_every_score_has_a_direction_and_ranks_follow_it(results: deletion.Results) -> None:
    table = score_table(all_scores(results))
    assert set(table["metric"]) <= set(BETTER)
    for _, rows in table.dropna(subset="mean").groupby(["data", "metric", "fill"], dropna=False):
        best = rows.sort_values("mean", ascending=rows["better"].iloc[0] == "lower").iloc[0]
        assert best["rank"] == rows["rank"].min()


def test_flagged_maps_are_counted_in_the_table(results: deletion.Results) -> None:
    table = score_table(all_scores(results))
    rows = table.query("method == 'broken' and metric == 'deletion' and data == 'metal-color'")
    assert (rows["flagged"] > 0).all()
    assert (rows["n"] + rows["flagged"] == 12 - results.n_wrong).all()


def test_thresholds_come_from_the_held_out_images(results: deletion.Results) -> None:
    table = deletion_tables.alpha_table(results)
    assert (table.groupby("method")["chosen"].sum() == 1).all()
    held = results.heldout[(results.heldout["metric"] == "iou") & (results.heldout["method"] == "gradient")]
    errors = held.assign(error=held["value"] < 0.5).groupby("alpha")["error"].mean()
    chosen = table[(table["method"] == "gradient") & table["chosen"]]["alpha"].item()
    assert errors[chosen] == errors.min()
    assert chosen == errors.index[errors == errors.min()].min()


def test_curves_start_at_the_untouched_image_for_every_method(results: deletion.Results) -> None:
    table = deletion_tables.curve_table(results)
    rows = table.query("data == 'metal-color' and direction == 'deletion' and fraction == 0")
    assert rows[rows["method"] != "broken"]["mean"].nunique() == 1
    assert set(table["direction"]) == {"deletion", "insertion"}


def test_the_wide_table_has_a_row_per_method_and_says_what_is_better(results: deletion.Results) -> None:
    table = score_table(all_scores(results))
    wide = wide_table(deletion_tables.headline(table, results.settings))
    assert wide["method"].tolist() == results.settings.methods
    assert "deletion ↓" in wide
    assert "relevance-mass ↑" in wide
    assert wide.set_index("method")["flagged maps"]["broken"] > 0
    with pytest.raises(ValueError, match="several rows"):
        wide_table(table)


def test_findings_cover_what_was_run_and_nothing_else(results: deletion.Results) -> None:
    found = {finding.key: finding for finding in deletion_findings(all_scores(results), "metal-color")}
    expected = {
        "random_pixels",
        "center_beats_patch",
        "gradient_grad_cam",
        "agree_fill_blur",
        "agree_insertion",
    }
    assert expected <= set(found)
    assert all(finding.low <= finding.estimate <= finding.high for finding in found.values())


def test_prose_gets_the_best_methods_and_no_control(results: deletion.Results) -> None:
    quoted = deletion_summary.quotable(results, all_scores(results))
    assert quoted["n_methods"] == 4
    assert quoted["n_images"] == 12 - results.n_wrong
    assert set(quoted["best"].values()) <= {"gradient", "grad-cam", "sliding-patch", "broken"}
    assert 0 <= quoted["beaten_by_control"]["deletion"] <= 4


def test_the_strip_starts_untouched_and_ends_gray(results: deletion.Results) -> None:
    strip = deletion_examples.strip(results, 0, "gradient", n_frames=5)
    assert np.allclose(strip.frames[0], deletion_examples.pictures(results.shown)[0], atol=1e-6)
    assert np.allclose(strip.frames[-1], 0.5, atol=1e-6)
    assert strip.fractions[0] == 0
    assert strip.fractions[-1] == 1
    changed = (np.abs(strip.frames - strip.frames[0]) > 1e-6).any(-1).mean((1, 2))
    assert (np.diff(changed) > 0).all()
    with pytest.raises(ValueError, match="no strip"):
        deletion_examples.strip(results, 9, "gradient")


def test_boxes_are_compared_with_the_true_ones(results: deletion.Results) -> None:
    examples = deletion_examples.box_examples(results, "centre")
    assert len(examples.images) == len(examples.boxes_true) == len(examples.boxes_predicted) == 2
    assert ((examples.ious >= 0) & (examples.ious <= 1)).all()
    with pytest.raises(ValueError, match="no heatmaps of 'rise'"):
        deletion_examples.box_examples(results, "rise")


def test_published_numbers_have_a_source_and_stay_apart(results: deletion.Results) -> None:
    published = published_scores("deletion")
    assert published["source"].notna().all()
    assert set(published["comparable"]) <= {"yes", "no"}
    assert published["value"].between(0, 1).all()
    table = published_table("deletion", score_table(all_scores(results)))
    assert len(table) == len(published)
    assert table[table["method"] == "gradient"]["here"].notna().all()
    assert table[table["method"] == "excitation-backprop"]["here"].isna().all()
    with pytest.raises(ValueError, match=r"there are: .*deletion"):
        published_scores("nothing")


def test_a_data_set_without_boxes_and_masks_gives_the_other_scores_and_says_so(
    registered: None, settings: deletion.Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bare(*arguments: Any) -> sources.Images:
        images = sources._metal_color(*arguments)
        test = dataclasses.replace(images.test, name="places365", masks=None, boxes=None)
        return sources.Images(test, None, images.n_wrong)

    monkeypatch.setitem(sources._LOADERS, "places365", bare)
    changed = settings.model_copy(
        update={"counted": "places365", "methods": ["gradient", "random"], "options": {}, "n_heldout": 0}
    )
    results = deletion.run(changed, ResultsStore(tmp_path))
    scores = all_scores(results)
    table = deletion_tables.headline(score_table(scores), changed)
    assert set(table["metric"]) == {"deletion", "insertion", "saliency-metric"}
    assert deletion_tables.alpha_table(results).empty
    assert alpha_figure(deletion_tables.alpha_table(results)).texts[0].get_text().startswith("this data set")
    assert "not measured" in wide_table(table[table["metric"] == "pointing-game"])["method"][0]
    assert "not measured" in deletion_summary.quotable(results, scores)["best"]["localization error"]
    assert deletion_summary.best_localizer(scores, "places365") == "gradient"


def test_pairs_are_tested_against_random_blocks_and_corrected(results: deletion.Results) -> None:
    score = find_score(all_scores(results), "metal-color", "deletion")
    table = deletion_summary.paired_table(score)
    assert set(table["reference"]) == {"random-blocks"}
    assert set(table["method"]) == set(results.settings.methods) - {"random-blocks"}
    assert (table["p_holm"] >= table["p"]).all()
    row = table.set_index("method").loc["gradient"]
    expected = (score.values["gradient"] - score.values["random-blocks"]).mean()
    assert row["difference"] == pytest.approx(expected)


def test_every_class_counts_the_same_in_the_pointing_game(results: deletion.Results) -> None:
    score = find_score(all_scores(results), "metal-color", "pointing-game")
    rows = results.scores.query("metric == 'pointing-game' and method == 'gradient'")
    by_class = rows.groupby("target")["value"].mean().mean()
    assert score.means()["gradient"] == pytest.approx(by_class)
    low, high = score.intervals().low, score.intervals().high
    assert np.nanmin(low) >= 0
    assert np.nanmax(high) <= 1
