"""Rankings of the toy experiment's features: one for all examples, or one for each of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heatcheck.benchmarks.toy_problem import Array, Kept, ToyProblem

Order = NDArray[np.int64]

# One order of the features for all examples.
COMMON = ("ground-truth", "inverted", "random", "weight")
# An order of its own for each example.
SEPARATE = ("weight-times-input", "random-per-example")
RANKINGS = (*COMMON, *SEPARATE)


def ground_truth(problem: ToyProblem) -> Order:
    """Features ``(F,)``, the largest signal first; those without signal follow in their own order."""
    return np.argsort(-np.abs(problem.signal), kind="stable")


def permutations(n_features: int, n: int, seed: int | Sequence[int]) -> Order:
    """Random orders ``(n, F)``; ``seed`` is one or several numbers."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
    return generator.permuted(np.tile(np.arange(n_features), (n, 1)), axis=1)


def by_weight(weights: Array) -> Order:
    """Features ``(..., F)`` by falling absolute weight ``(..., F)``; equal ones in their own order."""
    return np.argsort(-np.abs(weights), axis=-1, kind="stable")


def kept_sets(orders: Order) -> Kept:
    """Features that remain ``(..., F + 1, F)`` when 0 to ``F`` are removed in ``orders`` ``(..., F)``."""
    places = np.argsort(orders, axis=-1)  # (..., F) place of each feature in its order
    kept: Kept = places[..., None, :] >= np.arange(orders.shape[-1] + 1)[:, None]
    return kept


def separate_places(ranking: str, features: Array, weights: Array, seed: int | Sequence[int]) -> Order:
    """Place ``(n, F)`` of each feature in the order of its own example, 0 is removed first.

    Args:
        ranking: One of ``SEPARATE``.
        features: ``(n, F)``.
        weights: ``(F,)`` of the explained model.
        seed: Seed of the random orders.

    Raises:
        ValueError: The ranking is none of those.
    """
    if ranking == "weight-times-input":
        orders = by_weight(features * weights)
    elif ranking == "random-per-example":
        orders = permutations(features.shape[1], len(features), seed)
    else:
        raise ValueError(f"no order for each example is called {ranking!r}; there are: {', '.join(SEPARATE)}")
    return np.argsort(orders, axis=-1)


def check_rankings(rankings: Sequence[str]) -> None:
    """Refuse rankings that are unknown, none, or named twice.

    Raises:
        ValueError: They are.
    """
    unknown = [name for name in rankings if name not in RANKINGS]
    if unknown or not rankings or len(set(rankings)) < len(rankings):
        raise ValueError(f"rankings must be different ones of {', '.join(RANKINGS)}; got {list(rankings)}")
