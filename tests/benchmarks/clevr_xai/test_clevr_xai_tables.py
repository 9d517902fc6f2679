"""From scores to the tables, examples and findings of the chapter."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks import (
    clevr_xai,
    clevr_xai_comparisons,
    clevr_xai_examples,
    clevr_xai_subsets,
    clevr_xai_summary,
    clevr_xai_tables,
)
from heatcheck.benchmarks.clevr_xai_conservation import conservation_table
from heatcheck.benchmarks.clevr_xai_findings import associate, clevr_xai_findings, separate
from heatcheck.benchmarks.clevr_xai_scores import MASS, RANK
from heatcheck.benchmarks.clevr_xai_settings import PAPER_METHODS, paper_method
from heatcheck.benchmarks.clevr_xai_tables import Cut, best_pooling, rank_intervals
from heatcheck.benchmarks.findings import findings_table
from heatcheck.benchmarks.published import published_scores
from heatcheck.metrics.pooling import POOLINGS
from heatcheck.runtime.store import ResultsStore

CUT = Cut("simple", "single", MASS)


@pytest.fixture(scope="module")
def accuracy(results: clevr_xai.Results) -> pd.DataFrame:
    return clevr_xai_tables.accuracy_table(results)


@pytest.fixture(scope="module")
def paper(results: clevr_xai.Results, accuracy: pd.DataFrame) -> pd.DataFrame:
    return clevr_xai_tables.paper_table(results, accuracy)


def only(table: pd.DataFrame, cut: Cut = CUT) -> pd.DataFrame:
    return table[(table[list(Cut._fields)] == list(cut)).all(axis=1)].set_index("method")


def test_statistics_are_those_of_the_correctly_answered_questions(
    results: clevr_xai.Results, accuracy: pd.DataFrame
) -> None:
    row = only(accuracy).loc["gradient"]
    scores = clevr_xai_tables.select(results.scores, CUT)
    values = scores[scores["method"] == "gradient"][row["pooling"]].to_numpy()
    assert row["n"] == len(values) == 12
    assert row["mean"] == pytest.approx(values.mean())
    assert row["std"] == pytest.approx(values.std())
    found = [row[name] for name in ("min", "p20", "median", "p80", "max")]
    assert found == pytest.approx(np.quantile(values, [0, 0.2, 0.5, 0.8, 1]))
    assert row["low"] <= row["mean"] <= row["high"]
    assert row["chance"] == pytest.approx(144 / 64**2)


def test_the_best_pooling_has_the_highest_mean_of_those_that_discard_least(
    results: clevr_xai.Results, accuracy: pd.DataFrame
) -> None:
    table = clevr_xai_tables.pooling_table(results)
    mine = table[(table["method"] == "integrated-gradients") & (table["metric"] == MASS)]
    mine = mine[mine["ground_truth"] == "single"]
    assert mine.loc[mine["best"], "mean"].item() == mine["mean"].max()
    assert mine.loc[mine["best"], "pooling"].item() == only(accuracy).loc["integrated-gradients", "pooling"]


def test_a_pooling_that_discards_maps_is_not_chosen_for_what_is_left() -> None:
    values = np.full((4, len(POOLINGS)), 0.5)
    values[:, 3] = 0.6
    values[:, 5] = [0.9, np.nan, np.nan, np.nan]
    assert best_pooling(values) == list(POOLINGS)[3]
    assert best_pooling(np.full((2, len(POOLINGS)), np.nan)) == next(iter(POOLINGS))
    assert best_pooling(values[:0]) == next(iter(POOLINGS))


def test_the_fixed_pooling_is_the_same_for_all(results: clevr_xai.Results) -> None:
    table = clevr_xai_tables.accuracy_table(results, "fixed")
    assert set(table["pooling"]) == {"max-norm"}
    best = clevr_xai_tables.accuracy_table(results)
    alike = (best["discarded"] == table["discarded"]) & best["mean"].notna()
    assert (best["mean"] >= table["mean"] - 1e-12)[alike].all()


def test_maps_without_a_score_are_counted(accuracy: pd.DataFrame) -> None:
    row = only(accuracy).loc["broken-for-some"]
    assert row["discarded"] > 0
    assert row["n"] + row["discarded"] == 12


def test_ranks_are_of_methods_that_look_and_follow_the_means(accuracy: pd.DataFrame) -> None:
    table = only(accuracy)
    controls = table[table["is_control"]]
    assert set(controls.index) == {"random", "centre", "constant"}
    assert controls["rank"].isna().all()
    looking = table[~table["is_control"]].sort_values("rank")
    assert looking["mean"].is_monotonic_decreasing
    assert (looking["rank_low"] <= looking["rank"]).all()
    assert (looking["rank"] <= looking["rank_high"]).all()


def test_rank_intervals_are_narrow_where_methods_never_change_places() -> None:
    noise = np.random.default_rng(0).normal(scale=0.01, size=(30, 3))
    apart = rank_intervals(noise + np.array([0.2, 0.9, 0.5]))
    assert apart.tolist() == [[3, 1, 2]] * 3
    alike = rank_intervals(np.random.default_rng(1).normal(size=(30, 3)))
    assert (alike[1] < alike[2]).all()


def test_the_paper_s_table_has_one_row_per_method_with_its_best_variant(paper: pd.DataFrame) -> None:
    rows = only(paper).reset_index()
    assert rows["paper_method"].is_unique
    gradient = rows[rows["paper_method"] == "Gradient"]
    assert gradient["method"].item() in PAPER_METHODS["Gradient"]
    assert sorted(rows["rank"].dropna()) == list(range(1, 9))
    assert paper_method("gradient-squared") == "Gradient"
    assert paper_method("broken-for-some") == "broken-for-some"
    assert paper_method("centre") == "centre"


def test_choosing_on_other_questions_gains_nothing_where_there_is_nothing_to_choose(
    results: clevr_xai.Results,
) -> None:
    table = clevr_xai_tables.split_half_table(results, n_splits=5)
    constant = table[(table["method"] == "constant") & (table["kind"] == "simple")]
    assert np.allclose(constant["optimism"], 0)
    assert set(table["method"]) == set(results.settings.methods)
    assert table["agreement"].dropna().between(0, 1).all()


def test_reference_levels_lie_between_chance_and_the_oracle(results: clevr_xai.Results) -> None:
    table = clevr_xai_tables.reference_table(clevr_xai_tables.accuracy_table(results, "fixed"))
    mine = only(table.rename(columns={"level": "method"}))["mean"]
    assert mine["chance"] == pytest.approx(mine["constant"]) == pytest.approx(144 / 64**2)
    assert mine["random"] == pytest.approx(mine["chance"], rel=0.1)
    assert mine["oracle"] == 1
    text = clevr_xai_summary.level_text(table)
    assert text.columns.tolist() == [
        "questions",
        "mask",
        "metric",
        "chance",
        "random",
        "centre",
        "constant",
        "oracle",
    ]
    assert text["mask"].tolist()[:4] == ["single", "single", "all", "all"]


@pytest.mark.parametrize("by", clevr_xai_subsets.SUBSETS)
def test_subsets_hold_every_question_once(results: clevr_xai.Results, by: str) -> None:
    table = clevr_xai_subsets.subset_table(results, CUT, by)
    mine = table[table["method"] == "gradient"]
    assert mine["n"].sum() == 12
    assert (mine["low"] <= mine["mean"]).all()


def test_unknown_subsets_are_refused(results: clevr_xai.Results) -> None:
    with pytest.raises(ValueError, match="unknown subsets 'color'; known: confidence"):
        clevr_xai_subsets.subset_table(results, CUT, "color")


def test_a_confidence_of_one_is_in_the_last_bin(results: clevr_xai.Results) -> None:
    predictions = results.predictions.assign(confidence=1.0)
    table = clevr_xai_subsets.subset_table(results._replace(predictions=predictions), CUT, "confidence")
    assert set(table["subset"]) == {"0.99 to 1"}


def test_accuracy_of_the_model_is_told_by_kind_and_type(results: clevr_xai.Results) -> None:
    table = clevr_xai_subsets.answer_table(results.predictions)
    simple = table[table["kind"] == "simple"]
    assert simple["type"].tolist() == ["all", "query_shape"]
    assert simple["n"].tolist() == [15, 15]
    assert simple["accuracy"].tolist() == pytest.approx([0.8, 0.8])


def test_wrong_answers_stand_beside_right_ones(results: clevr_xai.Results) -> None:
    table = clevr_xai_subsets.wrong_table(results, CUT).set_index("method")
    accuracy = only(clevr_xai_tables.accuracy_table(results))
    assert table["right"].to_dict() == pytest.approx(accuracy["mean"].to_dict())
    assert (table.drop("broken-for-some")["n"] == 3).all()
    without = results._replace(scores=results.scores[results.scores["correct"]])
    assert clevr_xai_subsets.wrong_table(without, CUT).empty


def test_sizes_of_the_masks_are_told(results: clevr_xai.Results) -> None:
    table = clevr_xai_subsets.mask_table(results.predictions, 64 * 64)
    compound = table[table["kind"] == "complex"]
    assert set(compound["ground_truth"]) == {"unique", "unique-first-nonempty", "union", "all"}
    simple = table[table["kind"] == "simple"].set_index("ground_truth")
    assert simple["pixels mean"].to_dict() == {"single": 144, "all": 3 * 144}
    assert simple["objects max"].to_dict() == {"single": 1, "all": 3}
    assert (simple["undefined"] == 0).all()


def test_neighbors_in_the_ranking_have_a_paired_interval(results: clevr_xai.Results) -> None:
    pairs = clevr_xai_comparisons.pair_table(results, CUT)
    n = pairs[["first", "second"]].stack().nunique()
    assert len(pairs) == n * (n - 1) / 2
    assert pairs["neighbors"].sum() == n - 1
    assert (pairs["difference"] >= -1e-12).all()
    assert len(clevr_xai_summary.neighbor_text(pairs)) == n - 1


def test_settings_are_compared_with_the_main_one_on_the_same_questions(results: clevr_xai.Results) -> None:
    table = clevr_xai_comparisons.all_variants(results)
    mine = table[(table["method"] == "vargrad") & (table["metric"] == RANK)].set_index("label")
    assert set(mine["ground_truth"]) == {"single", "all"}
    assert set(mine["n"]) == {6}
    main = mine[mine["is_main"]]
    assert set(main.index) == {"noise 0.05, 2 samples"}
    assert set(table["group"]) == {"smoothing", "cam-layers"}
    layers = table[(table["group"] == "cam-layers") & (table["method"] == "guided-grad-cam")]
    assert layers["difference"].isna().all()  # its main setting was not run
    text = clevr_xai_summary.variant_text(table, CUT)
    assert "main" in text["mass, to main"].tolist()


def test_tables_of_the_page_are_short_text(results: clevr_xai.Results, paper: pd.DataFrame) -> None:
    wide = clevr_xai_summary.paper_style(paper, "simple")
    assert wide.columns.tolist() == [
        "method",
        "mass, single ↑",
        "rank, single ↑",
        "mass, all ↑",
        "rank, all ↑",
    ]
    assert wide["method"].iloc[-1] in ("random", "centre", "constant")
    assert wide["mass, single ↑"].str.fullmatch(r"\d\.\d\d \(\.\d\d\) \d\.\d\d").all()
    assert clevr_xai_summary.paper_style(paper.head(0), "complex")["method"].tolist() == ["not run"]
    several = clevr_xai_summary.paper_style(clevr_xai_tables.accuracy_table(results), "complex", MASS)
    assert several.columns.tolist() == ["method", "unique ↑", "first non-empty ↑", "union ↑", "all ↑"]
    assert {"gradient", "gradient-squared"} <= set(several["method"])
    choices = clevr_xai_summary.choice_table(paper, "simple", "single")
    assert set(choices["variant"]) <= {"plain", "squared", "squared / plain", "plain / squared"}
    split = clevr_xai_tables.split_half_table(results, n_splits=1)
    assert clevr_xai_summary.split_text(split, CUT, ["gradient"])["metric"].tolist() == ["mass", "rank"]
    masks = clevr_xai_summary.mask_text(clevr_xai_subsets.mask_table(results.predictions, 64 * 64))
    assert masks["most"].tolist()[:2] == [144, 432]
    assert choices["place by mass"].str.startswith(tuple("12345678")).all()
    controls = clevr_xai_comparisons.control_table(results)
    assert "other image" in clevr_xai_summary.control_text(controls, MASS, ["gradient", "lrp"])
    quoted = clevr_xai_summary.likeness_text(controls, "other image")
    assert (quoted["deconvnet"], quoted["lrp"]) == ("1.00", "not run")
    assert set(clevr_xai_summary.likeness_text(controls.head(0), "other image").values()) == {"not run"}


def test_the_prose_s_numbers_are_plain_and_finite(results: clevr_xai.Results, paper: pd.DataFrame) -> None:
    split = clevr_xai_tables.split_half_table(results, n_splits=2)
    quoted = clevr_xai_summary.quotable(results, paper, split)
    assert (quoted["n_asked"], quoted["n_right"], quoted["n_counted"]) == (30, 24, 18)
    assert quoted["n_methods"] == 9
    assert quoted["answers"]["simple"] == {"n": 15, "accuracy": pytest.approx(0.8)}
    assert quoted["best"]["mass"]["method"] in set(paper["paper_method"])
    assert quoted["discarded"] > 0
    finite = results._replace(scores=results.scores[results.scores["flag"] == "ok"])
    assert clevr_xai_summary.quotable(finite, paper, split)["discarded"] == 0


def test_tidy_scores_have_a_row_per_score(results: clevr_xai.Results) -> None:
    table = clevr_xai_summary.tidy_scores(results)
    wanted = [
        "benchmark",
        "preset",
        "data",
        "model",
        "method",
        "options",
        "metric",
        "pooling",
        "value",
        "flag",
    ]
    assert set(wanted) <= set(table)
    assert len(table) == len(results.scores[results.scores["correct"]]) * len(POOLINGS)


def test_examples_and_galleries_show_questions_with_their_masks(
    results: clevr_xai.Results, paper: pd.DataFrame
) -> None:
    examples = clevr_xai_examples.examples(results)
    assert len(examples) == 6
    assert examples[0].masks.keys() == {"single"}
    assert examples[-1].masks.keys() == {"unique", "union"}
    right = clevr_xai_examples.gallery(results, paper, right=True)
    assert list(right.heatmaps)[-1] == "centre"
    assert {maps.shape for maps in right.heatmaps.values()} == {(3, 64, 64)}
    wrong = clevr_xai_examples.gallery(results, paper, right=False)
    assert all(", not " in title for title in wrong.titles)
    none = clevr_xai_examples.gallery(results._replace(wrong={}), paper, right=False)
    assert (none.titles, clevr_xai_examples.question_list(none)) == ([], "none")
    assert clevr_xai_examples.question_list(right).startswith("(1) What shape")


def test_an_example_s_outline_lies_around_its_object(results: clevr_xai.Results, paper: pd.DataFrame) -> None:
    example = clevr_xai_examples.examples(results)[0]
    image = clevr_xai_examples.gallery(results, paper, right=True).images[0]
    changed = (image != example.image).any(axis=2)
    assert changed.any()
    assert not (changed & example.masks["single"]).any()


def test_findings_cover_what_was_run(results: clevr_xai.Results) -> None:
    found = {finding.key: finding for finding in clevr_xai_findings(results)}
    assert "integrated_gradients_beats_deconvnet" in found
    assert "last_mass" in found
    assert "top_mass" not in found  # LRP was not run
    assert found["deconvnet_constant"].answer == "yes"
    assert found["mass_and_rank"].quantity.startswith("Kendall's tau")
    assert any(key.startswith("smoothgrad_noise_0_2") for key in found)
    assert {"confidence_mass", "length_rank", "size_mass"} <= set(found)
    assert len(findings_table(list(found.values()))) == len(found)


def test_two_groups_are_separate_only_when_no_member_crosses() -> None:
    noise = np.random.default_rng(0).normal(scale=0.01, size=(40, 4))
    values = pd.DataFrame(noise + np.array([0.9, 0.8, 0.3, 0.2]), columns=list("abcd"))
    shared = {"source": "x", "quantity": "mass"}
    clear = separate("k", "s", values, ["a", "b"], ["c", "d"], **shared)
    assert (clear.answer, clear.n) == ("yes", 40)
    assert clear.estimate == pytest.approx(0.5, abs=0.01)
    assert clear.quantity == "mass: least of a, b minus largest of the others"
    assert separate("k", "s", values, ["a", "c"], ["b", "d"], **shared).answer == "no"


def test_numbers_go_together_in_the_direction_that_is_said() -> None:
    x = np.arange(30.0)
    noisy = x + np.random.default_rng(0).normal(size=30)
    shared = {"source": "x", "quantity": "r"}
    assert associate("k", "s", x, noisy, sign=1, **shared).answer == "yes"
    assert associate("k", "s", x, noisy, sign=-1, **shared).answer == "no"
    assert associate("k", "s", np.ones(30), noisy, sign=1, **shared).answer == "undecided"
    few = associate("k", "s", x[:2], noisy[:2], sign=1, **shared)
    assert (few.answer, few.n) == ("undecided", 2)


def test_maps_that_add_up_are_told_what_is_missing(
    tiny: None, results: clevr_xai.Results, settings: clevr_xai.Settings, tmp_path: Path
) -> None:
    options = {"integrated-gradients": {"n_steps": 64}}
    few = {"methods": ["integrated-gradients", "lrp", "gradient"], "options": options, "variants": []}
    run = settings.model_copy(update={**few, "n_complex": 0, "n_simple": 5, "n_controls": 0})
    table = conservation_table(clevr_xai.run(run, ResultsStore(tmp_path)))
    parts = table.groupby("method")
    assert set(parts.groups) == {"integrated-gradients", "lrp"}
    integral = parts.get_group("integrated-gradients")
    assert (integral["gap"] < 0.06).all()
    assert np.allclose((integral["image"] - 1).abs(), integral["gap"], atol=1e-5)
    relevance = parts.get_group("lrp")
    ends = relevance[["image", "words", "coordinates", "biases"]].astype(float)
    assert np.allclose(ends.sum(axis=1), 1, atol=1e-4)
    coarse = conservation_table(results)
    assert coarse.loc[coarse["method"] == "integrated-gradients", "gap"].max() > integral["gap"].max()


def test_published_scores_have_a_source() -> None:
    table = published_scores("clevr_xai")
    assert set(table["source"]) == {"arras2022clevr"}
    assert set(table["comparable"]) == {"no"}
    assert table["value"].tolist() == [0.27, 0.27]
