"""Which metrics belong together: clusters by how alike they rank methods, and how firm the clusters are."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from heatcheck.benchmarks.comparison_columns import Column, main_columns
from heatcheck.benchmarks.comparison_tables import describe_pair, kept_methods, scores_of
from heatcheck.metrics.agreement import correlations_of_draws, rank_correlations

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
N_CLUSTERS = 2


class Clusters(NamedTuple):
    """A tree of ``K`` metrics.

    Attributes:
        order: Their names in the order of the leaves: related ones are neighbors.
        linkage: ``(K - 1, 4)`` as SciPy has it: the two nodes that are joined, their distance, and the number
            of metrics below; leaves are numbered in the order of ``labels``.
        labels: Cluster of each metric when the tree is cut in two, by name; 1 is that of the first metric.
    """

    order: list[str]
    linkage: Array
    labels: dict[str, int]


def cluster(matrix: pd.DataFrame) -> Clusters:
    """Average-linkage tree (Sokal and Michener 1958) of metrics at distances ``(1 - tau) / 2`` in [0, 1].

    The distance is the share of pairs of methods that two metrics without ties order oppositely.

    Metrics that have no tau with any other, as they score no methods, are not in the tree.

    Args:
        matrix: ``(K, K)`` symmetric Kendall's tau, named alike in rows and columns.

    Raises:
        ValueError: The matrix is not of this form, fewer than two metrics are left, or some but not all of
            a metric's taus are NaN; the message names such metrics.
    """
    if list(matrix.index) != list(matrix.columns):
        raise ValueError(f"need a square matrix, named alike on both sides, got {matrix.shape}")
    taus = matrix.to_numpy(dtype=np.float64)
    known = (~np.isnan(taus) & ~np.eye(len(taus), dtype=bool)).any(1)
    names, taus = [str(name) for name in matrix.index[known]], taus[known][:, known]
    if len(names) < N_CLUSTERS:
        raise ValueError(f"need 2 or more metrics with a tau, got {len(names)}")
    if np.isnan(taus).any():
        without = ", ".join(np.array(names)[np.isnan(taus).any(1)])
        raise ValueError(f"no tau for some pairs of {without}; leave out metrics with few scores")
    if not np.allclose(taus, taus.T) or np.abs(taus).max() > 1 + 1e-9:
        raise ValueError("tau must be symmetric and lie in [-1, 1]")
    linkage = _linkage(taus, optimal_ordering=True)
    order = [names[leaf] for leaf in hierarchy.leaves_list(linkage)]
    return Clusters(order, linkage, dict(zip(names, _cut(linkage).tolist(), strict=True)))


def cluster_support(columns: Sequence[Column], *, with_controls: bool = False, seed: int = 0) -> pd.DataFrame:
    """How often resamples put two metrics into one cluster, and make one the nearest of the other.

    Resamples in which some pair of metrics has no tau, as every method is tied, are left out.

    Args:
        columns: Columns of the comparison; the main one of each metric is used, if it has scores.
        with_controls: Count the controls among the methods.
        seed: Seed of the bootstrap over images; columns of the same images are resampled together.

    Returns:
        Both directions of every pair, columns ``first, second, first_label, second_label, same_benchmark,
        kendall``, ``together`` (share of resamples in which a cut of the tree in two leaves both on one
        side), ``nearest`` (share in which ``second`` is of all metrics the one most like ``first``; ties
        share) and ``n_resamples`` used.
    """
    main = _scored(columns)
    taus, draws = _taus(main, with_controls=with_controls, seed=seed)
    draws = draws[~np.isnan(draws).any((1, 2))]
    together, nearest = _together(draws), _nearest(draws)
    rows = [
        {
            **describe_pair(first, second),
            "kendall": float(taus[i, j]),
            "together": float(together[i, j]),
            "nearest": float(nearest[i, j]),
            "n_resamples": len(draws),
        }
        for i, first in enumerate(main)
        for j, second in enumerate(main)
        if i != j
    ]
    named = ["first", "second", "first_label", "second_label", "same_benchmark", "kendall", "together"]
    return pd.DataFrame(rows, columns=[*named, "nearest", "n_resamples"])


def cluster_table(columns: Sequence[Column], *, with_controls: bool = False, seed: int = 0) -> pd.DataFrame:
    """Cluster and nearest other metric of every metric, and how often resamples agree.

    Args:
        columns: Columns of the comparison; the main one of each metric is used, if it has scores.
        with_controls: Count the controls among the methods.
        seed: Seed of the bootstrap over images.

    Returns:
        Columns ``metric, label, benchmark, cluster`` (1 or 2), ``nearest`` and ``nearest_label`` (the metric
        most like it; the first of tied ones), ``nearest_benchmark``, ``tau`` (with the nearest), ``support``
        (share of resamples with the same nearest) and ``cluster_support`` (share of resamples in which two
        metrics are in one cluster, mean over the others of its cluster; NaN if it is alone). No rows for
        fewer than two metrics.

    Raises:
        ValueError: Two metrics score no two methods in common.
    """
    named = ["metric", "label", "benchmark", "cluster", "nearest", "nearest_label", "nearest_benchmark"]
    main = _scored(columns)
    if len(main) < N_CLUSTERS:
        return pd.DataFrame(columns=[*named, "tau", "support", "cluster_support"])
    pairs = cluster_support(main, with_controls=with_controls, seed=seed)
    labels = cluster(_square(pairs, [column.key for column in main], "kendall")).labels
    by_key = {column.key: column.metric for column in main}
    rows = []
    for key, metric in by_key.items():
        mine = pairs[pairs["first"] == key].set_index("second")
        nearest = str(mine["kendall"].idxmax())
        peers = [other for other in by_key if other != key and labels[other] == labels[key]]
        other = by_key[nearest]
        shares = mine["together"].loc[peers]
        rows.append(
            [key, metric.label, metric.benchmark, labels[key], nearest, other.label, other.benchmark,
             float(mine["kendall"].loc[nearest]), float(mine["nearest"].loc[nearest]),
             float(shares.mean()) if peers else float("nan")]
        )  # fmt: skip
    return pd.DataFrame(rows, columns=[*named, "tau", "support", "cluster_support"])


def _scored(columns: Sequence[Column]) -> list[Column]:
    return [column for column in main_columns(columns) if not np.isnan(column.means()).all()]


def _taus(main: Sequence[Column], *, with_controls: bool, seed: int) -> tuple[Array, Array]:
    """Tau ``(K, K)`` of every two metrics, and its resamples ``(R, K, K)``."""
    names = kept_methods(main, with_controls=with_controls)
    scores = [scores_of(column, names, seed) for column in main]
    n_draws = len(scores[0][1]) if scores else 0
    taus, draws = np.eye(len(main)), np.ones((n_draws, len(main), len(main)))
    for i, j in combinations(range(len(main)), 2):
        known = ~(np.isnan(scores[i][0]) | np.isnan(scores[j][0]))
        first, second = ([values[..., known] for values in scores[place]] for place in (i, j))
        taus[i, j] = taus[j, i] = rank_correlations(first[0], second[0])[1]
        draws[:, i, j] = draws[:, j, i] = correlations_of_draws(first[1], second[1])[:, 1]
    return taus, draws


def _linkage(taus: Array, *, optimal_ordering: bool = False) -> Array:
    distances = (1 - taus) / 2
    np.fill_diagonal(distances, 0)
    # Rounding may leave a tau of 1 a little above it, and both triangles a little apart.
    pairs = np.clip(squareform(distances, checks=False), 0, 1)
    linkage: Array = hierarchy.linkage(pairs, method="average", optimal_ordering=optimal_ordering)
    return linkage


def _cut(linkage: Array) -> Labels:
    """Cluster ``(K,)`` of each leaf, 1 or 2; 1 is that of the first leaf. Two leaves or more."""
    n_leaves = len(linkage) + 1
    below = [[leaf] for leaf in range(n_leaves)]
    for first, second in linkage[:, :2].astype(np.int64):
        below.append([*below[first], *below[second]])
    # The last step joins the two clusters; one of them holds the first leaf.
    sides = [below[node] for node in linkage[-1, :2].astype(np.int64)]
    labels = np.full(n_leaves, 2, dtype=np.int64)
    labels[sides[0] if 0 in sides[0] else sides[1]] = 1
    return labels


def _together(draws: Array) -> Array:
    """Share ``(K, K)`` of resamples ``(R, K, K)`` of tau that put two metrics into one cluster."""
    n_metrics = draws.shape[1]
    if not len(draws) or n_metrics < N_CLUSTERS:
        return np.full((n_metrics, n_metrics), np.nan)
    labels = np.stack([_cut(_linkage(taus)) for taus in draws])
    share: Array = (labels[:, :, None] == labels[:, None, :]).mean(0)
    return share


def _nearest(draws: Array) -> Array:
    """Share ``(K, K)`` of resamples in which the second metric is the nearest of the first; ties share."""
    n_metrics = draws.shape[1]
    if not len(draws) or n_metrics < N_CLUSTERS:
        return np.full((n_metrics, n_metrics), np.nan)
    others = np.where(np.eye(n_metrics, dtype=bool), -np.inf, draws)
    # Taus of equal pairs may differ in the last digits.
    best = others >= others.max(2, keepdims=True) - 1e-12
    share: Array = (best / best.sum(2, keepdims=True)).mean(0)
    return share


def _square(pairs: pd.DataFrame, keys: Sequence[str], value: str) -> pd.DataFrame:
    """One value of both directions of every pair as a matrix with 1 on the diagonal."""
    names = list(keys)
    square = pairs.pivot(index="first", columns="second", values=value).reindex(index=names, columns=names)
    values = square.to_numpy(dtype=np.float64, copy=True)
    np.fill_diagonal(values, 1)
    return pd.DataFrame(values, index=names, columns=names)
