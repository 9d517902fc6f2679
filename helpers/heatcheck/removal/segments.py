"""Superpixels: regions of similar color that are hidden together."""

from typing import NamedTuple

import numpy as np
import torch
from skimage.segmentation import slic
from torch import Tensor

from heatcheck.removal.color import is_normalized, round_to_bytes, to_colors
from heatcheck.removal.registry import register_fill


class SlicOptions(NamedTuple):
    """Parameters of SLIC (Achanta et al. 2012).

    Attributes:
        n_segments: About how many superpixels; the image decides how many there are.
        compactness: Weight of distance against color.
        sigma: Standard deviation of the smoothing before, in pixels.
        mean: Per-channel mean the images were normalized with; None: segment them as they are.
        std: Per-channel standard deviation the images were normalized with.
    """

    n_segments: int = 50
    compactness: float = 30.0
    sigma: float = 3.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


def superpixels(images: Tensor, options: SlicOptions) -> Tensor:
    """Superpixel of every pixel, ``(N, H, W)`` int64 on the CPU, numbered 0 to K - 1 in every image.

    With ``mean`` and ``std`` the images are first brought back to [0, 1] and rounded to 8 bits.

    Raises:
        ValueError: Only one of ``mean`` and ``std`` is given, or they do not fit the images.
    """
    if is_normalized(options.mean, options.std):
        images = round_to_bytes(to_colors(images, options.mean, options.std))
    pictures = images.detach().to("cpu", torch.float64).permute(0, 2, 3, 1).numpy()
    segments = [_segment(np.ascontiguousarray(picture), options) for picture in pictures]
    return (
        torch.stack(segments) if segments else torch.zeros(len(images), *images.shape[-2:], dtype=torch.int64)
    )


def relabel(segments: np.ndarray) -> Tensor:
    """Labels ``(H, W)`` renumbered 0 to K - 1 in ascending order, int64.

    Segmentations may start at 1 or skip numbers; a label that no feature stands for would never be hidden.
    """
    _, labels = np.unique(segments, return_inverse=True)
    return torch.from_numpy(labels.reshape(segments.shape).astype(np.int64))


def superpixel_means(images: Tensor, segments: Tensor) -> Tensor:
    """Each superpixel painted with its mean color, ``(N, C, H, W)``.

    Args:
        images: ``(N, C, H, W)``.
        segments: ``(N, H, W)`` int64.
    """
    labels = segments.flatten(1)[:, None].expand(-1, images.shape[1], -1)
    k = int(segments.max()) + 1 if segments.numel() else 0
    means = images.new_zeros(*images.shape[:2], k).scatter_reduce(
        2, labels, images.flatten(2), "mean", include_self=False
    )
    return means.gather(2, labels).view_as(images)


@register_fill("superpixel-mean", uses_mask=False)
def superpixel_mean(
    images: Tensor,
    keep_mask: Tensor,
    *,
    n_segments: int = 50,
    compactness: float = 30.0,
    sigma: float = 3.0,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Tensor:
    """Every pixel has the mean color of its superpixel in the whole image, ``(N, C, H, W)``.

    What is removed is not hidden but flattened: a superpixel's own color stays. Arguments are those of
    ``SlicOptions``.

    Raises:
        ValueError: As for ``superpixels``.
    """
    segments = superpixels(images, SlicOptions(n_segments, compactness, sigma, mean, std))
    wide = images.detach().to(torch.promote_types(images.dtype, torch.float32))
    return superpixel_means(wide, segments.to(images.device)).to(images.dtype)


def _segment(picture: np.ndarray, options: SlicOptions) -> Tensor:
    found = slic(
        picture,
        n_segments=options.n_segments,
        compactness=options.compactness,
        sigma=options.sigma,
        start_label=0,
        convert2lab=picture.shape[-1] == 3,
        channel_axis=-1,
    )
    return relabel(found)
