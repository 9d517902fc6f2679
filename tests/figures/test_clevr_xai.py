import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from heatcheck.figures.clevr_xai import (
    accuracy_figure,
    answers_figure,
    controls_figure,
    pooling_figure,
    subsets_figure,
    variants_figure,
)
from heatcheck.figures.questions import questions_figure

METRICS = ("relevance-mass", "relevance-rank")
METHODS = (("lrp", "LRP"), ("gradient-squared", "Gradient"), ("centre", "centre"))
Draw = Callable[[pd.DataFrame], Figure]


def draw(figure: Figure) -> None:
    figure.draw_without_rendering()


@pytest.fixture
def accuracy() -> pd.DataFrame:
    cases = itertools.product(("single", "all"), METRICS, enumerate(METHODS))
    rows = [
        (truth, metric, method, paper, 0.2 * (3 - place), 0.1, 0.7, 0.05, method == "centre")
        for truth, metric, (place, (method, paper)) in cases
    ]
    names = [
        "ground_truth",
        "metric",
        "method",
        "paper_method",
        "mean",
        "low",
        "high",
        "chance",
        "is_control",
    ]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture
def poolings() -> pd.DataFrame:
    names = ("sum,abs", "max-norm", "l2-norm,sq")
    rows = [
        (metric, method, name, 0.1 + 0.2 * place, place == 2)
        for metric, (method, _), (place, name) in itertools.product(METRICS, METHODS, enumerate(names))
    ]
    return pd.DataFrame(rows, columns=["metric", "method", "pooling", "mean", "best"])


@pytest.fixture
def subsets() -> pd.DataFrame:
    kinds = {"confidence": ("0 to 0.5", "0.99 to 1"), "target size": ("smallest", "middle", "largest")}
    rows = [
        (by, subset, method, 7, 0.3, 0.2, 0.4)
        for by, names in kinds.items()
        for subset, (method, _) in itertools.product(names, METHODS)
    ]
    return pd.DataFrame(rows, columns=["by", "subset", "method", "n", "mean", "low", "high"])


@pytest.fixture
def controls() -> pd.DataFrame:
    cases = itertools.product(("other question", "other answer"), METHODS, ("spearman", "relevance-mass"))
    rows = [(experiment, method, measure, 0.4, 0.3, 0.6) for experiment, (method, _), measure in cases]
    return pd.DataFrame(rows, columns=["experiment", "method", "measure", "mean", "low", "high"])


@pytest.fixture
def variants() -> pd.DataFrame:
    cases = itertools.product(METRICS, (("lrp", "lrp-epsilon"), ("grad-cam", "conv4"), ("grad-cam", "bn4")))
    rows = [(method, label, metric, 0.4, 0.3, 0.6, label == "bn4") for metric, (method, label) in cases]
    return pd.DataFrame(rows, columns=["method", "label", "metric", "mean", "low", "high", "is_main"])


FIGURES: list[tuple[Draw, str]] = [
    (accuracy_figure, "accuracy"),
    (pooling_figure, "poolings"),
    (lambda table: subsets_figure(table, ylabel="mass"), "subsets"),
    (controls_figure, "controls"),
    (variants_figure, "variants"),
]


@pytest.mark.parametrize(("function", "name"), FIGURES)
def test_a_figure_leaves_its_table_unchanged(
    function: Draw, name: str, request: pytest.FixtureRequest
) -> None:
    table = request.getfixturevalue(name)
    before = table.copy(deep=True)
    draw(function(table))
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize(("function", "name"), FIGURES)
def test_a_missing_column_is_named(function: Draw, name: str, request: pytest.FixtureRequest) -> None:
    table = request.getfixturevalue(name).drop(columns="method")
    with pytest.raises(ValueError, match="no column method; needed: "):
        function(table)


@pytest.mark.parametrize(("function", "name"), FIGURES)
def test_undefined_scores_do_not_stop_the_others(
    function: Draw, name: str, request: pytest.FixtureRequest
) -> None:
    table = request.getfixturevalue(name)
    hidden = [column for column in ("mean", "low", "high") if column in table]
    table.loc[table["method"] == "lrp", hidden] = np.nan
    draw(function(table))


@pytest.mark.parametrize(
    ("function", "name", "text"),
    [
        (accuracy_figure, "accuracy", "not asked"),
        (controls_figure, "controls", "no control experiments"),
        (variants_figure, "variants", "no settings"),
    ],
)
def test_what_was_not_run_is_said(
    function: Draw, name: str, text: str, request: pytest.FixtureRequest
) -> None:
    figure = function(request.getfixturevalue(name).head(0))
    assert text in figure.texts[0].get_text()


@pytest.mark.parametrize(("function", "name"), FIGURES[1:3])
def test_an_empty_table_is_refused(function: Draw, name: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        function(request.getfixturevalue(name).head(0))


def test_the_best_method_of_the_first_panel_stands_on_top(accuracy: pd.DataFrame) -> None:
    axis = accuracy_figure(accuracy).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["centre", "Gradient", "LRP"]


def test_variants_of_a_method_share_its_row_in_every_panel(accuracy: pd.DataFrame) -> None:
    other = accuracy["metric"] == "relevance-rank"
    accuracy.loc[other & (accuracy["method"] == "gradient-squared"), "method"] = "gradient"
    axis = accuracy_figure(accuracy).axes[2]
    dots = [line for line in axis.lines if line.get_marker() == "o"]
    assert [float(np.asarray(line.get_ydata())[0]) for line in dots] == [0, 1, 2]  # from the bottom


def test_controls_are_hollow(accuracy: pd.DataFrame) -> None:
    dots = [line for line in accuracy_figure(accuracy).axes[0].lines if line.get_marker() == "o"]
    assert [line.get_markerfacecolor() == "white" for line in dots] == [True, False, False]


def test_only_main_settings_are_filled(variants: pd.DataFrame) -> None:
    dots = [line for line in variants_figure(variants).axes[0].lines if line.get_marker() == "o"]
    assert [line.get_markerfacecolor() == "white" for line in dots] == [False, True, True]


def test_the_best_pooling_of_each_row_is_framed(poolings: pd.DataFrame) -> None:
    frames = pooling_figure(poolings).axes[0].patches
    corners = [(frame.get_x(), frame.get_y()) for frame in frames if isinstance(frame, Rectangle)]
    assert corners == [(2, 0), (2, 1), (2, 2)]


def test_the_number_of_questions_stands_below_each_subset(subsets: pd.DataFrame) -> None:
    labels = [label.get_text() for label in subsets_figure(subsets, ylabel="mass").axes[0].get_xticklabels()]
    assert labels == ["0 to 0.5\n7", "0.99 to 1\n7"]


def test_heatmaps_of_no_question_are_a_note(images: np.ndarray, heatmaps: dict[str, np.ndarray]) -> None:
    draw(answers_figure(images, heatmaps, ["red", "blue"]))
    note = answers_figure(images[:0], {}, [])
    assert "no such question" in note.texts[0].get_text()


def test_a_scene_has_its_question_answer_and_outline(images: np.ndarray) -> None:
    mask = np.zeros((12, 16), dtype=bool)
    mask[3:7, 4:9] = True
    figure = questions_figure(
        list(images),
        [{"single": mask}, {"unique": mask, "union": ~mask}],
        ["What is it?", "How many?"],
        ["red", "3"],
    )
    draw(figure)
    assert [axis.get_xlabel() for axis in figure.axes[:2]] == ["What is it?\n→ red", "How many?\n→ 3"]
    assert [len(axis.collections) for axis in figure.axes[:2]] == [1, 2]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["single", "unique", "union"]


@pytest.mark.parametrize(
    ("masks", "questions", "message"),
    [
        ([{}], ["a", "b"], "differ in number"),
        ([{}, {"single": np.ones((3, 3), dtype=bool)}], ["a", "b"], "mask 'single' is"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    images: np.ndarray, masks: list[dict[str, np.ndarray]], questions: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        questions_figure(list(images), masks, questions, ["x", "y"])
