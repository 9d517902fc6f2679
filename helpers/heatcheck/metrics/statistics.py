"""From scores per image to means with intervals, ranks, and paired tests."""

from collections.abc import Mapping
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from heatcheck.metrics.resampling import mean_intervals

Array = NDArray[np.float64]
Test = Literal["wilcoxon", "sign-flip"]
# Resampled values held at once, so that memory does not grow with images or resamples.
_BLOCK = 1 << 21
# Up to this many nonzero differences all sign patterns are counted instead of drawn.
_EXACT_SIGNS = 14


class Interval(NamedTuple):
    """A mean with its bootstrap interval.

    Attributes:
        mean: Mean of the defined values; NaN if there are none.
        low: Lower end.
        high: Upper end.
        n: Number of values used.
        n_excluded: Number of undefined (NaN) values or pairs left out.
    """

    mean: float
    low: float
    high: float
    n: int
    n_excluded: int


class Summary(NamedTuple):
    """Mean, population standard deviation, and quantiles with linear interpolation; NaN values left out."""

    mean: float
    std: float
    median: float
    minimum: float
    maximum: float
    percentile_20: float
    percentile_80: float
    n: int
    n_excluded: int


class PairedTest(NamedTuple):
    """Comparison of two methods on the same images.

    Attributes:
        first: Name of the first method.
        second: Name of the second.
        difference: Mean of first minus second.
        p_value: Two-sided, of the single test.
        p_holm: Corrected for all tests of the family.
        n: Number of pairs used.
        n_excluded: Number of pairs with an undefined value.
    """

    first: str
    second: str
    difference: float
    p_value: float
    p_holm: float
    n: int
    n_excluded: int


def bootstrap_mean(
    values: ArrayLike, *, level: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> Interval:
    """Mean of values ``(N,)`` with its percentile bootstrap interval over images (Efron 1979).

    Args:
        values: One per image; NaN is left out and counted.
        level: Coverage of the interval, in (0, 1).
        n_resamples: Number of bootstrap samples.
        seed: Equal seeds and numbers of values give equal samples, so intervals of methods are paired.

    Raises:
        ValueError: Values are not one-dimensional or infinite, or an argument is out of range.
    """
    if not 0 < level < 1 or n_resamples < 1:
        raise ValueError(f"need a level in (0, 1) and at least 1 resample, got {level} and {n_resamples}")
    every = _column(values)
    used = every[~np.isnan(every)]
    excluded = len(every) - len(used)
    if not len(used):
        return Interval(np.nan, np.nan, np.nan, 0, excluded)
    mean, low, high = mean_intervals(used[:, None], level=level, n_resamples=n_resamples, seed=seed)
    return Interval(float(mean[0]), float(low[0]), float(high[0]), len(used), excluded)


def paired_bootstrap(
    first: ArrayLike, second: ArrayLike, *, level: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> Interval:
    """Mean of ``first - second`` over the same images, with its bootstrap interval.

    A pair with an undefined value is left out and counted. Arguments are those of ``bootstrap_mean``.

    Raises:
        ValueError: The numbers of values differ, or as in ``bootstrap_mean``.
    """
    return bootstrap_mean(_differences(first, second), level=level, n_resamples=n_resamples, seed=seed)


def summarize(values: ArrayLike) -> Summary:
    """Summary of values ``(N,)``, NaN left out and counted; all NaN if nothing is left."""
    every = _column(values)
    used = every[~np.isnan(every)]
    excluded = len(every) - len(used)
    if not len(used):
        nan = float("nan")
        return Summary(nan, nan, nan, nan, nan, nan, nan, 0, excluded)
    low, middle, high = (float(value) for value in np.quantile(used, [0.2, 0.5, 0.8]))
    center, spread = float(used.mean()), float(used.std())
    return Summary(
        center, spread, middle, float(used.min()), float(used.max()), low, high, len(used), excluded
    )


def average_ranks(values: ArrayLike, *, best: Literal["low", "high"]) -> Array:
    """Ranks ``(M,)`` from 1, the best; equal values share the mean of their ranks, NaN stays NaN.

    Args:
        values: One score per method.
        best: Whether a low or a high score is better.

    Raises:
        ValueError: ``best`` is neither.
    """
    if best not in ("low", "high"):
        raise ValueError(f"best must be 'low' or 'high', got {best!r}")
    column = _column(values)
    ranks = np.full(len(column), np.nan)
    defined = ~np.isnan(column)
    ranks[defined] = stats.rankdata(column[defined] if best == "low" else -column[defined])
    return ranks


def paired_tests(
    scores: Mapping[str, ArrayLike], *, reference: str | None = None, test: Test = "wilcoxon", seed: int = 0
) -> list[PairedTest]:
    """Paired tests of all methods against each other or a reference, corrected by Holm (1979).

    Args:
        scores: For each method its values ``(N,)`` on the same images.
        reference: Compare this method with each other one; by default all pairs.
        test: ``wilcoxon`` (signed rank) or ``sign-flip`` (permutation of signs).
        seed: Seed of the drawn sign patterns.

    Raises:
        ValueError: The reference or test is unknown, or the numbers of values differ.
    """
    if reference is not None and reference not in scores:
        raise ValueError(f"unknown reference {reference!r}; known: {', '.join(scores)}")
    pairs = list(combinations(scores, 2))
    if reference is not None:
        pairs = [(reference, name) for name in scores if name != reference]
    columns = [_differences(scores[first], scores[second]) for first, second in pairs]
    used = [column[~np.isnan(column)] for column in columns]
    p_values = [paired_p_value(column, test=test, seed=seed) for column in used]
    return [
        PairedTest(
            *pair,
            float(kept.mean()) if len(kept) else np.nan,
            p,
            float(corrected),
            len(kept),
            len(column) - len(kept),
        )
        for pair, column, kept, p, corrected in zip(
            pairs, columns, used, p_values, holm(p_values), strict=True
        )
    ]


def paired_p_value(differences: ArrayLike, *, test: Test = "wilcoxon", seed: int = 0) -> float:
    """Two-sided p-value that paired differences ``(N,)`` are symmetric around 0.

    Zero differences count for neither side; if all are zero it is 1, and NaN if there are none at all.

    Args:
        differences: NaN is left out.
        test: ``wilcoxon``: signed ranks, exact for few values without ties. ``sign-flip``: share of sign
            patterns whose absolute sum reaches the observed one, all of them for few values, else 9999 drawn
            ones and the observed one.
        seed: Seed of the drawn patterns.

    Raises:
        ValueError: Unknown test.
    """
    if test not in ("wilcoxon", "sign-flip"):
        raise ValueError(f"unknown test {test!r}; allowed: wilcoxon, sign-flip")
    column = _column(differences)
    column = column[~np.isnan(column)]
    if not len(column):
        return float("nan")
    column = column[column != 0]
    if not len(column):
        return 1.0
    return float(stats.wilcoxon(column).pvalue) if test == "wilcoxon" else _sign_flip(column, seed)


def holm(p_values: ArrayLike) -> Array:
    """Holm's step-down corrected p-values in the given order; NaN stays NaN and does not count as a test."""
    column = _column(p_values)
    corrected = np.full(len(column), np.nan)
    defined = np.flatnonzero(~np.isnan(column))
    order = defined[np.argsort(column[defined], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1, np.maximum.accumulate(factors * column[order])) if len(order) else []
    return corrected


def _sign_flip(column: Array, seed: int, n_patterns: int = 9999) -> float:
    # Scaled so that rounding of the sums cannot decide between equal patterns.
    scaled = column / np.abs(column).max()
    least = abs(scaled.sum()) - 1e-9 * len(column)
    if len(column) <= _EXACT_SIGNS:
        codes = np.arange(2 ** len(column))[:, None] >> np.arange(len(column))
        return float((np.abs((1 - 2 * (codes & 1)) @ scaled) >= least).mean())
    generator = np.random.Generator(np.random.Philox(seed))
    block = max(1, _BLOCK // len(column))
    reached = 1
    for start in range(0, n_patterns, block):
        bits = generator.random((min(block, n_patterns - start), len(column))) < 0.5
        reached += int((np.abs(np.where(bits, 1.0, -1.0) @ scaled) >= least).sum())
    return reached / (n_patterns + 1)


def _differences(first: ArrayLike, second: ArrayLike) -> Array:
    left, right = _column(first), _column(second)
    if len(left) != len(right):
        raise ValueError(f"paired values must be of the same images, got {len(left)} and {len(right)} values")
    return left - right


def _column(values: ArrayLike) -> Array:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or np.isinf(column).any():
        raise ValueError(f"values must be one-dimensional without infinities, got shape {column.shape}")
    return column
