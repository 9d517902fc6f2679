"""Blurs whose kernel is an outer product of one line with itself."""

import torch.nn.functional as F
from torch import Tensor

from heatcheck.removal.color import wide


def blurred_along(images: Tensor, line: Tensor) -> Tensor:
    """``images`` ``(N, C, H, W)`` convolved with ``line`` ``(k,)`` along rows and columns, zero-padded.

    Two one-dimensional passes do the work of ``k * k`` taps; they run in float32 or wider.

    Args:
        images: Any floating type, which the result has too.
        line: Kernel of odd length.
    """
    line = line.to(device=images.device, dtype=wide(images))
    channels, half = images.shape[1], len(line) // 2
    across = line.view(1, 1, 1, -1).expand(channels, 1, 1, -1)
    down = line.view(1, 1, -1, 1).expand(channels, 1, -1, 1)
    blurred = F.conv2d(images.to(line.dtype), across, padding=(0, half), groups=channels)
    return F.conv2d(blurred, down, padding=(half, 0), groups=channels).to(images.dtype)
