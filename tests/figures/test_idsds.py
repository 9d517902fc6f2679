import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from heatcheck.figures.idsds import (
    baselines_figure,
    methods_figure,
    noise_figure,
    ranks_figure,
    transforms_figure,
)
from heatcheck.figures.idsds_conditions import (
    breakdown_figure,
    cells_figure,
    conditions_figure,
    degradation_figure,
)
from heatcheck.figures.idsds_models import (
    alignment_figure,
    design_figure,
    example_figure,
    quality_figure,
)

Draw = Callable[[pd.DataFrame], Figure]
ROWS = (("IG", "integrated-gradients"), ("IxG", "input-x-gradient"), ("Grad-CAM", "grad-cam"))


class Explained(NamedTuple):
    method: str
    heatmap: np.ndarray
    sums: np.ndarray
    drops: np.ndarray
    sum_ranks: np.ndarray
    drop_ranks: np.ndarray
    rho: float


def draw(figure: Figure) -> None:
    figure.draw_without_rendering()


def explained(rho: float = 0.25) -> Explained:
    random = np.random.default_rng(2)
    sums, drops = random.normal(size=(2, 4, 4))
    first, second = (values.ravel().argsort().argsort().reshape(4, 4) + 1 for values in (sums, drops))
    return Explained("grad-cam", random.normal(size=(12, 16)), sums, drops, first, second, rho)


@pytest.fixture
def methods() -> pd.DataFrame:
    rows = [
        ("IG", "in the study", "integrated-gradients", "raw", "resnet8", 0.5, 0.4, 0.6),
        ("IG abs.", "in the study", "integrated-gradients", "abs", "resnet8", 0.3, 0.2, 0.4),
        ("BagNet", "in the study", "bagnet", "raw", "bagnet9", 0.2, 0.1, 0.3),
        ("random", "control", "random", "raw", "resnet8", 0.0, -0.1, 0.1),
    ]
    names = ["row", "kind", "method", "transform", "model", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture
def transforms() -> pd.DataFrame:
    rows = [(method, 0.5, 0.3, 0.2, 0.1 * place - 0.1, 0.3) for place, (_, method) in enumerate(ROWS)]
    return pd.DataFrame(rows, columns=["method", "raw", "abs", "difference", "low", "high"])


@pytest.fixture
def noise() -> pd.DataFrame:
    cases = itertools.product(
        (("ixg-smoothgrad", "input-x-gradient"), ("ig-smoothgrad", "integrated-gradients")),
        ("raw", "abs"),
        (0.0, 0.5, 2.0),
    )
    rows = [(*pair, "IxG-SG", transform, level, 0.3, 0.2, 0.4) for pair, transform, level in cases]
    names = ["method", "base", "row", "transform", "noise", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture
def baselines() -> pd.DataFrame:
    cases = itertools.product(("zero", "uniform ±1, seed 0"), ("raw", "abs"))
    rows = [(*case, 0.3, 0.2, 0.4) for case in cases]
    return pd.DataFrame(rows, columns=["label", "transform", "mean", "low", "high"])


@pytest.fixture
def ranks() -> pd.DataFrame:
    cases = itertools.product(("IDS", "SDS", "IDSDS"), enumerate(ROWS, start=1))
    rows = [(protocol, method, "raw", row, float(rank)) for protocol, (rank, (row, method)) in cases]
    return pd.DataFrame(rows, columns=["protocol", "method", "transform", "row", "rank"])


@pytest.fixture
def conditions() -> pd.DataFrame:
    cases = itertools.product(ROWS, ("headline", "2 x 2"))
    rows = [(row, method, condition, -0.2) for (row, method), condition in cases]
    return pd.DataFrame(rows, columns=["row", "method", "condition", "mean"])


@pytest.fixture
def degradation() -> pd.DataFrame:
    named = (("true drops", "true drops"), *ROWS)
    rows = [(method, row, level, 0.5 - level, 0.1, 0.6) for row, method in named for level in (0.0, 0.5)]
    return pd.DataFrame(rows, columns=["method", "row", "noise", "mean", "low", "high"])


@pytest.fixture
def groups() -> pd.DataFrame:
    cases = itertools.product(ROWS, ("gray", "red"))
    rows = [(method, row, group, 0.3, 0.2, 0.4, 7) for (row, method), group in cases]
    return pd.DataFrame(rows, columns=["method", "row", "group", "mean", "low", "high", "n"])


@pytest.fixture
def alignment() -> pd.DataFrame:
    cases = itertools.product(("small/a", "small/b"), ("original", "tuned"), ("test", "train"))
    rows = [(*case, 0.05, 0.02, 0.08) for case in cases]
    return pd.DataFrame(rows, columns=["model", "stage", "split", "gap", "low", "high"])


@pytest.fixture
def design() -> pd.DataFrame:
    cases = itertools.product(("depth", "width"), enumerate(("small", "large")), ROWS)
    rows = [
        (factor, place, model, method, row, 0.3, 0.2, 0.4, row == "Grad-CAM")
        for factor, (place, model), (row, method) in cases
    ]
    names = ["factor", "place", "model", "method", "row", "mean", "low", "high", "is_own"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture
def quality() -> pd.DataFrame:
    rows = [
        ("a", 0.98, "general", "grad-cam", 0.5, 0.4, 0.6),
        ("b", 0.9, "general", "grad-cam", 0.3, 0.2, 0.4),
        ("b", 0.9, "own map", "bagnet", 0.8, 0.7, 0.9),
    ]
    return pd.DataFrame(rows, columns=["model", "accuracy", "source", "method", "mean", "low", "high"])


@pytest.fixture
def published() -> pd.DataFrame:
    return pd.DataFrame({"model": ["x", "y"], "accuracy": [0.7, 0.8], "mean": [0.6, 0.2]})


FIGURES: list[tuple[Draw, str, str]] = [
    (methods_figure, "methods", "row"),
    (transforms_figure, "transforms", "method"),
    (noise_figure, "noise", "base"),
    (baselines_figure, "baselines", "label"),
    (ranks_figure, "ranks", "row"),
    (conditions_figure, "conditions", "row"),
    (degradation_figure, "degradation", "row"),
    (lambda table: breakdown_figure([("By class", table)]), "groups", "group"),
    (alignment_figure, "alignment", "split"),
    (design_figure, "design", "factor"),
]


@pytest.mark.parametrize(("function", "name", "column"), FIGURES)
def test_a_figure_leaves_its_table_unchanged(
    function: Draw, name: str, column: str, request: pytest.FixtureRequest
) -> None:
    table = request.getfixturevalue(name)
    before = table.copy(deep=True)
    draw(function(table))
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize(("function", "name", "column"), FIGURES)
def test_a_missing_column_is_named(
    function: Draw, name: str, column: str, request: pytest.FixtureRequest
) -> None:
    table = request.getfixturevalue(name).drop(columns=column)
    with pytest.raises(ValueError, match=f"no column {column}; needed: "):
        function(table)


@pytest.mark.parametrize(("function", "name", "column"), [case for case in FIGURES if case[1] != "ranks"])
def test_undefined_scores_do_not_stop_the_others(
    function: Draw, name: str, column: str, request: pytest.FixtureRequest
) -> None:
    table = request.getfixturevalue(name)
    numbers = [one for one in ("mean", "raw", "abs", "difference", "gap", "low", "high") if one in table]
    table.loc[table.index[0], numbers] = np.nan
    draw(function(table))


@pytest.mark.parametrize(
    ("function", "name", "text"),
    [
        (transforms_figure, "transforms", "both raw and absolute"),
        (noise_figure, "noise", "no noise"),
        (baselines_figure, "baselines", "no baselines"),
        (ranks_figure, "ranks", "single protocol"),
        (design_figure, "design", "no factor"),
    ],
)
def test_what_was_not_run_is_said(
    function: Draw, name: str, text: str, request: pytest.FixtureRequest
) -> None:
    figure = function(request.getfixturevalue(name).head(0))
    assert text in figure.texts[0].get_text()


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (methods_figure, "methods"),
        (conditions_figure, "conditions"),
        (degradation_figure, "degradation"),
        (alignment_figure, "alignment"),
    ],
)
def test_an_empty_table_is_refused(function: Draw, name: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        function(request.getfixturevalue(name).head(0))


def test_absolute_maps_and_controls_are_hollow(methods: pd.DataFrame) -> None:
    dots = [line for line in methods_figure(methods).axes[0].lines if line.get_marker() == "o"]
    # From the bottom: control, BagNet, absolute IG, IG.
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [True, False, True, False]


def test_a_method_of_another_network_says_which(methods: pd.DataFrame) -> None:
    labels = [label.get_text() for label in methods_figure(methods).axes[0].get_yticklabels()]
    assert labels == ["random", "BagNet (bagnet9)", "IG abs.", "IG"]


def test_differences_around_zero_are_hollow(transforms: pd.DataFrame) -> None:
    right = transforms_figure(transforms).axes[1]
    dots = [line for line in right.lines if line.get_marker() == "o"]
    lows = transforms.sort_values("difference", kind="stable")["low"]
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [low <= 0 for low in lows]


def test_the_best_rank_stands_on_top(ranks: pd.DataFrame) -> None:
    bottom, top = ranks_figure(ranks).axes[0].get_ylim()
    assert bottom > top


def test_cells_show_numbers_and_stay_blank_where_there_is_none() -> None:
    grid = pd.DataFrame({"a": [0.25, np.nan], "b": [-0.001, 1.0]}, index=["x", "y"])
    texts = [text.get_text() for text in cells_figure(grid, highest=1.0).axes[0].texts]
    assert texts == ["0.25", "0.00", "1.00"]


def test_an_image_has_a_row_of_panels_per_method(images: np.ndarray) -> None:
    figure = example_figure(images[0], [explained(), explained(float("nan"))])
    draw(figure)
    assert len(figure.axes) == 10
    notes = [text.get_text() for axis in (figure.axes[4], figure.axes[9]) for text in axis.texts]
    assert notes == ["$\\rho$ = 0.25", "undefined"]
    with pytest.raises(ValueError, match="no method"):
        example_figure(images[0], [])


def test_before_is_hollow_and_after_is_filled(alignment: pd.DataFrame) -> None:
    dots = [line for line in alignment_figure(alignment).axes[0].lines if line.get_marker() == "o"]
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [True, False, True, False]


def test_own_maps_are_stars(design: pd.DataFrame, quality: pd.DataFrame, published: pd.DataFrame) -> None:
    figure = design_figure(design)
    markers = {line.get_label(): line.get_marker() for line in figure.axes[0].lines}
    assert markers["Grad-CAM"] == "*"
    assert markers["IG"] != "*"
    figure = quality_figure(quality, published)
    draw(figure)
    left = [line.get_marker() for line in figure.axes[0].lines if line.get_marker() in ("*", "o")]
    assert left == ["o", "o", "*"]
    names = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(names) == ["a", "b", "b, own map"]
    with pytest.raises(ValueError, match="nothing to draw"):
        quality_figure(quality.head(0), published)


def test_groups_show_their_number_of_images(groups: pd.DataFrame) -> None:
    labels = [label.get_text() for label in breakdown_figure([("", groups)]).axes[0].get_xticklabels()]
    assert labels == ["gray\n7", "red\n7"]
    with pytest.raises(ValueError, match="no panel"):
        breakdown_figure([])
