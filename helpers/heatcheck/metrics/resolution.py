"""How small a difference between two methods some images can tell."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


class Resolution(NamedTuple):
    """What ``n_images`` can tell.

    Attributes:
        n_images: Number of images.
        standard_error: Of one method's mean: median over methods.
        readable: Two standard errors of a paired difference, median over pairs of methods: smaller
            differences must not be read as a ranking.
        detectable: Difference that a two-sided paired test finds with the given power, median over pairs.
    """

    n_images: int
    standard_error: float
    readable: float
    detectable: float


def random_deviation(n_patches: int) -> float:
    """Standard deviation of the rank correlation of two independent orders of ``M`` patches.

    ``1 / sqrt(M - 1)`` (Kendall 1948): 0.258 for 16 patches.

    Raises:
        ValueError: Fewer than two patches.
    """
    if n_patches < 2:
        raise ValueError(f"a ranking needs at least 2 patches, got {n_patches}")
    return float((n_patches - 1) ** -0.5)


def minimum_detectable_difference(
    deviation: float, n_images: int, *, level: float = 0.95, power: float = 0.8
) -> float:
    """Smallest mean paired difference that a two-sided test finds: ``(z_a + z_b) s / sqrt(N)``.

    Args:
        deviation: Standard deviation ``s`` of the differences over images.
        n_images: Number of images ``N``.
        level: Confidence of the test, in (0, 1).
        power: Probability that it finds the difference, in (0, 1).

    Raises:
        ValueError: An argument is out of range.
    """
    if not (0 < level < 1 and 0 < power < 1) or n_images < 1:
        raise ValueError(
            f"need level and power in (0, 1) and at least 1 image, got {level}, {power} and {n_images}"
        )
    return float((stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power)) * deviation / n_images**0.5)


def images_needed(deviation: float, difference: float, *, level: float = 0.95, power: float = 0.8) -> int:
    """Number of images from which ``difference`` is detectable; the inverse of the function above.

    Raises:
        ValueError: The difference is not positive, or as above.
    """
    if difference <= 0:
        raise ValueError(f"the difference must be positive, got {difference}")
    single = minimum_detectable_difference(deviation, 1, level=level, power=power)
    return int(np.ceil(round((single / difference) ** 2, 9)))


def paired_deviations(values: Array) -> Array:
    """Standard deviations of the differences of all pairs of columns of ``values`` ``(N, M)``; NaN left out.

    Raises:
        ValueError: Fewer than two columns.
    """
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(f"need values (N, M) of at least 2 methods, got {values.shape}")
    found = []
    for first, second in zip(*np.triu_indices(values.shape[1], 1), strict=True):
        difference = values[:, first] - values[:, second]
        difference = difference[~np.isnan(difference)]
        found.append(difference.std(ddof=1) if len(difference) > 1 else np.nan)
    return np.array(found)


def resolution_table(values: Array, counts: Sequence[int]) -> list[Resolution]:
    """Resolution at several numbers of images, from the scores ``(N, M)`` of ``M`` methods.

    Args:
        values: One row per image; NaN does not count.
        counts: Numbers of images.

    Raises:
        ValueError: Fewer than two methods.
    """
    pairs = paired_deviations(values)
    paired = float(np.nanmedian(pairs)) if not np.isnan(pairs).all() else float("nan")
    single = np.array(
        [
            column[~np.isnan(column)].std(ddof=1) if (~np.isnan(column)).sum() > 1 else np.nan
            for column in values.T
        ]
    )
    own = float(np.nanmedian(single)) if not np.isnan(single).all() else float("nan")
    return [
        Resolution(
            count,
            own / count**0.5,
            2 * paired / count**0.5,
            minimum_detectable_difference(paired, count),
        )
        for count in counts
    ]
