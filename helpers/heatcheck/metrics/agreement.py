"""Do two protocols rank methods alike? Spearman and Kendall over methods, with a bootstrap over images."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from heatcheck.metrics.resampling import defined_means, quantiles, resampled_means

Array = NDArray[np.float64]


class RankAgreement(NamedTuple):
    """Agreement of two rankings of ``n`` methods, each with its interval over images.

    Attributes:
        spearman: Rank correlation over methods.
        spearman_low: Lower end of its interval.
        spearman_high: Upper end.
        kendall: Kendall's tau-b over methods.
        kendall_low: Lower end of its interval.
        kendall_high: Upper end.
        n: Methods with a defined mean under both protocols.
    """

    spearman: float
    spearman_low: float
    spearman_high: float
    kendall: float
    kendall_low: float
    kendall_high: float
    n: int


def rank_correlations(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """Spearman's rho and Kendall's tau-b of two scores ``(M,)`` of methods; NaN pairs are left out.

    Both are NaN for fewer than two pairs or where all values of one side are equal.
    """
    left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    defined = ~(np.isnan(left) | np.isnan(right))
    left, right = left[defined], right[defined]
    if len(left) < 2 or (left == left[0]).all() or (right == right[0]).all():
        return float("nan"), float("nan")
    return float(stats.spearmanr(left, right).statistic), float(stats.kendalltau(left, right).statistic)


def protocol_agreement(
    first: Array, second: Array, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> RankAgreement:
    """Agreement of the rankings of ``M`` methods by the means of two protocols.

    Args:
        first: ``(N, M)`` scores; NaN does not count.
        second: ``(N, M)`` scores of the same images and methods; turn the sign of a score so that both are
            better in the same direction.
        level: Coverage of the intervals.
        n_resamples: Number of bootstrap samples; both protocols see the same images.
        seed: Seed of the draws.

    Raises:
        ValueError: Shapes differ or there are fewer than two methods.
    """
    if first.shape != second.shape or first.ndim != 2 or first.shape[1] < 2:
        raise ValueError(f"need two tables (N, M) with M >= 2, got {first.shape} and {second.shape}")
    means = [defined_means(table) for table in (first, second)]
    # A method without any score under one protocol has no rank under it.
    known = ~np.isnan(means[0]) & ~np.isnan(means[1])
    draws = [
        resampled_means(table[:, known], n_resamples=n_resamples, seed=seed) for table in (first, second)
    ]
    return agreement_of_draws(means[0][known], means[1][known], *draws, level=level)


def agreement_of_draws(
    first: Array, second: Array, first_draws: Array, second_draws: Array, *, level: float = 0.95
) -> RankAgreement:
    """Agreement of two scores ``(M,)`` of methods, with intervals from their resamples ``(R, M)``.

    Args:
        first: One score of each method.
        second: Another score of the same methods, better in the same direction.
        first_draws: Resamples of the first score.
        second_draws: Resamples of the second one, from the same draws row by row.
        level: Coverage of the intervals.

    Raises:
        ValueError: The shapes do not fit.
    """
    alike = first.shape == second.shape == first_draws.shape[1:]
    if first.ndim != 1 or not alike or first_draws.shape != second_draws.shape:
        shapes = ", ".join(str(table.shape) for table in (first, second, first_draws, second_draws))
        raise ValueError(f"need two scores (M,) and resamples (R, M) of each, got {shapes}")
    rho, tau = rank_correlations(first, second)
    low, high = quantiles(correlations_of_draws(first_draws, second_draws), level)
    ends = [(float(low[column]), float(high[column])) for column in (0, 1)]
    used = int((~np.isnan(first) & ~np.isnan(second)).sum())
    return RankAgreement(rho, *ends[0], tau, *ends[1], used)


def correlations_of_draws(first: Array, second: Array) -> Array:
    """Spearman's rho and Kendall's tau-b ``(R, 2)`` of the rows of two tables ``(R, M)``.

    Each is what ``rank_correlations`` gives of the two rows.
    """
    found = np.full((len(first), 2), np.nan)
    whole = ~(np.isnan(first) | np.isnan(second)).any(1)
    if first.shape[1] > 1 and whole.any():
        left, right = first[whole], second[whole]
        found[whole, 0] = _cosines(*(_centered(stats.rankdata(table, axis=1)) for table in (left, right)))
        found[whole, 1] = _cosines(*(_orders(table) for table in (left, right)))
    for row in np.flatnonzero(~whole):
        found[row] = rank_correlations(first[row], second[row])
    return found


def _centered(ranks: Array) -> Array:
    centered: Array = ranks - ranks.mean(1, keepdims=True)
    return centered


def _orders(table: Array) -> Array:
    """Which of every two values of a row is larger, ``(R, M (M - 1) / 2)`` in -1, 0, 1.

    The cosine of two such rows is tau-b: equal values leave both numerator and norm.
    """
    first, second = np.triu_indices(table.shape[1], 1)
    signs: Array = np.sign(table[:, first] - table[:, second])
    return signs


def _cosines(first: Array, second: Array) -> Array:
    """Cosine ``(R,)`` of the rows of two tables; NaN where a row is zero."""
    norms = np.sqrt((first**2).sum(1) * (second**2).sum(1))
    products = (first * second).sum(1)
    cosines: Array = np.divide(products, norms, out=np.full(len(first), np.nan), where=norms > 0)
    return cosines
