import numpy as np
import pandas as pd
import pytest

from heatcheck.figures.roar_published import published_scatter


@pytest.fixture
def summary() -> pd.DataFrame:
    methods = ("random", "grad", "sg-gb", "var-ig")
    rows = [
        (data, method, 0.1 * place, 0.05 - 0.02 * place, int((data, method) == ("ImageNet", "var-ig")))
        for data in ("Food-101", "ImageNet")
        for place, method in enumerate(methods)
    ]
    return pd.DataFrame(rows, columns=["data", "method", "racu", "abc_kar", "doubtful"])


def test_each_data_set_has_a_panel_with_a_point_per_estimator(summary: pd.DataFrame) -> None:
    figure = published_scatter(summary)
    figure.draw_without_rendering()
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["Food-101", "ImageNet"]
    points = {str(line.get_label()): line for line in figure.axes[0].get_lines()}
    place = points["var-ig"]
    found = [np.asarray(place.get_xdata()).item(), np.asarray(place.get_ydata()).item()]
    assert found == pytest.approx([0.3, -1])
    assert points["grad"].get_color() != points["sg-gb"].get_color()
    assert points["grad"].get_marker() != points["sg-gb"].get_marker()
    assert points["random"].get_marker() == "x"


def test_doubtful_estimators_have_a_ring(summary: pd.DataFrame) -> None:
    figure = published_scatter(summary)
    rings = [sum(line.get_fillstyle() == "none" for line in axis.get_lines()) for axis in figure.axes]
    assert rings == [0, 1]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["GRAD", "IG", "GB", "single pass", "SG", "VAR", "control", "doubtful cell"]
    sound = published_scatter(summary.assign(doubtful=0))
    assert "doubtful cell" not in [text.get_text() for text in sound.legends[0].get_texts()]


def test_the_correlation_of_a_data_set_stands_in_its_panel(summary: pd.DataFrame) -> None:
    agreement = pd.DataFrame(
        {
            "first": ["roar", "roar", "Food-101"],
            "second": ["kar", "kar", "ImageNet"],
            "data": ["ImageNet", "ImageNet", "RACU"],
            "percent": pd.array([None, 10, None], dtype="Int64"),
            "spearman": [-0.94, -0.84, 0.98],
        }
    )
    left, right = published_scatter(summary, agreement).axes
    assert [axis.get_title(loc="right") for axis in (left, right)] == [
        "",
        "\N{GREEK SMALL LETTER RHO} = -0.94",
    ]


def test_an_empty_table_says_so_and_a_missing_column_is_named(summary: pd.DataFrame) -> None:
    assert "no summary" in published_scatter(summary[:0]).texts[0].get_text()
    with pytest.raises(ValueError, match="no column racu"):
        published_scatter(summary.drop(columns="racu"))
