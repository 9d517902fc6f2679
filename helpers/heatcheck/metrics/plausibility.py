"""How far a removal takes an image from what the network knows: a proxy of this book, no published metric.

If what was removed does not matter and what stands there is plausible, the network should hardly notice.
"""

import torch
from torch import Tensor


def feature_change(before: Tensor, after: Tensor) -> Tensor:
    """Relative change of features ``(N, D)``, ``|after - before| / |before|``, ``(N,)`` float64.

    NaN where the features before are all zero, or one of both is not finite.

    Args:
        before: Penultimate features of the images.
        after: Those of the images with something removed.

    Raises:
        ValueError: Shapes differ or are not ``(N, D)``.
    """
    first, second = _pair(before, after)
    size = torch.linalg.vector_norm(first, dim=1)
    change = torch.linalg.vector_norm(second - first, dim=1) / size
    return torch.where(torch.isfinite(change), change, torch.nan)


def entropy_change(before: Tensor, after: Tensor) -> Tensor:
    """Change of the entropy of probabilities ``(N, K)`` in nats, ``(N,)`` float64; above 0: less certain.

    Args:
        before: Probabilities for the images.
        after: Those for the images with something removed.

    Raises:
        ValueError: Shapes differ or are not ``(N, K)``, or a value is no probability.
    """
    first, second = _pair(before, after)
    for values in (first, second):
        if bool(((values < 0) | (values > 1 + 1e-6)).any()):
            raise ValueError("probabilities must lie in [0, 1]; pass the softmax of the logits")
    return entropy(second) - entropy(first)


def entropy(probabilities: Tensor) -> Tensor:
    """Entropy ``(N,)`` of probabilities ``(N, K)`` in nats (Shannon 1948); 0 where one class has them all."""
    each: Tensor = torch.special.entr(probabilities.double())
    return each.sum(dim=1)


def _pair(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    if before.shape != after.shape or before.ndim != 2:
        raise ValueError(
            f"both must have the same shape (N, D), got {tuple(before.shape)} and {tuple(after.shape)}"
        )
    return before.detach().double(), after.detach().double()
