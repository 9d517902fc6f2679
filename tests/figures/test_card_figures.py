"""A card as figure, text, page and LaTeX shows what its table says."""

import re

import numpy as np
import pandas as pd
import pytest

from heatcheck.figures.card import card_figure
from heatcheck.figures.card_text import (
    card_latex,
    card_markdown,
    card_row,
    card_summary,
    card_text,
    count_answers,
)

NAN = float("nan")
WHY = "needs a network without questions"
NAMES = (
    *("title", "metric", "label", "better", "classifier", "main", "value", "low", "high"),
    *("rank", "rank_low", "rank_high", "n_methods", "best", "control", "control_place"),
    *("beats_controls", "versus_median", "why"),
)
ROWS = (
    ("CLEVR-XAI", "mass", "mass", "higher", "relation", True, NAN, NAN, NAN,
     NAN, NAN, NAN, 18, "", "", NAN, "", "", WHY),
    ("Deletion", "deletion", "deletion", "lower", "resnet", True, 0.2, 0.1, 0.3,
     1.0, 1.0, 4.975, 19, "lrp", "random", 6.5, "yes", "better", ""),
    ("Deletion", "insertion", "insertion", "higher", "resnet", True, 0.7, 0.6, 0.8,
     2.5, 1.0, 3.5, 19, "lrp", "sobel", 0.5, "no", "undecided", ""),
    ("Deletion", "deletion", "deletion", "lower", "vgg", False, 0.4, 0.3, 0.5,
     1.0, 1.0, 1.0, 19, "rise", "random", 6.5, "yes", "better", ""),
)  # fmt: skip


@pytest.fixture
def card() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=list(NAMES))


def test_further_classifiers_do_not_count_as_metrics(card: pd.DataFrame) -> None:
    assert count_answers(card) == (3, 2, 1, 1, 1, 1, 0)
    assert card_summary(card).startswith(
        "2 of 3 metrics have a score: it is first in 1, ahead of every control in 1"
    )


def test_a_card_without_any_score_says_so(card: pd.DataFrame) -> None:
    assert card_summary(card[:1]) == "None of 1 metrics has a score."


def test_the_text_has_a_line_per_metric_and_why_one_is_missing(card: pd.DataFrame) -> None:
    lines = card_text(card, "mine").splitlines()
    assert lines[0] == f"mine: {card_summary(card)}"
    cells = {line.strip(): re.split(r"  +", line.strip()) for line in lines}
    found = [parts for parts in cells.values() if len(parts) == 7]
    assert ["deletion ↓", "0.200 [0.100, 0.300]", "1 of 19 [1, 5]", "lrp", "random", "yes", "better"] in found
    assert [
        "insertion ↑",
        "0.700 [0.600, 0.800]",
        "2.5 of 19 [1, 3.5]",
        "lrp",
        "sobel",
        "no",
        "undecided",
    ] in found
    assert ["mass ↑", "-", "-", "-", "-", "-", "-"] in found
    assert [line for line in lines if line.startswith(("CLEVR", "Del"))] == [
        "CLEVR-XAI, relation",
        "Deletion, resnet",
        "Deletion, vgg",
    ]
    assert lines[-1] == f"No mass: {WHY}."
    assert not any(line != line.rstrip() for line in lines)


def test_the_page_has_table_figure_and_how_it_was_made(card: pd.DataFrame) -> None:
    page = card_markdown(card, "mine", figure="card.svg", made="Made today.")
    assert page.startswith("# mine\n")
    assert "](card.svg)" in page
    assert page.endswith("Made today.\n")
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {8}
    assert f"- No mass: {WHY}." in page


@pytest.mark.parametrize("name", ["own|method", "own_method", "*own*"])
def test_names_break_no_table_of_the_page(card: pd.DataFrame, name: str) -> None:
    page = card_markdown(card.assign(best=name), "mine", figure="card.svg", made="")
    rows = [re.sub(r"\\.", "", line) for line in page.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {8}


def test_the_latex_row_has_a_cell_per_metric_and_special_characters_escaped(card: pd.DataFrame) -> None:
    assert card_row(card, "my_method") == r"my\_method & -- & 1 [1, 5] & 2.5 [1, 3.5] \\"


def test_latex_tables_are_balanced_and_their_rows_full(card: pd.DataFrame) -> None:
    text = card_latex(card, "my_method")
    for kind in ("table*", "tabular"):
        assert text.count(rf"\begin{{{kind}}}") == text.count(rf"\end{{{kind}}}") == 2
    assert card_row(card, "my_method") in text
    assert re.findall(r"\\label\{(.+)\}", text) == ["tab:card-my-method-ranks", "tab:card-my-method"]
    for part, width in zip(text.split(r"\begin{tabular}")[1:], (4, 7), strict=True):
        rows = [line for line in part.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
        assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {width - 1}
    assert not re.search(r"(?<!\\)[%_]", text)
    assert r"\cmidrule(lr){2-2}\cmidrule(lr){3-4}" in text


def test_strips_show_rank_interval_control_and_the_reason_for_none(card: pd.DataFrame) -> None:
    figure = card_figure(card, "mine")
    figure.draw_without_rendering()
    (axis,) = figure.axes
    texts = [text.get_text() for text in axis.texts]
    assert f"no score: {WHY}" in texts
    assert texts.count("1 of 19") == 2
    dots = [float(np.ravel(line.get_xdata())[0]) for line in axis.lines if line.get_marker() == "o"]
    crosses = [float(np.ravel(line.get_xdata())[0]) for line in axis.lines if line.get_marker() == "x"]
    assert dots == [1.0, 2.5, 1.0]
    assert crosses == [6.5, 0.5, 6.5]
    assert [label.get_text() for label in axis.get_yticklabels()] == [
        "mass ↑", "deletion ↓", "insertion ↑", "deletion ↓",
    ]  # fmt: skip


def test_a_long_reason_is_cut_in_the_figure_and_whole_in_the_text(card: pd.DataFrame) -> None:
    long = card.assign(why=["so " * 60, "", "", ""])
    texts = [text.get_text() for text in card_figure(long, "mine").axes[0].texts]
    assert any(text.startswith("no score") and text.endswith("...") and len(text) < 120 for text in texts)
    assert "so " * 60 in card_text(long, "mine")


def test_a_card_of_nothing_cannot_be_drawn(card: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="no row"):
        card_figure(card[:0], "mine")
    with pytest.raises(ValueError, match="no column why"):
        card_text(card.drop(columns="why"), "mine")
