"""Findings of the chapter: what is asked, of which numbers, and what decides."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from heatcheck.benchmarks import idsds, idsds_design_findings, idsds_findings
from heatcheck.benchmarks.findings import Finding
from heatcheck.benchmarks.idsds import Results
from heatcheck.benchmarks.idsds_scores import Score, single_score
from heatcheck.benchmarks.idsds_sweeps import output_table
from heatcheck.models.registry import MODELS, Classifier, Normalization, register_model
from heatcheck.runtime.store import ResultsStore

MODEL = "toy-patches"
IXG, PATH = "input-x-gradient", "integrated-gradients"


def by_key(found: list[Finding]) -> dict[str, Finding]:
    keys = [one.key for one in found]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, found, strict=True))


@pytest.fixture(scope="module")
def found(results: Results, scores: list[Score]) -> dict[str, Finding]:
    return by_key(idsds_findings.idsds_findings(results, scores))


@pytest.fixture
def headline(results: Results) -> Score:
    return single_score(results.final(MODEL), results.headline)


def with_values(score: Score, columns: dict[tuple[str, str], list[float]]) -> Score:
    """``score`` with other columns; one row per value."""
    count = len(next(iter(columns.values())))
    values = pd.DataFrame(columns, index=score.values.index[:count])
    values.columns = pd.MultiIndex.from_tuples(list(columns), names=["method", "transform"])
    return score._replace(values=values)


def test_every_finding_has_a_statement_a_source_and_a_known_answer(found: dict[str, Finding]) -> None:
    for one in found.values():
        assert one.statement.endswith(".")
        assert one.source in ("hesse2024benchmarking", "this book", "decaf2026")
        assert one.answer in ("yes", "no", "undecided")
        assert one.n > 0


def test_a_linear_model_scores_exactly_one(found: dict[str, Finding]) -> None:
    one = found["linear_is_perfect"]
    assert one.answer == "yes"
    assert (one.low, one.high) == pytest.approx((1, 1), abs=1e-12)


def test_methods_that_were_not_run_are_not_spoken_of(found: dict[str, Finding]) -> None:
    assert "ig_beats_ixg" in found
    assert not {"uniform_beats_zero", "rise_beats_uniform", "shap_is_high"} & set(found)


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [([0.9, 0.8, 0.9], [0.1, 0.2, 0.1], "yes"), ([0.1, 0.2, 0.1], [0.9, 0.8, 0.9], "no"),
     ([0.1, 0.9, 0.1], [0.9, 0.1, 0.2], "undecided")],
)  # fmt: skip
def test_the_first_of_a_pair_is_said_to_score_higher(
    headline: Score, first: list[float], second: list[float], answer: str
) -> None:
    score = with_values(headline, {(PATH, "raw"): first, (IXG, "raw"): second})
    (one,) = idsds_findings.pair_findings(score)
    assert (one.key, one.answer) == ("ig_beats_ixg", answer)
    assert one.estimate == pytest.approx(np.mean(first) - np.mean(second))
    assert one.quantity == "IDSDS: IG minus IxG"


def test_protocols_and_deletion_values_are_compared(found: dict[str, Finding]) -> None:
    assert {"agree_sds", "agree_ids", "agree_fill_random", "agree_fill_wide_blur", "grid_8"} <= set(found)
    assert "grid_2" not in found  # only finer grids are said to lower scores
    assert "ids_prefers_abs" in found


def test_true_drops_without_their_sign_are_compared_with_the_best_method(found: dict[str, Finding]) -> None:
    assert "absolute true drops minus" in found["sign_matters"].quantity


def test_noise_must_lower_the_score_at_every_step() -> None:
    table = pd.DataFrame(
        {
            "method": "true drops",
            "transform": "raw",
            "row": "true drops",
            "noise": [0.0, 1.0, 2.0],
            "mean": [1.0, 0.5, 0.45],
            "n": 9,
            "change": [np.nan, -0.5, -0.05],
            "change_low": [np.nan, -0.6, -0.2],
            "change_high": [np.nan, -0.4, 0.1],
        }
    )
    one = idsds_findings.monotone_finding(table)
    assert (one.answer, one.estimate) == ("undecided", -0.05)
    steep = idsds_findings.monotone_finding(table.assign(change_high=[np.nan, -0.4, -0.01]))
    assert steep.answer == "yes"
    assert len(idsds_findings.degradation_findings(table)) == 1


def test_the_best_method_for_probabilities_decides_about_softmax(results: Results) -> None:
    table = output_table(results)
    (one,) = idsds_findings.output_findings(table)
    raw = table[(table["output"] == "probability") & (table["transform"] == "raw")]
    best = raw.sort_values("mean").to_dict("records")[-1]
    assert one.estimate == pytest.approx(best["difference"])
    assert idsds_findings.output_findings(output_table(None)) == []


def homogeneous_network() -> nn.Sequential:
    """No biases: twice the input gives twice the output; global average, one linear layer."""
    generator = torch.Generator().manual_seed(5)
    module = nn.Sequential(
        nn.Conv2d(3, 6, 5, stride=4, padding=2, bias=False),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 8, bias=False),
    )
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) / 3)
    return module.eval()


@pytest.fixture(scope="module")
def family(registered: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Two toy models beside a tuned one: one without biases, and one more."""
    names = tuple(f"class {number}" for number in range(8))

    def homogeneous() -> Classifier:
        scale = Normalization((0.5,) * 3, (0.25,) * 3)
        return Classifier("toy-x", homogeneous_network(), 64, scale, names)

    before = dict(MODELS)
    register_model("toy-x")(homogeneous)
    settings = idsds.Settings(
        methods=[IXG, PATH, "grad-cam", "xgrad-cam", "random"],
        options={PATH: {"n_steps": 3}},
        models=[MODEL, "toy-x", "toy-patches-tuned"],
        tuned={MODEL: "toy-patches-tuned"},
        n_images=10,
        device="cpu",
    )
    yield idsds.run(settings, ResultsStore(Path(tmp_path_factory.mktemp("family"))))
    MODELS.clear()
    MODELS.update(before)


@pytest.fixture(scope="module")
def about_models(family: Results) -> dict[str, Finding]:
    factors = {
        "depth": [MODEL, "toy-x"],
        "bias": [MODEL, "toy-x"],
        "width": ["toy-x", "not-run"],
        "color": [MODEL, "toy-x"],
    }
    return by_key(idsds_design_findings.design_findings(family, factors))


def test_without_biases_two_methods_are_one(about_models: dict[str, Finding]) -> None:
    one = about_models["input_x_gradient_is_integrated_gradients_toy_x"]
    assert one.answer == "yes"
    assert one.high < 1e-4
    # The other toy networks have biases, so nothing is said of them.
    assert sum("integrated_gradients" in key for key in about_models) == 1


def test_averaged_maps_make_two_activation_maps_one(about_models: dict[str, Finding]) -> None:
    assert about_models["grad_cam_is_xgrad_cam_toy_x"].answer == "yes"
    assert about_models["grad_cam_is_xgrad_cam_toy_patches"].answer == "yes"


def test_a_factor_compares_its_last_model_with_its_first(
    family: Results, about_models: dict[str, Finding]
) -> None:
    scores = {name: single_score(family.final(name), family.headline) for name in (MODEL, "toy-x")}
    columns = [(name, "raw") for name in (IXG, PATH, "grad-cam", "xgrad-cam")]
    means = {name: score.values[columns].mean(axis=1, skipna=False).mean() for name, score in scores.items()}
    for factor in ("depth", "bias"):
        one = about_models[f"factor_{factor}"]
        assert one.estimate == pytest.approx(means["toy-x"] - means[MODEL])
        assert "mean of 4 raw maps" in one.statement
    # One asks for less, the other for more: they cannot both hold.
    assert {about_models["factor_depth"].answer, about_models["factor_bias"].answer} in (
        {"yes", "no"},
        {"undecided"},
    )
    assert not {"factor_width", "factor_color"} & set(about_models)


def test_fine_tuning_is_judged_over_all_models_that_have_both_stages(
    family: Results, about_models: dict[str, Finding]
) -> None:
    right = [
        subject.tables[family.headline].correct.double()
        for subject in family.subjects
        if subject.studied.model == MODEL
    ]
    gaps = [float((table[:, 0] - table[:, 1:].mean(1)).mean()) for table in right]
    assert about_models["gap_shrinks"].estimate == pytest.approx(gaps[1] - gaps[0])
    assert "mean of 1 models" in about_models["gap_shrinks"].quantity


def test_orders_are_asked_for_on_average_over_models(
    family: Results, about_models: dict[str, Finding]
) -> None:
    values = [single_score(family.final(name), family.headline).values for name in family.settings.models]
    difference = np.mean([table[PATH, "raw"].mean() - table[IXG, "raw"].mean() for table in values])
    assert about_models["all_ig_beats_ixg"].estimate == pytest.approx(difference)


def test_a_trade_off_needs_several_models(about_models: dict[str, Finding]) -> None:
    assert "trade_off" not in about_models


def test_a_trade_off_is_a_rank_correlation_over_models(
    family: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idsds_design_findings, "_MIN_MODELS", 3)
    one = by_key(idsds_design_findings.design_findings(family, {}))["trade_off"]
    assert -1 <= one.low <= one.estimate <= one.high <= 1
    assert "over 3 models" in one.quantity
