"""Figure of published tables: do they agree about the methods that they share?"""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from heatcheck.figures.common import check_columns, named_rows, notice
from heatcheck.figures.style import ACCENT, INK, MUTED, PAGE, size, styled

__all__ = ["published_figure"]

_COLUMNS = ("first", "second", "relation", "n", "kendall", "chance_low", "chance_high")
_BAND = "#e3e3e8"
# Heading of each group of pairs, the one that the comparison is about first.
_GROUPS = {
    "other benchmark": "two benchmarks",
    "other question": "one benchmark, removing against keeping",
    "other data": "one benchmark, two data sets",
    "other network": "one benchmark, two networks",
    "other setting": "one benchmark, two settings",
    "replication": "one benchmark, run twice",
}
_ROW = 0.155  # inches per row


@styled
def published_figure(pairs: pd.DataFrame) -> Figure:
    """Kendall's tau of every pair of published rankings, over the band that two random rankings stay in.

    Pairs of different benchmarks come first, then how well a benchmark agrees with itself. A filled point
    lies outside its band; readings of one pair lie on one line. Pairs that share too few methods for a tau
    are left out, and counted below.

    Args:
        pairs: Columns ``first, second, relation, n, kendall, chance_low, chance_high``, one row per pair and
            reading; ``kendall`` is NaN where too few methods are shared. Without any tau the figure says so.

    Raises:
        ValueError: A column is missing or a relation is unknown.
    """
    check_columns(pairs, _COLUMNS)
    if unknown := sorted(set(pairs["relation"]) - set(_GROUPS)):
        raise ValueError(f"unknown relation {', '.join(unknown)}; allowed: {', '.join(_GROUPS)}")
    known = pairs.dropna(subset=["kendall"])
    if known.empty:
        return notice("no two published tables share enough methods")
    groups = [(title, known[known["relation"] == name]) for name, title in _GROUPS.items()]
    groups = [(title, rows) for title, rows in groups if len(rows)]
    n_rows = sum(_n_pairs(rows) + 1 for _, rows in groups)
    figure = Figure(figsize=size(PAGE, 0.9 + _ROW * n_rows), layout="constrained")
    axis = figure.subplots()
    _draw_groups(axis, groups, n_rows)
    missing = _n_pairs(pairs[pairs["kendall"].isna()])
    _finish(axis, missing)
    figure.legend(handles=_handles(), loc="outside lower center", ncols=3)
    return figure


def _n_pairs(rows: pd.DataFrame) -> int:
    return len(rows[["first", "second"]].drop_duplicates())


def _draw_groups(axis: Axes, groups: list[tuple[str, pd.DataFrame]], n_rows: int) -> None:
    """Groups from top to bottom, each under its heading, one line per pair."""
    named_rows(axis, n_rows)
    axis.grid(visible=False, axis="y")
    place, labels = n_rows - 1, {}
    for title, rows in groups:
        axis.annotate(
            title,
            (0, place),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=7,
            fontweight="bold",
        )
        place -= 1
        for names, readings in rows.groupby(["first", "second"], sort=False):
            labels[place] = f"{names[0]}  ·  {names[1]}  ({int(readings['n'].iloc[0])})"
            _draw_pair(axis, place, readings)
            place -= 1
    axis.set_yticks(list(labels), list(labels.values()))


def _draw_pair(axis: Axes, place: int, readings: pd.DataFrame) -> None:
    low, high = (float(readings[name].iloc[0]) for name in ("chance_low", "chance_high"))
    axis.barh(place, high - low, left=low, height=0.72, color=_BAND, zorder=0)
    taus = readings["kendall"].astype(float)
    axis.plot([taus.min(), taus.max()], [place] * 2, color=ACCENT, linewidth=0.8, zorder=1)
    for tau in taus:
        beyond = not low <= tau <= high
        axis.plot(
            tau,
            place,
            marker="o",
            markersize=4.5,
            color=ACCENT,
            markerfacecolor=ACCENT if beyond else "white",
            linestyle="none",
        )


def _finish(axis: Axes, missing: int) -> None:
    axis.axvline(0, color=MUTED, linewidth=0.6, zorder=0.5)
    axis.set_xlim(-1.05, 1.05)
    axis.tick_params(axis="y", labelsize=6.5)
    note = f"\npairs that share too few methods: {missing}" if missing else ""
    axis.set_xlabel(f"Kendall's tau over shared methods (their number){note}", color=INK)


def _handles() -> list[Line2D | Patch]:
    point = {"marker": "o", "linestyle": "none", "color": ACCENT, "markersize": 4.5}
    return [
        Patch(color=_BAND, label="95 % of random rankings"),
        Line2D([], [], **point, label="beyond chance"),  # type: ignore[arg-type]
        Line2D([], [], **point, markerfacecolor="white", label="within chance"),  # type: ignore[arg-type]
    ]
