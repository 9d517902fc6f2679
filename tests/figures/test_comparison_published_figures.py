import numpy as np
import pandas as pd
import pytest

from heatcheck.figures.comparison_published import published_figure


@pytest.fixture
def pairs() -> pd.DataFrame:
    nan = float("nan")
    rows = [
        ("IDSDS, A", "IDSDS, B", "other network", 17, 0.9, -0.35, 0.35),
        ("ROAR", "IDSDS", "other benchmark", 4, 0.0, -1.0, 1.0),
        ("ROAR", "IDSDS", "other benchmark", 4, 0.33, -1.0, 1.0),
        ("ROAR", "mass", "other benchmark", 1, nan, nan, nan),
    ]
    columns = ["first", "second", "relation", "n", "kendall", "chance_low", "chance_high"]
    return pd.DataFrame(rows, columns=columns)


def test_benchmarks_come_first_and_readings_of_a_pair_share_a_line(pairs: pd.DataFrame) -> None:
    figure = published_figure(pairs)
    figure.draw_without_rendering()
    (axis,) = figure.axes
    places = dict(zip([text.get_text() for text in axis.get_yticklabels()], axis.get_yticks(), strict=True))
    assert [name.split("  ·  ")[0] for name in sorted(places, key=lambda name: -places[name])] == [
        "ROAR",
        "IDSDS, A",
    ]
    points = [line for line in axis.get_lines() if line.get_marker() == "o"]
    found = {(np.asarray(line.get_xdata()).item(), np.asarray(line.get_ydata()).item()) for line in points}
    line = float(places["ROAR  ·  IDSDS  (4)"])
    assert {(0.0, line), (0.33, line)} <= found
    assert len(found) == 3


def test_points_beyond_chance_are_filled(pairs: pd.DataFrame) -> None:
    (axis,) = published_figure(pairs).axes
    filled = {
        np.asarray(line.get_xdata()).item(): line.get_markerfacecolor() != "white"
        for line in axis.get_lines()
        if line.get_marker() == "o"
    }
    assert filled == {0.0: False, 0.33: False, 0.9: True}


def test_pairs_without_a_tau_are_counted(pairs: pd.DataFrame) -> None:
    (axis,) = published_figure(pairs).axes
    assert "too few methods: 1" in axis.get_xlabel()
    (axis,) = published_figure(pairs.dropna()).axes
    assert "too few" not in axis.get_xlabel()


def test_without_any_tau_the_figure_says_so(pairs: pd.DataFrame) -> None:
    assert "no two published tables" in published_figure(pairs[pairs["n"] < 3]).texts[0].get_text()


def test_a_missing_column_and_an_unknown_relation_are_named(pairs: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="no column kendall"):
        published_figure(pairs.drop(columns="kendall"))
    with pytest.raises(ValueError, match="unknown relation cousin"):
        published_figure(pairs.assign(relation="cousin"))
