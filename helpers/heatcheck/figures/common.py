"""What figures of several chapters share."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from heatcheck.figures.style import MUTED, PAGE, size


def notice(text: str) -> Figure:
    """A strip that says why there is nothing to draw."""
    figure = Figure(figsize=size(PAGE, 0.8))
    figure.text(0.5, 0.5, text, ha="center", va="center", color=MUTED)
    return figure


def order(column: pd.Series) -> list[str]:
    """Different values of ``column`` as text, in the order in which they come."""
    return [str(value) for value in dict.fromkeys(column)]


def check_columns(table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Refuse a table that lacks one of ``columns``.

    Raises:
        ValueError: It does; the message names those that are missing.
    """
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise ValueError(f"table has no column {', '.join(missing)}; needed: {', '.join(columns)}")


def check_means(table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Refuse a table that lacks one of ``columns`` or has no finite ``mean``.

    Raises:
        ValueError: It is so.
    """
    check_columns(table, columns)
    if table.empty or not np.isfinite(table["mean"].to_numpy(dtype=float)).any():
        raise ValueError("table is empty or holds no finite number; nothing to draw")


def named_rows(axis: Axes, n_rows: int) -> None:
    """Room on the y axis for ``n_rows`` rows with names instead of ticks, over a grid of both directions."""
    axis.set_ylim(-0.7, n_rows - 0.3)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="both")
    axis.set_axisbelow(True)
