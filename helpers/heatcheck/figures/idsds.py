"""Figures of the single-deletion chapter about methods and protocols: tidy tables in, figures out."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heatcheck.figures.common import check_columns, check_means, named_rows, notice, order
from heatcheck.figures.style import INK, MUTED, PAGE, look, size, styled

_HIGHER = "higher is better →"
_ABSOLUTE = ("abs", "relu")
_CONTROL, _ALIGNED = "control", "asks for deletions"


@styled
def methods_figure(table: pd.DataFrame, *, ceiling: float | None = None) -> Figure:
    """Mean score of every row of the study with its interval, the best on top of each kind.

    Raw maps are filled, absolute ones hollow, controls gray and hollow.

    Args:
        table: Columns ``row, kind, method, transform, model, mean, low, high``, in the order from top to
            bottom; a new kind begins after a line.
        ceiling: Score of the absolute true drops, a dashed line; None: no line.

    Raises:
        ValueError: A column is missing or the table is empty.
    """
    check_means(table, ("row", "kind", "method", "transform", "model", "mean", "low", "high"))
    figure = Figure(figsize=size(PAGE, 0.65 + 0.155 * len(table)), layout="constrained")
    axis = figure.subplots()
    rows = table.iloc[::-1].reset_index(drop=True)
    for place, row in enumerate(rows.to_dict("records")):
        _dot(axis, row, place, hollow=row["kind"] == _CONTROL or row["transform"] in _ABSOLUTE,
             muted=row["kind"] == _CONTROL)  # fmt: skip
        if place and row["kind"] != rows["kind"].iloc[place - 1]:
            axis.axhline(place - 0.5, color=MUTED, linewidth=0.5, linestyle=(0, (1, 2)))
    if ceiling is not None:
        axis.axvline(ceiling, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
        axis.annotate("|true drop|", (ceiling, 1), xycoords=("data", "axes fraction"), xytext=(2, 2),
                      textcoords="offset points", fontsize=6, color=INK)  # fmt: skip
    axis.axvline(0, color=MUTED, linewidth=0.7, zorder=0)
    main = rows["model"].mode().iloc[0]
    pairs = zip(rows["row"], rows["model"], strict=True)
    names = [row if model == main else f"{row} ({model})" for row, model in pairs]
    axis.set_yticks(range(len(rows)), names, fontsize=6.5)
    for label, kind in zip(axis.get_yticklabels(), rows["kind"], strict=True):
        label.set(color=MUTED if kind == _CONTROL else INK, style="normal" if kind != _CONTROL else "italic")
    named_rows(axis, len(rows))
    axis.set_xlabel(f"mean rank correlation, {_HIGHER}", color=MUTED, fontsize=7, loc="right")
    return figure


@styled
def transforms_figure(table: pd.DataFrame) -> Figure:
    """What taking absolute values changes: both scores of each method left, the paired difference right.

    Args:
        table: Columns ``method, raw, abs, difference, low, high``; the difference is raw minus absolute.

    Without rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if table.empty:
        return notice("no method was run both raw and absolute")
    check_columns(table, ("method", "raw", "abs", "difference", "low", "high"))
    rows = table.sort_values("difference", na_position="first", kind="stable").reset_index(drop=True)
    figure = Figure(figsize=size(PAGE, 0.75 + 0.17 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for place, row in enumerate(rows.to_dict("records")):
        color = look(str(row["method"])).color
        left.plot([row["raw"], row["abs"]], [place, place], color=color, linewidth=0.9, alpha=0.6)
        left.plot(row["raw"], place, "o", color=color, markersize=4.5)
        left.plot(row["abs"], place, "o", color=color, markerfacecolor="white", markersize=4.5)
        _dot(right, row | {"mean": row["difference"]}, place, hollow=row["low"] <= 0 <= row["high"])
    right.axvline(0, color=MUTED, linewidth=0.7, zorder=0)
    left.set_yticks(range(len(rows)), list(rows["method"]), fontsize=6.5)
    left.set_title("Score: raw (filled), absolute (hollow)")
    right.set_title("Raw minus absolute, paired")
    for axis in (left, right):
        named_rows(axis, len(rows))
    return figure


@styled
def noise_figure(table: pd.DataFrame, *, reference: float = 1.0) -> Figure:
    """Score of smoothed maps by the noise, one panel per base method; dashed where nothing is smoothed.

    Args:
        table: Columns ``method, base, row, transform, noise, mean, low, high``; noise 0 is unsmoothed.
        reference: Standard deviation of the published study, marked by a dotted line.

    Without rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if table.empty:
        return notice("no noise was varied")
    check_columns(table, ("method", "base", "row", "transform", "noise", "mean", "low", "high"))
    methods = order(table["method"])
    figure = Figure(figsize=size(PAGE, 2.5), layout="constrained")
    axes = figure.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for axis, method in zip(axes, methods, strict=True):
        for transform, marker in (("raw", "o"), ("abs", "s")):
            rows = table[(table["method"] == method) & (table["transform"] == transform)]
            noisy, plain = rows[rows["noise"] > 0], rows[rows["noise"] == 0]
            color = look(method).color if transform == "raw" else MUTED
            label = "raw" if transform == "raw" else "absolute"
            axis.fill_between(
                noisy["noise"], noisy["low"], noisy["high"], color=color, alpha=0.12, linewidth=0
            )
            axis.plot(noisy["noise"], noisy["mean"], color=color, marker=marker, label=label)
            for value in plain["mean"]:
                axis.axhline(value, color=color, linewidth=0.9, linestyle=(0, (4, 2)))
        axis.axvline(reference, color=INK, linewidth=0.7, linestyle=(0, (1, 2)))
        axis.axhline(0, color=MUTED, linewidth=0.6, zorder=0)
        axis.set_xscale("log", base=2)
        ticks = sorted({float(value) for value in table["noise"] if value > 0})
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.set_title(f"SmoothGrad of {table[table['method'] == method]['base'].iloc[0]}")
        axis.set_xlabel("standard deviation of the noise, in inputs")
    axes[0].set_ylabel("mean rank correlation")
    axes[0].legend()
    return figure


@styled
def baselines_figure(table: pd.DataFrame) -> Figure:
    """Score of integrated gradients by the baseline: raw filled, absolute hollow.

    Args:
        table: Columns ``label, transform, mean, low, high``.

    Without rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if table.empty:
        return notice("no baselines were compared")
    check_columns(table, ("label", "transform", "mean", "low", "high"))
    labels = order(table["label"])[::-1]
    figure = Figure(figsize=size(PAGE, 0.7 + 0.18 * len(labels)), layout="constrained")
    axis = figure.subplots()
    for row in table.to_dict("records"):
        place = labels.index(str(row["label"])) + (0.13 if row["transform"] == "raw" else -0.13)
        method = "ig-uniform" if str(row["label"]).startswith("uniform") else "integrated-gradients"
        _dot(axis, row | {"method": method}, place, hollow=row["transform"] in _ABSOLUTE)
    axis.axvline(0, color=MUTED, linewidth=0.7, zorder=0)
    axis.set_yticks(range(len(labels)), labels, fontsize=6.5)
    named_rows(axis, len(labels))
    axis.set_xlabel(f"mean rank correlation, {_HIGHER}", color=MUTED, fontsize=7, loc="right")
    return figure


@styled
def ranks_figure(table: pd.DataFrame) -> Figure:
    """Rank of each method under several protocols, one line per method; absolute maps are dashed.

    Args:
        table: Columns ``protocol, method, transform, row, rank``; 1 is best.

    Without rows the figure says so.

    Raises:
        ValueError: A column is missing.
    """
    if table.empty:
        return notice("a single protocol was run")
    check_columns(table, ("protocol", "method", "transform", "row", "rank"))
    protocols = order(table["protocol"])
    ranks = table.pivot(index=["method", "transform", "row"], columns="protocol", values="rank")[protocols]
    figure = Figure(figsize=size(PAGE, 0.9 + 0.15 * len(ranks)), layout="constrained")
    axis = figure.subplots()
    for name, line in zip(list(ranks.index), ranks.to_numpy(dtype=float), strict=True):
        style, absolute = look(str(name[0])), name[1] in _ABSOLUTE
        axis.plot(
            range(len(protocols)), line, color=style.color, linestyle=(0, (2, 1.5)) if absolute else "-",
            marker="o", markerfacecolor="white" if absolute else style.color, linewidth=1.2,
        )  # fmt: skip
    for place, side, shift in ((0, "right", -6), (len(protocols) - 1, "left", 6)):
        ends = ranks[protocols[place]]
        for rank in dict.fromkeys(ends):
            # Methods of equal rank share one label.
            tied = [name for name, value in zip(list(ranks.index), ends, strict=True) if value == rank]
            text, color = ", ".join(str(name[2]) for name in tied), look(str(tied[0][0])).color
            axis.annotate(text, (place, rank), xytext=(shift, 0), ha=side, va="center",
                          textcoords="offset points", fontsize=6, color=color)  # fmt: skip
    axis.set_xticks(range(len(protocols)), protocols)
    axis.set_xlim(-0.45, len(protocols) - 0.55)
    axis.set_ylim(len(ranks) + 0.6, 0.4)
    axis.set_ylabel("rank, 1 is best")
    axis.tick_params(axis="x", length=0)
    for spine in ("left", "bottom"):
        axis.spines[spine].set_visible(False)
    axis.set_yticks([])
    return figure


def _dot(axis: Axes, row: dict[Any, Any], place: float, *, hollow: bool, muted: bool = False) -> None:
    """Mean of a row with its interval."""
    color = MUTED if muted else look(str(row["method"])).color
    ends = [row["low"], row["high"]]
    axis.plot(ends, [place, place], color=color, linewidth=1.6, alpha=0.55, solid_capstyle="butt")
    face = "white" if hollow else color
    axis.plot(row["mean"], place, "o", color=color, markerfacecolor=face, markersize=4.2)
