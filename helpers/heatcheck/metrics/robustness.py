"""From similarities over settings of a method to what is reported: how robust its heatmaps are."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heatcheck.metrics.statistics import Interval, bootstrap_mean, paired_bootstrap

Array = NDArray[np.float64]


class Robustness(NamedTuple):
    """Similarity to the reference setting over ``N`` images and ``V`` other settings.

    Attributes:
        mean: Mean over images of the mean over settings, with its bootstrap interval over images; images
            without any defined value are left out and counted.
        deviation: Square root of the mean over images of the variance over settings: how much a choice of
            the setting matters for one image, not how much images differ.
        n_undefined: Number of undefined values among all ``N * V``.
    """

    mean: Interval
    deviation: float
    n_undefined: int


def aggregate_similarity(
    scores: ArrayLike, *, level: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> Robustness:
    """Summary of similarities ``(N, V)`` to the reference setting, as in Bansal et al. (2020).

    Args:
        scores: One row per image, one column per setting that differs from the reference; NaN is left out.
        level: Coverage of the interval over images.
        n_resamples: Number of bootstrap samples.
        seed: Equal seeds and numbers of images give equal samples.

    Raises:
        ValueError: Scores are not ``(N, V)`` with a setting at least, or infinite.
    """
    table = _table(scores)
    mean = bootstrap_mean(_row_means(table), level=level, n_resamples=n_resamples, seed=seed)
    variances = _row_variances(table)
    defined = variances[~np.isnan(variances)]
    deviation = float(np.sqrt(defined.mean())) if len(defined) else float("nan")
    return Robustness(mean, deviation, int(np.isnan(table).sum()))


def compare_similarity(
    generative: ArrayLike, base: ArrayLike, *, level: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> Interval:
    """Mean of the G variant's similarity minus the base method's, with its paired bootstrap interval.

    Above 0 the G variant is the more robust one. Per image only settings count that are defined for both;
    an image without any is left out and counted.

    Args:
        generative: ``(N, V)`` similarities of the variant that inpaints.
        base: ``(N, V)`` of the method itself: same images, settings, seeds and segmentations.
        level: Coverage of the interval over images.
        n_resamples: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: The tables differ in shape, or as in ``aggregate_similarity``.
    """
    first, second = _table(generative), _table(base)
    if first.shape != second.shape:
        raise ValueError(
            f"both tables must hold the same images and settings, got {first.shape} and {second.shape}"
        )
    undefined = np.isnan(first) | np.isnan(second)
    means = [_row_means(np.where(undefined, np.nan, table)) for table in (first, second)]
    return paired_bootstrap(*means, level=level, n_resamples=n_resamples, seed=seed)


def accuracy_spread(
    values: ArrayLike, *, level: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> Interval:
    """Mean over images of the standard deviation over settings of a score ``(N, S)``, with its interval.

    A mean over the data set can stay the same while the score of every image changes; this cannot
    (Bansal et al. 2020). The reference is one of the settings. An image with fewer than two defined values
    is left out and counted.

    Args:
        values: One row per image, one column per setting, the reference included; NaN is left out.
        level: Coverage of the interval over images.
        n_resamples: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: As in ``aggregate_similarity``.
    """
    table = _table(values)
    deviations = np.sqrt(_row_variances(table))
    deviations[(~np.isnan(table)).sum(1) < 2] = np.nan
    return bootstrap_mean(deviations, level=level, n_resamples=n_resamples, seed=seed)


def _row_means(table: Array) -> Array:
    """Mean ``(N,)`` of the defined values of each row; NaN without any."""
    defined = ~np.isnan(table)
    counts = defined.sum(1)
    totals = np.where(defined, table, 0).sum(1)
    means: Array = np.divide(totals, counts, out=np.full(len(table), np.nan), where=counts > 0)
    return means


def _row_variances(table: Array) -> Array:
    """Population variance ``(N,)`` of the defined values of each row; NaN without any."""
    return _row_means(np.square(table - _row_means(table)[:, None]))


def _table(values: ArrayLike) -> Array:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.shape[1] or np.isinf(table).any():
        raise ValueError(
            f"need a table (N, V), a row per image and a column per setting, without infinities; "
            f"got shape {table.shape}"
        )
    return table
