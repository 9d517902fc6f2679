"""From channels to one value per pixel: the ten poolings of CLEVR-XAI, and the signed sum."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.metrics.flags import check_heatmaps, extremes
from heatcheck.runtime.memory import chunk_size, map_chunks

# Words apply from left to right (Arras et al. 2022): "sum,pos" is not "pos,sum".
POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum,abs": lambda maps: maps.sum(1).abs_(),
    "sum,pos": lambda maps: maps.sum(1).clamp_(min=0),
    "max-norm": lambda maps: maps.abs().amax(1),
    "l1-norm": lambda maps: maps.abs().sum(1),
    "l2-norm": lambda maps: maps.square().sum(1).sqrt_(),
    "l2-norm,sq": lambda maps: maps.square().sum(1),
    "pos,sum": lambda maps: maps.clamp(min=0).sum(1),
    "pos,max-norm": lambda maps: maps.clamp(min=0).amax(1),
    "pos,l2-norm": lambda maps: maps.clamp(min=0).square_().sum(1).sqrt_(),
    "pos,l2-norm,sq": lambda maps: maps.clamp(min=0).square_().sum(1),
}
SIGNED = "sum"


def pool(heatmaps: Tensor, name: str) -> Tensor:
    """Heatmaps ``(N, H, W)`` float64, one value per pixel.

    A map that holds NaN or infinity anywhere becomes NaN everywhere, so that no later step can lose sight
    of it; the other maps are not touched.

    Args:
        heatmaps: ``(N, C, H, W)`` floating, raw and signed.
        name: One of ``POOLINGS`` (never negative), or ``sum`` which keeps the sign, for orderings.

    Raises:
        ValueError: The shape or the name is wrong.
    """
    function = _pooling(name)
    if heatmaps.ndim != 4 or not heatmaps.is_floating_point() or 0 in heatmaps.shape[1:]:
        raise ValueError(
            f"heatmaps must be (N, C, H, W) floating, got {tuple(heatmaps.shape)} {heatmaps.dtype}"
        )
    n, channels, height, width = heatmaps.shape
    pooled = heatmaps.new_empty((n, height, width), dtype=torch.float64)
    size = chunk_size(24 * channels * height * width, heatmaps.device)
    for part, result in map_chunks(lambda part: function(heatmaps[part].detach().double()), n, size):
        pooled[part] = result
    low, high = extremes(heatmaps.detach())
    pooled[~(torch.isfinite(low) & torch.isfinite(high))] = torch.nan
    return pooled


def resize_heatmaps(heatmaps: Tensor, size: tuple[int, int]) -> Tensor:
    """Heatmaps ``(N, H, W)`` float64 at another resolution, bilinear with ``align_corners=False``.

    Maps that have the size already are returned as they are, in float64.
    """
    maps = check_heatmaps(heatmaps).detach().double()
    if maps.shape[1:] == size or not len(maps):
        return maps.reshape(len(maps), *size)
    large = F.interpolate(maps[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]
    # Rounding must not lift a value over its neighbors: a constant map stays exactly constant.
    low, high = (bound.view(-1, 1, 1) for bound in extremes(maps))
    return large.clamp(low, high)


def _pooling(name: str) -> Callable[[Tensor], Tensor]:
    if name == SIGNED:
        return lambda maps: maps.sum(1)
    if name not in POOLINGS:
        raise ValueError(f"unknown pooling {name!r}; known: {SIGNED}, {', '.join(POOLINGS)}")
    return POOLINGS[name]
