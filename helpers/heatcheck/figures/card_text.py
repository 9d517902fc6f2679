"""A method's card in words: for the terminal, as a page, and as LaTeX for a paper's appendix."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from heatcheck.figures.common import check_columns
from heatcheck.figures.export import escape_latex

_ARROWS = {"lower": "↓", "higher": "↑"}
_HEADINGS: tuple[str, ...] = (
    "metric",
    "score",
    "rank",
    "best built-in",
    "best control",
    "beats controls",
    "than median",
)
_NEEDED = (
    *("title", "metric", "label", "better", "classifier", "main", "value", "low", "high"),
    *("rank", "rank_low", "rank_high", "n_methods", "best", "control", "beats_controls"),
    *("versus_median", "why"),
)
_READ = (
    "Score: mean [95 % interval]; the arrow says which direction is better. "
    "Rank: among the built-in methods and this one, without controls; 1 is best. "
    "Beats controls: yes, if the 95 % interval of its lead over each is above zero; no, if one is below. "
    "Than median: whether it is better or worse than the built-in methods' median."
)


Row = dict[Any, Any]


class Counts(NamedTuple):
    """How many metrics answered what of a method.

    Attributes:
        metrics: All of the comparison.
        scored: Those that score the method.
        first: Those in which it has the first rank.
        ahead: Those in which it beats every control.
        behind: Those in which a control beats it.
        above: Those in which it is better than the median method.
        below: Those in which it is worse.
    """

    metrics: int
    scored: int
    first: int
    ahead: int
    behind: int
    above: int
    below: int


def count_answers(table: pd.DataFrame) -> Counts:
    """Answers of a card's main rows, one per metric, counted.

    Raises:
        ValueError: A column is missing.
    """
    check_columns(table, _NEEDED)
    main = table[table["main"].astype(bool)]
    return Counts(
        len(main),
        int(main["rank"].notna().sum()),
        int((main["rank"] == 1).sum()),
        int((main["beats_controls"] == "yes").sum()),
        int((main["beats_controls"] == "no").sum()),
        int((main["versus_median"] == "better").sum()),
        int((main["versus_median"] == "worse").sum()),
    )


def card_summary(table: pd.DataFrame) -> str:
    """What a card says, in one sentence."""
    found = count_answers(table)
    if not found.scored:
        return f"None of {found.metrics} metrics has a score."
    return (
        f"{found.scored} of {found.metrics} metrics have a score: it is first in {found.first}, "
        f"ahead of every control in {found.ahead} and behind one in {found.behind}, "
        f"better than the median method in {found.above} and worse in {found.below}."
    )


def card_text(table: pd.DataFrame, method: str) -> str:
    """The card for a terminal: a sentence, a line per metric under its benchmark, and what is missing, why.

    Args:
        table: Columns as in ``heatcheck.benchmarks.comparison_card.COLUMNS``, in the order of the lines.
        method: Its name.

    Raises:
        ValueError: A column is missing.
    """
    lines: list[tuple[str, tuple[str, ...]]] = [("", _HEADINGS)]
    for heading, rows in _sections(table):
        lines.append((heading, ()))
        lines += [("", (f"  {cells[0]}", *cells[1:])) for cells in map(_cells, rows)]
    widths = [max(len(cells[place]) for _, cells in lines if cells) for place in range(len(_HEADINGS))]
    text = [
        heading or "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for heading, cells in lines
    ]
    return "\n".join([f"{method}: {card_summary(table)}", "", *text, *_gaps(table, "")]) + "\n"


def card_markdown(table: pd.DataFrame, method: str, *, figure: str, made: str) -> str:
    """The card as a page in Markdown, with its figure and how to read it.

    Args:
        table: As for ``card_text``.
        method: Its name.
        figure: Address of the figure from the page.
        made: A sentence about how it was made.

    Raises:
        ValueError: A column is missing.
    """
    lines = [f"| {' | '.join(_HEADINGS)} |", f"|{'---|' * len(_HEADINGS)}"]
    for heading, rows in _sections(table):
        lines.append(f"| **{heading}** |{' |' * (len(_HEADINGS) - 1)}")
        lines += [f"| {' | '.join(_escape(cell) for cell in _cells(row))} |" for row in rows]
    picture = f"![Rank of {method} in every metric]({figure})"
    parts = [f"# {method}", card_summary(table), "\n".join(lines), picture, _READ, made]
    gaps = "\n".join(line for line in _gaps(table, "- ") if line)
    return "\n\n".join([*parts[:3], *([gaps] if gaps else []), *parts[3:]]) + "\n"


def card_row(table: pd.DataFrame, method: str) -> str:
    """One LaTeX row with the rank and its interval in every metric; a dash where there is none.

    Args:
        table: As for ``card_text``; rows of further classifiers are left out.
        method: Its name.
    """
    main = table[table["main"].astype(bool)]
    ranks = [_rank(row, total=False) or "--" for row in main.to_dict("records")]
    return " & ".join([escape_latex(method), *ranks]) + r" \\"


def card_latex(table: pd.DataFrame, method: str) -> str:
    """Two LaTeX tables (booktabs): ranks in one row, and a line per metric with everything.

    Args:
        table: As for ``card_text``.
        method: Its name.

    Raises:
        ValueError: A column is missing.
    """
    check_columns(table, _NEEDED)
    main = table[table["main"].astype(bool)]
    spans = [(title, len(rows)) for title, rows in main.groupby("title", sort=False)]
    starts = np.cumsum([2, *(width for _, width in spans)])
    groups = [rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(str(title))}}}" for title, width in spans]
    rules = [
        rf"\cmidrule(lr){{{start}-{start + width - 1}}}"
        for start, (_, width) in zip(starts, spans, strict=False)
    ]
    head = [
        rf" & {' & '.join(groups)} \\",
        "".join(rules),
        rf"method & {' & '.join(escape_latex(str(label)) for label in main['label'])} \\",
    ]
    most = int(main["n_methods"].max())
    ranked = f"Rank of {method} among up to {most} methods [95 % interval]; 1 is best, a dash is no score."
    columns = "l" + "r" * len(main)
    row = _wide_table(ranked, f"{method}-ranks", columns, head, [card_row(table, method)])
    body: list[str] = []
    for heading, rows in _sections(table):
        body += [r"\addlinespace"] if body else []
        body.append(rf"\multicolumn{{{len(_HEADINGS)}}}{{l}}{{\emph{{{escape_latex(heading)}}}}} \\")
        body += [" & ".join(_latex_cell(cell) for cell in _cells(item)) + r" \\" for item in rows]
    heads = [" & ".join(escape_latex(heading) for heading in _HEADINGS) + r" \\"]
    full = _wide_table(f"{method}: {card_summary(table)} {_READ}", method, "lrrllll", heads, body)
    return f"{row}\n{full}"


def _sections(table: pd.DataFrame) -> list[tuple[str, list[Row]]]:
    """Heading and rows of each benchmark of the main rows, then of each further classifier."""
    check_columns(table, _NEEDED)
    main = table["main"].astype(bool)
    return [
        (f"{title}, {classifier}", rows.to_dict("records"))
        for part in (table[main], table[~main])
        for (title, classifier), rows in part.groupby(["title", "classifier"], sort=False)
    ]


def _cells(row: Row) -> tuple[str, ...]:
    name = f"{row['label']} {_ARROWS[str(row['better'])]}"
    if np.isnan(row["value"]):
        return (name, *["-"] * (len(_HEADINGS) - 1))
    score = f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
    words = (row["best"], row["control"], row["beats_controls"], row["versus_median"])
    return (name, score, _rank(row, total=True), *(str(word) or "-" for word in words))


def _rank(row: Row, *, total: bool) -> str:
    if np.isnan(row["rank"]):
        return ""
    of = f" of {row['n_methods']:.0f}" if total else ""
    # Methods that share a rank stand half-way; ends of an interval may lie anywhere between two ranks.
    low, high = (f"{round(2 * row[end]) / 2:g}" for end in ("rank_low", "rank_high"))
    return f"{row['rank']:g}{of} [{low}, {high}]"


def _gaps(table: pd.DataFrame, bullet: str) -> list[str]:
    """Why metrics have no score, one line per reason, after an empty line."""
    reasons = table[table["why"] != ""].groupby("why", sort=False)["label"]
    lines = [f"{bullet}No {', '.join(dict.fromkeys(labels))}: {why}." for why, labels in reasons]
    return ["", *lines] if lines else []


def _wide_table(caption: str, label: str, columns: str, head: Sequence[str], body: Sequence[str]) -> str:
    lines = [
        r"\begin{table*}",
        r"  \centering\scriptsize\setlength{\tabcolsep}{3pt}",
        rf"  \caption{{{escape_latex(caption)}}}",
        rf"  \label{{tab:card-{re.sub('[^A-Za-z0-9-]+', '-', label)}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        *(f"    {line}" for line in (r"\toprule", *head, r"\midrule", *body, r"\bottomrule")),
        r"  \end{tabular}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: str) -> str:
    return "--" if cell == "-" else escape_latex(cell)


def _escape(cell: str) -> str:
    return cell.replace("|", r"\|").replace("*", r"\*").replace("_", r"\_")
