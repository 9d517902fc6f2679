import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from heatcheck.figures.comparison import agreement_figure, contradiction_figure, rank_figure
from heatcheck.figures.style import INK, MUTED

GROUPS = {"CLEVR-XAI": ["mass"], "Single deletion": ["IDSDS", "SDS"], "Remove and retrain": ["ROAR"]}
LABELS = ["mass", "IDSDS", "SDS", "ROAR"]


@pytest.fixture
def ranks() -> pd.DataFrame:
    rows = {
        "random": (1, 1, 1, 1, 1.0),
        "rise": (3, 2, 4.5, np.nan, 3.1),
        "own-method": (5, 5, 3, 2, 3.7),
        "gradient": (2, 4, 2, 3, 2.7),
        "constant": (4, 3, 4.5, 4, np.nan),
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=[*LABELS, "mean rank"])


@pytest.fixture
def square() -> pd.DataFrame:
    values = [[1, 0.8, -0.7, 0.1], [0.8, 1, 0.3, np.nan], [-0.7, 0.3, 1, 0], [0.1, np.nan, 0, 1]]
    return pd.DataFrame(values, index=LABELS, columns=LABELS)


@pytest.fixture
def contradictions() -> pd.DataFrame:
    rows = [
        ("CLEVR-XAI", "Single deletion", 100, 60, 45),
        ("Single deletion", "Remove and retrain", 50, 0, 0),
    ]
    return pd.DataFrame(rows, columns=["first_label", "second_label", "pairs", "decided", "contradicted"])


def cells(axis: Axes) -> list[Rectangle]:
    return [patch for patch in axis.patches if isinstance(patch, Rectangle)]


def texts(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.texts]


def brightness(cell: Rectangle) -> float:
    return sum(to_rgb(cell.get_facecolor()))


def cell_at(axis: Axes, left: float, top: float) -> Rectangle:
    (found,) = [cell for cell in cells(axis) if cell.get_xy() == pytest.approx((left, top))]
    return found


def inside(figure: Figure) -> bool:
    """Whether all that is drawn lies within the page."""
    figure.draw_without_rendering()
    box, page = figure.get_tightbbox(), figure.bbox_inches
    return bool(box.x0 >= -0.01 and box.y0 >= -0.01 and box.x1 <= page.x1 + 0.01 and box.y1 <= page.y1 + 0.01)


def test_figures_fit_their_page(
    ranks: pd.DataFrame, square: pd.DataFrame, contradictions: pd.DataFrame
) -> None:
    assert inside(rank_figure(ranks, GROUPS))
    assert inside(agreement_figure(square, GROUPS, (-0.5, 0.5)))
    assert inside(contradiction_figure(contradictions))


def test_methods_stand_by_mean_rank_and_controls_below_in_gray_italics(ranks: pd.DataFrame) -> None:
    figure = rank_figure(ranks, GROUPS)
    names = figure.axes[0].get_yticklabels()
    assert [name.get_text() for name in names] == ["gradient", "rise", "own-method", "random", "constant"]
    assert [name.get_fontstyle() for name in names] == ["normal"] * 3 + ["italic"] * 2
    assert [name.get_color() for name in names] == [INK] * 3 + [MUTED] * 2
    places = figure.axes[0].get_yticks()
    assert np.diff(places)[2] > np.diff(places)[0] == pytest.approx(1)


def test_better_ranks_are_darker_and_missing_ones_are_hatched_and_empty(ranks: pd.DataFrame) -> None:
    axis = rank_figure(ranks, GROUPS).axes[0]
    mass = sorted((cell for cell in cells(axis) if cell.get_x() == 0), key=Rectangle.get_y)
    found = {rank: brightness(cell) for rank, cell in zip((2, 3, 5, 1, 4), mass, strict=True)}
    ordered = [found[rank] for rank in sorted(found)]
    assert ordered == sorted(ordered)
    hatched = [cell for cell in cells(axis) if cell.get_hatch()]
    assert [cell.get_y() for cell in hatched] == [1]
    assert texts(axis).count("4.5") == 2
    assert "nan" not in texts(axis)


def test_the_mean_rank_of_every_method_is_written_and_a_dash_where_there_is_none(ranks: pd.DataFrame) -> None:
    written = texts(rank_figure(ranks, GROUPS).axes[0])
    for text in ("2.7", "3.1", "3.7", "1.0", "\N{EN DASH}", "mean\nrank"):
        assert written.count(text) == 1


def test_every_benchmark_has_a_heading_and_a_line_over_its_metrics(
    ranks: pd.DataFrame, square: pd.DataFrame
) -> None:
    for figure in (rank_figure(ranks, GROUPS), agreement_figure(square, GROUPS, (-0.5, 0.5))):
        axis = figure.axes[0]
        written = [text.replace("\n", " ") for text in texts(axis)]
        assert set(GROUPS) <= set(written)
        assert set(LABELS) <= set(written)
        ends = np.array([line.get_xdata() for line in axis.get_lines()], dtype=float)
        np.testing.assert_allclose(ends[:, 1] - ends[:, 0], [0.9, 1.9, 0.9])
        assert (ends[1:, 0] > ends[:-1, 1]).all()


def test_ranks_need_their_columns_and_a_number(ranks: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="no column ROAR"):
        rank_figure(ranks.drop(columns="ROAR"), GROUPS)
    with pytest.raises(ValueError, match="no method has a rank"):
        rank_figure(ranks * np.nan, GROUPS)


def test_a_table_of_controls_or_of_methods_alone_is_drawn(ranks: pd.DataFrame) -> None:
    for names in (["random", "constant"], ["rise", "gradient"]):
        axis = rank_figure(ranks.loc[names], GROUPS).axes[0]
        assert len(axis.get_yticklabels()) == 2
        assert np.diff(axis.get_yticks()) == pytest.approx([1])


def test_tau_is_red_above_zero_and_blue_below_and_pale_within_chance(square: pd.DataFrame) -> None:
    axis = agreement_figure(square, GROUPS, (-0.5, 0.5)).axes[0]
    colors = {text.get_text(): text.get_color() for text in axis.texts}
    assert colors["+0.30"] == colors["+0.10"] == MUTED
    assert MUTED not in (colors["+0.80"], colors["\N{MINUS SIGN}0.70"])
    red = to_rgb(cell_at(axis, 1.28, 0).get_facecolor())
    blue = to_rgb(cell_at(axis, 2.28, 0).get_facecolor())
    assert red[0] > red[2]
    assert blue[0] < blue[2]
    wide = agreement_figure(square, GROUPS, (-0.9, 0.9)).axes[0]
    assert brightness(cell_at(wide, 1.28, 0)) > brightness(cell_at(axis, 1.28, 0))


def test_the_band_may_differ_from_cell_to_cell_and_its_edge_belongs_to_it(square: pd.DataFrame) -> None:
    high = pd.DataFrame(0.9, index=LABELS, columns=LABELS)
    high.loc["mass", "IDSDS"] = 0.79
    axis = agreement_figure(square, GROUPS, (-high, high)).axes[0]
    same = [text.get_color() for text in axis.texts if text.get_text() == "+0.80"]
    assert len(same) == 2
    assert sum(color == MUTED for color in same) == 1
    edge = agreement_figure(square, GROUPS, (-0.8, 0.8)).axes[0]
    assert {text.get_color() for text in edge.texts if text.get_text() == "+0.80"} == {MUTED}


def test_the_diagonal_is_empty_and_unknown_agreement_is_hatched(square: pd.DataFrame) -> None:
    axis = agreement_figure(square, GROUPS, (-0.5, 0.5)).axes[0]
    assert len(cells(axis)) == 16
    assert sum(bool(cell.get_hatch()) for cell in cells(axis)) == 2
    assert not any(text.startswith("+1.00") for text in texts(axis))


def test_numbers_are_readable_on_their_cells(ranks: pd.DataFrame, square: pd.DataFrame) -> None:
    for figure in (rank_figure(ranks, GROUPS), agreement_figure(square, GROUPS, (-0.5, 0.5))):
        axis = figure.axes[0]
        middles = {tuple(np.round(np.add(cell.get_xy(), 0.5), 6)): cell for cell in cells(axis)}
        seen = 0
        for text in axis.texts:
            cell = middles.get(tuple(np.round(text.get_position(), 6)))
            if cell is not None:
                seen += 1
                assert contrast(to_rgb(text.get_color()), to_rgb(cell.get_facecolor())) > 3
        assert seen > 8


def contrast(first: tuple[float, ...], second: tuple[float, ...]) -> float:
    """Contrast ratio of two colors, 1 to 21 (WCAG 2.1)."""
    linear = [
        np.where(
            np.array(color) <= 0.04045, np.array(color) / 12.92, ((np.array(color) + 0.055) / 1.055) ** 2.4
        )
        for color in (first, second)
    ]
    bright = sorted(float(color @ (0.2126, 0.7152, 0.0722)) for color in linear)
    return (bright[1] + 0.05) / (bright[0] + 0.05)


def test_agreement_needs_every_metric_and_two_of_them(square: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="no column ROAR"):
        agreement_figure(square.drop(index="ROAR"), GROUPS, (-0.5, 0.5))
    notice = agreement_figure(square, {"CLEVR-XAI": ["mass"]}, (-0.5, 0.5))
    assert notice.texts[0].get_text() == "there are no two metrics to compare"


def test_bars_are_split_into_oppositely_alike_and_undecided(contradictions: pd.DataFrame) -> None:
    figure = contradiction_figure(contradictions)
    axis = figure.axes[0]
    # Per kind of part, from the lower bar to the upper one.
    widths = [bar.get_width() for bar in cells(axis)]
    assert widths == pytest.approx([0, 45, 0, 15, 100, 40])
    assert texts(axis) == ["none decided by both", "45 of 60 oppositely (75%)"]
    assert [label.get_text() for label in axis.get_yticklabels()][1] == "CLEVR-XAI\nand Single deletion"
    kinds = [text.get_text() for text in figure.legends[0].get_texts()]
    assert kinds == ["ordered oppositely", "ordered alike", "not decided by both"]


def test_bars_need_rows_and_columns(contradictions: pd.DataFrame) -> None:
    empty = contradiction_figure(contradictions.iloc[:0])
    assert empty.texts[0].get_text() == "there are no two benchmarks to compare"
    with pytest.raises(ValueError, match="no column decided"):
        contradiction_figure(contradictions.drop(columns="decided"))


def test_tables_are_left_as_they_were(
    ranks: pd.DataFrame, square: pd.DataFrame, contradictions: pd.DataFrame
) -> None:
    copies = ranks.copy(), square.copy(), contradictions.copy()
    rank_figure(ranks, GROUPS)
    agreement_figure(square, GROUPS, (-0.5, 0.5))
    contradiction_figure(contradictions)
    for table, copy in zip((ranks, square, contradictions), copies, strict=True):
        pd.testing.assert_frame_equal(table, copy)


def test_all_metrics_and_long_names_fit(ranks: pd.DataFrame) -> None:
    labels = {
        "Deletion and localization": ["deletion", "insertion", "box error", "saliency metric"],
        **GROUPS,
    }
    names = ["own-method-of-a-very-long-name", *(f"own-{number}" for number in range(11)), "random"]
    wide = [*itertools.chain.from_iterable(labels.values()), "mean rank"]
    values = np.arange(len(names) * len(wide)).reshape(len(names), len(wide)) % 13 + 1.5
    assert inside(rank_figure(pd.DataFrame(values, index=names, columns=wide), labels))
