"""A network that looks for what was imputed: a removal it cannot find gives nothing of its mask away.

Rong et al. 2022, "A Consistent and Efficient Evaluation Strategy for Attribution Methods", section 5.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatcheck.models.retraining import Batches, evaluation_mode


class ImputationPredictor(nn.Module):
    """Three 3 x 3 convolutions: images ``(N, C, H, W)`` to logits ``(N, U, H, W)`` of "was replaced".

    A unit is judged by the 7 x 7 pixels around it; no layer is strided.

    Args:
        n_units: Units per pixel: 1, or the number of channels.
        channels: Channels of the images.
        width: Channels of the two hidden layers, a multiple of 4.
    """

    def __init__(self, n_units: int = 1, *, channels: int = 3, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            nn.GroupNorm(4, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.GroupNorm(4, width),
            nn.ReLU(),
            nn.Conv2d(width, n_units, 3, padding=1),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, U, H, W)`` of normalized images ``(N, C, H, W)``."""
        logits: Tensor = self.layers(images)
        return logits


def imputation_loss(logits: Tensor, removed: Tensor) -> Tensor:
    """Binary cross-entropy of ``logits`` and ``removed``, both ``(N, U, H, W)``, both kinds of equal weight.

    Balanced, so that a network that knows nothing loses ln 2 whatever part was removed.
    """
    goal = removed.to(logits.dtype)
    losses = F.binary_cross_entropy_with_logits(logits, goal, reduction="none")
    shares = [
        (losses * kind).sum() / kind.sum().clamp(min=1) for kind in (goal, 1 - goal) if bool(kind.any())
    ]
    return torch.stack(shares).mean()


@torch.no_grad()
def imputation_visibility(module: nn.Module, batches: Batches) -> float:
    """Balanced accuracy with which ``module`` tells replaced units from kept ones; 0.5 is blind, 1 sees all.

    Args:
        module: Logits ``(n, U, H, W)`` of normalized images; its mode is afterwards what it was.
        batches: Normalized images and masks ``(n, U, H, W)``, true or 1 where a unit was replaced.

    Raises:
        ValueError: No unit, or every one, was replaced.
    """
    counts = torch.zeros(2, 2, dtype=torch.float64)  # rows: kept, replaced; columns: missed, found
    with evaluation_mode(module):
        device = next(module.parameters()).device
        for images, removed in batches:
            goal = removed.to(device) > 0
            found = (module(images.to(device)) > 0) == goal
            for row, kind in enumerate((~goal, goal)):
                counts[row, 1] += int((found & kind).sum())
                counts[row, 0] += int((~found & kind).sum())
    total = counts.sum(dim=1)
    if not bool((total > 0).all()):
        raise ValueError(
            f"{int(total[0])} units were kept and {int(total[1])} replaced; both kinds are needed"
        )
    return (counts[:, 1] / total).mean().item()
