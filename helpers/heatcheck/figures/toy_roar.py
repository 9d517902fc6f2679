"""Figure of the toy experiment: accuracy against the share removed, without and with retraining."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from heatcheck.figures.common import check_columns, notice, order
from heatcheck.figures.style import ACCENT, INK, MUTED, PAGE, size, styled

__all__ = ["toy_figure"]

_COLUMNS = ("noise", "ranking", "retrained", "source", "fraction", "mean", "low", "high")
# Color, marker and dashes of each ranking: known truth in strong colors, estimates in mixed ones.
_LOOKS: dict[str, tuple[str, str, Any]] = {
    "ground-truth": (ACCENT, "o", "-"),
    "inverted": ("#0173b2", "s", "-"),
    "random": (MUTED, "x", (0, (1.2, 1.2))),
    "weight": ("#de8f05", "D", (0, (5.0, 1.6))),
    "weight-times-input": ("#029e73", "^", (0, (5.0, 1.4, 1.2, 1.4))),
    "random-per-example": ("#8d8d96", "+", (0, (1.2, 1.2))),
}
_OTHER = (INK, "v", "-")


@styled
def toy_figure(summary: pd.DataFrame, *, noise: str = "per-feature", informative: float = 0.25) -> Figure:
    """Accuracy by share of features removed: weights kept as they were (left), trained again (right).

    Lines are the closed form, markers are measured with 95 % intervals over data sets; rankings of each
    example's own have no closed form, their markers are joined. Dotted lines stand where the true ranking
    has removed all information and where the inverted one begins to.

    Args:
        summary: Columns ``noise, ranking, retrained, source, fraction, mean, low, high``. Without rows of
            that noise the figure says so.
        noise: Which reading of the noise is drawn.
        informative: Share of the features that inform.

    Raises:
        ValueError: A column is missing.
    """
    check_columns(summary, _COLUMNS)
    rows = summary[summary["noise"] == noise]
    if rows.empty:
        return notice(f"the toy experiment was not run with {noise} noise")
    figure = Figure(figsize=size(PAGE, 2.9), layout="constrained")
    panels = zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True)
    for axis, retrained in panels:
        _panel(axis, rows[rows["retrained"] == retrained], informative)
        axis.set_title("Trained again on what is left" if retrained else "Not trained again")
    figure.axes[0].set_ylabel("accuracy on test examples")
    handles = []
    for name in order(rows["ranking"]):
        color, marker, line = _LOOKS.get(name, _OTHER)
        handles.append(Line2D([], [], color=color, marker=marker, linestyle=line, label=name))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(handles)))
    return figure


def _panel(axis: Axes, rows: pd.DataFrame, informative: float) -> None:
    for share in (informative, 1 - informative):
        axis.axvline(share, color=MUTED, linewidth=0.7, linestyle=(0, (1.2, 1.2)), zorder=0)
    axis.axhline(0.5, color=MUTED, linewidth=0.6, zorder=0)
    names = order(rows["ranking"])
    for place, name in enumerate(names):
        color, marker, line = _LOOKS.get(name, _OTHER)
        # Curves may coincide: the first is on top, and those below it have larger markers.
        layer: dict[str, Any] = {"zorder": 3 - place / len(names), "color": color}
        curves = rows[rows["ranking"] == name].sort_values("fraction")
        exact = curves[curves["source"] == "closed form"]
        seen = curves[curves["source"] == "measured"]
        if len(exact):
            axis.plot(exact["fraction"], exact["mean"], linestyle=line, **layer)
        if len(seen):
            # One data set has no interval.
            spread = (seen[["low", "high"]].sub(seen["mean"], axis=0).abs().fillna(0)).to_numpy().T
            joined = "none" if len(exact) else line
            axis.errorbar(
                *(seen["fraction"], seen["mean"]),
                yerr=spread,
                marker=marker,
                linestyle=joined,
                elinewidth=0.8,
                markersize=3 + 0.7 * place,
                **layer,
            )
    axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.set_xlabel("features removed")
    axis.grid(axis="y")
