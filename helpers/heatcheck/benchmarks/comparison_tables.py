"""Tables of the comparison: scores and ranks, and how well metrics and benchmarks agree about methods."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import is_control
from heatcheck.benchmarks.comparison_columns import BENCHMARKS, METRICS, TITLES, Column, main_columns
from heatcheck.metrics.agreement import agreement_of_draws
from heatcheck.metrics.chance import concordance_against_chance, concordances, kendall_band, mean_ranks
from heatcheck.metrics.rank_stability import rank_intervals
from heatcheck.metrics.resampling import defined_means, quantiles
from heatcheck.metrics.statistics import average_ranks

Array = NDArray[np.float64]
LEVEL = 0.95
MEAN_RANK = "mean rank"
# The metric that each benchmark reports first, where one is to stand for it.
HEADLINE = ("mass", "deletion", "idsds", "roar")
ALL, ONE_EACH, BY_BENCHMARK = "all metrics", "one metric per benchmark", "mean rank of each benchmark"


def score_table(columns: Sequence[Column], *, seed: int = 0) -> pd.DataFrame:
    """Score and rank of every method, one row per metric, classifier and method, of the first seed.

    Args:
        columns: Columns of the comparison.
        seed: Seed of the bootstrap over images (and runs).

    Returns:
        Columns ``benchmark, metric, label, classifier, method, is_control, mean, low, high, rank, rank_low,
        rank_high, n, better, why``. Means and their 95 % intervals in the metric's own direction; 1 is the
        best rank, among all methods with a score, controls included; ``n`` images have a score.
    """
    parts = [_scores(column, seed) for column in one_seed(columns)]
    names = ["benchmark", "metric", "label", "classifier", "method", "is_control", "mean", "low", "high"]
    more = ["rank", "rank_low", "rank_high", "n", "better", "why"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*names, *more])


def rank_table(
    columns: Sequence[Column], methods: Sequence[str] | None = None, *, with_controls: bool = False
) -> pd.DataFrame:
    """Rank of every method (rows) under every metric (columns, by label), 1 is best, and the mean rank.

    ``mean rank`` is the mean over benchmarks of the mean over a benchmark's metrics, so that a benchmark of
    four metrics does not count four times; metrics that have no score of a method are left out of its mean.
    Rows are sorted by it.

    Args:
        columns: Columns of the comparison; the main one of each metric is used.
        methods: Methods that are ranked, among themselves; None: all but the controls.
        with_controls: Rank the controls too, among the methods.

    Raises:
        ValueError: A method is in no column.
    """
    main = main_columns(columns)
    names = kept_methods(main, with_controls=with_controls or methods is not None)
    if missing := [name for name in methods or () if name not in names]:
        raise ValueError(f"no scores of {', '.join(missing)}; there are: {', '.join(names)}")
    chosen = [name for name in names if methods is None or name in methods]
    ranks = {column.metric.label: average_ranks(scores_of(column, chosen)[0], best="high") for column in main}
    table = pd.DataFrame(ranks, index=pd.Index(chosen, name="method"), dtype=float)
    groups = [table[labels].to_numpy(dtype=float) for labels in metric_groups(main).values()]
    means = [defined_means(group.T) for group in groups]
    table[MEAN_RANK] = defined_means(np.stack(means)) if means else np.nan
    return table.sort_values(MEAN_RANK, kind="stable", na_position="last")


def metric_groups(columns: Iterable[Column]) -> dict[str, list[str]]:
    """Labels of the metrics of each benchmark, by its title, in the order of ``METRICS``."""
    present = {column.key for column in columns}
    labels = {
        TITLES[benchmark]: [
            metric.label
            for metric in METRICS.values()
            if metric.benchmark == benchmark and metric.key in present
        ]
        for benchmark in BENCHMARKS
    }
    return {title: group for title, group in labels.items() if group}


def agreement_table(columns: Sequence[Column], *, with_controls: bool = False, seed: int = 0) -> pd.DataFrame:
    """Rank agreement over methods of every two columns of the first seed, with 95 % intervals over images.

    Args:
        columns: Columns of the comparison, of any metrics and classifiers.
        with_controls: Count the controls among the methods.
        seed: Seed of the bootstrap; columns of the same images are resampled together.

    Returns:
        Columns ``first, second, first_label, second_label, same_benchmark, classifier_first,
        classifier_second, spearman, spearman_low, spearman_high, kendall, kendall_low, kendall_high, n,
        chance_low, chance_high``; ``n`` methods have a score under both, and the last two bound the band
        that holds tau of two random rankings of ``n`` methods 95 times in 100.
    """
    used = one_seed(columns)
    names = kept_methods(used, with_controls=with_controls)
    scores = [scores_of(column, names, seed) for column in used]
    rows = [
        describe_pair(used[i], used[j]) | _agreement(*scores[i], *scores[j])
        for i, j in combinations(range(len(used)), 2)
    ]
    labels = ["first", "second", "first_label", "second_label", "same_benchmark", "classifier_first"]
    values = ["spearman", "spearman_low", "spearman_high", "kendall", "kendall_low", "kendall_high", "n"]
    named = [*labels, "classifier_second", *values, "chance_low", "chance_high"]
    return pd.DataFrame(rows, columns=named)


def matrix(table: pd.DataFrame, value: str = "kendall") -> pd.DataFrame:
    """One value of an agreement table as a square of metric labels, with 1 on the diagonal.

    Where there are several rows of a pair of metrics, the first counts: that of the main columns.

    Raises:
        ValueError: The table has no such value.
    """
    if value not in table.columns:
        raise ValueError(f"no value {value!r}; allowed: {', '.join(table.columns)}")
    named = {
        key: label
        for side in ("first", "second")
        for key, label in zip(table[side], table[f"{side}_label"], strict=True)
    }
    labels = [named[key] for key in METRICS if key in named]
    square = pd.DataFrame(np.eye(len(labels)), index=labels, columns=labels)
    found: dict[frozenset[str], float] = {}
    for row in table.to_dict("records"):
        found.setdefault(frozenset((row["first_label"], row["second_label"])), float(row[value]))
    for first, second in combinations(labels, 2):
        both = found.get(frozenset((first, second)), float("nan"))
        square.loc[first, second] = square.loc[second, first] = both
    return square


def concordance_table(
    columns: Sequence[Column], *, with_controls: bool = False, seed: int = 0
) -> pd.DataFrame:
    """Kendall's W of groups of metrics, and of the benchmarks as wholes, against that of random rankings.

    A group ranks the methods that have a score under all its metrics; metrics without any score are left
    out, and groups of fewer than two raters too.

    Args:
        columns: Columns of the comparison; the main one of each metric is used.
        with_controls: Count the controls among the methods.
        seed: Seed of the bootstrap and of the random rankings.

    Returns:
        Columns ``group, raters, n_methods, w, low, high`` (95 % percentile interval over images), ``chance``
        (95th percentile of W of random rankings) and ``p_value`` (of the hypothesis of random rankings).
    """
    main = [column for column in main_columns(columns) if not np.isnan(column.means()).all()]
    names = kept_methods(main, with_controls=with_controls)
    scores = {column.key: scores_of(column, names, seed) for column in main}
    rows = [
        {"group": group, **_concordance([[scores[key] for key in rater] for rater in raters], seed)}
        for group, raters in _groups(list(scores))
        if len(raters) > 1
    ]
    return pd.DataFrame(
        rows, columns=["group", "raters", "n_methods", "w", "low", "high", "chance", "p_value"]
    )


def one_seed(columns: Sequence[Column]) -> list[Column]:
    """One column per metric and classifier, of the first seed that has it, in the given order."""
    first: dict[tuple[str, str], Column] = {}
    for column in columns:
        first.setdefault((column.key, column.classifier), column)
    return list(first.values())


def kept_methods(columns: Iterable[Column], *, with_controls: bool = False) -> list[str]:
    """All methods of ``columns`` in the order in which they come, without the controls unless asked for."""
    load_catalog()
    methods = dict.fromkeys(name for column in columns for name in column.methods)
    return [name for name in methods if with_controls or not is_control(name)]


def interval_of(draws: Array) -> tuple[float, float]:
    """Ends of the central 95 % of resamples ``(R,)`` of one number; NaN does not count."""
    low, high = quantiles(draws[:, None], LEVEL)
    return float(low[0]), float(high[0])


def scores_of(column: Column, methods: Sequence[str], seed: int = 0) -> tuple[Array, Array]:
    """Goodness ``(M,)`` of ``methods`` and its resamples ``(R, M)``; NaN for methods without a score."""
    places = [column.methods.index(name) if name in column.methods else -1 for name in methods]
    absent = np.array(places, dtype=np.int64) < 0
    goodness, draws = column.goodness()[places], column.draws(seed=seed)[:, places]
    return np.where(absent, np.nan, goodness), np.where(absent, np.nan, draws)


def describe_pair(first: Column, second: Column) -> dict[str, object]:
    """What the columns of a pair of metrics are called in tables."""
    return {
        "first": first.key,
        "second": second.key,
        "first_label": first.metric.label,
        "second_label": second.metric.label,
        "same_benchmark": first.metric.benchmark == second.metric.benchmark,
        "classifier_first": first.classifier,
        "classifier_second": second.classifier,
    }


def _scores(column: Column, seed: int) -> pd.DataFrame:
    """Rows of one column in the table of scores."""
    load_catalog()
    goodness, draws = column.goodness(), column.draws(seed=seed)
    low, high = quantiles(column.metric.sign * draws, LEVEL)
    ranks = rank_intervals(goodness, draws, best="high", level=LEVEL)
    scored = ~np.isnan(goodness)
    return pd.DataFrame(
        {
            "benchmark": column.metric.benchmark,
            "metric": column.key,
            "label": column.metric.label,
            "classifier": column.classifier,
            "method": column.methods,
            "is_control": [is_control(name) for name in column.methods],
            "mean": column.means(),
            "low": low,
            "high": high,
            "rank": ranks.rank,
            "rank_low": np.where(scored, ranks.low, np.nan),
            "rank_high": np.where(scored, ranks.high, np.nan),
            "n": (~np.isnan(column.values)).any(0).sum(0),
            "better": column.metric.better,
            "why": [column.why.get(name, "") for name in column.methods],
        }
    )


def _agreement(first: Array, first_draws: Array, second: Array, second_draws: Array) -> dict[str, float]:
    known = ~(np.isnan(first) | np.isnan(second))
    found = agreement_of_draws(
        first[known], second[known], first_draws[:, known], second_draws[:, known], level=LEVEL
    )
    low, high = kendall_band(found.n, LEVEL) if found.n > 1 else (float("nan"),) * 2
    return {**found._asdict(), "chance_low": low, "chance_high": high}


def _groups(keys: Sequence[str]) -> Iterator[tuple[str, list[list[str]]]]:
    """Name of each group and its raters, each the metrics whose mean rank it is."""
    own = {
        benchmark: [key for key in keys if METRICS[key].benchmark == benchmark] for benchmark in BENCHMARKS
    }
    yield ALL, [[key] for key in keys]
    yield ONE_EACH, [[key] for key in HEADLINE if key in keys]
    yield BY_BENCHMARK, [group for group in own.values() if group]
    for benchmark, group in own.items():
        yield TITLES[benchmark], [[key] for key in group]


def _concordance(raters: Sequence[Sequence[tuple[Array, Array]]], seed: int) -> dict[str, float]:
    """W of raters, each the mean rank over some scores with their resamples."""
    every = np.stack([goodness for rater in raters for goodness, _ in rater])
    known = ~np.isnan(every).any(0)
    found = {"raters": len(raters), "n_methods": int(known.sum())}
    if known.sum() < 2:
        return found | dict.fromkeys(("w", "low", "high", "chance", "p_value"), float("nan"))
    # Goodness of a mean rank: a low one is good.
    point = [-mean_ranks(np.stack([goodness[known] for goodness, _ in rater])) for rater in raters]
    drawn = [-mean_ranks(np.stack([draws[:, known] for _, draws in rater], axis=1)) for rater in raters]
    chance = concordance_against_chance(np.stack(point), seed=seed)
    low, high = interval_of(concordances(np.stack(drawn, axis=1)))
    return found | chance._asdict() | {"low": low, "high": high}
