"""Figures and tables as files: the same input gives the same bytes."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from heatcheck.figures.results import write_file
from heatcheck.figures.style import STYLE

# Text as paths looks the same in every browser; TrueType in PDF stays text that journals accept.
_EXPORT: Any = {
    "svg.fonttype": "path",
    "svg.hashsalt": "heatcheck",
    "pdf.fonttype": 42,
    "pdf.use14corefonts": False,
}
_DPI = 150  # of photographs and heatmaps inside a figure
_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{EN DASH}": "--",
    "\N{MINUS SIGN}": "$-$",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$",
    "\N{DOWNWARDS ARROW}": r"$\downarrow$",
    "\N{UPWARDS ARROW}": r"$\uparrow$",
    "\N{LEFTWARDS ARROW}": r"$\leftarrow$",
    "\N{RIGHTWARDS ARROW}": r"$\rightarrow$",
    "\N{LESS-THAN OR EQUAL TO}": r"$\leq$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    "\N{MIDDLE DOT}": r"$\cdot$",
}


def export_figure(figure: Figure, stem: Path | str, data: pd.DataFrame | None = None) -> tuple[Path, ...]:
    """Paths of the files written: ``stem.svg``, ``stem.pdf`` and, given ``data``, ``stem.csv``.

    The background is transparent, so that a page may be light or dark.

    Args:
        figure: The figure; it is not changed or closed.
        stem: Path without a suffix; its folder is made when absent.
        data: The rows that are plotted, in full precision.

    Raises:
        OSError: The folder cannot be written.
    """
    paths = []
    for suffix, metadata in _UNDATED.items():
        buffer = io.BytesIO()
        with mpl.rc_context(STYLE | _EXPORT):
            figure.savefig(buffer, format=suffix, dpi=_DPI, transparent=True, metadata=metadata)
        paths.append(_write(stem, suffix, buffer.getvalue()))
    if data is not None:
        paths.append(_write(stem, "csv", data.to_csv(index=False, lineterminator="\n").encode()))
    return tuple(paths)


def export_table(
    table: pd.DataFrame,
    stem: Path | str,
    *,
    caption: str,
    label: str,
    columns: Mapping[str, str] | Sequence[str] | None = None,
    digits: int = 3,
) -> tuple[Path, ...]:
    """Paths of the files written: ``stem.csv`` for the page and ``stem.tex`` (booktabs) for a paper.

    Both show the same rows, headings and rounded numbers. Undefined numbers are empty in the CSV and a dash
    in LaTeX. A table without rows gets one that says ``none``, for a page cannot show an empty table.

    Args:
        table: One row per line of the table.
        stem: Path without a suffix; its folder is made when absent.
        caption: Plain text; LaTeX's special characters are escaped.
        label: LaTeX label such as ``tab:deletion-scores``.
        columns: Which columns, in this order, and the heading of each; all by default.
        digits: Decimal places of fractional numbers.

    Raises:
        ValueError: A column does not exist; the message lists those that do.
        OSError: The folder cannot be written.
    """
    shown = _select(table, columns)
    text = shown.map(lambda value: _cell(value, digits))
    if len(text) == 0:
        text = pd.DataFrame([["none"] + [""] * (len(text.columns) - 1)], columns=text.columns)
    numeric = [
        pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
        for dtype in shown.dtypes
    ]
    csv = text.to_csv(index=False, lineterminator="\n")
    return _write(stem, "csv", csv.encode()), _write(
        stem, "tex", _latex(text, numeric, caption, label).encode()
    )


def interval_text(table: pd.DataFrame, *, digits: int = 3, scale: float = 1.0) -> pd.Series:
    """Text ``mean [low, high]`` of each row of ``table``; empty where undefined.

    Args:
        table: Columns ``mean``, ``low`` and ``high``.
        digits: Decimal places.
        scale: Factor, 100 to print fractions as percent.
    """
    parts = table[["mean", "low", "high"]].astype(float) * scale
    texts = [
        "" if np.isnan(mean) else f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
        for mean, low, high in parts.itertuples(index=False)
    ]
    return pd.Series(texts, index=table.index, dtype=object)


def escape_latex(text: str) -> str:
    """``text`` with every character that LaTeX would read as a command printed as itself."""
    return "".join(_LATEX.get(character, character) for character in text)


def _select(table: pd.DataFrame, columns: Mapping[str, str] | Sequence[str] | None) -> pd.DataFrame:
    if columns is None:
        columns = [str(column) for column in table.columns]
    headings = dict(columns) if isinstance(columns, Mapping) else {column: column for column in columns}
    missing = [column for column in headings if column not in table.columns]
    if missing:
        raise ValueError(
            f"table has no column {', '.join(missing)}; it has: {', '.join(map(str, table.columns))}"
        )
    return table[list(headings)].rename(columns=headings)


def _cell(value: object, digits: int) -> str:
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:z.{digits}f}"
    return str(value)


def _latex(text: pd.DataFrame, numeric: Sequence[bool], caption: str, label: str) -> str:
    # A bracket at the start of a row would be read as an option of the line break before it.
    rows = [
        [escape_latex(cell).replace("[", "{[}", 1) or "--" for cell in row]
        for row in text.itertuples(index=False)
    ]
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(caption)}}}",
        rf"  \label{{{label}}}",
        rf"  \begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}",
        r"    \toprule",
        f"    {' & '.join(escape_latex(str(heading)) for heading in text.columns)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(row)} \\\\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _write(stem: Path | str, suffix: str, content: bytes) -> Path:
    path = Path(f"{stem}.{suffix}")
    write_file(path, content)
    return path
