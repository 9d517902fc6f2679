"""Noisy linear imputation (Rong et al. 2022, ROAD): removed pixels are means of their neighbors plus noise.

A removed pixel ``p`` solves ``s_p x_p = sum_n w_pn x_n`` over its neighbors inside the image, with
``w = 1/6`` for the four edge neighbors, ``1/12`` for the four corner neighbors and ``s_p`` their sum. Removed
neighbors are unknown too, so each image and channel is one sparse system ``A X = B``, ``A = diag(s) - W``,
symmetric, and positive definite as soon as one pixel is kept.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import spsolve
from torch import Tensor

from heatcheck.removal.color import Channels, channel_values, is_normalized, wide
from heatcheck.removal.conjugate import descend
from heatcheck.removal.holes import find_holes
from heatcheck.removal.multigrid import build_levels, cycle_proposal
from heatcheck.removal.pushpull import pushpull
from heatcheck.removal.registry import register_fill
from heatcheck.runtime.memory import chunk_size, map_chunks
from heatcheck.runtime.seeds import CounterGenerator

Solver = Literal["cg", "direct"]
SOLVERS: tuple[Solver, ...] = ("cg", "direct")
EDGE, CORNER = 1 / 6, 1 / 12
# Tens are enough; this many means that rounding stops the descent.
_MOST_STEPS = 500
# Tensors of an image's size that live at once, in float64.
_TENSORS = 24


class Imputation(NamedTuple):
    """How removed pixels are imputed.

    Attributes:
        noise: Standard deviation of what is added to removed entries, in units of the images.
        solver: ``cg``, conjugate gradients on the images' device, or ``direct``, SciPy's factorization on
            the CPU, one image at a time.
        tolerance: Error at which ``cg`` stops, in the energy norm and in units of the largest known value.
    """

    noise: float | tuple[float, ...] = 0.01
    solver: Solver = "cg"
    tolerance: float = 1e-6


@register_fill("road", uses_mask=True)
def road(
    images: Tensor,
    keep_mask: Tensor,
    *,
    noise: float = 0.01,
    seed: int = 0,
    fallback: float | tuple[float, ...] = 0.0,
    mean: Channels = None,
    std: Channels = None,
    solver: Solver = "cg",
    tolerance: float = 1e-6,
) -> Tensor:
    """Removed pixels imputed linearly from their neighbors, plus noise; kept pixels stay, ``(N, C, H, W)``.

    The noise of an image follows from the seed and its pixels, the same in every batch and epoch; see
    ``impute_road`` for noise named by an image's id, and for masks that differ between channels.

    Args:
        images: ``(N, C, H, W)``: colors in [0, 1], or normalized, and then with ``mean`` and ``std``.
        keep_mask: ``(N, 1, H, W)`` or ``(N, C, H, W)``; a soft mask is made hard by ``find_holes``.
        noise: Standard deviation for colors in [0, 1]; the reference code has 0.01.
        seed: Seed of the noise.
        fallback: Color where no pixel is kept, one value or one per channel, in units of the images: the
            data set's mean, which is 0 in normalized images.
        mean: Normalization of the images; None: they are colors in [0, 1].
        std: Normalization of the images; the noise is divided by it.
        solver: As in ``Imputation``.
        tolerance: As in ``Imputation``.

    Raises:
        ValueError: As for ``impute_road``, or only one of ``mean`` and ``std`` is given.
    """
    scale: float | tuple[float, ...] = noise
    if is_normalized(mean, std) and std is not None:
        scale = tuple(noise / deviation for deviation in std)
    generator = CounterGenerator.for_images(images, seed)
    how = Imputation(scale, solver, tolerance)
    return impute_road(images, keep_mask, channel_values(fallback, images), generator, how)


def impute_road(
    images: Tensor,
    keep_mask: Tensor,
    fallback: Tensor,
    generator: CounterGenerator,
    how: Imputation | None = None,
) -> Tensor:
    """Images ``(N, C, H, W)`` with removed entries imputed; kept entries stay exactly as they are.

    Where channels are removed apart, each is imputed from its own kept entries. No gradient flows through.

    Args:
        images: ``(N, C, H, W)``.
        keep_mask: ``(N, 1, H, W)`` or ``(N, C, H, W)``, bool or in [0, 1].
        fallback: Colors of images, or channels, of which nothing is kept; broadcast to ``(N, C, 1, 1)``.
        generator: Noise of the ``N`` images, drawn once for the whole image whatever is removed.
        how: Noise and solver.

    Raises:
        ValueError: The solver is unknown, or noise or tolerance is negative.
        RuntimeError: ``cg`` does not settle.
    """
    how = how or Imputation()
    _check(how)
    with torch.no_grad():
        images = images.detach()
        holes = _holes_by_channel(keep_mask.detach())
        solve = _direct if how.solver == "direct" else _conjugate(how.tolerance)
        filled = images.to(wide(images)).clone()
        size = chunk_size(8 * _TENSORS * images[:1].numel(), images.device)
        for part, found in map_chunks(lambda rows: solve(images[rows], holes[rows]), len(images), size):
            filled[part] = found.to(filled.dtype)
        nothing_kept = holes.flatten(2).all(2)[..., None, None]
        filled = torch.where(nothing_kept, fallback.to(filled), filled)
        scale = channel_values(how.noise, filled)
        if bool((scale > 0).any()):
            filled = filled + scale * generator.normal(0, filled)
        return torch.where(holes, filled.to(images.dtype), images)


def block_sum(values: Tensor) -> Tensor:
    """Sum ``(N, C, H, W)`` over blocks of 3 x 3 pixels, weighted 4 in the middle, 2 at edges, 1 at corners.

    These are twelve times the neighbors' weights, and the middle cancels where the sum is compared with that
    of a constant. Nothing counts outside the image.
    """
    around = F.pad(values, (1, 1, 1, 1))
    lines = torch.add(around[..., :-2] + around[..., 2:], around[..., 1:-1], alpha=2)
    return torch.add(lines[..., :-2, :] + lines[..., 2:, :], lines[..., 1:-1, :], alpha=2)


def _conjugate(tolerance: float) -> Callable[[Tensor, Tensor], Tensor]:
    def solve(images: Tensor, holes: Tensor) -> Tensor:
        if holes.shape[1] == 1:
            return _settle(images.double(), holes, tolerance)
        # Channels with masks of their own are images of one channel.
        alone = _settle(images.double().flatten(0, 1)[:, None], holes.flatten(0, 1)[:, None], tolerance)
        return alone.view(images.shape)

    return solve


def _settle(images: Tensor, holes: Tensor, tolerance: float) -> Tensor:
    """Solution in float64 for images ``(N, C, H, W)`` with holes ``(N, 1, H, W)``.

    Multigrid for four neighbors serves as the preconditioner: both stencils are Laplacians, so the number of
    steps hardly grows with the holes, as it would with the diagonal alone.
    """
    known = images.masked_fill(holes, 0)
    inside = holes.double() / 12
    total = block_sum(torch.ones_like(inside[:1]))

    def operator(values: Tensor) -> Tensor:
        return inside * (total * values - block_sum(values))

    start = torch.where(holes, pushpull(images, (~holes).double()), 0)
    residual = inside * block_sum(known) - operator(start)
    # With nothing kept there is nothing to solve, and the equations are singular.
    residual = torch.where(holes.all(3, keepdim=True).all(2, keepdim=True), 0, residual)
    limit = (tolerance * known.abs().amax((1, 2, 3), keepdim=True)).square()
    propose = cycle_proposal(build_levels(holes))
    found = descend(operator, propose, start, residual, limit=limit, most=_MOST_STEPS)
    # The solution lies between the known values; what is left of its error must not lead beyond them.
    low, high = (torch.where(holes, beyond, images) for beyond in (float("inf"), -float("inf")))
    return found.clamp(low.amin((2, 3), keepdim=True), high.amax((2, 3), keepdim=True))


def _direct(images: Tensor, holes: Tensor) -> Tensor:
    filled = images.double().cpu().numpy().copy()
    for image, hole in zip(filled, holes.cpu().numpy(), strict=True):
        if len(hole) == 1:
            _factorize(image, hole[0])
            continue
        for channel, own in zip(image, hole, strict=True):
            _factorize(channel[None], own)
    return torch.from_numpy(filled).to(images.device)


def _factorize(image: NDArray[np.float64], hole: NDArray[np.bool_]) -> None:
    """Fill the holes ``(H, W)`` of an image ``(C, H, W)`` in place."""
    if not hole.any() or hole.all():
        return
    number = np.cumsum(hole).reshape(hole.shape) - 1
    rows, columns = np.nonzero(hole)
    diagonal, right = np.zeros(len(rows)), np.zeros((len(rows), len(image)))
    entries = []
    for down, across in ((d, a) for d in (-1, 0, 1) for a in (-1, 0, 1) if (d, a) != (0, 0)):
        weight = CORNER if down and across else EDGE
        y, x = rows + down, columns + across
        own = np.flatnonzero((y >= 0) & (y < hole.shape[0]) & (x >= 0) & (x < hole.shape[1]))
        y, x = y[own], x[own]
        diagonal[own] += weight
        missing = hole[y, x]
        right[own[~missing]] += weight * image[:, y[~missing], x[~missing]].T
        entries.append((own[missing], number[y[missing], x[missing]], np.full(missing.sum(), -weight)))
    entries.append((np.arange(len(rows)), np.arange(len(rows)), diagonal))
    first, second, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    matrix = sparse.csc_matrix((values, (first, second)), shape=(len(rows), len(rows)))
    image[:, hole] = spsolve(matrix, right).reshape(right.shape).T


def _holes_by_channel(keep_mask: Tensor) -> Tensor:
    """Removed entries, bool and shaped as the mask: ``find_holes`` for every channel by itself."""
    return find_holes(keep_mask.flatten(0, 1)[:, None]).view(keep_mask.shape)


def _check(how: Imputation) -> None:
    if how.solver not in SOLVERS:
        raise ValueError(f"unknown solver {how.solver!r} of fill 'road'; allowed: {', '.join(SOLVERS)}")
    if not how.tolerance > 0:
        raise ValueError(f"fill 'road' needs a positive tolerance, got {how.tolerance}")
    scales = (how.noise,) if isinstance(how.noise, int | float) else how.noise
    if any(not scale >= 0 for scale in scales):
        raise ValueError(f"fill 'road' needs noise of 0 or more, got {how.noise}")
