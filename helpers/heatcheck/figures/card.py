"""Figure of a method's card: where it stands in every metric among the built-in methods."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heatcheck.figures.common import check_columns
from heatcheck.figures.style import INK, MUTED, PAGE, look, size, styled

_NEEDED = (
    *("title", "label", "better", "classifier", "main", "rank", "rank_low", "rank_high", "n_methods"),
    *("control", "control_place", "why"),
)
_ARROWS = {"lower": "↓", "higher": "↑"}
_CELL = "#e9e9ee"
_ROW = 0.21  # inches of a strip
_LONGEST = 95  # characters of a reason that fit beside each other


@styled
def card_figure(table: pd.DataFrame, method: str) -> Figure:
    """One strip of ranks per metric: a box per method, the method's rank, its interval, the best control.

    The best rank is on the left. Where a metric has no score, the strip says why.

    Args:
        table: Columns ``title, label, better, classifier, main, rank, rank_low, rank_high, n_methods,
            control, control_place, why``, in the order from top to bottom; strips of one ``title`` and
            ``classifier`` stand together.
        method: Its name, for its color.

    Raises:
        ValueError: A column is missing or there is no row.
    """
    check_columns(table, _NEEDED)
    if table.empty:
        raise ValueError("table has no row; a card needs at least one metric")
    main = table["main"].astype(bool)
    groups = [
        group
        for part in (table[main], table[~main])
        for group in part.groupby(["title", "classifier"], sort=False)
    ]
    n_lines = len(table) + len(groups)
    figure = Figure(figsize=size(PAGE, 0.55 + _ROW * n_lines), layout="constrained")
    axis = figure.subplots()
    most = int(table["n_methods"].max())
    place, ticks = 0.0, []
    for (title, classifier), rows in groups:
        axis.text(0.4, place + 0.12, str(title), fontsize=7, fontweight="bold", va="center")
        axis.text(most + 0.6, place + 0.12, str(classifier), fontsize=6, color=MUTED, va="center", ha="right")
        for row in rows.to_dict("records"):
            place += 1
            _strip(axis, row, place, method)
            ticks.append((place, f"{row['label']} {_ARROWS[str(row['better'])]}"))
        place += 1
    _frame(axis, most, place, ticks)
    return figure


def _strip(axis: Axes, row: dict[Any, Any], place: float, method: str) -> None:
    if pd.isna(row["rank"]):
        why = str(row["why"])
        text = why if len(why) <= _LONGEST else f"{why[: _LONGEST - 4]} ..."
        axis.text(0.6, place, f"no score: {text}", fontsize=6, color=MUTED, va="center", style="italic")
        return
    total, color = int(row["n_methods"]), look(method).color
    for rank in range(1, total + 1):
        axis.barh(place, 0.86, height=0.62, left=rank - 0.43, color=_CELL, linewidth=0, zorder=1)
    middle = (total + 1) / 2
    axis.plot([middle, middle], [place - 0.42, place + 0.42], color=INK, linewidth=0.7, zorder=2)
    ends = [row["rank_low"] - 0.3, row["rank_high"] + 0.3]
    axis.plot(ends, [place, place], color=color, linewidth=3.2, alpha=0.45, solid_capstyle="butt", zorder=3)
    axis.plot(row["rank"], place, "o", color=color, markersize=6, zorder=5)
    if not pd.isna(row["control_place"]):
        axis.plot(row["control_place"], place, "x", color=INK, markersize=5, markeredgewidth=1.2, zorder=4)
    note = f"{row['rank']:g} of {total}"
    axis.annotate(note, (1, place), xycoords=("axes fraction", "data"), xytext=(4, 0), va="center",
                  textcoords="offset points", fontsize=7, annotation_clip=False)  # fmt: skip
    if row["control"]:
        axis.annotate(str(row["control"]), (1, place), xycoords=("axes fraction", "data"), xytext=(46, 0),
                      va="center", textcoords="offset points", fontsize=6, color=MUTED,
                      annotation_clip=False)  # fmt: skip


def _frame(axis: Axes, most: int, end: float, ticks: list[tuple[float, str]]) -> None:
    """Names, ranks and headings around the strips."""
    axis.set_yticks([place for place, _ in ticks], [name for _, name in ticks])
    axis.set_ylim(end - 0.4, -0.6)
    axis.set_xlim(0.3, most + 0.6)
    axis.set_xticks(sorted({1, *range(5, most + 1, 5), most} - ({most - 1} if most % 5 == 1 else set())))
    axis.tick_params(axis="both", length=0)
    for spine in ("left", "bottom"):
        axis.spines[spine].set_visible(False)
    axis.set_xlabel("← best        rank (bar: 95 % interval, line: the middle)        worst →", color=MUTED)
    for text, shift, color in (("rank", 4, INK), ("best control \N{MULTIPLICATION SIGN}", 46, INK)):
        axis.annotate(text, (1, 0), xycoords=("axes fraction", "data"), xytext=(shift, 0), va="center",
                      textcoords="offset points", fontsize=6, color=color, annotation_clip=False)  # fmt: skip
