"""How far a metric agrees with itself: on other images, of another classifier, another run, another seed.

Two metrics can hardly agree better than each agrees with itself; these tables say how well that is.
"""

import zlib
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.benchmarks.comparison_chance import tau_of_scores
from heatcheck.benchmarks.comparison_columns import METRICS, Column
from heatcheck.benchmarks.comparison_tables import LEVEL, kept_methods, one_seed, scores_of
from heatcheck.metrics.agreement import correlations_of_draws, rank_correlations
from heatcheck.metrics.chance import kendall_band
from heatcheck.metrics.rank_stability import rank_stability
from heatcheck.metrics.resampling import defined_means, quantiles

Array = NDArray[np.float64]
IMAGES, CLASSIFIERS, RUNS = "other images", "other classifier", "other training run"
SEEDS, WITHIN, BETWEEN = "other seed", "same benchmark", "other benchmark"
KINDS = (IMAGES, CLASSIFIERS, RUNS, SEEDS, WITHIN, BETWEEN)
_NAMED = ("metric", "label", "benchmark")
_TAU = ("kendall", "low", "high", "n", "chance_low", "chance_high")


def halves_table(
    columns: Sequence[Column], *, n_splits: int = 50, with_controls: bool = False, seed: int = 0
) -> pd.DataFrame:
    """Kendall's tau between the rankings of methods on two random halves of the images, per column.

    It is what agreement with itself one may expect of a metric, on half as many images as it has; on all of
    them it would be somewhat larger. Columns of the same images are split alike. Training runs are averaged.

    Args:
        columns: Columns of the comparison; those of fewer than two images are left out.
        n_splits: Random splits; an odd image is left out of each.
        with_controls: Count the controls among the methods.
        seed: Seed of the splits.

    Returns:
        Columns ``metric, label, benchmark, classifier, seed, kendall`` (mean over splits), ``low, high``
        (central 95 % of the splits), ``n`` (methods), ``chance_low, chance_high`` (band of random rankings),
        ``n_half`` (images in each half) and ``n_splits``.

    Raises:
        ValueError: There is no split.
    """
    if n_splits < 1:
        raise ValueError(f"need 1 or more splits, got {n_splits}")
    rows = []
    for column in columns:
        if len(column.images) > 1:
            names = kept_methods([column], with_controls=with_controls)
            values = _halves(column.take(names), n_splits, seed)
            rows.append(_named(column) | _of(column) | values | {"n_splits": n_splits})
    return pd.DataFrame(rows, columns=[*_NAMED, "classifier", "seed", *_TAU, "n_half", "n_splits"])


def classifier_table(
    columns: Sequence[Column], *, with_controls: bool = False, seed: int = 0
) -> pd.DataFrame:
    """Kendall's tau of the same metric between every two classifiers, of the first seed of each.

    Args:
        columns: Columns of the comparison.
        with_controls: Count the controls among the methods.
        seed: Seed of the bootstrap over images; classifiers of the same images are resampled together.

    Returns:
        Columns ``metric, label, benchmark, first, second`` (classifiers), ``kendall, low, high`` (95 %
        interval over images), ``n`` (methods scored with both), ``chance_low, chance_high``.
    """
    rows = [
        _named(first)
        | {"first": first.classifier, "second": second.classifier}
        | _agreement(first, second, with_controls, seed)
        for first, second in combinations(one_seed(columns), 2)
        if first.key == second.key
    ]
    return _in_order(pd.DataFrame(rows, columns=[*_NAMED, "first", "second", *_TAU]))


def run_table(columns: Sequence[Column], *, with_controls: bool = False) -> pd.DataFrame:
    """Agreement between training runs of each column that has several.

    Args:
        columns: Columns of the comparison.
        with_controls: Count the controls among the methods.

    Returns:
        Columns ``metric, label, benchmark, classifier, seed, kendall`` (Kendall's tau, mean over all pairs of
        runs), ``low, high`` (of the pairs that agree least and most: a range, not an interval), ``n``
        (methods with a score in every run), ``chance_low, chance_high``, ``spearman`` (mean over pairs),
        ``concordance`` (Kendall's W), ``p_value`` (of the hypothesis that runs rank at random) and
        ``n_runs``.
    """
    rows = []
    for column in columns:
        if column.n_runs > 1:
            names = kept_methods([column], with_controls=with_controls)
            rows.append(_named(column) | _of(column) | _runs(column.take(names)))
    more = ["spearman", "concordance", "p_value", "n_runs"]
    return pd.DataFrame(rows, columns=[*_NAMED, "classifier", "seed", *_TAU, *more])


def seed_table(columns: Sequence[Column], *, with_controls: bool = False, seed: int = 0) -> pd.DataFrame:
    """Kendall's tau of the same metric and classifier between every two seeds of the heatmaps.

    Args:
        columns: Columns of the comparison, of several seeds.
        with_controls: Count the controls among the methods.
        seed: Seed of the bootstrap over images, which are the same for all seeds of the heatmaps.

    Returns:
        Columns ``metric, label, benchmark, classifier, first, second`` (seeds), ``kendall, low, high`` (95 %
        interval over images), ``n`` (methods scored with both), ``chance_low, chance_high``.
    """
    rows = [
        _named(first)
        | {"classifier": first.classifier, "first": first.seed, "second": second.seed}
        | _agreement(first, second, with_controls, seed)
        for first, second in combinations(columns, 2)
        if (first.key, first.classifier) == (second.key, second.classifier) and first.seed != second.seed
    ]
    return _in_order(pd.DataFrame(rows, columns=[*_NAMED, "classifier", "first", "second", *_TAU]))


def stability_table(
    columns: Sequence[Column],
    agreement: pd.DataFrame,
    *,
    n_splits: int = 50,
    with_controls: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """Every agreement of each metric, with itself and with other metrics, in one table.

    Args:
        columns: Columns of the comparison.
        agreement: Agreement of metrics, as ``comparison_tables.agreement_table`` makes it of the main columns
            (``first, second, same_benchmark, kendall, kendall_low, kendall_high, n, ...``), with controls
            where these tables have them.
        n_splits: Random splits into halves.
        with_controls: Count the controls among the methods.
        seed: Seed of splits and bootstrap.

    Returns:
        Columns ``metric, label, benchmark, kind`` (one of ``KINDS``), ``what`` (the classifiers, runs, seeds
        or other metric compared), ``kendall, low, high, n, chance_low, chance_high``; in the order of
        ``METRICS`` and ``KINDS``.
    """
    keep: dict[str, Any] = {"with_controls": with_controls}
    own = [
        (IMAGES, halves_table(columns, n_splits=n_splits, seed=seed, **keep), "{classifier}, seed {seed}"),
        (CLASSIFIERS, classifier_table(columns, seed=seed, **keep), "{first} and {second}"),
        (RUNS, run_table(columns, **keep), "{n_runs} runs of {classifier}"),
        (SEEDS, seed_table(columns, seed=seed, **keep), "seeds {first} and {second} of {classifier}"),
    ]
    others = _both_ways(agreement)
    within = others["same_benchmark"].astype(bool)
    other = [(WITHIN, others[within], "{other_label}"), (BETWEEN, others[~within], "{other_label}")]
    rows = [row for part in (*own, *other) for row in _labeled(*part)]
    table = pd.DataFrame(rows, columns=[*_NAMED, "kind", "what", *_TAU])
    table["_kind"] = table["kind"].map(KINDS.index)
    return _in_order(table, "_kind").drop(columns="_kind")


def ceiling(table: pd.DataFrame) -> dict[str, float]:
    """Mean Kendall's tau of each metric of a table of this module, in the order of ``METRICS``; NaN left out.

    Of ``halves_table`` it is the agreement that one may expect at most of another metric: how far the metric
    agrees with itself on other images, mean over classifiers and seeds. Metrics without any tau are not in
    it.
    """
    means = table.groupby("metric")["kendall"].mean().dropna()
    return {key: float(means[key]) for key in METRICS if key in means.index}


def _halves(column: Column, n_splits: int, seed: int) -> dict[str, Any]:
    """Tau between halves of the images, over ``n_splits`` splits."""
    values = column.values[:, :, ~np.isnan(column.values).all((0, 1))]
    defined = ~np.isnan(values)
    counts, sums = defined.sum(0).astype(np.float64), np.where(defined, values, 0).sum(0)  # (N, M)
    halves = _splits(column.images, n_splits, seed)
    means = []
    for half in halves:
        used = half @ counts
        means.append(np.divide(half @ sums, used, out=np.full(used.shape, np.nan), where=used > 0))
    taus = correlations_of_draws(*means)[:, [1]]
    low, high = quantiles(taus, LEVEL)
    n_methods = values.shape[2]
    found = (float(defined_means(taus)[0]), float(low[0]), float(high[0]), n_methods, *_band(n_methods))
    return dict(zip(_TAU, found, strict=True)) | {"n_half": len(column.images) // 2}


def _splits(images: Sequence[str], n_splits: int, seed: int) -> tuple[Array, Array]:
    """Members ``(n_splits, N)``, 0 or 1, of the first and the second half of images, by their names."""
    stream = seed + (zlib.crc32("\n".join(images).encode()) << 16)
    generator = np.random.Generator(np.random.Philox(stream))
    half = len(images) // 2
    places = generator.permuted(np.tile(np.arange(len(images)), (n_splits, 1)), axis=1)
    first = places < half
    second = (half <= places) & (places < 2 * half)
    return first.astype(np.float64), second.astype(np.float64)


def _runs(column: Column) -> dict[str, Any]:
    """Agreement between the training runs of a column."""
    scores = defined_means(column.values.swapaxes(0, 1))  # (S, M)
    found = rank_stability(scores)
    known = scores[:, ~np.isnan(scores).any(0)]
    pairs = [rank_correlations(first, second)[1] for first, second in combinations(known, 2)]
    ends = (min(pairs), max(pairs)) if not np.isnan(pairs).any() else (float("nan"),) * 2
    values = (found.kendall, *ends, found.n_methods, *_band(found.n_methods))
    return dict(zip(_TAU, values, strict=True)) | {
        "spearman": found.spearman,
        "concordance": found.concordance,
        "p_value": found.p_value,
        "n_runs": found.n_runs,
    }


def _agreement(first: Column, second: Column, with_controls: bool, seed: int) -> dict[str, Any]:
    names = kept_methods([first, second], with_controls=with_controls)
    return tau_of_scores(scores_of(first, names, seed), scores_of(second, names, seed))


def _band(n_methods: int) -> tuple[float, float]:
    return kendall_band(n_methods, LEVEL) if n_methods > 1 else (float("nan"), float("nan"))


def _named(column: Column) -> dict[str, Any]:
    metric = column.metric
    return {"metric": metric.key, "label": metric.label, "benchmark": metric.benchmark}


def _of(column: Column) -> dict[str, Any]:
    return {"classifier": column.classifier, "seed": column.seed}


def _in_order(table: pd.DataFrame, *more: str) -> pd.DataFrame:
    """Rows in the order of ``METRICS``, and of further columns, else as they come."""
    places = table["metric"].map(list(METRICS).index)
    ordered = table.assign(_place=places).sort_values(["_place", *more], kind="stable", ignore_index=True)
    return ordered.drop(columns="_place")


def _labeled(kind: str, table: pd.DataFrame, what: str) -> list[dict[str, Any]]:
    """Rows of a table with their kind, and with ``what`` filled in from the row."""
    names = (*_NAMED, *_TAU)
    return [
        {name: row[name] for name in names} | {"kind": kind, "what": what.format_map(row)}
        for row in table.to_dict("records")
    ]


def _both_ways(agreement: pd.DataFrame) -> pd.DataFrame:
    """Each row of an agreement table once from either side: ``metric`` and the ``other_label``."""
    shared = {"kendall_low": "low", "kendall_high": "high"}
    sides = []
    for own, other in (("first", "second"), ("second", "first")):
        side = agreement[agreement["first"] != agreement["second"]].rename(columns=shared)
        side = side.assign(metric=side[own], label=side[f"{own}_label"], other_label=side[f"{other}_label"])
        sides.append(side.assign(benchmark=[METRICS[key].benchmark for key in side["metric"]]))
    return pd.concat(sides, ignore_index=True)
