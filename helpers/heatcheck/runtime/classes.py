"""Targets are checked before a model runs."""

import torch
from torch import Tensor, nn


def count_classes(model: object) -> int | None:
    """Number of classes ``K`` the model scores, as far as it can be told without running it.

    Taken from an integer attribute ``n_classes`` or ``num_classes``, else from a last layer that is linear.
    """
    for name in ("n_classes", "num_classes"):
        count = getattr(model, name, None)
        if isinstance(count, int) and count > 0:
            return count
    if not isinstance(model, nn.Module):
        return None
    weighted = [module for module in model.modules() if list(module.parameters(recurse=False))]
    last = weighted[-1] if weighted else None
    return last.out_features if isinstance(last, nn.Linear) else None


def check_targets(targets: Tensor, n_images: int, n_classes: int | None) -> None:
    """Refuse targets that cannot be classes.

    Args:
        targets: Should be ``(n_images,)`` int64.
        n_images: Number of images.
        n_classes: Number of classes ``K``; None where it is not known yet.

    Raises:
        ValueError: They are of another shape or type, negative, or not below ``K``.
    """
    if targets.dtype != torch.int64 or targets.shape != (n_images,):
        raise ValueError(
            f"targets must be int64 of shape ({n_images},), got {targets.dtype} {tuple(targets.shape)}"
        )
    bad = sorted(
        {
            target
            for target in targets.tolist()
            if target < 0 or (n_classes is not None and target >= n_classes)
        }
    )
    if bad:
        last = "K - 1" if n_classes is None else n_classes - 1
        raise ValueError(f"targets {bad} are no classes of the model; allowed: 0 to {last}")
