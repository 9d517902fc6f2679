"""What perturbation methods remove: examples, statistics, paths of masks, rules for boxes, and findings."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from heatcheck.attribution.masks import binarized
from heatcheck.benchmarks import (
    deletion,
    deletion_boxes,
    deletion_pairs,
    deletion_removal,
    heatmaps,
    mask_paths,
)
from heatcheck.benchmarks.deletion_findings import deletion_findings
from heatcheck.benchmarks.deletion_tables import all_scores, find_score
from heatcheck.benchmarks.published import published_scores, published_table
from heatcheck.metrics.boxes import boxes_from_heatmaps
from heatcheck.metrics.localization import localization_error
from heatcheck.metrics.pooling import pool
from heatcheck.removal.fills import get_fill
from heatcheck.runtime.store import ResultsStore

BASES = list(deletion_removal.PAIRS)
METHODS = [*BASES, *deletion_removal.PAIRS.values(), "random", "centre"]
OPTIONS: dict[str, dict[str, Any]] = {
    "sliding-patch": {"patch": 16, "stride": 16},
    "sliding-patch-g": {"patch": 16, "stride": 16},
    "lime": {"n_samples": 12, "n_segments": 12},
    "lime-g": {"n_samples": 12, "n_segments": 12},
    "meaningful-perturbation": {"n_iterations": 4, "reg_scale": "per_area"},
    "meaningful-perturbation-g": {"n_iterations": 4, "reg_scale": "per_area"},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


@pytest.fixture(scope="module")
def pairs(registered: None, settings: deletion.Settings, path: Path) -> deletion.Results:
    changed = settings.model_copy(
        update={
            "methods": METHODS,
            "options": OPTIONS,
            "n_images": 8,
            "n_heldout": 6,
            "fills": ["zero", "pushpull"],
        }
    )
    return deletion.run(changed, ResultsStore(path))


@pytest.mark.parametrize("base", BASES)
def test_a_gallery_shows_the_method_and_its_variant_on_the_same_images(
    base: str, pairs: deletion.Results
) -> None:
    gallery = deletion_removal.removal_gallery(pairs, base)
    assert list(gallery.removals) == [base, deletion_removal.PAIRS[base]]
    for one in gallery.removals.values():
        assert one.seen.shape == gallery.images.shape == (2, 64, 64, 3)
        assert one.heatmaps.shape == (2, 64, 64)
        assert ((one.removed >= 0) & (one.removed <= 1)).all()
        assert ((one.probabilities >= 0) & (one.probabilities <= 1)).all()


def test_a_window_is_hidden_where_the_map_is_largest(pairs: deletion.Results) -> None:
    gallery = deletion_removal.removal_gallery(pairs, "sliding-patch")
    for name, one in gallery.removals.items():
        changed = np.abs(one.seen - gallery.images).max(-1) > 1e-6
        assert one.removed == pytest.approx(16 * 16 / 64**2)
        for image in range(2):
            row, column = np.unravel_index(one.heatmaps[image].argmax(), (64, 64))
            window = np.zeros((64, 64), dtype=bool)
            window[row // 16 * 16 :, column // 16 * 16 :][:16, :16] = True
            assert not changed[image][~window].any(), name
    # Zero after normalization is the toy network's gray.
    gray = gallery.removals["sliding-patch"].seen
    assert (np.abs(gray - 0.5).max(-1) < 1e-6).sum() >= 2 * 16 * 16


def test_both_variants_of_lime_hide_the_same_superpixels(pairs: deletion.Results) -> None:
    one, other = deletion_removal.removal_gallery(pairs, "lime").removals.values()
    assert np.array_equal(one.removed, other.removed)
    assert ((one.removed > 0.1) & (one.removed < 0.9)).all()
    assert not np.allclose(one.seen, other.seen)


def test_a_mask_is_shown_as_the_method_sees_it(pairs: deletion.Results) -> None:
    gallery = deletion_removal.removal_gallery(pairs, "meaningful-perturbation")
    soft, hard = gallery.removals.values()
    assert soft.removed == pytest.approx(soft.heatmaps.mean((1, 2)), abs=1e-5)
    keep = binarized(1 - torch.from_numpy(hard.heatmaps)[:, None])
    assert hard.removed == pytest.approx((1 - keep).mean((1, 2, 3)).numpy(), abs=1e-6)


def test_what_was_not_run_is_left_out_and_what_does_not_exist_is_refused(results: deletion.Results) -> None:
    assert list(deletion_removal.removal_gallery(results, "sliding-patch").removals) == ["sliding-patch"]
    assert deletion_removal.removal_gallery(results, "lime").removals == {}
    with pytest.raises(ValueError, match="methods with a variant: sliding-patch, lime"):
        deletion_removal.removal_gallery(results, "rise")


@pytest.mark.parametrize("fill", ["zero", "pushpull"])
def test_what_is_kept_is_seen_as_it_is(fill: str, pairs: deletion.Results) -> None:
    images = pairs.counted.images[:2]
    keep = torch.ones_like(images[:, :1])
    keep[..., 10:20, 5:40] = 0
    seen = deletion_removal.see_through({"fill": fill, "fill_options": None}, images, keep)
    torch.testing.assert_close(seen, get_fill(fill)(images, keep))


def test_statistics_are_those_of_the_maps_paired_over_images(pairs: deletion.Results) -> None:
    table = deletion_pairs.statistic_table(pairs)
    assert len(table) == 3 * len(BASES)
    scores = pairs.scores.query("metric == 'map maximum'").pivot(
        index="image", columns="method", values="value"
    )
    row = table.query("method == 'lime' and statistic == 'map maximum'").iloc[0]
    assert row["difference"] == pytest.approx((scores["lime-g"] - scores["lime"]).mean())
    assert row["low"] <= row["difference"] <= row["high"]
    assert row["base"] == pytest.approx(scores["lime"].mean())
    order = table.pivot(index="method", columns="statistic", values="base")
    assert (order["map minimum"] <= order["map mean"]).all()
    assert (order["map mean"] <= order["map maximum"]).all()
    assert len(deletion_pairs.statistic_text(table)) == len(table)


def test_the_published_effects_are_asked_of_the_maps_here(pairs: deletion.Results) -> None:
    found = {finding.key: finding for finding in deletion_pairs.statistic_findings(pairs)}
    table = deletion_pairs.statistic_table(pairs).set_index(["method", "statistic"])["difference"]
    assert found["lowers_sliding_patch"].estimate == pytest.approx(table["sliding-patch", "map mean"])
    assert found["raises_lime"].estimate == pytest.approx(table["lime", "map maximum"])
    assert (found["raises_lime"].answer == "yes") == (found["raises_lime"].low > 0)


def test_without_a_pair_the_tables_say_so(results: deletion.Results) -> None:
    table = deletion_pairs.statistic_table(results)
    assert table.empty
    assert "together with its variant" in deletion_pairs.statistic_text(table)["method"][0]
    assert deletion_pairs.method_statistics(table).empty
    assert deletion_pairs.statistic_findings(results) == []
    assert deletion_pairs.variant_findings(all_scores(results), "metal-color") == []


def test_published_maps_stand_beside_ours_and_are_not_comparable(pairs: deletion.Results) -> None:
    published = published_scores("deletion_maps")
    assert set(published["comparable"]) == {"no"}
    assert set(published["method"]) == {*BASES, *deletion_removal.PAIRS.values()}
    by_name = published.pivot(index="method", columns="metric", values="value")
    assert by_name.loc["sliding-patch", "map mean"] == pytest.approx(0.1943)
    assert by_name.loc["lime-g", "map maximum"] == pytest.approx(0.4065)
    ours = deletion_pairs.method_statistics(deletion_pairs.statistic_table(pairs))
    assert published_table("deletion_maps", ours)["here"].notna().all()


def test_every_pair_and_metric_is_asked_for_with_the_better_direction(pairs: deletion.Results) -> None:
    scores = all_scores(pairs)
    found = {finding.key: finding for finding in deletion_pairs.variant_findings(scores, "metal-color")}
    assert len(found) == 4 * len(BASES)
    inpainted = find_score(scores, "metal-color", "deletion", "pushpull").values
    own = found["variant_lime_deletion_pushpull"]
    assert own.estimate == pytest.approx((inpainted["lime-g"] - inpainted["lime"]).mean())
    assert "inpainted as well" in own.statement
    values = find_score(scores, "metal-color", "saliency-metric").values
    one = found["variant_lime_saliency_metric"]
    assert one.estimate == pytest.approx((values["lime-g"] - values["lime"]).mean())
    assert (one.answer == "yes") == (one.high < 0)


def test_the_best_localizer_is_compared_with_its_rivals(pairs: deletion.Results) -> None:
    scores = all_scores(pairs)
    errors = find_score(scores, "metal-color", "localization error").means()
    best = errors.drop(["random", "centre"]).sort_values(kind="stable").index[0]
    found = {finding.key: finding for finding in deletion_findings(scores, "metal-color")}
    assert found["localizes_best"].statement.startswith(f"{best} localizes best")
    assert found["localizes_best"].estimate <= 0
    assert "the best control" in found["localizer_beats_control"].statement
    assert {"agree_localization_error"} <= set(found)


def test_a_rule_s_error_is_that_of_the_metric_at_the_threshold_of_the_held_out_images(
    pairs: deletion.Results, path: Path
) -> None:
    store = ResultsStore(path)
    table = deletion_boxes.rule_table(pairs, store)
    assert len(table) == len(deletion_boxes.RULES) * len(METHODS)
    for rule in deletion_boxes.RULES:
        row = table[(table["rule"] == rule.label) & (table["method"] == "lime")].iloc[0]
        parts = []
        assert pairs.held is not None
        for explained in (pairs.held, pairs.counted):
            (job,) = deletion.make_jobs(pairs.settings.model_copy(update={"methods": ["lime"]}), explained)
            cell = deletion.heatmap_cell(job, pairs.settings)
            maps = pool(heatmaps.cell_heatmaps(store, job.explained, job.request, cell), "sum")
            boxes = boxes_from_heatmaps(maps, rule.alphas, threshold=rule.threshold, region=rule.region)
            parts.append(localization_error(boxes, explained.data.boxes or ()).error.tolist())
        held, counted = parts
        assert row["alpha"] == rule.alphas[held.index(min(held))]
        assert row["error"] == pytest.approx(counted[rule.alphas.index(row["alpha"])])


def test_rules_agree_with_the_chapter_s_main_score_where_they_are_the_same(
    pairs: deletion.Results, path: Path
) -> None:
    table = deletion_boxes.rule_table(pairs, ResultsStore(path)).query("rule == 'max'").set_index("method")
    score = find_score(all_scores(pairs), "metal-color", "localization error")
    assert np.allclose(table["error"].loc[METHODS], score.means()[METHODS])
    assert {f"alpha {alpha:.2f}" for alpha in table["alpha"]} == set(score.settings.values())


def test_rules_are_read_from_the_store_a_second_time(
    pairs: deletion.Results, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = deletion_boxes.rule_table(pairs, ResultsStore(path))
    monkeypatch.setattr(deletion_boxes, "boxes_from_heatmaps", None)
    pd.testing.assert_frame_equal(deletion_boxes.rule_table(pairs, ResultsStore(path)), first)


def test_the_wide_table_has_a_column_per_rule_and_the_best_rule_is_counted() -> None:
    rows = [
        (method, rule.threshold, rule.region, rule.label, 0.3, 0.2 + 0.1 * (rule.label != best), 0.0, 1.0, 4)
        for method, best in (("lime", "energy"), ("random", "mean"), ("centre", "mean"))
        for rule in deletion_boxes.RULES
    ]
    columns = ["method", "threshold", "region", "rule", "alpha", "error", "low", "high", "n"]
    table = pd.DataFrame(rows, columns=columns)
    wide = deletion_boxes.wide_rules(table)
    assert list(wide.columns) == ["method", *(rule.label for rule in deletion_boxes.RULES)]
    assert wide["energy"][0] == "20 (0.3)"
    assert deletion_boxes.best_rule(table) == "energy"


def test_without_held_out_images_no_rule_is_measured(pairs: deletion.Results, path: Path) -> None:
    table = deletion_boxes.rule_table(pairs._replace(held=None), ResultsStore(path))
    assert table.empty
    assert "not measured" in deletion_boxes.wide_rules(table)["method"][0]
    assert "not measured" in deletion_boxes.best_rule(table)


def test_a_path_ends_where_the_method_ends_and_one_never_leaves(pairs: deletion.Results, path: Path) -> None:
    store = ResultsStore(path)
    table = mask_paths.mask_paths(pairs, store, n_images=3)
    assert list(dict.fromkeys(table["path"])) == list(mask_paths.PATHS)
    assert set(table["iteration"]) == {0, 1, 3, 4}
    assert (table["n"] == 3).all()
    still = table[table["path"].str.contains("from a mask of ones")]
    assert (still["removed"] == 0).all()
    assert still["probability"].nunique() == 1
    clean = deletion_removal.target_probabilities(pairs.counted, pairs.counted.images)[:3]
    assert still["probability"].iloc[0] == pytest.approx(clean.mean())
    start = table[table["iteration"] == 0].set_index("path")["removed"]
    assert start["MP"] == pytest.approx(0.5, abs=0.1)


def test_only_methods_that_were_run_have_a_path(results: deletion.Results, path: Path) -> None:
    assert mask_paths.mask_paths(results, ResultsStore(path)).empty
