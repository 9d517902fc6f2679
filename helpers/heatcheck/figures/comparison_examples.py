"""Figure of the comparison's first look: heatmaps of one image, each with the verdicts of all benchmarks."""

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from heatcheck.figures.comparison import RANKS, readable_ink
from heatcheck.figures.images import show, show_heatmap
from heatcheck.figures.style import INK, MUTED, PAGE, is_control, size, styled

Array = NDArray[np.float64]
_PER_ROW = 6


@styled
def verdict_figure(picture: Array, maps: Mapping[str, Array], ranks: pd.DataFrame) -> Figure:
    """Heatmaps of one image in the order of ``ranks``; below each, its rank in every benchmark: dark is good.

    Below the image stand the initials of the benchmarks.

    Args:
        picture: ``(H, W, 3)`` in [0, 1].
        maps: ``(H, W)`` by method; methods without a map are left out.
        ranks: Methods by benchmarks, mean ranks; NaN is none.

    Raises:
        ValueError: No method of ``ranks`` has a map.
    """
    methods = [str(name) for name in ranks.index if name in maps]
    if not methods:
        raise ValueError(f"no method has a map; there are maps of: {', '.join(maps) or 'none'}")
    n_rows = ceil((len(methods) + 1) / _PER_ROW)
    layout = ConstrainedLayoutEngine(h_pad=0.03, w_pad=0.03, hspace=0.0, wspace=0.0)
    figure = Figure(figsize=size(PAGE, 1.55 * n_rows + 0.1), layout=layout)
    axes = figure.subplots(2 * n_rows, _PER_ROW, height_ratios=[5.6, 1] * n_rows, squeeze=False)
    norm = Normalize(1, float(max(2.0, np.nanmax(ranks.to_numpy(dtype=float)))))
    for axis in axes.flat:
        axis.set_axis_off()
    show(axes[0, 0], picture)
    axes[0, 0].set_title("image", fontsize=6.5, loc="center")
    # Whole names would not fit in a cell; the page says what the letters stand for.
    _strip(axes[1, 0], [str(name)[0] for name in ranks.columns], [np.nan] * ranks.shape[1], norm)
    for place, method in enumerate(methods, start=1):
        row, column = divmod(place, _PER_ROW)
        axis = axes[2 * row, column]
        axis.set_axis_on()
        show_heatmap(axis, picture, maps[method])
        axis.set_title(method, fontsize=6.5, color=MUTED if is_control(method) else INK, loc="center")
        values = ranks.loc[method].to_numpy(dtype=float)
        _strip(axes[2 * row + 1, column], [""] * len(values), list(values), norm)
    return figure


def _strip(axis: Axes, names: Sequence[str], values: Sequence[float], norm: Normalize) -> None:
    """One cell per benchmark: its rank, or in the legend its initial letters."""
    axis.set(xlim=(0, len(values)), ylim=(0, 1))
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        known = not np.isnan(value)
        color = RANKS(norm(value)) if known else "#f2f2f5"
        hatch = None if known or name else "/////"
        axis.add_patch(
            Rectangle((place, 0), 1, 1, facecolor=color, edgecolor="white", hatch=hatch, linewidth=0.6)
        )
        text = f"{value:.0f}" if known else name
        axis.text(
            place + 0.5,
            0.5,
            text,
            ha="center",
            va="center_baseline",
            fontsize=6,
            color=readable_ink(color) if known else INK,
        )
