"""Accuracies of several training runs on the same images: joint bootstrap, spread, and where it comes from.

Run ``s`` of every condition shares initialization, data order and augmentation, and all are tested on the
same images, so runs and images are drawn once per resample for all conditions: differences are paired.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from heatcheck.metrics.resampling import quantiles

Array = NDArray[np.float64]
# Numbers held at once by one step of the bootstrap.
_BLOCK = 1 << 22


class RunSummary(NamedTuple):
    """Means over runs and images, each array of the shape ``(...)`` of the conditions.

    Attributes:
        mean: Over ``S`` runs and ``N`` images.
        std: Standard deviation of the runs' means, ``ddof=1``; NaN for one run.
        t_low: Lower end of Student's interval over runs; NaN for one run.
        t_high: Upper end.
        low: Lower end of the bootstrap interval over runs and images.
        high: Upper end.
    """

    mean: Array
    std: Array
    t_low: Array
    t_high: Array
    low: Array
    high: Array


class TwoLevels(NamedTuple):
    """Variance components of an accuracy over ``C`` explained models times ``S`` training runs.

    Attributes:
        mean: Over all.
        models: Variance between explained models, without that of the runs; estimates below 0 become 0.
        runs: Variance between training runs of one explained model.
        std_error: Of the mean, with both sources in it.
        t_low: Lower end of Student's interval with ``C - 1`` degrees of freedom.
        t_high: Upper end.
    """

    mean: Array
    models: Array
    runs: Array
    std_error: Array
    t_low: Array
    t_high: Array


def resampled_run_means(values: NDArray[Any], *, n_resamples: int = 2000, seed: int = 0) -> Array:
    """Bootstrap means ``(B, ...)`` of values ``(..., S, N)``: runs and images are drawn jointly.

    Every condition sees the same draws, and so does another call with equal ``S``, ``N``, ``B`` and seed:
    any function of several conditions may be computed from the rows. What neither run nor image explains is
    counted three times, so intervals are rather too wide than too narrow (Owen 2007, "The pigeonhole
    bootstrap"); a handful of runs, on the other hand, shows only ``(S - 1) / S`` of their variance.

    Args:
        values: Per condition, run and image; booleans or small integers (correct or not, or the difference
            of two such) are summed exactly, other numbers in float64.
        n_resamples: Number of resamples ``B``.
        seed: Seed of the draws.

    Raises:
        ValueError: There is no run, image or resample, or a value is not finite.
    """
    if values.ndim < 2 or 0 in values.shape[-2:] or n_resamples < 1:
        raise ValueError(
            f"need values (..., runs, images) and at least 1 resample, got shape {values.shape} "
            f"and {n_resamples}"
        )
    counted = values.dtype in (np.bool_, np.int8)
    if not counted and not np.isfinite(values).all():
        raise ValueError("a value is not finite; leave out unfinished runs for all conditions alike")
    n_runs, n_images = values.shape[-2:]
    # Float32 adds whole numbers exactly up to 2**24, which is more than the images of any test set.
    kind = np.float32 if counted and n_images * n_runs < 1 << 24 else np.float64
    rows = values.reshape(-1, n_images)
    blocks = []
    for runs, images in _draws(n_runs, n_images, n_resamples, seed):
        sums = _products(images.astype(kind), rows, kind).reshape(len(runs), -1, n_runs)
        blocks.append((sums * runs[:, None]).sum(-1) / (n_runs * n_images))
    return np.concatenate(blocks).reshape(n_resamples, *values.shape[:-2])


def summarize_runs(
    values: NDArray[Any], *, level: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> RunSummary:
    """Mean, spread over runs, and both intervals of values ``(..., S, N)`` of ``S`` runs on ``N`` images.

    For the difference of two conditions pass ``first.astype(np.int8) - second``: it is paired.

    Args:
        values: As in ``resampled_run_means``.
        level: Coverage of the intervals, in (0, 1).
        n_resamples: Number of resamples.
        seed: Seed of the draws.

    Raises:
        ValueError: As in ``resampled_run_means``, or the level is not in (0, 1).
    """
    draws = resampled_run_means(values, n_resamples=n_resamples, seed=seed)
    low, high = quantiles(draws.reshape(n_resamples, -1), level)
    means = values.mean(-1, dtype=np.float64)
    center, std, t_low, t_high = t_interval(np.moveaxis(means, -1, 0), level=level)
    ends = (end.reshape(center.shape) for end in (low, high))
    return RunSummary(center, std, t_low, t_high, *ends)


def t_interval(values: Array, *, level: float = 0.95) -> tuple[Array, Array, Array, Array]:
    """Mean, standard deviation (``ddof=1``) and Student's interval ``(...)`` of values ``(S, ...)``.

    All but the mean are NaN for one value: it has no spread.

    Args:
        values: One row per run.
        level: Coverage, in (0, 1).

    Raises:
        ValueError: There is no run, or the level is not in (0, 1).
    """
    if values.ndim < 1 or not len(values) or not 0 < level < 1:
        raise ValueError(
            f"need values (runs, ...) of at least 1 run and a level in (0, 1), got shape {values.shape} "
            f"and {level}"
        )
    mean: Array = np.asarray(values.mean(0))
    if len(values) == 1:
        unknown = np.full_like(mean, np.nan)
        return mean, unknown, unknown, unknown
    std: Array = np.asarray(values.std(0, ddof=1))
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * std / len(values) ** 0.5
    return mean, std, mean - half, mean + half


def two_level_variance(values: Array, *, level: float = 0.95) -> TwoLevels:
    """Variance between explained models and between training runs, of values ``(..., C, S)``.

    Balanced one-way random effects by analysis of variance (Searle, Casella and McCulloch 1992, chapter 3):
    ``runs = MSW``, ``models = (MSB - MSW) / S``, ``std_error² = MSB / (C S)``.

    Args:
        values: Per explained model and training run, such as accuracies or areas.
        level: Coverage of the interval, in (0, 1).

    Raises:
        ValueError: There are fewer than two models or two runs each, or the level is not in (0, 1).
    """
    if values.ndim < 2 or min(values.shape[-2:]) < 2 or not 0 < level < 1:
        raise ValueError(
            f"need values (..., models, runs) with at least 2 of each and a level in (0, 1), got shape "
            f"{values.shape} and {level}"
        )
    n_models, n_runs = values.shape[-2:]
    centers = values.mean(-1)
    within = values.var(-1, ddof=1).mean(-1)
    between = n_runs * centers.var(-1, ddof=1)
    mean = np.asarray(centers.mean(-1))
    error = np.sqrt(np.asarray(between) / (n_models * n_runs))
    half = stats.t.ppf((1 + level) / 2, n_models - 1) * error
    models = np.maximum((between - within) / n_runs, 0.0)
    return TwoLevels(mean, models, np.asarray(within), error, mean - half, mean + half)


def bootstrap_p_values(draws: Array) -> Array:
    """Two-sided p-values ``(...)`` that a quantity with resamples ``(B, ...)`` is 0, from ``2 / (B + 1)`` up.

    Twice the smaller share of resamples on either side of 0, the observed sample counted on both (Davison
    and Hinkley 1997, section 4.2). NaN where a resample is undefined.

    Args:
        draws: Resampled differences.
    """
    sides = [1 + (draws <= 0).sum(0), 1 + (draws >= 0).sum(0)]
    p_values = np.minimum(1.0, 2 * np.minimum(*sides) / (len(draws) + 1))
    found: Array = np.where(np.isnan(draws).any(0), np.nan, p_values)
    return found


def _draws(n_runs: int, n_images: int, n_resamples: int, seed: int) -> Iterator[tuple[Array, NDArray[Any]]]:
    """How often each run ``(b, S)`` and image ``(b, N)`` is drawn, block by block of the resamples."""
    for_runs, for_images = (
        np.random.Generator(np.random.Philox(key)) for key in np.random.SeedSequence(seed).spawn(2)
    )
    runs = _counts(for_runs, n_resamples, n_runs).astype(np.float64)
    size = max(1, _BLOCK // n_images)
    for start in range(0, n_resamples, size):
        part = runs[start : start + size]
        yield part, _counts(for_images, len(part), n_images)


def _counts(generator: np.random.Generator, n_rows: int, n: int) -> NDArray[np.int64]:
    drawn = generator.integers(n, size=(n_rows, n)) + n * np.arange(n_rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=n_rows * n).reshape(n_rows, n)


def _products(counts: NDArray[Any], rows: NDArray[Any], kind: type[np.floating[Any]]) -> Array:
    """``counts @ rows.T`` ``(b, Q)`` in float64; the rows are made floating a few at a time."""
    size = max(1, _BLOCK // rows.shape[1])
    parts = [counts @ rows[start : start + size].astype(kind).T for start in range(0, len(rows), size)]
    return np.concatenate(parts, axis=1).astype(np.float64)
