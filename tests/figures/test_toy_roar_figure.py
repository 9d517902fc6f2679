import itertools

import numpy as np
import pandas as pd
import pytest

from heatcheck.figures.toy_roar import toy_figure

RANKINGS = ("ground-truth", "inverted", "weight-times-input", "my-ranking")


@pytest.fixture
def summary() -> pd.DataFrame:
    cases = itertools.product(RANKINGS, (True, False), ("closed form", "measured"), (0.0, 0.5, 1.0))
    rows = [
        ("per-feature", ranking, retrained, source, x, 0.9 - 0.4 * x, 0.85 - 0.4 * x, 0.95 - 0.4 * x)
        for ranking, retrained, source, x in cases
        if (ranking, source) != ("weight-times-input", "closed form")
    ]
    names = ["noise", "ranking", "retrained", "source", "fraction", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=names)


def test_closed_form_is_a_line_and_measurements_are_markers(summary: pd.DataFrame) -> None:
    figure = toy_figure(summary)
    figure.draw_without_rendering()
    left, right = figure.axes
    assert (left.get_title(loc="left"), right.get_title(loc="left")) == (
        "Not trained again",
        "Trained again on what is left",
    )
    curves = [line for line in left.get_lines() if len(np.asarray(line.get_xdata())) == 3]
    lines = [line for line in curves if line.get_linestyle() != "None" and line.get_marker() == "None"]
    markers = [line for line in curves if line.get_marker() not in ("None", "")]
    assert len(lines) == 3
    assert len(markers) == 4
    joined = [line for line in markers if line.get_linestyle() != "None"]
    # Without a closed form the markers are joined.
    assert len(joined) == 1
    assert np.allclose(np.asarray(lines[0].get_ydata(), dtype=float), [0.9, 0.7, 0.5])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == list(RANKINGS)


def test_one_data_set_is_drawn_without_an_interval(summary: pd.DataFrame) -> None:
    toy_figure(summary.assign(low=np.nan, high=np.nan)).draw_without_rendering()


def test_noise_that_was_not_run_says_so_and_a_missing_column_is_named(summary: pd.DataFrame) -> None:
    assert "not run with shared noise" in toy_figure(summary, noise="shared").texts[0].get_text()
    with pytest.raises(ValueError, match="no column low"):
        toy_figure(summary.drop(columns="low"))
