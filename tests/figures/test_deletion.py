from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from heatcheck.figures.deletion import alpha_figure, curves_figure, fill_figure, scores_figure

Draw = Callable[[pd.DataFrame], Figure]
FIGURES: list[tuple[Draw, str]] = [
    (curves_figure, "curves"),
    (scores_figure, "summary"),
    (alpha_figure, "localization"),
    (fill_figure, "fills"),
]


def draw(figure: Figure) -> None:
    figure.draw_without_rendering()


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


@pytest.mark.parametrize(("function", "name"), [pair for pair in FIGURES if pair[0] is not alpha_figure])
def test_an_empty_table_is_refused(function: Draw, name: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        function(request.getfixturevalue(name).head(0))


@pytest.mark.parametrize(("function", "name"), FIGURES)
def test_one_method_alone_can_be_drawn(function: Draw, name: str, request: pytest.FixtureRequest) -> None:
    table = request.getfixturevalue(name)
    draw(function(table[table["method"] == "rise"]))


def test_undefined_scores_do_not_stop_the_others(summary: pd.DataFrame) -> None:
    summary.loc[summary["method"] == "rise", ["mean", "low", "high"]] = np.nan
    draw(scores_figure(summary))


@pytest.mark.parametrize(("panel", "best"), [(0, "gradient"), (1, "constant")])
def test_the_best_method_stands_on_top(summary: pd.DataFrame, panel: int, best: str) -> None:
    figure = scores_figure(summary)
    assert figure.axes[panel].get_yticklabels()[-1].get_text() == best


def test_a_direction_that_is_neither_lower_nor_higher_is_refused(summary: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="'best'; allowed: lower, higher"):
        scores_figure(summary.assign(better="best"))


def test_flagged_maps_are_counted_in_the_figure(summary: pd.DataFrame) -> None:
    texts = [text.get_text() for text in scores_figure(summary).axes[0].texts]
    assert texts == ["1 of 8", "1 of 8"]


def test_each_data_set_and_direction_has_its_panel(curves: pd.DataFrame) -> None:
    both = pd.concat([curves, curves.assign(data="photographs")])
    titles = [axis.get_title(loc="left") for axis in curves_figure(both).axes]
    assert titles == [
        "Deletion, zero · scenes",
        "Insertion, blur · scenes",
        "Deletion, zero · photographs",
        "Insertion, blur · photographs",
    ]


def test_ranks_run_from_one_at_the_top(fills: pd.DataFrame) -> None:
    right = fill_figure(fills).axes[1]
    bottom, top = right.get_ylim()
    assert bottom > top
    lines = {tuple(np.asarray(line.get_ydata())) for line in right.get_lines()}
    assert {line[0] for line in lines} == {1, 2, 3, 4, 5}


def test_two_scores_for_one_fill_are_refused(fills: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="several scores for one fill"):
        fill_figure(pd.concat([fills, fills]))


def test_the_chosen_threshold_is_marked(localization: pd.DataFrame) -> None:
    axis = alpha_figure(localization).axes[0]
    marked = [
        line
        for line in axis.get_lines()
        if line.get_marker() == "o" and len(np.asarray(line.get_xdata())) == 1
    ]
    assert [float(np.asarray(line.get_xdata())[0]) for line in marked] == [0.3] * 5
