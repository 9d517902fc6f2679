"""Would another run rank the estimators alike? Agreement of several rankings, and intervals of ranks."""

from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from heatcheck.metrics.agreement import rank_correlations
from heatcheck.metrics.resampling import defined_means, quantiles
from heatcheck.metrics.statistics import average_ranks

Array = NDArray[np.float64]


class RankStability(NamedTuple):
    """Agreement of ``n_runs`` rankings of ``n_methods`` methods.

    Attributes:
        spearman: Mean of Spearman's rho over all pairs of runs.
        kendall: Mean of Kendall's tau-b over all pairs of runs.
        concordance: Kendall's W, 0 (unrelated) to 1 (equal).
        p_value: Of the hypothesis that the runs rank at random (Friedman's test).
        n_runs: Number of runs.
        n_methods: Number of methods with a score in every run.
    """

    spearman: float
    kendall: float
    concordance: float
    p_value: float
    n_runs: int
    n_methods: int


class RankIntervals(NamedTuple):
    """Ranks ``(M,)`` of methods, 1 is best, with the ends of their intervals."""

    rank: Array
    low: Array
    high: Array


def kendall_w(scores: Array) -> float:
    """Kendall's coefficient of concordance of scores ``(S, M)`` of ``S`` runs, corrected for ties.

    ``12 sum (R_m - mean R)² / (S² (M³ - M) - S sum (t³ - t))`` with rank sums ``R`` and tie sizes ``t``
    (Kendall and Babington Smith 1939). NaN where every run scores all methods alike.

    Args:
        scores: One row per run, without NaN.

    Raises:
        ValueError: There are fewer than two runs or methods, or a score is NaN.
    """
    if scores.ndim != 2 or min(scores.shape) < 2 or np.isnan(scores).any():
        raise ValueError(
            f"concordance needs scores (runs, methods), two or more of each and none NaN, got {scores.shape}"
        )
    n_runs, n_methods = scores.shape
    sums = stats.rankdata(scores, axis=1).sum(0)
    ties = sum(float((sizes**3 - sizes).sum()) for sizes in map(_tie_sizes, scores))
    scale = n_runs**2 * (n_methods**3 - n_methods) - n_runs * ties
    return float(12 * ((sums - sums.mean()) ** 2).sum() / scale) if scale > 0 else float("nan")


def rank_stability(scores: Array) -> RankStability:
    """Agreement between runs of scores ``(S, M)``; methods without a score in some run are left out.

    All measures are NaN where fewer than two methods are left.

    Args:
        scores: One row per run (seed, explained model, fill, training scheme, ...); NaN is no score.

    Raises:
        ValueError: There are fewer than two runs.
    """
    if scores.ndim != 2 or len(scores) < 2:
        raise ValueError(f"stability needs scores (runs, methods) of at least 2 runs, got {scores.shape}")
    known = scores[:, ~np.isnan(scores).any(0)]
    n_runs, n_methods = known.shape
    if n_methods < 2:
        nan = float("nan")
        return RankStability(nan, nan, nan, nan, n_runs, n_methods)
    pairs = np.array([rank_correlations(first, second) for first, second in combinations(known, 2)])
    rho, tau = defined_means(pairs)
    w = kendall_w(known)
    p_value = float(stats.chi2.sf(n_runs * (n_methods - 1) * w, n_methods - 1))
    return RankStability(float(rho), float(tau), w, p_value, n_runs, n_methods)


def rank_intervals(
    scores: Array, draws: Array, *, best: Literal["low", "high"], level: float = 0.95
) -> RankIntervals:
    """Ranks of scores ``(M,)`` with intervals from their resamples ``(B, M)``: what the data can order.

    Args:
        scores: One score per method; NaN has no rank.
        draws: Resamples of the scores.
        best: Whether a low or a high score is better.
        level: Coverage of the intervals.

    Raises:
        ValueError: The shapes do not fit or ``best`` is unknown.
    """
    if draws.ndim != 2 or draws.shape[1:] != scores.shape:
        raise ValueError(f"need scores (M,) and resamples (B, M), got {scores.shape} and {draws.shape}")
    ranks = average_ranks(scores, best=best)
    resampled = stats.rankdata(draws if best == "low" else -draws, axis=1, nan_policy="omit")
    low, high = quantiles(resampled, level)
    return RankIntervals(ranks, low, high)


def _tie_sizes(row: Array) -> NDArray[np.int64]:
    sizes: NDArray[np.int64] = np.unique(row, return_counts=True)[1]
    return sizes
