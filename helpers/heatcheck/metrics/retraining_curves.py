"""Summaries of accuracy against the share of units replaced or kept: areas, RACU, DiffROAR.

All functions take accuracies in any unit, fractions or per cent, and work along the last axis, so that one
call serves one curve, all estimators, or thousands of resampled curves.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# Thresholds of Table 2 of Hooker et al. (2019), in per cent of the units.
GRID = (10, 30, 50, 70, 90)


def whole_curves(
    accuracies: ArrayLike, first: ArrayLike, last: ArrayLike, percents: Sequence[int] = GRID
) -> tuple[Array, Array]:
    """Curves over the whole axis: positions ``(P + 2,)`` in [0, 1] and accuracies ``(..., P + 2)``.

    A ROAR curve starts at the accuracy without removal, trained through the same pipeline, and ends at the
    accuracy of the majority class; a KAR curve starts and ends the other way round.

    Args:
        accuracies: ``(..., P)`` at ``percents``.
        first: ``(...)`` or a number: accuracy at 0 %.
        last: ``(...)`` or a number: accuracy at 100 %.
        percents: Thresholds, rising, in 1 to 99.

    Raises:
        ValueError: The thresholds do not rise within 1 to 99 or do not fit the accuracies.
    """
    inner = _values(accuracies, percents)
    ends = [np.broadcast_to(np.asarray(end, dtype=np.float64), inner.shape[:-1]) for end in (first, last)]
    curves = np.concatenate([ends[0][..., None], inner, ends[1][..., None]], axis=-1)
    return np.array([0, *percents, 100]) / 100, curves


def area_between(positions: ArrayLike, upper: ArrayLike, lower: ArrayLike) -> Array:
    """Area ``(...)`` of ``upper - lower`` by trapezoids, in the unit of the accuracies.

    ROAR: ``area_between(x, random, estimator)`` is positive for an estimator that is better than random.
    KAR: ``area_between(x, estimator, random)`` is. With a matched control in the place of random it is the
    advantage over that control.

    Args:
        positions: ``(P,)`` rising.
        upper: ``(..., P)``.
        lower: ``(..., P)``.

    Raises:
        ValueError: The positions do not rise, or a curve has another number of points.
    """
    x = np.asarray(positions, dtype=np.float64)
    curves = [np.asarray(curve, dtype=np.float64) for curve in (upper, lower)]
    if x.ndim != 1 or len(x) < 2 or not (np.diff(x) > 0).all():
        raise ValueError(f"positions must be two or more rising numbers, got {x.tolist()}")
    if any(curve.ndim < 1 or curve.shape[-1] != len(x) for curve in curves):
        shapes = " and ".join(str(curve.shape) for curve in curves)
        raise ValueError(f"curves must have {len(x)} points, one per position; got shapes {shapes}")
    return np.asarray(np.trapezoid(curves[0] - curves[1], x, axis=-1), dtype=np.float64)


def racu(
    positions: ArrayLike, random: ArrayLike, estimator: ArrayLike, chance: ArrayLike, *, clip: bool = True
) -> Array:
    """Relative area between the ROAR curves ``(...)``: 0 as random, 1 if all is lost at once, below 0 worse.

    ``area(random - estimator) / area(random - chance)`` (Madsen et al. 2022, "Evaluating the Faithfulness of
    Importance Measures in NLP by Recursively Masking Allegedly Important Tokens and Retraining").

    Args:
        positions: ``(P,)`` rising, the whole axis.
        random: ``(..., P)`` curve of the random ranking, or of another control.
        estimator: ``(..., P)`` curve of the estimator.
        chance: ``(...)`` or a number: accuracy of the majority class.
        clip: Limit the value to [-1, 1].

    Returns:
        NaN where the random curve encloses no positive area over chance: there is nothing to relate to.

    Raises:
        ValueError: As for ``area_between``.
    """
    reference = np.asarray(random, dtype=np.float64)
    floor = np.asarray(chance, dtype=np.float64)[..., None] * np.ones_like(reference)
    gained = area_between(positions, reference, estimator)
    whole = np.broadcast_to(area_between(positions, reference, floor), gained.shape)
    share: Array = np.divide(gained, whole, out=np.full(gained.shape, np.nan), where=whole > 0)
    return np.clip(share, -1.0, 1.0) if clip else share


def diff_roar(kar: ArrayLike, roar: ArrayLike, percents: Sequence[int] = GRID) -> Array:
    """DiffROAR ``(..., P)``: accuracy with the top kept minus accuracy with as much of the bottom kept.

    ``KAR(t) - ROAR(100 - t)`` (Shah, Jain and Netrapalli 2021, "Do Input Gradients Highlight Discriminative
    Features?"): positive where the units ranked first are worth more than those ranked last, 0 for random.

    Args:
        kar: ``(..., P)`` accuracies with the top ``t`` kept.
        roar: ``(..., P)`` accuracies with the top ``t`` replaced, at the same thresholds.
        percents: Thresholds, symmetric around 50, such as 10, 30, 50, 70, 90.

    Raises:
        ValueError: A threshold has no counterpart at 100 minus it, or accuracies do not fit the thresholds.
    """
    kept, removed = _values(kar, percents), _values(roar, percents)
    if [100 - percent for percent in reversed(percents)] != list(percents):
        lonely = [percent for percent in percents if 100 - percent not in percents]
        raise ValueError(
            f"DiffROAR needs thresholds symmetric around 50, got {list(percents)}: "
            f"no counterpart for {', '.join(map(str, lonely))}"
        )
    difference: Array = kept - removed[..., ::-1]
    return difference


def _values(accuracies: ArrayLike, percents: Sequence[int]) -> Array:
    values = np.asarray(accuracies, dtype=np.float64)
    steps = np.diff([0, *percents, 100])
    if not len(percents) or not (steps > 0).all():
        raise ValueError(f"thresholds must be rising numbers in 1 to 99, got {list(percents)}")
    if values.ndim < 1 or values.shape[-1] != len(percents):
        raise ValueError(f"need one accuracy per threshold {list(percents)}, got shape {values.shape}")
    return values
