"""Numbers and names that the comparison chapter, the introduction and the decision page quote in prose."""

from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks.comparison import Results
from heatcheck.benchmarks.comparison_columns import TITLES, find_column, main_columns
from heatcheck.benchmarks.comparison_tables import (
    ALL,
    BY_BENCHMARK,
    HEADLINE,
    MEAN_RANK,
    ONE_EACH,
    kept_methods,
    rank_table,
)

_KEYS = {ALL: "all", ONE_EACH: "one_each", BY_BENCHMARK: "benchmarks"}


def quotable(
    results: Results, agreement: pd.DataFrame, concordance: pd.DataFrame, contradictions: pd.DataFrame
) -> dict[str, Any]:
    """Numbers and names of a comparison.

    Args:
        results: Of the comparison.
        agreement: Its ``agreement_table`` of the main columns.
        concordance: Its ``concordance_table``.
        contradictions: Its ``benchmark_contradictions``.
    """
    main = main_columns(results.columns)
    methods = kept_methods(main)
    ranks = rank_table(results.columns)
    ranks = ranks[ranks[MEAN_RANK].notna()]  # a method without any score has no place
    cells = ranks.drop(columns=MEAN_RANK).to_numpy(dtype=float)
    spread = np.nanmax(cells, axis=1) - np.nanmin(cells, axis=1)
    between = agreement[~agreement["same_benchmark"].astype(bool)]
    random = (between["kendall"] >= between["chance_low"]) & (between["kendall"] <= between["chance_high"])
    decided, opposed = (int(contradictions[name].sum()) for name in ("decided", "contradicted"))
    return {
        "n_methods": len(methods),
        "n_controls": len(results.settings.methods) - len(methods),
        "n_metrics": len(main),
        "n_benchmarks": len(results.settings.benchmarks),
        "n_images": {column.key: len(column.images) for column in main},
        "n_runs": max(column.n_runs for column in main),
        "best": str(ranks.index[0]),
        "best_rank": float(ranks[MEAN_RANK].iloc[0]),
        "best_worst_rank": float(np.nanmax(cells[0])),
        "first": {column.key: _first(column.key, results) for column in main if column.key in HEADLINE},
        "widest": str(ranks.index[int(np.argmax(spread))]),
        "widest_best": float(np.nanmin(cells[int(np.argmax(spread))])),
        "widest_worst": float(np.nanmax(cells[int(np.argmax(spread))])),
        "n_always_top": int((np.nanmax(cells, axis=1) <= len(methods) / 4).sum()),
        "n_pairs": len(between),
        "n_like_random": int(random.sum()),
        "n_opposed": int((between["kendall"] < between["chance_low"]).sum()),
        "n_agreeing": int((between["kendall"] > between["chance_high"]).sum()),
        "decided": decided,
        "contradicted": opposed,
        "contradicted_share": opposed / decided if decided else None,
        "concordance": {
            _KEYS[row["group"]]: {name: _number(row[name]) for name in ("w", "low", "high", "chance")}
            for row in concordance.to_dict("records")
            if row["group"] in _KEYS
        },
        "refused": {TITLES[name]: len(reasons) for name, reasons in results.refused.items()},
    }


def _first(key: str, results: Results) -> str:
    """Best method of a metric, controls left out."""
    column = find_column(results.columns, key)
    methods = kept_methods([column])
    goodness = column.take(methods).goodness()
    return "none" if np.isnan(goodness).all() else methods[int(np.nanargmax(goodness))]


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def partial_means(partial: pd.DataFrame) -> dict[str, float | None]:
    """Mean tau between metrics of different benchmarks, ``before`` and ``after`` a fact is taken out.

    Args:
        partial: A ``partial_table``; pairs without a partial tau count for neither.
    """
    between = partial[~partial["same_benchmark"].astype(bool)].dropna(subset=["kendall", "partial"])
    return {
        "before": _number(float(between["kendall"].mean())),
        "after": _number(float(between["partial"].mean())),
    }
