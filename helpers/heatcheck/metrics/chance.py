"""What chance alone gives: Kendall's tau of two random rankings, Kendall's W of several."""

from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


class ChanceConcordance(NamedTuple):
    """Kendall's W of some rankings beside what random rankings of as many methods give.

    Attributes:
        w: Of the rankings.
        chance: 95th percentile of W of random rankings.
        p_value: Share of random rankings whose W is at least as large, the given ones counted among them.
    """

    w: float
    chance: float
    p_value: float


def inversions(n: int) -> list[int]:
    """How many of the ``n!`` orders of ``n`` things have 0, 1, ..., ``n (n - 1) / 2`` pairs in wrong order.

    The Mahonian numbers, the coefficients of ``prod_k (1 + x + ... + x^(k-1))`` (MacMahon 1916); as whole
    numbers, thus exact for any ``n``.

    Raises:
        ValueError: ``n`` is less than 1.
    """
    if n < 1:
        raise ValueError(f"orders of {n} things; need 1 or more")
    counts = [1]
    for size in range(2, n + 1):
        # Each number of the longer row is the sum of the ``size`` numbers up to it: a difference of two sums.
        sums = [0, *accumulate([*counts, *[0] * (size - 1)])]
        counts = [sums[end] - sums[max(0, end - size)] for end in range(1, len(sums))]
    return counts


def kendall_band(n: int, level: float = 0.95) -> tuple[float, float]:
    """Narrowest band ``(-t, t)`` in which tau of two random rankings lies with probability ``level`` or more.

    Exact, for rankings without ties: a tau outside has a two-sided p-value of at most ``1 - level``
    (Kendall 1938).

    Args:
        n: Number of ranked methods.
        level: Probability of the band, in (0, 1).

    Raises:
        ValueError: There are fewer than two methods or the level is not in (0, 1).
    """
    if n < 2 or not 0 < level < 1:
        raise ValueError(f"a band needs 2 or more methods and a level in (0, 1), got {n} and {level}")
    counts = inversions(n)
    # As written in decimals, so that a count that reaches the level exactly is not lost to rounding.
    wanted = Fraction(str(level)) * sum(counts)
    pairs, inside = len(counts) - 1, 0
    for wrong in range(pairs // 2, -1, -1):
        inside += counts[wrong] * (1 if 2 * wrong == pairs else 2)
        if inside >= wanted:
            break
    tau = (pairs - 2 * wrong) / pairs
    return -tau, tau


def concordances(scores: Array) -> Array:
    """Kendall's W ``(R,)`` of each of many tables of scores ``(R, S, M)``, as ``kendall_w`` gives it of one.

    With the ranks of each rater centered, the tie-corrected W is ``|sum_s r_s|² / (S sum_s |r_s|²)``. NaN
    where a score is NaN or every rater scores all methods alike.

    Raises:
        ValueError: There are fewer than two raters or methods.
    """
    if scores.ndim != 3 or min(scores.shape[1:]) < 2:
        raise ValueError(
            f"concordance needs scores (R, raters, methods), two or more of both, got {scores.shape}"
        )
    whole = ~np.isnan(scores).any((1, 2))
    ranks = stats.rankdata(np.where(np.isnan(scores), 0.0, scores), axis=2)
    return np.where(whole, _w(ranks - ranks.mean(2, keepdims=True)), np.nan)


def concordance_against_chance(
    scores: Array, *, level: float = 0.95, n_draws: int = 4999, seed: int = 0
) -> ChanceConcordance:
    """Kendall's W of scores ``(S, M)`` against that of the same scores in random order.

    Each rater's scores are shuffled among the methods, independently of the other raters', so ties stay.

    Args:
        scores: One row per rater, without NaN.
        level: Quantile of W of random orders that is reported as ``chance``.
        n_draws: Number of random orders.
        seed: Seed of them.

    Raises:
        ValueError: There are fewer than two raters or methods, no draw, or a score is NaN.
    """
    if np.isnan(scores).any() or n_draws < 1:
        raise ValueError(f"need scores without NaN and 1 or more draws, got {n_draws} draws of {scores}")
    w = float(concordances(scores[None])[0])
    generator = np.random.Generator(np.random.Philox(seed))
    ranks = stats.rankdata(scores, axis=1)
    centered = ranks - ranks.mean(1, keepdims=True)
    drawn = _w(generator.permuted(np.broadcast_to(centered, (n_draws, *scores.shape)), axis=2))
    if np.isnan(w):
        return ChanceConcordance(w, w, w)
    # Sums in another order may differ in the last digits.
    reached = int((drawn >= w - 1e-12).sum())
    return ChanceConcordance(w, float(np.quantile(drawn, level)), (reached + 1) / (n_draws + 1))


def mean_ranks(goodness: Array) -> Array:
    """Mean rank ``(..., M)`` over raters of scores ``(..., S, M)``, 1 is best; more is better.

    NaN for all methods of a table that holds a NaN: without a score, no method of it has its rank.
    """
    unknown = np.isnan(goodness).any((-2, -1), keepdims=True)
    ranks = stats.rankdata(-np.where(np.isnan(goodness), 0.0, goodness), axis=-1)
    means: Array = np.where(unknown, np.nan, ranks.mean(-2, keepdims=True))[..., 0, :]
    return means


def _w(centered: Array) -> Array:
    """W ``(R,)`` of centered ranks ``(R, S, M)``; NaN where all are zero."""
    agreed = (centered.sum(1) ** 2).sum(1)
    most = centered.shape[1] * (centered**2).sum((1, 2))
    found: Array = np.divide(agreed, most, out=np.full(len(centered), np.nan), where=most > 0)
    return found
