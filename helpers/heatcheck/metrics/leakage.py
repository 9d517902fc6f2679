"""What a mask alone gives away of the class: leak score and lower bounds on the mutual information.

Rong, Leemann et al. (2022), "A Consistent and Efficient Evaluation Strategy for Attribution Methods": a
retrained network can read the class off the mask. A classifier that sees only the mask measures how well.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heatcheck.metrics.paired_runs import resampled_run_means
from heatcheck.metrics.resampling import quantiles

Array = NDArray[np.float64]


class LeakBounds(NamedTuple):
    """What a classifier of masks shows about mask and class; arrays have the shape ``(...)`` of the input.

    Attributes:
        entropy: ``ln K``, entropy in nats of ``K`` classes of equal size: the most that can leak.
        leak_score: ``(accuracy - 1/K) / (1 - 1/K)``: 0 at chance, 1 at perfect; negative below chance.
        variational: Lower bound in nats on the mutual information: ``ln K - cross-entropy``, at least 0.
        fano: Lower bound in nats from the error alone (Fano): ``ln K - H(error) - error ln(K - 1)``, at
            least 0.
    """

    entropy: Array
    leak_score: Array
    variational: Array
    fano: Array


class LeakEstimate(NamedTuple):
    """One quantity with its interval over runs and images."""

    quantity: str
    estimate: float
    low: float
    high: float


def leak_bounds(accuracy: ArrayLike, cross_entropy: ArrayLike, n_classes: int) -> LeakBounds:
    """Leak score and the two lower bounds of a mask-only classifier on classes of equal size.

    Args:
        accuracy: ``(...)`` of the test images, in [0, 1].
        cross_entropy: ``(...)`` mean over the test images, in nats; natural logarithm.
        n_classes: Number of classes ``K``.

    Raises:
        ValueError: There are fewer than two classes, an accuracy is outside [0, 1] (per cent?), or a
            cross-entropy is negative.
    """
    right, loss = np.broadcast_arrays(
        np.asarray(accuracy, dtype=np.float64), np.asarray(cross_entropy, dtype=np.float64)
    )
    if n_classes < 2:
        raise ValueError(f"a leak needs at least 2 classes, got {n_classes}")
    if ((right < 0) | (right > 1)).any():
        raise ValueError(f"accuracy must lie in [0, 1], not in per cent; got {right.tolist()}")
    if (loss < 0).any():
        raise ValueError(f"cross-entropy is never negative, got {loss.tolist()}")
    entropy, chance = np.log(n_classes), 1 / n_classes
    wrong = 1 - right
    fano = entropy - _binary_entropy(wrong) - wrong * np.log(n_classes - 1)
    return LeakBounds(
        np.full(right.shape, entropy),
        (right - chance) / (1 - chance),
        np.maximum(entropy - loss, 0.0),
        np.maximum(fano, 0.0),
    )


def leak_estimates(
    correct: NDArray[np.bool_],
    cross_entropies: Array,
    n_classes: int,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> list[LeakEstimate]:
    """Accuracy, leak score and both bounds with intervals from runs and images drawn jointly.

    Args:
        correct: ``(S, N)`` whether the mask-only classifier of run ``s`` is right about image ``n``.
        cross_entropies: ``(S, N)`` its cross-entropy there, in nats.
        n_classes: Number of classes of equal size.
        level: Coverage of the intervals.
        n_resamples: Number of resamples.
        seed: Seed of the draws.

    Raises:
        ValueError: The two tables differ in shape, or as in ``leak_bounds``.
    """
    if correct.shape != cross_entropies.shape:
        raise ValueError(
            f"correct {correct.shape} and cross-entropies {cross_entropies.shape} differ in shape"
        )
    both = np.stack([correct.astype(np.float64), np.asarray(cross_entropies, dtype=np.float64)])
    draws = resampled_run_means(both, n_resamples=n_resamples, seed=seed)  # (B, 2)
    # Sums in another order may leave 1 by the last bit.
    accuracy = np.clip(np.append(both[0].mean(), draws[:, 0]), 0.0, 1.0)
    found = leak_bounds(accuracy, np.append(both[1].mean(), draws[:, 1]), n_classes)
    columns = {"accuracy": accuracy, **found._asdict()}
    del columns["entropy"]
    table = np.stack(list(columns.values()), axis=1)
    low, high = quantiles(table[1:], level)
    return [
        LeakEstimate(name, float(table[0, place]), float(low[place]), float(high[place]))
        for place, name in enumerate(columns)
    ]


def nats_to_bits(nats: ArrayLike) -> Array:
    """Information ``(...)`` in bits."""
    bits: Array = np.asarray(nats, dtype=np.float64) / np.log(2)
    return bits


def balanced_accuracy(predicted: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Array:
    """Mean of the hit rates on true and on false pixels ``(N,)``: 0.5 says that the mask is invisible.

    Args:
        predicted: ``(N, ...)`` pixels that a predictor takes for replaced ones.
        truth: ``(N, ...)`` pixels that were replaced.

    Returns:
        NaN for an image whose pixels were all replaced, or none.

    Raises:
        ValueError: Shapes differ or values are not boolean.
    """
    if predicted.shape != truth.shape or predicted.dtype != np.bool_ or truth.dtype != np.bool_:
        raise ValueError(
            f"need two boolean tables of one shape, got {predicted.dtype} {predicted.shape} "
            f"and {truth.dtype} {truth.shape}"
        )
    guess, fact = (table.reshape(len(table), -1) for table in (predicted, truth))
    rates = [
        np.divide((side & hit).sum(1), side.sum(1), out=np.full(len(fact), np.nan), where=side.sum(1) > 0)
        for side, hit in ((fact, guess), (~fact, ~guess))
    ]
    mean: Array = (rates[0] + rates[1]) / 2
    return mean


def _binary_entropy(share: Array) -> Array:
    """Entropy ``(...)`` in nats of a coin that falls on one side with probability ``share``."""
    from_each = [
        np.where(part > 0, -part * np.log(np.where(part > 0, part, 1)), 0) for part in (share, 1 - share)
    ]
    entropy: Array = from_each[0] + from_each[1]
    return entropy
