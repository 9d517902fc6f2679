"""Sixteen features of which four inform: data, least squares, and accuracies in closed form.

The toy experiment of Hooker et al. (2019), section 3.3: ``x = a z / 10 + d eta + eps / 10``, ``y = [z > 0]``
with standard normal ``z, eta, eps`` for each example. ``a`` carries the signal and is zero but for the
informative features; ``d`` spreads a distractor over all of them. Whether ``eps`` is one number per feature
or one for all features cannot be told from the paper's prose; both are here.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kept = NDArray[np.bool_]
Noise = Literal["per-feature", "shared"]
NOISES: tuple[Noise, ...] = ("per-feature", "shared")

_SCALE = 0.1
# Relative cut-offs of singular values: of data, and of a covariance, whose values are their squares.
_DATA_CUTOFF = 1e-9
_COVARIANCE_CUTOFF = 1e-12
# Scores held at once.
_BLOCK = 1 << 22


class ToyProblem(NamedTuple):
    """One problem over ``F`` features.

    Attributes:
        signal: ``(F,)`` weights ``a`` of the label's variable; zero for features that do not inform.
        distractor: ``(F,)`` weights ``d`` of the shared disturbance.
        noise: Whether ``eps`` is drawn ``per-feature`` or is ``shared`` by all features of an example.
    """

    signal: Array
    distractor: Array
    noise: Noise


class Fits(NamedTuple):
    """Linear models: weights ``(..., F)`` and intercepts ``(...)``; a score over 0.5 means class 1."""

    weights: Array
    intercept: Array


class Normal(NamedTuple):
    """All that least squares needs of a data set; see ``compress``.

    Attributes:
        root: ``(F + 1, F)`` triangular factor of the centered features.
        target: ``(F + 1,)`` centered labels in its basis.
        feature_means: ``(F,)``.
        label_mean: Mean of the labels.
    """

    root: Array
    target: Array
    feature_means: Array
    label_mean: float


def draw_problem(
    noise: Noise = "per-feature",
    *,
    seed: int = 0,
    n_features: int = 16,
    n_informative: int = 4,
    least_signal: float = 0.7,
    most_overlap: float = 0.5,
) -> ToyProblem:
    """A problem whose informative features all count and whose other features matter little.

    Signals below ``least_signal`` make one step of the curve invisible; a large overlap ``(a d)² / |d|²``
    over the informative features lets the others help by cancelling the distractor. Such draws are repeated.

    Args:
        noise: ``per-feature`` or ``shared``; the weights are the same for both.
        seed: Seed of the weights.
        n_features: Number of features.
        n_informative: Number of informative ones, which come first.
        least_signal: Least absolute signal of an informative feature.
        most_overlap: Most overlap.

    Raises:
        ValueError: The noise is unknown, not every number of features is possible, or no draw fits.
    """
    if noise not in NOISES or not 0 < n_informative <= n_features:
        raise ValueError(
            f"need noise {' or '.join(NOISES)} and 1 to {n_features} informative features, got {noise!r} "
            f"and {n_informative}"
        )
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 0])))
    for _ in range(20_000):
        signal, distractor = generator.standard_normal((2, n_features))
        signal[n_informative:] = 0
        used, disturbed = signal[:n_informative], distractor[:n_informative]
        overlap = (used @ disturbed) ** 2 / (disturbed @ disturbed)
        if np.abs(used).min() >= least_signal and overlap <= most_overlap:
            return ToyProblem(signal, distractor, noise)
    raise ValueError(
        f"no draw has signals of {least_signal} and an overlap up to {most_overlap}; allow smaller signals"
    )


def sample(problem: ToyProblem, n: int, *, seed: int | Sequence[int]) -> tuple[Array, NDArray[np.bool_]]:
    """Features ``(n, F)`` and labels ``(n,)`` of ``n`` examples.

    Args:
        problem: The problem.
        n: Number of examples.
        seed: One or several numbers that name the data set.
    """
    streams = [np.random.Generator(np.random.Philox(key)) for key in np.random.SeedSequence(seed).spawn(3)]
    width = len(problem.signal) if problem.noise == "per-feature" else 1
    informative, disturbance = (stream.standard_normal((n, 1)) for stream in streams[:2])
    noise = streams[2].standard_normal((n, width))
    features = _SCALE * informative * problem.signal + disturbance * problem.distractor + _SCALE * noise
    return features, informative[:, 0] > 0


def covariance(problem: ToyProblem) -> Array:
    """Covariance ``(F, F)`` of the features: ``a a' / 100 + d d' + E / 100``, ``E`` of the noise."""
    n_features = len(problem.signal)
    noise = np.eye(n_features) if problem.noise == "per-feature" else np.ones((n_features, n_features))
    signal, distractor = problem.signal, problem.distractor
    found: Array = _SCALE**2 * (np.outer(signal, signal) + noise) + np.outer(distractor, distractor)
    return found


def population_weights(problem: ToyProblem, kept: Kept) -> Array:
    """Direction ``(..., F)`` of the least-squares weights on unlimited data from the ``kept`` features.

    Args:
        problem: The problem.
        kept: ``(..., F)`` features the model is trained on; the others have weight 0.
    """
    visible = covariance(problem) * kept[..., :, None] * kept[..., None, :]
    inverse = np.linalg.pinv(visible, rcond=_COVARIANCE_CUTOFF, hermitian=True)
    weights: Array = _SCALE * (inverse @ (problem.signal * kept)[..., None])[..., 0]
    return weights


def closed_form_accuracy(problem: ToyProblem, kept: Kept, *, retrained: bool) -> Array:
    """Accuracy ``(...)`` on unlimited data with only the ``kept`` features, others replaced by their mean.

    ``1/2 + asin(r) / pi`` with the correlation ``r`` of score and label variable, both normal.

    Args:
        problem: The problem.
        kept: ``(..., F)`` features that are not replaced.
        retrained: Train on the replaced features too, or keep the weights trained on all features.
    """
    everything = np.ones(len(problem.signal), dtype=bool)
    weights = population_weights(problem, kept if retrained else everything) * kept
    shared = _SCALE * weights @ problem.signal
    variance = ((weights @ covariance(problem)) * weights).sum(-1)
    correlation = np.divide(shared, np.sqrt(variance), out=np.zeros_like(shared), where=variance > 0)
    accuracy: Array = 0.5 + np.arcsin(np.clip(correlation, -1, 1)) / np.pi
    return accuracy


def compress(features: Array, labels: NDArray[np.bool_]) -> Normal:
    """What least squares with an intercept needs of features ``(n, F)`` and labels ``(n,)``.

    A triangular factor instead of the normal equations: shared noise makes those singular, and squaring would
    lose half the digits that tell so.
    """
    feature_means, label_mean = features.mean(0), float(labels.mean())
    both = np.column_stack([features - feature_means, labels - label_mean])
    root: Array = np.asarray(np.linalg.qr(both, mode="r"), dtype=np.float64)
    return Normal(root[:, :-1], root[:, -1], feature_means, label_mean)


def fit(normal: Normal, kept: Kept) -> Fits:
    """Least-squares models of the 0/1 labels on each of the sets ``kept`` ``(..., F)`` of features."""
    inverse = np.linalg.pinv(normal.root * kept[..., None, :], rcond=_DATA_CUTOFF)
    # Rounding of the inverse must not revive a feature that was left out.
    weights: Array = (inverse @ normal.target) * kept
    return Fits(weights, normal.label_mean - weights @ normal.feature_means)


def accuracies(features: Array, labels: NDArray[np.bool_], fits: Fits) -> Array:
    """Share ``(...)`` of the labels ``(n,)`` that each model finds from features ``(n, F)``."""
    weights = fits.weights.reshape(-1, features.shape[1])
    least = 0.5 - fits.intercept.reshape(-1)
    hits = np.zeros(len(weights), dtype=np.int64)
    size = max(1, _BLOCK // len(weights))
    for start in range(0, len(features), size):
        scores = features[start : start + size] @ weights.T
        hits += ((scores > least) == labels[start : start + size, None]).sum(0)
    found: Array = (hits / len(features)).reshape(fits.intercept.shape)
    return found
