"""Figures of the remove-and-retrain chapter."""

import itertools

import numpy as np
import pandas as pd
import pytest

from heatcheck.figures import roar as figures
from heatcheck.figures import roar_masks as masks
from heatcheck.figures.roar_looks import OTHERS, panel_of, ranking_look, split_ranking

NAMES = {"random": "Random", "grad": "GRAD", "sg-sq-grad": "SG-SQ-GRAD", "var-gb": "VAR-GB", "mine": "mine"}


@pytest.fixture
def curves() -> pd.DataFrame:
    rows = [
        (name, label, mode, percent, 0.9 - percent / 200, 0.8 - percent / 200, 1 - percent / 200)
        for (name, label), mode, percent in itertools.product(NAMES.items(), ("roar", "kar"), (0, 50, 100))
    ]
    return pd.DataFrame(rows, columns=["ranking", "label", "mode", "percent", "mean", "low", "high"])


@pytest.fixture
def summary() -> pd.DataFrame:
    names = [name for name in NAMES if name != "random"]
    rows = [
        (name, NAMES[name], quantity, 0.1 * place, 0.1 * place - 0.05, 0.1 * place + 0.05)
        for quantity in ("RACU", "ABC ROAR", "ABC KAR", "DiffROAR 10", "DiffROAR 50", "DiffROAR 90")
        for place, name in enumerate(names)
    ]
    return pd.DataFrame(rows, columns=["estimator", "label", "quantity", "estimate", "low", "high"])


@pytest.mark.parametrize(
    ("ranking", "parts"),
    [
        ("grad", ("", "grad")),
        ("sg-sq-ig", ("sg-sq", "ig")),
        ("sobel", ("", "")),
        ("my-grad", ("", "")),
        ("input-x-gradient", ("", "")),
    ],
)
def test_names_are_split_into_ensemble_and_base(ranking: str, parts: tuple[str, str]) -> None:
    assert split_ranking(ranking) == parts
    assert panel_of(ranking) == (parts[1].upper() or OTHERS)


def test_the_same_ensemble_looks_the_same_for_all_bases_and_others_differ() -> None:
    assert ranking_look("sg-ig") == ranking_look("sg-grad") != ranking_look("var-grad")
    bases = [ranking_look(f"sg-{base}", based=True) for base in ("grad", "gb", "ig")]
    assert len({look.line for look in bases}) == 3
    assert len({look.color for look in bases}) == 1
    looks = [ranking_look(name) for name in ("grad", "random", "sobel", "leaky", "oracle", "mine")]
    assert len(set(looks)) == len(looks)


def test_curves_have_a_row_per_mode_a_column_per_base_and_random_everywhere(curves: pd.DataFrame) -> None:
    figure = figures.curves_figure(curves)
    figure.draw_without_rendering()
    assert len(figure.axes) == 6
    assert [axis.get_title(loc="left") for axis in figure.axes[:3]] == ["GRAD", "GB", OTHERS]
    for axis in figure.axes:
        colors = {line.get_color() for line in axis.get_lines()}
        assert ranking_look("random").color in colors
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["Random", "single pass", "SG-SQ", "VAR", "mine"]


def test_an_end_without_an_interval_is_drawn(curves: pd.DataFrame) -> None:
    curves.loc[curves["percent"] == 0, ["low", "high"]] = np.nan
    figures.curves_figure(curves).draw_without_rendering()


def test_one_mode_and_only_random_can_be_drawn(curves: pd.DataFrame) -> None:
    figure = figures.curves_figure(curves.query("mode == 'kar' and ranking == 'random'"))
    figure.draw_without_rendering()
    assert len(figure.axes) == 1


def test_without_rows_figures_say_so(curves: pd.DataFrame) -> None:
    for figure in (
        figures.curves_figure(curves.iloc[:0]),
        figures.curves_figure(pd.DataFrame()),
        figures.summary_figure(pd.DataFrame()),
        figures.ways_figure(pd.DataFrame()),
        masks.leak_figure(pd.DataFrame(), chance=0.1),
        masks.controls_figure(pd.DataFrame(), intact=0.9),
    ):
        assert len(figure.texts) == 1
    with pytest.raises(ValueError, match="no column low"):
        figures.curves_figure(curves.drop(columns="low"))


def test_the_best_estimator_is_on_top_and_published_values_are_hollow(summary: pd.DataFrame) -> None:
    published = pd.DataFrame(
        {"data": ["ImageNet", "Birdsnap"], "method": ["sg-sq-grad", "sobel"], "racu": [0.36, -0.1]}
    )
    figure = figures.summary_figure(summary, published)
    figure.draw_without_rendering()
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["RACU", "KAR area", "DiffROAR 50"]
    assert figure.axes[0].get_yticklabels()[-1].get_text() == "mine"
    hollow = [line for line in figure.axes[0].get_lines() if line.get_label() == "ImageNet, published"]
    assert [list(np.asarray(line.get_xdata())) for line in hollow] == [[0.36]]
    assert len(figures.summary_figure(summary).legends) == 0


def test_areas_are_drawn_in_points_and_racu_as_it_is(summary: pd.DataFrame) -> None:
    figure = figures.summary_figure(summary)
    dots = [
        [
            float(np.asarray(line.get_xdata())[0])
            for line in axis.get_lines()
            if len(np.asarray(line.get_xdata())) == 1
        ]
        for axis in figure.axes
    ]
    assert dots[0] == pytest.approx([0, 0.1, 0.2, 0.3])
    assert dots[1] == pytest.approx([0, 10, 20, 30])


def test_ways_are_along_the_axis_in_their_order(curves: pd.DataFrame) -> None:
    rows = curves[curves["percent"] == 50]
    both = pd.concat([rows.assign(text="retrained"), rows.assign(text="not retrained")])
    figure = figures.ways_figure(both)
    figure.draw_without_rendering()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["retrained", "not retrained"]
    assert figure.axes[0].get_title(loc="left") == "ROAR: removed, 50 %"


def test_one_image_is_drawn_in_steps_beside_what_is_kept() -> None:
    steps = np.random.default_rng(0).random((2, 3, 6, 6, 3))
    figure = masks.removal_figure(steps[0, 0], ["GRAD", "Random"], [10, 50, 90], steps, 1 - steps)
    figure.draw_without_rendering()
    shown = [axis for axis in figure.axes if axis.images]
    assert len(shown) == 2 * (1 + 3 + 3)
    assert shown[0].get_ylabel() == "GRAD"
    with pytest.raises(ValueError, match="need removed and kept images"):
        masks.removal_figure(steps[0, 0], ["GRAD"], [10, 50, 90], steps, steps)


def test_masks_stand_below_their_images() -> None:
    random = np.random.default_rng(0)
    kept = random.random((2, 4, 6, 6)) > 0.5
    figure = masks.masks_figure(random.random((4, 6, 6, 3)), ["a", "a", "b", "b"], ["LEAKY", "GRAD"], kept)
    figure.draw_without_rendering()
    assert len(figure.axes) == 12
    assert figure.axes[4].get_ylabel() == "LEAKY"
    with pytest.raises(ValueError, match="need masks"):
        masks.masks_figure(random.random((4, 6, 6, 3)), ["a"], ["LEAKY", "GRAD"], kept)


def test_masks_alone_are_filled_and_masked_images_hollow() -> None:
    rows = [
        ("leaky", "LEAKY", "roar", 90, quantity, value, value - 0.1, value + 0.1)
        for quantity, value in (("accuracy", 0.8), ("retrained", 0.9))
    ]
    columns = ["ranking", "label", "mode", "percent", "quantity", "estimate", "low", "high"]
    figure = masks.leak_figure(pd.DataFrame(rows, columns=columns), chance=0.1)
    figure.draw_without_rendering()
    dots = [line for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert [dot.get_markerfacecolor() for dot in dots] == [ranking_look("leaky").color, "white"]
    assert figure.axes[0].get_yticklabels()[0].get_text() == "LEAKY, ROAR 90 %"


def test_controls_have_a_row_each_and_a_panel_per_mode() -> None:
    rows = [
        (name, name.upper(), control, mode, 90, 0.5, 0.4, 0.6)
        for name, control, mode in itertools.product(
            ("grad", "sq-grad"), ("itself", "shuffle", "random"), ("roar", "kar")
        )
    ]
    columns = ["estimator", "label", "control", "mode", "percent", "mean", "low", "high"]
    figure = masks.controls_figure(pd.DataFrame(rows, columns=columns), intact=0.9)
    figure.draw_without_rendering()
    assert len(figure.axes) == 2
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[-1] == "GRAD, itself"
    assert labels[-2] == "GRAD, shuffled"
    assert len(labels) == 6
