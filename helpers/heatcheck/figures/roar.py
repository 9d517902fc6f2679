"""Figures of the remove-and-retrain chapter: tidy tables in, figures out."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from heatcheck.figures.common import check_columns, notice, order
from heatcheck.figures.roar_looks import CONTROLS, OTHERS, PANELS, panel_of, ranking_look, split_ranking
from heatcheck.figures.style import MUTED, PAGE, size, styled

__all__ = ["curves_figure", "summary_figure", "ways_figure"]

_CURVES = ("ranking", "label", "mode", "percent", "mean", "low", "high")
_SUMMARY = ("estimator", "label", "quantity", "estimate", "low", "high")
MODE_TITLES = {"roar": "ROAR: removed", "kar": "KAR: kept"}
_AXES = {"roar": "removed", "kar": "kept"}
_PUBLISHED = {"ImageNet": "o", "Birdsnap": "s", "Food-101": "^"}


@styled
def curves_figure(curves: pd.DataFrame) -> Figure:
    """Accuracy of retrained networks by the share of units: a row for ROAR and KAR, a column per base.

    Color and marker say the ensemble; what is made from none of the three bases has a column of its own. The
    random ranking is in every panel. Bars are the intervals of the table.

    Args:
        curves: Columns ``ranking, label, mode, percent, mean, low, high``; accuracies are fractions. Without
            rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if curves.empty:
        return notice("no curves: the run, or the kept run, is not there")
    check_columns(curves, _CURVES)
    names = [name for name in order(curves["ranking"]) if name != "random"]
    shown = {panel_of(name) for name in names}
    panels = [panel for panel in PANELS if panel in shown] or [OTHERS]
    modes = [mode for mode in MODE_TITLES if mode in set(curves["mode"])]
    figure = Figure(figsize=size(PAGE, 0.75 + 1.85 * len(modes)), layout="constrained")
    axes = figure.subplots(len(modes), len(panels), sharex="row", sharey=True, squeeze=False)
    for row, mode in enumerate(modes):
        for column, panel in enumerate(panels):
            chosen = ["random", *(name for name in names if panel_of(name) == panel)]
            _panel(axes[row, column], curves[curves["mode"] == mode], chosen)
            axes[row, column].set_title(panel if row == 0 else "")
            axes[row, column].set_xlabel(f"units {_AXES[mode]}")
        axes[row, 0].set_ylabel(f"{MODE_TITLES[mode].partition(':')[0]}: accuracy")
    handles = _handles(curves, names)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(handles)))
    return figure


@styled
def summary_figure(summary: pd.DataFrame, published: pd.DataFrame | None = None) -> Figure:
    """Areas and DiffROAR of every estimator with their intervals, the highest RACU on top.

    Args:
        summary: Columns ``estimator, label, quantity, estimate, low, high``; controls are gray. Without rows
            the figure says so.
        published: Columns ``data, method, racu``: hollow markers beside RACU, one per data set.

    Raises:
        ValueError: A column is missing.
    """
    if summary.empty:
        return notice("nothing to compare: ROAR and another estimator than random are needed")
    check_columns(summary, _SUMMARY)
    racu = summary[summary["quantity"] == "RACU"].sort_values("estimate", kind="stable")
    names = order(racu["estimator"])
    quantities = ["RACU", *_others(summary)]
    figure = Figure(figsize=size(PAGE, 0.95 + 0.19 * len(names)), layout="constrained")
    axes = figure.subplots(1, len(quantities), sharey=True, squeeze=False)[0]
    for axis, quantity in zip(axes, quantities, strict=True):
        rows = summary[summary["quantity"] == quantity].set_index("estimator")
        factor = 1 if quantity == "RACU" else 100
        ends = factor * rows[["estimate", "low", "high"]].astype(float)
        for place, name in enumerate(names):
            _dot(axis, list(map(float, ends.loc[name])), place, name)
        axis.axvline(0, color=MUTED, linewidth=0.7, zorder=0)
        axis.set_title({"RACU": "RACU", "ABC KAR": "KAR area"}.get(quantity, quantity))
        axis.set_xlabel("removing →" if quantity == "RACU" else "points →")
    if published is not None:
        handles = _published(axes[0], published, names)
        if handles:
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    labels = dict(zip(racu["estimator"], racu["label"], strict=True))
    axes[0].set_yticks(range(len(names)), [labels[name] for name in names], fontsize=6.5)
    axes[0].set_ylim(-0.7, len(names) - 0.3)
    return figure


@styled
def ways_figure(accuracies: pd.DataFrame) -> Figure:
    """Accuracy under each way to judge, one line per ranking: where lines cross, ways rank differently.

    Args:
        accuracies: Columns ``ranking, label, mode, percent, mean, low, high, text``; ``text`` names the way.
            Without rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if accuracies.empty:
        return notice("no percentage was judged in all ways")
    check_columns(accuracies, (*_CURVES, "text"))
    modes = [mode for mode in MODE_TITLES if mode in set(accuracies["mode"])]
    ways = order(accuracies["text"])
    figure = Figure(figsize=size(PAGE, 3.3), layout="constrained")
    axes = figure.subplots(1, len(modes), sharey=True, squeeze=False)[0]
    for axis, mode in zip(axes, modes, strict=True):
        rows = accuracies[accuracies["mode"] == mode]
        for name in order(rows["ranking"]):
            found = rows[rows["ranking"] == name]
            places = [ways.index(str(text)) for text in found["text"]]
            _line(axis, places, found, name, based=True)
        axis.set_xticks(range(len(ways)), ways, rotation=20, ha="right")
        axis.set_title(f"{MODE_TITLES[mode]}, {int(rows['percent'].iloc[0])} %")
        axis.grid(axis="y")
    axes[0].set_ylabel("accuracy")
    axes[0].yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    handles = [_handle(label, name, based=True) for name, label in _labels(accuracies).items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(handles)))
    return figure


def _panel(axis: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    for name in names:
        found = rows[rows["ranking"] == name].sort_values("percent")
        if len(found):
            _line(axis, (found["percent"] / 100).tolist(), found, name)
    axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.set_ylim(0, 1.03)
    axis.grid(axis="y")


def _line(axis: Axes, places: list[Any], found: pd.DataFrame, name: str, *, based: bool = False) -> None:
    """Draw one ranking; ``based`` tells bases in one panel apart by their lines."""
    look = ranking_look(name, based=based)
    # An end without an interval is drawn without a bar.
    bars = found[["low", "high"]].sub(found["mean"], axis=0).abs().fillna(0).to_numpy().T
    layer: dict[str, Any] = {"color": look.color, "zorder": 1.5 if name in CONTROLS else 2}
    axis.errorbar(
        *(places, found["mean"]), yerr=bars, marker=look.marker, linestyle=look.line, elinewidth=0.7, **layer
    )


def _dot(axis: Axes, ends: list[float], place: float, name: str) -> None:
    look, (mean, low, high) = ranking_look(name), ends
    face = "none" if name in CONTROLS and look.marker not in "x+12" else look.color
    axis.plot([low, high], [place, place], color=look.color, linewidth=1.0)
    axis.plot(mean, place, color=look.color, marker=look.marker, markerfacecolor=face, markersize=4.5)


def _published(axis: Axes, published: pd.DataFrame, names: list[str]) -> list[Line2D]:
    """Draw published values and return what the legend says of them."""
    check_columns(published, ("data", "method", "racu"))
    rows = published[published["method"].isin(names)]
    handles = []
    for data, marker in _PUBLISHED.items():
        found = rows[rows["data"] == data]
        places = [names.index(str(name)) for name in found["method"]]
        look: dict[str, Any] = {"linestyle": "none", "color": MUTED, "markerfacecolor": "none"}
        handles += axis.plot(
            *(found["racu"], places),
            marker=marker,
            markersize=3.5,
            markeredgewidth=0.7,
            label=f"{data}, published",
            zorder=1,
            **look,
        )
    return handles if len(rows) else []


def _others(summary: pd.DataFrame) -> list[str]:
    """The KAR area, and DiffROAR in the middle of its thresholds, where they are known."""
    known = order(summary["quantity"])
    differences = [name for name in known if name.startswith("DiffROAR")]
    middle = differences[len(differences) // 2 : len(differences) // 2 + 1]
    return [*(name for name in known if name == "ABC KAR"), *middle]


def _handles(curves: pd.DataFrame, names: list[str]) -> list[Line2D]:
    """One entry per ensemble, whatever its base, and one for every other ranking."""
    handles = [_handle("Random", "random")] if "random" in set(curves["ranking"]) else []
    labels, seen = _labels(curves), set()
    for name in names:
        ensemble, base = split_ranking(name)
        if not base:
            handles.append(_handle(labels[name], name))
        elif ensemble not in seen:
            seen.add(ensemble)
            handles.append(_handle(ensemble.upper() or "single pass", name))
    return handles


def _labels(table: pd.DataFrame) -> dict[str, str]:
    return dict(zip(table["ranking"].astype(str), table["label"].astype(str), strict=True))


def _handle(label: str, name: str, *, based: bool = False) -> Line2D:
    look = ranking_look(name, based=based)
    return Line2D([], [], color=look.color, marker=look.marker, linestyle=look.line, label=label)
