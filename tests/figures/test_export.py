from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from heatcheck.figures.deletion import curves_figure, gallery_figure
from heatcheck.figures.export import escape_latex, export_figure, export_table, interval_text

TABLE = pd.DataFrame(
    {
        "method": ["grad_cam & co", "[rise]"],
        "score": [0.12345, np.nan],
        "n": [8, 7],
        "control": [False, True],
    }
)


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path, curves: pd.DataFrame) -> None:
    first = export_figure(curves_figure(curves), tmp_path / "a" / "curves", curves)
    with mpl.rc_context({"svg.hashsalt": "other", "font.size": 20, "savefig.dpi": 50}):
        second = export_figure(curves_figure(curves), tmp_path / "b" / "curves", curves)
    assert [path.name for path in first] == ["curves.svg", "curves.pdf", "curves.csv"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_photographs_give_the_same_bytes_too(
    tmp_path: Path, images: np.ndarray, heatmaps: dict[str, np.ndarray]
) -> None:
    paths = [export_figure(gallery_figure(images, heatmaps), tmp_path / name) for name in "ab"]
    assert [path.read_bytes() for path in paths[0]] == [path.read_bytes() for path in paths[1]]


def test_files_hold_no_date_and_fonts_that_journals_accept(tmp_path: Path, curves: pd.DataFrame) -> None:
    svg, pdf = export_figure(curves_figure(curves), tmp_path / "curves")
    assert b"<dc:date>" not in svg.read_bytes()
    assert b"<text" not in svg.read_bytes()
    assert b"CreationDate" not in pdf.read_bytes()
    assert b"/Type3" not in pdf.read_bytes()


def test_the_plotted_rows_come_back_from_the_csv(tmp_path: Path, curves: pd.DataFrame) -> None:
    *_, csv = export_figure(curves_figure(curves), tmp_path / "curves", curves)
    pd.testing.assert_frame_equal(pd.read_csv(csv), curves, check_dtype=False)


def test_a_dot_in_the_stem_is_kept(tmp_path: Path) -> None:
    csv, tex = export_table(TABLE, tmp_path / "alpha0.5", caption="c", label="l")
    assert (csv.name, tex.name) == ("alpha0.5.csv", "alpha0.5.tex")


def test_a_table_shows_the_chosen_columns_under_their_headings(tmp_path: Path) -> None:
    csv, _ = export_table(
        TABLE, tmp_path / "t", caption="c", label="l", columns={"score": "Score", "method": "Name"}
    )
    assert csv.read_text() == "Score,Name\n0.123,grad_cam & co\n,[rise]\n"


def test_a_number_that_rounds_to_zero_has_no_sign(tmp_path: Path) -> None:
    table = pd.DataFrame({"difference": [-0.0004, 0.0004, -0.0006]})
    csv, _ = export_table(table, tmp_path / "table", caption="Small.", label="tab:small")
    assert csv.read_text().split() == ["difference", "0.000", "0.000", "-0.001"]


def test_a_table_without_rows_says_so_in_one(tmp_path: Path) -> None:
    csv, _ = export_table(TABLE.head(0), tmp_path / "table", caption="Nothing.", label="tab:none")
    assert csv.read_text() == "method,score,n,control\nnone,,,\n"


def test_a_latex_table_is_booktabs_with_everything_escaped(tmp_path: Path) -> None:
    _, tex = export_table(TABLE, tmp_path / "t", caption="50 % of n_images", label="tab:t", digits=2)
    text = tex.read_text()
    assert r"\caption{50 \% of n\_images}" in text
    assert r"\label{tab:t}" in text
    assert r"\begin{tabular}{lrrl}" in text
    assert r"grad\_cam \& co & 0.12 & 8 & no \\" in text
    assert r"{[}rise] & -- & 7 & yes \\" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("plain", "escaped"),
    [
        ("a_b", r"a\_b"),
        ("50%", r"50\%"),
        (r"\n", r"\textbackslash{}n"),
        ("{x}", r"\{x\}"),
        ("~^", r"\textasciitilde{}\textasciicircum{}"),
        ("$5 & #1", r"\$5 \& \#1"),
        ("grad-cam++", "grad-cam++"),
        ("\N{GREEK SMALL LETTER ALPHA}", r"$\alpha$"),
        ("deletion \N{DOWNWARDS ARROW}", r"deletion $\downarrow$"),
    ],
)
def test_latex_prints_every_character_as_itself(plain: str, escaped: str) -> None:
    assert escape_latex(plain) == escaped


def test_a_missing_column_is_named_beside_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no column scor; it has: method, score, n, control"):
        export_table(TABLE, tmp_path / "t", caption="c", label="l", columns=["scor"])


def test_an_interval_is_printed_with_its_mean_and_left_empty_when_undefined() -> None:
    table = pd.DataFrame(
        {"mean": [0.1234, np.nan], "low": [0.1, np.nan], "high": [0.2, np.nan]}, index=[5, 3]
    )
    texts = interval_text(table, digits=1, scale=100)
    assert texts.to_dict() == {5: "12.3 [10.0, 20.0]", 3: ""}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    with pytest.raises(OSError, match=r"cannot write t\.csv into folder .*taken"):
        export_table(TABLE, tmp_path / "taken" / "t", caption="c", label="l")
