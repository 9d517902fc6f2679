"""The CLEVR-XAI benchmark: from settings to scores of heatmaps."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

from heatcheck.attribution.registry import attribute
from heatcheck.benchmarks import clevr_xai, clevr_xai_jobs, clevr_xai_shards
from heatcheck.benchmarks.clevr_xai_questions import (
    GROUND_TRUTHS_OF,
    MaskSource,
    choose_rows,
    open_questions,
    question_type,
)
from heatcheck.benchmarks.clevr_xai_scores import COLUMNS, MASS, RANK, TIES, score_heatmaps
from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank
from heatcheck.metrics.pooling import POOLINGS, pool
from heatcheck.models.catalog import get_classifier
from heatcheck.models.relation_network import RelationNetwork
from heatcheck.runtime.plugins import PluginError
from heatcheck.runtime.store import ResultsStore


def rows(table: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table


def values(table: pd.DataFrame) -> np.ndarray:
    """Scores of all poolings, rows in a fixed order."""
    names = table[["question", "ground_truth", "metric"]].astype(str).agg("/".join, axis=1)
    return table.set_index(names)[list(POOLINGS)].sort_index().to_numpy()


def test_every_method_scores_every_question_that_has_the_mask(results: clevr_xai.Results) -> None:
    for kind, truths, n in (("simple", 2, 12), ("complex", 4, 6)):
        mine = rows(results.scores, kind=kind, correct=True, metric=MASS)
        per_method = mine.groupby("method", observed=True)["question"].nunique()
        assert set(per_method.index) == set(results.settings.methods)
        assert (per_method == n).all()
        assert mine["ground_truth"].nunique() == truths
    assert set(COLUMNS) <= set(results.scores)


def test_scores_are_those_of_the_map_of_the_predicted_answer(tiny: None, results: clevr_xai.Results) -> None:
    module = get_classifier("tiny").module
    questions = open_questions("tiny", "simple").load(range(15), 64, MaskSource())
    words = (questions.tokens, questions.lengths)
    with torch.no_grad():
        predicted = module(questions.images, *words).argmax(1)
    maps = attribute("gradient", module, questions.images, predicted, forward_args=words)
    pooled = pool(maps, "l2-norm")
    for metric, function in ((MASS, relevance_mass), (RANK, relevance_rank)):
        found = rows(results.scores, method="gradient", ground_truth="single", metric=metric)
        expected = pd.Series(function(pooled, questions.masks["single"]).values, index=questions.ids)
        assert len(found) == 15
        assert np.allclose(found["l2-norm"], expected[found["question"]], atol=1e-5)


def test_wrongly_answered_questions_are_scored_apart(results: clevr_xai.Results) -> None:
    correct = results.predictions.set_index("question")["correct"]
    assert (results.scores["question"].map(correct) == results.scores["correct"]).all()
    assert 0 < (~correct).sum() < len(correct)


def test_maps_without_a_score_are_flagged_and_spoil_no_other_row(results: clevr_xai.Results) -> None:
    found = rows(results.scores, method="broken-for-some", ground_truth="single", metric=MASS)
    undefined = found["max-norm"].isna()
    assert {"nonfinite", "empty", "ok"} == set(found["flag"])
    assert undefined.equals(found["flag"] != "ok")
    constant = rows(results.scores, method="constant", ground_truth="single", metric=RANK)
    assert np.allclose(constant["max-norm"], 144 / 64**2)


def test_a_second_run_computes_nothing(
    results: clevr_xai.Results,
    settings: clevr_xai.Settings,
    store_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a finished cell was computed again")

    monkeypatch.setattr(clevr_xai_jobs, "pass_heatmaps", refuse)
    monkeypatch.setattr(clevr_xai_jobs, "score_heatmaps", refuse)
    monkeypatch.setattr(clevr_xai_jobs, "compare_maps", refuse)
    monkeypatch.setattr(clevr_xai_shards, "answer_questions", refuse)
    again = clevr_xai.run(settings, ResultsStore(store_path))
    for name in ("predictions", "scores", "variants", "controls"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(results, name))


def test_scores_depend_neither_on_the_other_methods_nor_on_the_pieces(
    results: clevr_xai.Results,
    settings: clevr_xai.Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clevr_xai_shards, "SHARD", 2)
    alone = settings.model_copy(
        update={"methods": ["vargrad"], "variants": [], "n_controls": 0, "n_complex": 0}
    )
    found = clevr_xai.run(alone, ResultsStore(tmp_path)).scores
    assert np.allclose(
        values(found), values(rows(results.scores, method="vargrad", kind="simple")), rtol=1e-5
    )


def test_memory_and_workers_change_no_score(
    results: clevr_xai.Results, settings: clevr_xai.Settings, tmp_path: Path
) -> None:
    small = {"methods": ["gradient"], "variants": [], "n_controls": 0, "n_complex": 0, "memory": "3MB"}
    found = clevr_xai.run(settings.model_copy(update=small), ResultsStore(tmp_path)).scores
    expected = rows(results.scores, method="gradient", kind="simple")
    assert np.allclose(values(found), values(expected), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["gradeint"]}, "unknown method 'gradeint'"),
        ({"methods": []}, "one or more different names"),
        ({"options": {"gradient": {"steps": 3}}}, "options of method 'gradient'"),
        ({"ground_truths": ["both"]}, "unknown ground truth 'both'; known: single"),
        ({"fixed_pooling": "mean"}, "unknown pooling 'mean'"),
        ({"variants": ["layers"]}, "unknown variants 'layers'; known: ig-baselines"),
        ({"n_simple": 0, "n_complex": 0}, "both 0; ask for some questions"),
        ({"first": "both-branches"}, "choose masks='computed'"),
        ({"data": "no-such-folder"}, "unknown data 'no-such-folder'"),
        ({"model": "resnet9"}, "unknown model 'resnet9'"),
        ({"memory": "lots"}, "memory budget 'lots' is no size"),
        ({"device": "cuda:77"}, "'cuda:77' is not available"),
        ({"ground_truths": ["unique"]}, "hold none of simple questions"),
        ({"weights": "nowhere.safetensors"}, "'nowhere.safetensors' is no file"),
        ({"weights": __file__, "complex_model": "tiny"}, "weights belong to one model"),
    ],
)
def test_settings_that_cannot_run_are_refused_by_name(
    tiny: None, settings: clevr_xai.Settings, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    changed = settings.model_copy(update={"options": {}, **change})
    with pytest.raises(ValueError, match=message):
        clevr_xai.run(changed, ResultsStore(tmp_path))
    assert not list(tmp_path.glob("*.parquet"))


def test_a_plug_in_that_is_missing_is_refused(settings: clevr_xai.Settings, tmp_path: Path) -> None:
    with pytest.raises(PluginError):
        clevr_xai.check(settings.model_copy(update={"plugins": [str(tmp_path / "none.py")]}))


def test_a_model_that_knows_no_answer_is_told(
    tiny: None, settings: clevr_xai.Settings, tmp_path: Path
) -> None:
    few = settings.model_copy(update={"n_asked": 1, "n_complex": 0})
    rows_ = choose_rows(open_questions("tiny", "simple").questions, 1, seed=0)
    while rows_[0] % 5:  # every fifth is answered wrongly
        few = few.model_copy(update={"seed": few.seed + 1})
        rows_ = choose_rows(open_questions("tiny", "simple").questions, 1, seed=few.seed)
    with pytest.raises(ValueError, match="answers none of 1 questions correctly"):
        clevr_xai.run(few, ResultsStore(tmp_path))


def test_complex_questions_may_be_answered_by_another_model(settings: clevr_xai.Settings) -> None:
    assert settings.model_of("complex") == settings.model_of("simple") == "tiny"
    other = settings.model_copy(update={"complex_model": "larger"})
    assert (other.model_of("simple"), other.model_of("complex")) == ("tiny", "larger")


def test_weights_of_the_user_s_own_take_the_place_of_the_model_s(
    tiny: None, settings: clevr_xai.Settings, tmp_path: Path
) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(9)
        state = {name: value.contiguous() for name, value in RelationNetwork(64).state_dict().items()}
    path = tmp_path / "own.safetensors"
    safetensors.torch.save_file(state, path)
    small = {"methods": ["constant"], "variants": [], "n_controls": 0, "n_complex": 0, "weights": str(path)}
    own = settings.model_copy(update={**small, "options": {}})
    with pytest.raises(ValueError, match="answers none of 15 questions"):  # that network answers otherwise
        clevr_xai.run(own, ResultsStore(tmp_path / "store"))


def test_the_embedded_questions_can_be_asked() -> None:
    for kind, truths in GROUND_TRUTHS_OF.items():
        everything = open_questions("embedded", kind)
        questions = everything.load(choose_rows(everything.questions, 3, seed=0), 128, MaskSource())
        assert questions.images.shape == (3, 3, 128, 128)
        assert tuple(questions.masks) == truths
        assert (questions.masks["all"].sum((1, 2)) > 0).all()


def test_more_questions_keep_those_of_fewer(tiny: None) -> None:
    questions = open_questions("tiny", "complex").questions
    few, more = (choose_rows(questions, n, seed=4) for n in (5, 9))
    assert more[:5] == few
    assert len(set(more)) == 9
    assert choose_rows(questions, 99, seed=4) == list(range(15))
    left_out = choose_rows(questions, 99, seed=4, drop_exist_no=True)
    assert {questions[row].answer for row in set(range(15)) - set(left_out)} <= {"no"}


def test_questions_are_told_by_what_they_ask(tiny: None) -> None:
    simple, compound = (open_questions("tiny", kind).questions[0] for kind in ("simple", "complex"))
    assert (question_type(simple), question_type(compound)) == ("query_shape", "one_hop")


def test_predictions_hold_what_the_tables_need(results: clevr_xai.Results) -> None:
    table = results.predictions
    assert table["confidence"].between(0, 1).all()
    assert (table["correct"] == (table["answer"] == table["prediction"])).all()
    simple = rows(table, kind="simple")
    assert np.allclose(simple["area single"], 144 / 64**2)
    assert (simple["objects single"] == 1).all()
    assert simple["area unique"].isna().all()
    assert (rows(table, kind="complex")["length"] == 5).all()


@pytest.mark.parametrize("signed", [True, False])
def test_every_pooling_is_scored_as_if_it_were_alone(tiny: None, signed: bool) -> None:
    questions = open_questions("tiny", "complex").load([0, 4, 8], 64, MaskSource())
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn((3, 3, 64, 64), generator=generator)
    maps = maps if signed else maps.abs()
    table = score_heatmaps(maps, questions, ["unique", "all"])
    for name in POOLINGS:
        pooled = pool(maps, name)
        for truth in ("unique", "all"):
            found = rows(table, ground_truth=truth)
            rank = relevance_rank(pooled, questions.masks[truth])
            assert np.allclose(
                rows(found, metric=MASS)[name], relevance_mass(pooled, questions.masks[truth]).values
            )
            assert np.allclose(rows(found, metric=RANK)[name], rank.values)
            assert np.allclose(rows(found, metric=TIES)[name], rank.highest - rank.lowest)


def test_what_is_shown_has_its_raw_maps(results: clevr_xai.Results) -> None:
    shown = results.right["simple"]
    assert set(shown.heatmaps) == set(results.settings.methods)
    assert {maps.shape[0] for maps in shown.heatmaps.values()} == {len(shown.questions)}
    assert shown.heatmaps["gradient"].shape[1:] == (3, 64, 64)
    assert tuple(shown.answers["question"]) == shown.questions.ids
    assert not results.wrong["simple"].answers["correct"].any()
