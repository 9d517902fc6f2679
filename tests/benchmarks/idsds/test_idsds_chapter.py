"""What the chapter shows: examples, tables over models, tables as text, and numbers for the prose."""

import numpy as np
import pandas as pd
import pytest
import torch

from heatcheck.benchmarks import idsds_design, idsds_examples, idsds_summary, idsds_text
from heatcheck.benchmarks.findings import Answer, Finding
from heatcheck.benchmarks.idsds import Results
from heatcheck.benchmarks.idsds_alignment import alignment_table, difference_table
from heatcheck.benchmarks.idsds_extras import ORACLE, oracle_table, resolution_rows
from heatcheck.benchmarks.idsds_published import published_backbones, published_value
from heatcheck.benchmarks.idsds_scores import Score, single_score
from heatcheck.benchmarks.idsds_sweeps import output_table
from heatcheck.benchmarks.idsds_tables import compare_transforms
from heatcheck.runtime.store import ResultsStore

MODEL = "toy-patches"


def test_an_example_shows_the_score_of_the_run(results: Results) -> None:
    subject = results.final(MODEL)
    values = single_score(subject, results.headline).values
    for name in ("input-x-gradient", "grad-cam"):
        row = idsds_examples.typical_image(subject, results, name)
        example = idsds_examples.patch_example(results, subject, row, [name])
        (one,) = example.explained
        assert one.rho == pytest.approx(values[name, "raw"].iloc[row], abs=1e-6)
        assert one.heatmap.shape == (64, 64)
        assert one.sums == pytest.approx(one.heatmap.reshape(4, 16, 4, 16).sum((1, 3)), rel=1e-4, abs=1e-5)
        assert sorted(one.drop_ranks.ravel()) == list(range(1, 17))
        assert example.image.min() >= 0
        assert example.image.max() <= 1
        assert example.name == subject.ids[row]


def test_a_typical_image_is_near_the_mean(results: Results) -> None:
    subject = results.final(MODEL)
    values = single_score(subject, results.headline).values["grad-cam", "raw"]
    row = idsds_examples.typical_image(subject, results, "grad-cam")
    distances = (values - values.mean()).abs()
    assert distances.iloc[row] == distances.min()
    assert idsds_examples.typical_image(subject, results, "constant") == 0  # no image has a score


def test_examples_of_a_method_that_was_not_run_are_refused(results: Results) -> None:
    with pytest.raises(ValueError, match="no heatmaps of rise"):
        idsds_examples.patch_example(results, results.final(MODEL), 0, ["rise"])


def test_shown_methods_are_those_that_were_run(results: Results) -> None:
    subject = results.final(MODEL)
    assert idsds_examples.shown_methods(subject, ["rise", "grad-cam"]) == ["grad-cam"]
    assert idsds_examples.shown_methods(subject, ["rise"]) == list(subject.studied.methods[:3])


def test_the_gallery_begins_with_the_best_method_and_ends_with_controls(results: Results) -> None:
    subject = results.final(MODEL)
    pictures, maps, titles = idsds_examples.patch_gallery(results, subject, n=2)
    assert pictures.shape == (2, 64, 64, 3)
    assert len(titles) == 2
    names = list(maps)
    assert set(names[-3:]) == {"random", "centre", "constant"}
    values = single_score(subject, results.headline).values
    means = {name: float(values[name, "raw"].mean()) for name in names[:-3]}
    assert names[0] == max(means, key=lambda name: np.nan_to_num(means[name], nan=-2))


def test_the_table_of_methods_has_published_values_beside(results: Results) -> None:
    table = idsds_summary.method_table(results)
    rows = table.set_index("row")
    assert rows.loc["IxG", "published"] == "0.070"
    assert rows.loc["IxG", "published_model"] == "ResNet-50"
    assert rows.loc["IG-SG-SQ", "published"] == "0.073 or 0.075"
    assert rows.loc["random", "published"] == ""
    assert list(dict.fromkeys(table["kind"])) == ["in the study", "not in it", "control"]
    for _, part in table.groupby("kind"):
        means = part["mean"].dropna()
        assert list(means) == sorted(means, reverse=True)
    score = single_score(results.final(MODEL), results.headline)
    assert rows.loc["IG abs.", "mean"] == pytest.approx(score.values["integrated-gradients", "abs"].mean())
    assert rows.loc["constant", "n_excluded"] == 12


def test_methods_of_special_networks_stand_beside_their_published_network() -> None:
    assert published_value("bagnet", "raw") == {"published": "0.797", "published_model": "BagNet-33"}
    assert published_value("b-cos", "raw") == {"published": "0.314", "published_model": "B-cos ResNet-50"}
    assert published_value("attention-rollout", "raw")["published"] == "0.048"
    assert published_value("sobel", "raw") == {"published": "", "published_model": ""}


def test_published_backbones_are_those_of_the_study() -> None:
    table = published_backbones().set_index("method")
    assert table.loc["IG-U", "VGG-16"] == 0.475
    assert table.loc["IG", "R152"] == 0.157
    assert "IG-SG-SQ / VG, lower" in table.index
    assert len(table.columns) == 9


def test_conditions_begin_with_the_headline(results: Results, scores: list[Score]) -> None:
    table = idsds_summary.condition_table(results, scores)
    assert list(dict.fromkeys(table["condition"])) == [
        "headline",
        "positive drops",
        "linear",
        "2 x 2",
        "8 x 8",
        "fill random",
        "fill wide-blur",
        "sets of 2",
        "sets of 4",
    ]
    assert "constant" not in set(table["method"])
    headline = table[(table["condition"] == "headline") & ~table["is_control"]]
    assert headline["mean"].is_monotonic_decreasing


def test_protocols_rank_the_same_methods_without_twins(results: Results, scores: list[Score]) -> None:
    table = idsds_summary.protocol_table(results, scores)
    assert list(dict.fromkeys(table["protocol"])) == ["IDS ascending", "IDS descending", "SDS", "IDSDS"]
    rows = [set(part["row"]) for _, part in table.groupby("protocol")]
    # Grad-CAM is never negative, so its absolute map is the raw one and does not count twice.
    assert rows == [{"IxG", "IxG abs.", "IG", "IG abs.", "Grad-CAM"}] * 4
    for _, part in table.groupby("protocol"):
        assert sorted(part["rank"]) == pytest.approx([1, 2, 3, 4, 5])


def test_a_single_protocol_has_no_table_of_ranks(results: Results, scores: list[Score]) -> None:
    assert idsds_summary.protocol_table(results, scores[:1]).empty


def test_signed_methods_are_those_that_absolute_values_change(results: Results) -> None:
    score = single_score(results.final(MODEL), results.headline)
    table = idsds_summary.signed_only(compare_transforms(score), score)
    assert {"input-x-gradient", "integrated-gradients"} <= set(table["method"])
    assert not {"grad-cam", "random", "ig-vargrad"} & set(table["method"])


def test_leading_methods_stand_once_with_their_better_transform(results: Results) -> None:
    score = single_score(results.final(MODEL), results.headline)
    found = idsds_summary.leading_columns(score, n=3)
    assert len({method for method, _ in found}) == 3
    means = score.values.mean()
    assert [means[column] for column in found] == sorted((means[column] for column in found), reverse=True)
    assert all(means[method, "raw"] <= means[method, own] + 1e-12 for method, own in found)


def test_parts_by_confidence_have_names_of_their_own(results: Results) -> None:
    subject = results.final(MODEL)
    score = single_score(subject, results.headline)
    columns = [("grad-cam", "raw"), ("input-x-gradient", "abs")]
    table = idsds_summary.breakdown(results, subject, score, columns, "confidence")
    assert list(dict.fromkeys(table["row"])) == ["Grad-CAM", "IxG abs."]
    assert table["group"].nunique() == 4
    by_class = idsds_summary.breakdown(results, subject, score, columns, "class")
    assert set(by_class["group"]) <= set(subject.studied.explained.classifier.classes)


def test_degradations_begin_with_the_true_drops(results: Results) -> None:
    table = idsds_summary.degradations(results, results.final(MODEL), [("grad-cam", "raw")])
    assert list(dict.fromkeys(table["row"])) == [ORACLE, "Grad-CAM"]


def test_a_design_table_follows_the_factors(results: Results) -> None:
    factors = {"depth": ["toy-patches", "not-run"], "nothing": ["not-run"]}
    table = idsds_design.design_table(results, factors)
    assert set(table["factor"]) == {"depth"}
    assert set(table["model"]) == {"toy-patches"}
    assert idsds_summary.drawn_design(table).empty  # one model is no comparison


def test_quality_is_that_of_the_best_general_method(results: Results) -> None:
    (row,) = idsds_design.quality_table(results).to_dict("records")
    subject = results.final(MODEL)
    score = single_score(subject, results.headline)
    general = score.values[idsds_design.general_methods(score)].to_numpy(dtype=float)
    assert row["mean"] == pytest.approx(np.nanmax(np.nanmean(general, 0)))
    right = subject.tables[results.headline].correct[:, 0].double().mean()
    assert row["accuracy"] == pytest.approx(float(right))
    linear = single_score(subject, results.headline, rule="linear").values
    same = linear[[(row["method"], row["transform"])]].to_numpy(dtype=float)
    assert row["linear"] == pytest.approx(float(np.nanmean(same)))
    assert idsds_design.best_column(score, []) is None
    assert idsds_design.best_column(score, [("constant", "raw")]) is None


def test_published_quality_has_all_networks_of_the_published_plot() -> None:
    table = idsds_design.published_quality()
    assert len(table) == 10
    rows = {str(row["model"]): row for row in table.to_dict("records")}
    assert (rows["ViT-B/16"]["accuracy"], rows["ViT-B/16"]["mean"]) == (0.827, 0.15)


def test_cells_hold_rows_of_the_study_alone(results: Results) -> None:
    grid = idsds_summary.model_cells(results)
    assert list(grid.index) == ["toy-patches"]
    assert "IG abs." in grid
    assert not {"random", "grad-cam abs.", "half-broken"} & set(grid.columns)


def test_accuracy_stands_before_and_after_in_one_row(results: Results, store: ResultsStore) -> None:
    table = idsds_text.alignment_text(alignment_table(results))
    assert list(table["images"]) == ["test", "train"]
    assert table.columns[2:].tolist() == [
        f"{what}, {when}" for when in ("before", "after") for what in ("intact", "deleted", "gap")
    ]
    moved = idsds_text.difference_text(difference_table(results, store))
    assert list(moved["model"]) == ["toy-patches"]
    assert "no model" in str(idsds_text.difference_text(pd.DataFrame()).iloc[0, 0])


def test_spans_are_empty_where_nothing_is_known() -> None:
    table = pd.DataFrame({"mean": [0.5, np.nan], "low": [0.25, np.nan], "high": [1.0, np.nan]})
    assert list(idsds_text.span_text(table)) == ["0.500 [0.250, 1.000]", ""]


def test_outputs_stand_side_by_side(results: Results) -> None:
    table = idsds_text.output_text(output_table(results)).set_index("method")
    assert table.columns.tolist() == [
        "logit ↑",
        "probability ↑",
        "drop of the probability ↑",
        "probability minus logit",
    ]
    assert "IxG abs." in table.index
    assert idsds_text.output_text(output_table(None)).iloc[0, 0] == "not run"


def test_agreement_and_incremental_scores_as_text(results: Results, scores: list[Score]) -> None:
    table = idsds_text.agreement_text(results, scores)
    assert "SDS and IDSDS" in set(table["protocols"])
    assert set(table["maps"]) <= {"all", "raw", "absolute"}
    assert "too few" in str(idsds_text.agreement_text(results, scores[:1]).iloc[0, 0])
    deleted = idsds_text.incremental_text(results, scores)
    assert {"IDS ascending ↑", "IDS ascending updated ↑", "IDS descending ↓"} < set(deleted.columns)
    assert deleted.set_index("method").loc["IG", "IDS ascending updated ↑"] == ""
    assert idsds_text.incremental_text(results, scores[:1]).iloc[0, 0] == "not run"


def test_quality_as_text_has_own_maps_in_their_own_column() -> None:
    shared = {"accuracy": 0.5, "transform": "raw", "mean": 0.25, "low": 0.0, "high": 0.5, "linear": 0.75}
    rows = [
        {"model": "a", "source": "general", "method": "integrated-gradients", **shared},
        {"model": "b", "source": "general", "method": "grad-cam", **shared},
        {"model": "b", "source": "own map", "method": "bagnet", **shared},
    ]
    table = idsds_text.quality_text(pd.DataFrame(rows)).set_index("network")
    assert table.loc["a", "own map, IDSDS ↑"] == ""
    assert table.loc["b", "own map, IDSDS ↑"] == "BagNet 0.25 [0.00, 0.50]"
    assert table.loc["b", "own map, linear ↑"] == "0.75"
    assert table.loc["b", "best general method, IDSDS ↑"] == "Grad-CAM 0.25 [0.00, 0.50]"
    assert table.loc["a", "accuracy"] == "50.0 %"


def test_quoted_numbers_are_those_of_the_run(results: Results) -> None:
    subject = results.final(MODEL)
    methods = idsds_summary.method_table(results)
    quoted = idsds_summary.quotable(results, methods, oracle_table(results, subject))
    drops = subject.tables[results.headline].responses.drops()
    assert quoted["n_images"] == 12
    assert quoted["negative_drops"]["tuned"] == pytest.approx(float((drops < 0).double().mean()))
    faint = drops.abs() < 0.01 * drops.abs().amax(1, keepdim=True)
    assert quoted["faint_drops"] == pytest.approx(float(torch.as_tensor(faint).double().mean()))
    controls = methods[methods["kind"] == "control"]["mean"].max()
    general = methods[methods["kind"].isin(["in the study", "not in it"])]
    assert quoted["n_below_control"] == int((general["mean"] <= controls).sum())
    assert quoted["untuned"] == "original"


def test_answers_are_counted() -> None:
    answers: tuple[Answer, ...] = ("yes", "no", "yes", "undecided")
    found = [
        Finding(str(place), "", "", answer, "", 0.0, 0.0, 0.0, 1) for place, answer in enumerate(answers)
    ]
    assert idsds_text.answer_counts(found) == {"n_asked": 4, "n_yes": 2, "n_no": 1, "n_undecided": 1}


def test_the_readable_difference_is_that_of_the_images_of_the_run(results: Results) -> None:
    table = resolution_rows(single_score(results.final(MODEL), results.headline), counts=(12, 100))
    assert idsds_text.readable(table, 12) == f"{table['readable'].iloc[0]:.3f}"
    assert idsds_text.readable(table, 7) == "an unknown amount"


def test_networks_are_shown_by_their_short_names() -> None:
    assert idsds_design.short_name("small/resnet8-wide") == "resnet8-wide"
    assert idsds_design.short_name("resnet50") == "resnet50"
