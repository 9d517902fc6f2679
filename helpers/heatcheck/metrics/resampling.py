"""Bootstrap over images, many columns at once: all methods share a resample, so differences are paired."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Resamples times images held at once.
_BLOCK = 1 << 22


class Intervals(NamedTuple):
    """Means ``(P,)`` of columns with their percentile intervals ``low`` and ``high`` ``(P,)``."""

    mean: Array
    low: Array
    high: Array


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
    mean = defined_means(values)
    low, high = quantiles(resampled_means(values, n_resamples=n_resamples, seed=seed), level)
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
    means = np.stack([defined_means(part) for part in parts])  # (L, P)
    # A seed of its own for each stratum: they are drawn independently.
    draws = np.stack(
        [
            resampled_means(part, n_resamples=n_resamples, seed=seed + (index << 32))
            for index, part in enumerate(parts)
        ]
    )  # (L, R, P)
    low, high = quantiles(defined_means(draws), level)
    return Intervals(defined_means(means), low, high)


def defined_means(values: Array) -> Array:
    """Means ``(...)`` of ``values`` ``(N, ...)`` along the first axis; NaN does not count."""
    defined = ~np.isnan(values)
    count = defined.sum(0)
    total = np.where(defined, values, 0).sum(0)
    means: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    return means


def quantiles(samples: Array, level: float) -> tuple[Array, Array]:
    """Ends ``(P,)`` of the central interval of each column of ``samples`` ``(R, P)``; NaN does not count.

    Raises:
        ValueError: ``level`` is not in (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level}")
    empty = np.isnan(samples).all(0)
    safe = np.where(empty, 0.0, samples)
    low, high = np.nanquantile(safe, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)
