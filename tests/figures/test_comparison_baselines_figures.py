"""Figures about what agreement to expect draw what their tables say."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from heatcheck.figures.comparison_baselines import dendrogram_figure, smoothness_figure, stability_figure

METRICS = (("mass", "clevr_xai"), ("IDSDS", "idsds"), ("ROAR", "roar"), ("KAR", "roar"))
KINDS = ("other images", "other classifier", "other training run", "other seed", "same benchmark",
         "other benchmark")  # fmt: skip


class Tree(NamedTuple):
    order: list[str]
    linkage: np.ndarray
    labels: dict[str, int]


# roar and kar at 0.1, mass and idsds at 0.3, both pairs at 0.6.
TREE = Tree(
    ["mass", "idsds", "roar", "kar"],
    np.array([[2, 3, 0.1, 2], [0, 1, 0.3, 2], [4, 5, 0.6, 4]], dtype=float),
    {"mass": 1, "idsds": 1, "roar": 2, "kar": 2},
)
GROUPS = {"CLEVR-XAI": ["mass"], "Single deletion": ["idsds"], "Remove and retrain": ["roar", "kar"]}


def tick_texts(axis: Axes) -> list[str]:
    return [label.get_text() for label in axis.get_yticklabels()]


def x_of(line: Line2D) -> list[float]:
    return [float(x) for x in np.asarray(line.get_xdata(), dtype=float)]


def y_of(line: Line2D) -> list[float]:
    return [float(y) for y in np.asarray(line.get_ydata(), dtype=float)]


def xs(axis: Axes, marker: str) -> list[float]:
    return [x for line in axis.lines if line.get_marker() == marker for x in x_of(line)]


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


@pytest.fixture
def stability() -> pd.DataFrame:
    rows = [
        (label.lower(), label, benchmark, kind, tau + shift, tau - 0.2, tau + 0.3, -0.4, 0.4)
        for label, benchmark in METRICS
        for tau, kind in zip(np.arange(6) / 10, KINDS, strict=True)
        for shift in ((0.0, 0.2) if kind == "other benchmark" else (0.0,))
    ]  # fmt: skip
    names = ["metric", "label", "benchmark", "kind", "kendall", "low", "high", "chance_low", "chance_high"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture
def smoothness() -> pd.DataFrame:
    rows = [
        (label.lower(), label, benchmark, fact, tau, tau - 0.1, tau + 0.1, -0.4, 0.4, abs(tau) > 0.4)
        for place, (label, benchmark) in enumerate(METRICS)
        for fact, tau in (("smoothness", 0.2 * place), ("concentration", -0.2 * place), ("centrality", 0.0))
    ]
    names = ["metric", "label", "benchmark", "fact", "kendall", "low", "high", "chance_low", "chance_high"]
    return pd.DataFrame(rows, columns=[*names, "beyond_chance"])


def test_the_tree_joins_metrics_at_their_heights_in_the_order_of_the_leaves() -> None:
    figure = dendrogram_figure(TREE)
    figure.draw_without_rendering()
    axis = figure.axes[0]
    assert tick_texts(axis) == TREE.order
    # The three brackets are the upright lines over more than nothing; the dotted line of 50 % is not one.
    uprights = [
        (x_of(line)[0], *y_of(line))
        for line in axis.lines
        if len(set(x_of(line))) == 1 and len(set(y_of(line))) == 2 and line.get_linestyle() in ("-", "--")
        and line.get_linewidth() > 1
    ]  # fmt: skip
    np.testing.assert_allclose(sorted(uprights), [(0.1, 1, 0), (0.3, 3, 2), (0.6, 0.5, 2.5)])
    assert axis.get_xlim()[1] > 0.6
    assert not figure.legends


def test_both_sides_of_the_last_join_have_a_color_each() -> None:
    axis = dendrogram_figure(TREE).axes[0]
    starts = {y_of(line)[0]: line.get_color() for line in axis.lines if x_of(line)[0] == 0}
    assert starts[3] == starts[2] != starts[1] == starts[0]


def test_metrics_of_a_benchmark_share_a_marker_that_the_legend_names() -> None:
    figure = dendrogram_figure(TREE, {name: name.upper() for name in TREE.order}, groups=GROUPS)
    figure.draw_without_rendering()
    axis = figure.axes[0]
    assert tick_texts(axis) == ["MASS", "IDSDS", "ROAR", "KAR"]
    assert legend_texts(figure) == list(GROUPS)
    markers = {y_of(line)[0]: line.get_marker() for line in axis.lines if line.get_marker() != "None"}
    assert markers[1] == markers[0]
    assert len({markers[3], markers[2], markers[1]}) == 3


def test_a_metric_without_label_or_group_is_refused() -> None:
    with pytest.raises(ValueError, match="no label or no group of kar"):
        dendrogram_figure(TREE, groups={"all": ["mass", "idsds", "roar"]})
    with pytest.raises(ValueError, match="no label or no group of mass, idsds, roar"):
        dendrogram_figure(TREE, {"kar": "KAR"})


def test_stability_has_a_lane_per_metric_and_the_mean_of_each_kind(stability: pd.DataFrame) -> None:
    figure = stability_figure(stability)
    figure.draw_without_rendering()
    axis = figure.axes[0]
    assert tick_texts(axis) == ["KAR", "ROAR", "IDSDS", "mass"]
    assert legend_texts(figure) == [*KINDS, "95 % of random rankings"]
    # Two members of the last kind, at 0.5 and 0.7, have a mean and two small marks in each of four lanes.
    np.testing.assert_allclose(xs(axis, "X"), [0.6] * 4)
    np.testing.assert_allclose(xs(axis, "|"), [0.5, 0.7] * 4)
    np.testing.assert_allclose(xs(axis, "o"), [0.0] * 4, atol=1e-12)
    bands = [patch for patch in axis.patches if isinstance(patch, Rectangle)]
    assert [(band.get_x(), band.get_width()) for band in bands] == [(-0.4, 0.8)] * 4


def test_kinds_that_were_not_compared_take_no_room(stability: pd.DataFrame) -> None:
    few = stability[stability["kind"].isin(["other images", "other benchmark"])]
    figure = stability_figure(few)
    assert legend_texts(figure) == ["other images", "other benchmark", "95 % of random rankings"]
    assert figure.get_figheight() < stability_figure(stability).get_figheight()


def test_a_lone_member_has_its_interval(stability: pd.DataFrame) -> None:
    axis = stability_figure(stability[stability["kind"] == "same benchmark"]).axes[0]
    ends = [x_of(line) for line in axis.lines if line.get_linewidth() == pytest.approx(1.2)]
    np.testing.assert_allclose(np.array(ends), np.array([(0.2, 0.7)] * 4))


def test_an_unknown_kind_is_refused(stability: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="unknown kind other planet"):
        stability_figure(stability.assign(kind="other planet"))


def test_smoothness_has_a_panel_per_fact_and_hollow_marks_within_chance(smoothness: pd.DataFrame) -> None:
    figure = smoothness_figure(smoothness)
    figure.draw_without_rendering()
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "smoothness",
        "concentration",
        "centrality",
    ]
    assert tick_texts(figure.axes[0]) == ["KAR", "ROAR", "IDSDS", "mass"]
    for axis, signs in zip(figure.axes, (1, -1, 0), strict=True):
        marks = [line for line in axis.lines if line.get_marker() not in ("None", "", None)]
        assert [x_of(line)[0] for line in marks] == pytest.approx([signs * 0.2 * n for n in (3, 2, 1, 0)])
        hollow = [line.get_markerfacecolor() == "white" for line in marks]
        assert hollow == [signs == 0, True, True, True]


def test_metrics_of_different_benchmarks_are_separated(smoothness: pd.DataFrame) -> None:
    axis = smoothness_figure(smoothness).axes[0]
    heights = [
        y_of(line)[0]
        for line in axis.lines
        if x_of(line) == [0, 1] and line.get_linewidth() == pytest.approx(0.5)
    ]
    # From the top: mass | IDSDS | ROAR, KAR.
    assert heights == [2.5, 1.5]


@pytest.mark.parametrize("draw", [stability_figure, smoothness_figure])
def test_a_table_without_numbers_gives_a_notice_and_one_without_columns_is_refused(
    draw: Callable[[pd.DataFrame], Figure], stability: pd.DataFrame, smoothness: pd.DataFrame
) -> None:
    table = stability if draw is stability_figure else smoothness
    for nothing in (table.iloc[:0], table.assign(kendall=np.nan)):
        figure = draw(nothing)
        assert not figure.axes
        assert "was compared with" in figure.texts[0].get_text()
    with pytest.raises(ValueError, match="no column chance_low"):
        draw(table.drop(columns="chance_low"))


def test_tables_are_left_as_they_were(stability: pd.DataFrame, smoothness: pd.DataFrame) -> None:
    before = stability.copy(), smoothness.copy()
    stability_figure(stability)
    smoothness_figure(smoothness)
    pd.testing.assert_frame_equal(stability, before[0])
    pd.testing.assert_frame_equal(smoothness, before[1])
