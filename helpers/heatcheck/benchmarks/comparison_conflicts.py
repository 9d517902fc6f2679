"""Where benchmarks contradict each other: methods that one metric puts in one order, another in the other.

A metric *decides* a pair of methods if the paired bootstrap interval of their difference excludes zero. Two
metrics *contradict* each other on a pair that both decide, in opposite orders: no reader of either benchmark
would have doubted its answer. Intervals are not corrected for the number of pairs; without any difference,
two unrelated metrics at 95 % would both decide a pair, in opposite orders, once in 800.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.benchmarks.comparison_columns import BENCHMARKS, TITLES, Column, main_columns
from heatcheck.benchmarks.comparison_tables import describe_pair, kept_methods, scores_of
from heatcheck.metrics.resampling import quantiles

Array = NDArray[np.float64]
# Differences of equal scores that rounding leaves, relative to the scores.
_ROUNDING = 1e-12
_COLUMNS = ["first", "second", "first_label", "second_label", "pairs", "decided", "contradicted", "share"]


class _Orders(NamedTuple):
    """How one metric orders every two of ``M`` methods, arrays ``(M (M - 1) / 2,)``.

    Attributes:
        column: The metric's column.
        scored: Whether both methods have a score.
        order: 1 where the first one is better for sure, -1 where the second one is, 0 where undecided.
        strength: Size of the difference, in standard errors.
    """

    column: Column
    scored: NDArray[np.bool_]
    order: NDArray[np.int64]
    strength: Array


class _Both(NamedTuple):
    """What two metrics say of every two methods; arrays of pairs as in ``_Orders``."""

    first: _Orders
    second: _Orders
    scored: NDArray[np.bool_]
    decided: NDArray[np.bool_]
    contradicted: NDArray[np.bool_]
    strength: Array


def contradiction_table(
    columns: Sequence[Column], *, with_controls: bool = False, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """For every two metrics of different benchmarks: how many pairs of methods they order oppositely.

    Args:
        columns: Columns of the comparison; the main one of each metric is used.
        with_controls: Count the controls among the methods.
        level: Coverage of the intervals that decide a pair.
        seed: Seed of the bootstrap.

    Returns:
        Columns ``first, second, first_label, second_label, pairs`` (of methods that have a score under
        both), ``decided`` (under both), ``contradicted`` (of these), ``share`` (contradicted by decided; NaN
        where none is) and ``worst``: the contradiction whose weaker side is strongest in standard errors.
    """
    methods, found = _compare(columns, with_controls, level, seed)
    rows = [
        {
            **describe_pair(both.first.column, both.second.column),
            **_counts([both]),
            "worst": _worst([both], methods),
        }
        for both in found
    ]
    return pd.DataFrame(rows, columns=[*_COLUMNS, "worst"])


def benchmark_contradictions(
    columns: Sequence[Column], *, with_controls: bool = False, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """The table of contradictions, summed over the metrics of every two benchmarks.

    Args:
        columns: As in ``contradiction_table``, as are the others.
        with_controls: Count the controls among the methods.
        level: Coverage of the intervals.
        seed: Seed of the bootstrap.

    Returns:
        Columns of ``contradiction_table``, with names of benchmarks and their titles as labels; a pair of
        methods counts once for each two metrics.
    """
    methods, found = _compare(columns, with_controls, level, seed)
    rows = []
    for first, second in combinations(BENCHMARKS, 2):
        sides = (first, second)
        group = [
            both
            for both in found
            if (both.first.column.metric.benchmark, both.second.column.metric.benchmark) == sides
        ]
        if group:
            names = {
                "first": first,
                "second": second,
                "first_label": TITLES[first],
                "second_label": TITLES[second],
            }
            rows.append(names | _counts(group) | {"worst": _worst(group, methods)})
    return pd.DataFrame(rows, columns=[*_COLUMNS, "worst"])


def method_contradictions(
    columns: Sequence[Column], *, with_controls: bool = False, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """How often each method is one of two that benchmarks contradict each other about, most often first.

    Args:
        columns: As in ``contradiction_table``, as are the others.
        with_controls: Count the controls among the methods.
        level: Coverage of the intervals.
        seed: Seed of the bootstrap.

    Returns:
        Columns ``method, decided, contradicted, share``: pairs with any other method that two metrics of
        different benchmarks both decide, how many of them oppositely, and their ratio (NaN for none).
    """
    methods, found = _compare(columns, with_controls, level, seed)
    sides = np.stack(np.triu_indices(len(methods), 1))
    rows = []
    for place, method in enumerate(methods):
        mine = (sides == place).any(0)
        decided = sum(int(both.decided[mine].sum()) for both in found)
        contradicted = sum(int(both.contradicted[mine].sum()) for both in found)
        rows.append((method, decided, contradicted, _share(contradicted, decided)))
    table = pd.DataFrame(rows, columns=["method", "decided", "contradicted", "share"])
    return table.sort_values("share", ascending=False, kind="stable", na_position="last", ignore_index=True)


def decided_share(columns: Sequence[Column], *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """How many pairs of methods each metric decides: columns ``metric, label, pairs, decided, share``.

    Args:
        columns: Columns of the comparison; the main one of each metric is used, without controls.
        level: Coverage of the intervals.
        seed: Seed of the bootstrap.
    """
    main = main_columns(columns)
    methods = kept_methods(main)
    rows = []
    for column in main:
        orders = _orders(column, methods, level, seed)
        pairs, decided = int(orders.scored.sum()), int((orders.order != 0).sum())
        rows.append((column.key, column.metric.label, pairs, decided, _share(decided, pairs)))
    return pd.DataFrame(rows, columns=["metric", "label", "pairs", "decided", "share"])


def _compare(
    columns: Sequence[Column], with_controls: bool, level: float, seed: int
) -> tuple[list[str], list[_Both]]:
    """The methods, and what every two metrics of different benchmarks say of every two of them."""
    main = main_columns(columns)
    methods = kept_methods(main, with_controls=with_controls)
    orders = [_orders(column, methods, level, seed) for column in main]
    return methods, list(_pairs(orders))


def _orders(column: Column, methods: Sequence[str], level: float, seed: int) -> _Orders:
    first, second = np.triu_indices(len(methods), 1)
    goodness, draws = scores_of(column, methods, seed)
    difference = goodness[first] - goodness[second]
    drawn = draws[:, first] - draws[:, second]
    low, high = quantiles(drawn, level)
    scored = ~np.isnan(difference)
    spread = np.full(len(difference), np.nan)
    spread[scored] = np.nanstd(drawn[:, scored], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # differences that no resample changes
        strength = np.abs(difference) / spread
    zero = _ROUNDING * float(np.abs(goodness[~np.isnan(goodness)]).max(initial=0))
    # NaN is neither above nor below zero.
    return _Orders(column, scored, (low > zero).astype(np.int64) - (high < -zero), strength)


def _pairs(orders: Sequence[_Orders]) -> Iterator[_Both]:
    for first, second in combinations(orders, 2):
        if first.column.metric.benchmark == second.column.metric.benchmark:
            continue
        product = first.order * second.order
        strength = np.minimum(first.strength, second.strength)
        yield _Both(first, second, first.scored & second.scored, product != 0, product < 0, strength)


def _counts(group: Sequence[_Both]) -> dict[str, float]:
    pairs, decided, contradicted = (
        sum(int(part.sum()) for part in parts)
        for parts in zip(*((both.scored, both.decided, both.contradicted) for both in group), strict=True)
    )
    share = _share(contradicted, decided)
    return {"pairs": pairs, "decided": decided, "contradicted": contradicted, "share": share}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _worst(group: Sequence[_Both], methods: Sequence[str]) -> str:
    """The strongest contradiction in words; empty where there is none."""
    first, second = np.triu_indices(len(methods), 1)
    candidates = [
        (float(both.strength[place]), both, int(place))
        for both in group
        for place in np.flatnonzero(both.contradicted)
    ]
    if not candidates:
        return ""
    _, both, place = max(candidates, key=lambda candidate: candidate[0])
    names = [methods[int(first[place])], methods[int(second[place])]]
    if both.first.order[place] < 0:
        names.reverse()
    labels = both.first.column.metric.label, both.second.column.metric.label
    return f"{names[0]} over {names[1]} by {labels[0]}, {names[1]} over {names[0]} by {labels[1]}"
