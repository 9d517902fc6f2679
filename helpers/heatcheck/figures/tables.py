"""Tables as readers see them: one row per method, one column per score."""

import pandas as pd

from heatcheck.figures.export import interval_text

_ARROWS = {"lower": "↓", "higher": "↑"}


def wide_table(summary: pd.DataFrame, *, digits: int = 2) -> pd.DataFrame:
    """One row per method with ``mean [low, high]`` of every metric; headings say which direction is better.

    Args:
        summary: Columns ``method, metric, mean, low, high, n, flagged, better``, each metric once per method.
        digits: Decimal places.

    Raises:
        ValueError: A method has two rows for one metric.
    """
    if summary.empty:
        return pd.DataFrame({"method": ["not measured: this data set has no boxes and no masks"]})
    if summary.duplicated(["method", "metric"]).any():
        raise ValueError("a method has several rows for one metric; pass one data set and one fill")
    text = summary.assign(
        text=interval_text(summary, digits=digits),
        column=summary["metric"] + " " + summary["better"].map(_ARROWS),
    )
    order = list(dict.fromkeys(text["column"]))
    methods = list(dict.fromkeys(text["method"]))
    wide = text.pivot(index="method", columns="column", values="text").loc[methods, order]
    flagged = summary.groupby("method")["flagged"].max().loc[methods]
    if flagged.any():
        wide["flagged maps"] = flagged.astype(int)
    return wide.rename_axis(columns=None).reset_index()
