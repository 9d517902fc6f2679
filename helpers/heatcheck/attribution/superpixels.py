"""Superpixels: regions of similar colour that are hidden together."""

from typing import NamedTuple

import numpy as np
import torch
from skimage.segmentation import slic
from torch import Tensor

from heatcheck.attribution.passes import channel_values


class SlicOptions(NamedTuple):
    """Parameters of SLIC (Achanta et al. 2012).

    Attributes:
        n_segments: About how many superpixels; the image decides how many there are.
        compactness: Weight of distance against colour.
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
    if (options.mean is None) != (options.std is None):
        raise ValueError("mean and std of the normalization belong together: give both or none")
    if options.mean is not None and options.std is not None:
        images = images * channel_values(options.std, images) + channel_values(options.mean, images)
        images = (images.clamp(0, 1) * 255).round() / 255
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
