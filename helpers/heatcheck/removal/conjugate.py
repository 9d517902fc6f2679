"""Conjugate gradients for the equations of many images and channels at once."""

from collections.abc import Callable

import torch
from torch import Tensor

Operator = Callable[[Tensor], Tensor]


def descend(
    operator: Operator, propose: Operator, solution: Tensor, residual: Tensor, *, limit: Tensor, most: int
) -> Tensor:
    """Solution ``(N, C, H, W)`` of symmetric positive equations (Hestenes and Stiefel 1952).

    Every image and channel stops by itself, so its result does not depend on the others.

    Args:
        operator: Left-hand side of the equations.
        propose: Approximate inverse of ``operator``, symmetric and positive: the preconditioner.
        solution: First guess.
        residual: Right-hand side without what ``solution`` explains of it.
        limit: ``(N, 1, 1, 1)`` or ``(N, C, 1, 1)``; descent ends where ``residual * propose(residual)``,
            summed over pixels, is not above it.
        most: Most steps.

    Raises:
        RuntimeError: The limit is not reached within ``most`` steps.
    """
    better = propose(residual)
    direction, energy = better, _dot(residual, better)
    for _ in range(most):
        active = energy > limit
        if not bool(active.any()):
            return solution
        image = operator(direction)
        length = torch.where(active, energy / _dot(direction, image), 0)
        solution = solution + length * direction
        residual = residual - length * image
        better = propose(residual)
        previous, energy = energy, _dot(residual, better)
        direction = better + torch.where(active, energy / previous, 0) * direction
    raise RuntimeError(
        f"inpainting by conjugate gradients has not settled after {most} steps; "
        "give a larger tolerance, such as tolerance=1e-5"
    )


def _dot(first: Tensor, second: Tensor) -> Tensor:
    return (first * second).sum((2, 3), keepdim=True)
