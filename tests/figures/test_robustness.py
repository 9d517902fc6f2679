import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from heatcheck.figures.robustness import measures_figure, robustness_figure, spread_figure
from heatcheck.figures.style import look

SWEEPS = (
    ("patch-size", "sliding-patch", "sliding-patch-g"),
    ("lime-seed", "lime", "lime-g"),
    ("stride", "sliding-patch", "sliding-patch-g"),
    ("blur-radius", "meaningful-perturbation", None),
)


def table(column: str, kinds: tuple[str, ...]) -> pd.DataFrame:
    rows = []
    for kind in kinds:
        for place, (sweep, method, generative) in enumerate(SWEEPS):
            g_mean = np.nan if generative is None else 0.6 - 0.1 * place
            row: dict[str, object] = {
                "sweep": sweep,
                "method": method,
                "generative": generative,
                "values": "1 → 2, 3",
                column: kind,
            }
            for prefix, mean in (("base", 0.5), ("g", g_mean)):
                row |= {f"{prefix}_mean": mean, f"{prefix}_low": mean - 0.1, f"{prefix}_high": mean + 0.1}
            difference = g_mean - 0.5
            ends = {"difference_low": difference - 0.05, "difference_high": difference + 0.05}
            rows.append(row | {"difference": difference} | ends)
    return pd.DataFrame(rows)


@pytest.fixture
def similarities() -> pd.DataFrame:
    return table("measure", ("spearman", "ssim", "hog"))


@pytest.fixture
def spreads() -> pd.DataFrame:
    return table("metric", ("deletion", "iou"))


def test_sweeps_of_a_method_stand_together_from_the_top(similarities: pd.DataFrame) -> None:
    left = robustness_figure(similarities).axes[0]
    names = [label.get_text().split("\n")[0] for label in left.get_yticklabels()]
    assert names == ["patch size", "stride", "lime seed", "blur radius"]
    bottom, top = left.get_ylim()
    assert bottom > top


def test_a_method_is_filled_and_its_variant_hollow_at_their_means(similarities: pd.DataFrame) -> None:
    left = robustness_figure(similarities).axes[0]
    dots = [line for line in left.get_lines() if line.get_marker() == "o"]
    filled = [line.get_markerfacecolor() != "white" for line in dots]
    assert filled == [True, False, True, False, True, False, True]
    assert np.allclose([np.asarray(line.get_xdata())[0] for line in dots[:4]], [0.5, 0.6, 0.5, 0.4])


def test_a_difference_is_filled_only_where_its_interval_leaves_out_zero(similarities: pd.DataFrame) -> None:
    right = robustness_figure(similarities).axes[1]
    dots = [line for line in right.get_lines() if line.get_marker() == "D"]
    found = {round(float(np.asarray(line.get_xdata())[0]), 6): line.get_markerfacecolor() for line in dots}
    assert found[0.1] != "white"
    assert found[0.0] == "white"
    assert [text.get_text() for text in right.texts] == ["no variant"]


def test_the_spread_has_a_panel_per_metric(spreads: pd.DataFrame) -> None:
    titles = [axis.get_title(loc="left") for axis in spread_figure(spreads).axes]
    assert titles == ["Spread of the deletion score", "Spread of the overlap with the box"]


def test_undefined_rows_do_not_stop_the_others(similarities: pd.DataFrame, spreads: pd.DataFrame) -> None:
    numbers = ["base_mean", "base_low", "base_high", "difference", "difference_low", "difference_high"]
    for tidy, draw in ((similarities, robustness_figure), (spreads, spread_figure)):
        tidy.loc[tidy["sweep"] == "patch-size", numbers] = np.nan
        draw(tidy).draw_without_rendering()


def test_the_table_is_left_unchanged(similarities: pd.DataFrame, spreads: pd.DataFrame) -> None:
    for tidy, draw in ((similarities, robustness_figure), (spreads, spread_figure)):
        before = tidy.copy(deep=True)
        draw(tidy).draw_without_rendering()
        pd.testing.assert_frame_equal(tidy, before)


def test_what_cannot_be_drawn_is_named(similarities: pd.DataFrame, spreads: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="no column g_mean; needed"):
        robustness_figure(similarities.drop(columns="g_mean"))
    with pytest.raises(ValueError, match="no measure 'kendall'; there are: spearman, ssim, hog"):
        robustness_figure(similarities, measure="kendall")
    with pytest.raises(ValueError, match="nothing to draw"):
        spread_figure(spreads.iloc[:0])


@pytest.mark.parametrize("base", ["sliding-patch", "lime", "meaningful-perturbation"])
def test_a_generative_variant_is_lighter_than_its_method_and_has_another_marker(base: str) -> None:
    own, variant = look(base), look(f"{base}-g")
    assert sum(to_rgb(variant.color)) > sum(to_rgb(own.color))
    assert variant.marker != own.marker


def test_measures_stand_side_by_side_with_the_same_rows(similarities: pd.DataFrame) -> None:
    figure = measures_figure(similarities)
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "Rank correlation",
        "SSIM",
        "HOG correlation",
    ]
    dots = [[line for line in axis.get_lines() if line.get_marker() == "o"] for axis in figure.axes]
    assert [len(some) for some in dots] == [7, 7, 7]
    with pytest.raises(ValueError, match="no column measure"):
        measures_figure(similarities.drop(columns="measure"))
