"""Numbers of the chapter against plain formulas: where findings point, what is best, what is counted."""

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks import (
    clevr_xai,
    clevr_xai_comparisons,
    clevr_xai_subsets,
    clevr_xai_summary,
    clevr_xai_tables,
)
from heatcheck.benchmarks import clevr_xai_findings as asked
from heatcheck.benchmarks.clevr_xai_scores import MASS, RANK
from heatcheck.benchmarks.clevr_xai_tables import Cut
from heatcheck.metrics.pooling import POOLINGS

CUT = Cut("simple", "single", MASS)
CONTROLS = ["random", "centre", "constant"]


@pytest.fixture(scope="module")
def accuracy(results: clevr_xai.Results) -> pd.DataFrame:
    return clevr_xai_tables.accuracy_table(results)


@pytest.fixture(scope="module")
def paper(results: clevr_xai.Results, accuracy: pd.DataFrame) -> pd.DataFrame:
    return clevr_xai_tables.paper_table(results, accuracy)


def constant_columns(means: dict[str, float], sign: int) -> pd.DataFrame:
    return pd.DataFrame({name: [sign * value] * 30 for name, value in means.items()})


@pytest.mark.parametrize(("sign", "answer"), [(1, "yes"), (-1, "no")])
def test_every_finding_says_yes_only_in_the_direction_it_states(
    results: clevr_xai.Results, monkeypatch: pytest.MonkeyPatch, sign: int, answer: str
) -> None:
    best = {"LRP": 0.9, "Integrated Gradients": 0.8, "Guided Backprop": 0.7, "Guided Grad-CAM": 0.6}
    ranked = constant_columns({**best, "Gradient": 0.5, "Deconvnet": 0.2, "Grad-CAM": 0.1}, sign)
    found = list(asked._orders({MASS: ranked, RANK: ranked}))
    poor = {"zero": 0.1, "noise 0.2, 2 samples": 0.1}
    good = {"mean channel": 0.9, "mean image": 0.9, "noise 0.05, 2 samples": 0.9}
    monkeypatch.setattr(asked, "_variant_values", lambda *_: constant_columns({**poor, **good}, sign))
    found += asked._settings(results)
    both = constant_columns({"lrp": 0.9, "gradient": 0.1}, sign)
    monkeypatch.setattr(asked, "control_values", lambda *_: both)
    found += asked._sensitivity(results)
    rise = np.arange(30.0)
    names = [str(number) for number in range(30)]
    facts = pd.DataFrame({"question": names, "confidence": rise, "length": -rise, "area single": rise})
    values = pd.DataFrame({"gradient": sign * rise}, index=names)
    found += asked._difficulty(results._replace(predictions=facts), {MASS: values})
    directed = [finding for finding in found if "order the methods alike" not in finding.statement]
    assert len(directed) > 20
    assert {finding.answer for finding in directed} == {answer}


def test_each_method_of_the_paper_is_its_best_variant(
    results: clevr_xai.Results, accuracy: pd.DataFrame, paper: pd.DataFrame
) -> None:
    keys = [*Cut._fields, "paper_method"]
    assert accuracy.duplicated(keys).any()
    best = accuracy.groupby(keys, observed=True)["mean"].max().to_dict()
    found = paper.set_index(keys)["mean"].to_dict()
    assert found == pytest.approx({key: best[key] for key in found}, nan_ok=True)
    values = clevr_xai_tables.paper_values(results, CUT).mean()
    assert values.to_dict() == pytest.approx({name: best[(*CUT, name)] for name in values.index})


def test_a_choice_by_chance_is_optimistic_and_a_clear_one_is_not() -> None:
    noise = np.random.default_rng(0).random((40, len(POOLINGS)))

    def split(values: np.ndarray) -> dict[str, object]:
        generator = np.random.Generator(np.random.Philox(0))
        return dict(clevr_xai_tables._split(pd.DataFrame(values, columns=list(POOLINGS)), generator, 50))

    chance = split(noise)
    assert float(str(chance["optimism"])) > 0.01
    assert float(str(chance["agreement"])) < 0.9
    clear = noise.copy()
    clear[:, 2] += 2
    found = split(clear)
    assert (found["pooling"], found["agreement"]) == (list(POOLINGS)[2], 1)
    assert found["mean"] == pytest.approx(clear[:, 2].mean())
    assert found["optimism"] == pytest.approx(0, abs=1e-12)


def test_subsets_are_what_their_names_say() -> None:
    facts = pd.DataFrame(
        {
            "area single": [0.3, 0.1, 0.2, 0.6, 0.5, 0.4],
            "confidence": [0.49, 0.5, 0.9, 0.98, 0.99, 1.0],
            "length": [12, 5, 5, 9, 12, 9],
        }
    )
    size, confidence, length = (
        clevr_xai_subsets.SUBSETS[name](facts, CUT)
        for name in ("target size", "confidence", "program length")
    )
    assert list(size) == ["middle", "smallest", "smallest", "largest", "largest", "middle"]
    expected = ["0 to 0.5", "0.5 to 0.9", "0.9 to 0.99", "0.9 to 0.99", "0.99 to 1", "0.99 to 1"]
    assert list(confidence) == expected
    assert list(length.cat.categories) == ["5", "9", "12"]


def test_a_setting_s_difference_is_its_mean_minus_that_of_the_main_one(results: clevr_xai.Results) -> None:
    cut = CUT._replace(metric=RANK)
    rows = clevr_xai_tables.select(results.scores, cut)
    own = clevr_xai_tables.pooled_values(rows, clevr_xai_tables.best_poolings(rows))["vargrad"]
    part = clevr_xai_tables.select(results.variants, cut)
    questions = list(part.loc[part["method"] == "vargrad", "question"].unique())
    table = clevr_xai_comparisons.all_variants(results)
    mine = table[(table["method"] == "vargrad") & (table["ground_truth"] == "single")]
    noisy = mine[mine["metric"] == RANK].set_index("label").loc["noise 0.2, 2 samples"]
    assert noisy["difference"] == pytest.approx(noisy["mean"] - own[questions].mean())
    assert noisy["difference_low"] <= noisy["difference"] <= noisy["difference_high"]


def test_wide_ties_and_discarded_maps_are_counted_once(
    results: clevr_xai.Results, accuracy: pd.DataFrame, paper: pd.DataFrame
) -> None:
    mine = accuracy[accuracy["method"] == "constant"].set_index(list(Cut._fields))["wide_ties"]
    assert mine[tuple(CUT._replace(metric=RANK))] == 12
    assert mine[tuple(CUT)] == 0
    scores = results.scores
    once = scores[scores["correct"] & (scores["ground_truth"] == "all") & (scores["metric"] == MASS)]
    empty = once[(once["flag"] == "empty") & ~once["method"].isin(CONTROLS)]
    split = clevr_xai_tables.split_half_table(results, n_splits=1)
    assert clevr_xai_summary.quotable(results, paper, split)["discarded"] == len(empty) > 0
