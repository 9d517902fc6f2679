"""Figure of the published table: what removing says of an estimator against what keeping says."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from heatcheck.figures.common import check_columns, notice, order
from heatcheck.figures.style import ACCENT, INK, MUTED, PAGE, size, styled

__all__ = ["published_scatter"]

_COLUMNS = ("data", "method", "racu", "abc_kar", "doubtful")
_BASES = {"grad": "#0173b2", "ig": "#56b4e9", "gb": "#de8f05"}
_ENSEMBLES = {"": "o", "sq": "v", "sg": "s", "sq-sg": "<", "sg-sq": "D", "var": "^"}


@styled
def published_scatter(summary: pd.DataFrame, agreement: pd.DataFrame | None = None) -> Figure:
    """RACU (removing) against the area over random when keeping, one panel per data set.

    Both are positive for estimators that are better than random. Color is the base, shape the ensemble;
    controls are crosses; a ring marks an estimator with a doubtful cell.

    Args:
        summary: Columns ``data, method, racu, abc_kar, doubtful``, areas as fractions. Without rows the
            figure says so.
        agreement: Columns ``first, second, data, percent, spearman``: the rank correlation of ROAR and KAR
            over whole curves (``percent`` missing) is written into the panel of its data set.

    Raises:
        ValueError: A column is missing.
    """
    check_columns(summary, _COLUMNS)
    if summary.empty:
        return notice("there is no summary to draw")
    names = order(summary["data"])
    figure = Figure(figsize=size(PAGE, 2.6), layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for axis, name in zip(axes, names, strict=True):
        _points(axis, summary[summary["data"] == name])
        axis.set_title(name)
        if agreement is not None:
            _correlation(axis, agreement, name)
    axes[0].set_ylabel("keeping: area over\nrandom, points →")
    axes[len(axes) // 2].set_xlabel("removing: RACU, higher is better →")
    handles = _handles(summary)
    lines = -(-len(handles) // 9)
    columns = -(-len(handles) // lines)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, columnspacing=1.2)
    return figure


def _points(axis: Axes, rows: pd.DataFrame) -> None:
    axis.margins(0.08)
    for line in (axis.axhline, axis.axvline):
        line(0, color=MUTED, linewidth=0.6, zorder=0)
    for method, racu, kept, doubtful in rows[list(_COLUMNS[1:])].itertuples(index=False, name=None):
        color, marker = _look(str(method))
        axis.plot(racu, 100 * kept, color=color, marker=marker, linestyle="none", label=str(method))
        if doubtful:
            axis.plot(
                *(racu, 100 * kept),
                color=ACCENT,
                marker="o",
                markersize=9,
                fillstyle="none",
                linestyle="none",
            )


def _correlation(axis: Axes, agreement: pd.DataFrame, data: str) -> None:
    rows = agreement[(agreement["first"] == "roar") & (agreement["data"] == data)]
    rows = rows[rows["percent"].isna()]
    if len(rows):
        text = f"\N{GREEK SMALL LETTER RHO} = {float(rows['spearman'].iloc[0]):+.2f}"
        axis.set_title(text, loc="right", fontsize=6.5, fontweight="normal")


def _look(method: str) -> tuple[str, str]:
    """Color of the base and marker of the ensemble; controls are gray crosses."""
    ensemble, _, base = method.rpartition("-")
    return (_BASES[base], _ENSEMBLES.get(ensemble, "P")) if base in _BASES else (MUTED, "x")


def _handles(summary: pd.DataFrame) -> list[Line2D]:
    """Bases by color, ensembles by shape, then what else is drawn; only what the table holds."""
    parts = [method.rpartition("-") for method in order(summary["method"])]
    bases = [base for base in _BASES if any(part[2] == base for part in parts)]
    used = {part[0] for part in parts if part[2] in _BASES}
    handles = [_handle(base.upper(), _BASES[base], "o") for base in bases]
    shown = [(ensemble, marker) for ensemble, marker in _ENSEMBLES.items() if ensemble in used]
    handles += [_handle(ensemble.upper() or "single pass", INK, marker) for ensemble, marker in shown]
    if any(part[2] not in _BASES for part in parts):
        handles.append(_handle("control", MUTED, "x"))
    if summary["doubtful"].any():
        ring = _handle("doubtful cell", ACCENT, "o")
        ring.set(fillstyle="none", markersize=8)
        handles.append(ring)
    return handles


def _handle(label: str, color: str, marker: str) -> Line2D:
    return Line2D([], [], label=label, color=color, marker=marker, linestyle="none")
