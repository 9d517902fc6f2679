"""What signs are worth to the agreement of benchmarks: the same metric of signed and of absolute maps."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from heatcheck.benchmarks.comparison_columns import UNSIGNED, Column, find_column, main_columns
from heatcheck.benchmarks.comparison_decisions import Decision
from heatcheck.benchmarks.comparison_tables import HEADLINE, interval_of, kept_methods, scores_of
from heatcheck.benchmarks.findings import Finding, decide
from heatcheck.metrics.agreement import correlations_of_draws, rank_correlations

_NAMED = ["metric", "label", "other", "other_label", "other_benchmark"]
_VALUES = ["signed", "absolute", "difference", "low", "high", "n"]


def sign_table(columns: Sequence[Column], unsigned: Sequence[Column], *, seed: int = 0) -> pd.DataFrame:
    """Kendall's tau with the metrics of other benchmarks, of signed maps and of their absolute values.

    Args:
        columns: Columns of the comparison; the main one of each metric is used.
        unsigned: Columns of absolute maps, of the same classifiers.
        seed: Seed of the bootstrap over images; signed and absolute maps are resampled together.

    Returns:
        Columns ``metric, label, other, other_label, other_benchmark, signed, absolute, difference`` (absolute
        minus signed), ``low, high`` (its 95 % interval over images) and ``n`` (methods with all scores). No
        row where there is no absolute twin.
    """
    main = main_columns(columns)
    rows = []
    for key, twin in UNSIGNED.items():
        pair = [column for column in main if column.key == key]
        twins = [column for column in unsigned if column.key == twin.key]
        if not pair or not twins:
            continue
        absolute = find_column(twins, twin.key, pair[0].classifier)
        for other in main:
            if other.metric.benchmark != twin.benchmark:
                rows.append([*_names(pair[0], other), *_compare(pair[0], absolute, other, seed)])
    return pd.DataFrame(rows, columns=[*_NAMED, *_VALUES])


def sign_taus(table: pd.DataFrame) -> dict[str, dict[str, dict[str, float | None]]]:
    """Tau ``signed`` and ``absolute`` by metric and other metric, as prose quotes them.

    Args:
        table: A ``sign_table``, as are those of the other functions.
    """
    taus: dict[str, dict[str, dict[str, float | None]]] = {}
    for row in table.to_dict("records"):
        both = {name: None if np.isnan(row[name]) else float(row[name]) for name in ("signed", "absolute")}
        taus.setdefault(row["metric"], {})[row["other"]] = both
    return taus


def sign_findings(table: pd.DataFrame) -> list[Finding]:
    """Whether IDSDS agrees better with each headline metric of other benchmarks once signs are dropped."""
    rows = table[(table["metric"] == "idsds") & table["other"].isin(HEADLINE)]
    return [
        Finding(
            f"signs_{row['other']}",
            f"Without signs, IDSDS ranks methods more like {row['other_label']}.",
            "this book",
            decide(row["low"], row["high"], supports="positive"),
            "Kendall's tau, absolute maps minus signed maps",
            row["difference"],
            row["low"],
            row["high"],
            row["n"],
        )
        for row in rows.to_dict("records")
    ]


def sign_decisions(table: pd.DataFrame) -> list[Decision]:
    """What to know about signs before benchmarks are compared; nothing where there is no absolute twin."""
    rows = table[(table["metric"] == "idsds") & table["other"].isin(HEADLINE)]
    if rows.empty:
        return []
    said = {1: "closer to", -1: "further from", 0: "not told apart in its distance to"}
    groups: dict[str, list[str]] = {}
    for row in rows.to_dict("records"):
        side = int(row["low"] > 0) - int(row["high"] < 0)
        groups.setdefault(said[side], []).append(row["other_label"])
    answer = "; ".join(f"{text} {', '.join(labels)}" for text, labels in groups.items())
    taus = ", ".join(
        f"{row['other_label']} {row['signed']:+.2f} signed, {row['absolute']:+.2f} absolute"
        for row in rows.to_dict("records")
    )
    question = "What does dropping the sign of heatmaps do to IDSDS?"
    return [Decision("benchmark", question, f"it comes {answer}", f"Kendall's tau with {taus}", "this book")]


def _names(column: Column, other: Column) -> list[str]:
    return [column.key, column.metric.label, other.key, other.metric.label, other.metric.benchmark]


def _compare(signed: Column, absolute: Column, other: Column, seed: int) -> list[float]:
    methods = kept_methods([signed, absolute, other])
    scores = [scores_of(column, methods, seed) for column in (signed, absolute, other)]
    known = ~np.isnan(np.stack([goodness for goodness, _ in scores])).any(0)
    (first, first_draws), (second, second_draws), (third, third_draws) = (
        (goodness[known], draws[:, known]) for goodness, draws in scores
    )
    taus = [rank_correlations(goodness, third)[1] for goodness in (first, second)]
    drawn = [correlations_of_draws(draws, third_draws)[:, 1] for draws in (first_draws, second_draws)]
    low, high = interval_of(drawn[1] - drawn[0])
    return [*taus, taus[1] - taus[0], low, high, int(known.sum())]
