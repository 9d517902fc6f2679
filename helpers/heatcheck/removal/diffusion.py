"""Harmonic inpainting: holes filled by the exact steady state of heat diffusing in from their borders.

Every hole pixel is the mean of its neighbors, known pixels stay fixed, and nothing flows over the image's
border: Laplace's equation with Dirichlet values on the known pixels. The equations of all images and channels
are solved together by conjugate gradients, preconditioned by one multigrid cycle.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.removal.conjugate import descend
from heatcheck.removal.holes import find_holes
from heatcheck.removal.multigrid import apply, build_levels, cycle_proposal
from heatcheck.removal.pushpull import pushpull
from heatcheck.removal.registry import register_fill
from heatcheck.runtime.memory import chunk_size, map_chunks

# Tens are enough; this many means that rounding stops the descent.
_MOST_STEPS = 500
# Tensors of a window's size that live at once, in float64.
_TENSORS = 24


class Windows(NamedTuple):
    """Equally large rectangles, one per image, that hold its hole and the known pixels beside it.

    Attributes:
        rows: ``(N, h)`` row numbers.
        columns: ``(N, w)`` column numbers.
    """

    rows: Tensor
    columns: Tensor

    def cut(self, values: Tensor) -> Tensor:
        """The windows ``(N, C, h, w)`` of ``(N, C, H, W)``."""
        return values[_place(self, values)]

    def paste(self, values: Tensor, windows: Tensor) -> Tensor:
        """``(N, C, H, W)`` values with ``windows`` put where they were cut from."""
        return values.index_put(_place(self, values), windows)


@register_fill("diffusion", uses_mask=True)
def diffusion(images: Tensor, keep_mask: Tensor, *, tolerance: float = 1e-7) -> Tensor:
    """Holes filled harmonically, ``(N, C, H, W)``; known pixels are unchanged, with none known all is zero.

    A soft mask is made hard by ``find_holes``. No gradient flows through.

    Args:
        images: ``(N, C, H, W)``.
        keep_mask: ``(N, 1, H, W)`` or ``(N, C, H, W)``.
        tolerance: Error at which to stop, in the energy norm and in units of the largest known value.

    Raises:
        ValueError: The tolerance is not positive.
        RuntimeError: The tolerance is out of reach of float64.
    """
    if not tolerance > 0:
        raise ValueError(f"fill 'diffusion' needs a positive tolerance, got {tolerance}")
    with torch.no_grad():
        holes = find_holes(keep_mask)
        filled = images.detach().clone()
        with_hole = holes.flatten(1).any(1).nonzero()[:, 0]
        if not len(with_hole):
            return filled
        most = windows_around(holes[with_hole])
        bytes_per_image = 8 * _TENSORS * images.shape[1] * most.rows.shape[1] * most.columns.shape[1]

        def fill(part: slice) -> Tensor:
            chosen = with_hole[part]
            return _fill_windows(filled[chosen], holes[chosen], tolerance)

        size = chunk_size(bytes_per_image, images.device)
        for part, result in map_chunks(fill, len(with_hole), size):
            filled[with_hole[part]] = result
        return filled


def windows_around(holes: Tensor) -> Windows:
    """Smallest equally large windows around the hole of each ``(N, 1, H, W)``, and one pixel more around."""
    return Windows(_spans(holes.flatten(1, 2).any(2)), _spans(holes.flatten(1, 2).any(1)))


def solve_harmonic(known: Tensor, holes: Tensor, start: Tensor, *, tolerance: float) -> Tensor:
    """Values ``(N, C, H, W)`` float64 that are harmonic in the holes and ``known`` elsewhere.

    Every image and channel stops by itself, so its result does not depend on the others.

    Args:
        known: ``(N, C, H, W)`` float64; values in holes are not looked at.
        holes: ``(N, 1, H, W)`` bool.
        start: ``(N, C, H, W)`` first guess.
        tolerance: As in ``diffusion``.
    """
    levels = build_levels(holes)
    fixed = known.masked_fill(holes, 0)
    solution = torch.where(holes, start, 0)
    residual = holes * _neighbor_sum(fixed) - apply(levels[0], solution)
    limit = (tolerance * fixed.abs().amax((1, 2, 3), keepdim=True)).square()
    found = descend(
        lambda values: apply(levels[0], values),
        cycle_proposal(levels),
        solution,
        residual,
        limit=limit,
        most=_MOST_STEPS,
    )
    return torch.where(holes, found, fixed)


def _fill_windows(images: Tensor, holes: Tensor, tolerance: float) -> Tensor:
    windows = windows_around(holes)
    values, inside = windows.cut(images).double(), windows.cut(holes)
    start = pushpull(values, (~inside).double())
    found = solve_harmonic(values, inside, start, tolerance=tolerance)
    # Pixels outside holes come back through float64 unchanged.
    return windows.paste(images, found.to(images.dtype))


def _spans(touched: Tensor) -> Tensor:
    """Line numbers ``(N, length)`` that hold all touched lines of ``(N, L)`` and one more on each side."""
    lines = touched.shape[1]
    first = touched.int().argmax(1)
    last = lines - 1 - touched.flip(1).int().argmax(1)
    length = min(lines, int((last - first).max()) + 3)
    start = (first - 1).clamp(min=0, max=lines - length)
    return start[:, None] + torch.arange(length, device=touched.device)


def _place(windows: Windows, values: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    n, channels = values.shape[:2]
    return (
        torch.arange(n, device=values.device).view(-1, 1, 1, 1),
        torch.arange(channels, device=values.device).view(1, -1, 1, 1),
        windows.rows[:, None, :, None],
        windows.columns[:, None, None, :],
    )


def _neighbor_sum(values: Tensor) -> Tensor:
    around = F.pad(values, (1, 1, 1, 1))
    across = around[..., 1:-1, :-2] + around[..., 1:-1, 2:]
    return across + around[..., :-2, 1:-1] + around[..., 2:, 1:-1]
