"""Bootstrap over images, many columns at once: all methods share a resample, so differences are paired."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
# Resamples times images held at once.
_BLOCK = 1 << 22


class Intervals(NamedTuple):
    """Means ``(P,)`` of columns with their percentile intervals ``low`` and ``high`` ``(P,)``."""

    mean: Array
    low: Array
    high: Array


class Agreement(NamedTuple):
    """Kendall's tau-b between two rankings of methods, with its bootstrap interval over images."""

    tau: float
    low: float
    high: float


def resampled_means(values: Array, *, n_resamples: int = 2000, seed: int = 0) -> Array:
    """Bootstrap means ``(R, P)`` of values ``(N, P)``: each resample draws the same images for all columns.

    Args:
        values: One row per image, one column per method or curve point; NaN does not count.
        n_resamples: Number of resamples ``R``.
        seed: Seed of the draws; equal ``N``, ``R`` and seed give the same images.

    Returns:
        NaN where a resample holds no defined value of a column.

    Raises:
        ValueError: Values are not ``(N, P)`` with at least one row, or there is no resample.
    """
    if values.ndim != 2 or not len(values) or n_resamples < 1:
        raise ValueError(f"need values (N, P) and at least 1 resample, got {values.shape} and {n_resamples}")
    n = len(values)
    generator = np.random.Generator(np.random.Philox(seed))
    defined = ~np.isnan(values)
    filled = np.where(defined, values, 0.0)
    blocks = []
    for start in range(0, n_resamples, max(1, _BLOCK // n)):
        size = min(max(1, _BLOCK // n), n_resamples - start)
        counts = generator.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)  # (size, N)
        used = counts @ defined
        blocks.append(np.divide(counts @ filled, used, out=np.full(used.shape, np.nan), where=used > 0))
    return np.concatenate(blocks)


def mean_intervals(
    values: Array, *, level: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> Intervals:
    """Mean of each column of ``values`` ``(N, P)`` with its percentile interval (Efron 1979).

    Args:
        values: One row per image; NaN does not count.
        level: Coverage, in (0, 1).
        n_resamples: Number of bootstrap samples.
        seed: Seed of the draws.
    """
    defined = ~np.isnan(values)
    counts = defined.sum(0)
    mean = np.divide(
        np.where(defined, values, 0).sum(0), counts, out=np.full(counts.shape, np.nan), where=counts > 0
    )
    low, high = _quantiles(resampled_means(values, n_resamples=n_resamples, seed=seed), level)
    return Intervals(mean, low, high)


def stratified_intervals(
    values: Array, strata: NDArray[np.int64], *, level: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> Intervals:
    """Mean over strata of the mean within each, with an interval from images drawn within their strata.

    Args:
        values: ``(N, P)``, one row per image; NaN does not count, nor does a stratum without a value.
        strata: ``(N,)`` stratum of each image, such as its class.
        level: Coverage, in (0, 1).
        n_resamples: Number of bootstrap samples.
        seed: Seed of the draws.
    """
    labels = np.unique(strata)
    parts = [values[strata == label] for label in labels]
    means = np.stack([mean_intervals(part, n_resamples=1).mean for part in parts])  # (L, P)
    # A seed of its own for each stratum: they are drawn independently.
    draws = np.stack(
        [
            resampled_means(part, n_resamples=n_resamples, seed=seed + (index << 32))
            for index, part in enumerate(parts)
        ]
    )  # (L, R, P)
    low, high = _quantiles(_mean_over_strata(draws), level)
    return Intervals(_mean_over_strata(means), low, high)


def _mean_over_strata(values: Array) -> Array:
    """Mean along the first axis; NaN does not count."""
    defined = ~np.isnan(values)
    count = defined.sum(0)
    total = np.where(defined, values, 0).sum(0)
    means: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    return means


def rank_agreement(
    first: Array, second: Array, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> Agreement:
    """Kendall's tau-b between the rankings of ``M`` methods by the means of two scores.

    Args:
        first: ``(N, M)`` scores of the same images and methods as ``second``; NaN does not count.
        second: ``(N, M)``; turn the sign of a score so that both are better in the same direction.
        level: Coverage of the interval over images.
        n_resamples: Number of bootstrap samples.
        seed: Seed of the draws.

    Raises:
        ValueError: Shapes differ, or there are fewer than two methods.
    """
    if first.shape != second.shape or first.shape[1] < 2:
        raise ValueError(f"need two tables (N, M) with M >= 2, got {first.shape} and {second.shape}")
    left = resampled_means(first, n_resamples=n_resamples, seed=seed)
    right = resampled_means(second, n_resamples=n_resamples, seed=seed)
    taus = np.array([_tau(a, b) for a, b in zip(left, right, strict=True)])[:, None]
    low, high = _quantiles(taus, level)
    return Agreement(_tau(np.nanmean(first, 0), np.nanmean(second, 0)), float(low[0]), float(high[0]))


def _tau(first: Array, second: Array) -> float:
    defined = ~(np.isnan(first) | np.isnan(second))
    return float(stats.kendalltau(first[defined], second[defined]).statistic)


def _quantiles(samples: Array, level: float) -> tuple[Array, Array]:
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level}")
    empty = np.isnan(samples).all(0)
    safe = np.where(empty, 0.0, samples)
    low, high = np.nanquantile(safe, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)
