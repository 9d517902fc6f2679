"""Random changes of whole batches, on their device, after pixels were removed and before normalization.

Two ways: the published pipeline (Hooker et al. 2019) sends the masked image through a second preprocessing
that resizes it, so that kept and removed pixels mix; the recommended one moves images by whole pixels only.
"""

from typing import NamedTuple

import torch
from torch import Tensor

AREA = (0.08, 1.0)  # of the image, drawn for a random crop
ASPECT = (3 / 4, 4 / 3)
MIN_COVERED = 0.1  # a crop that covers less of the image counts as a failed attempt
_ENLARGED = 256 / 224  # shorter side before the center is cropped, in sides of the crop


class Crops(NamedTuple):
    """Which rectangle of each image is taken, all ``(N,)``: corner and sides in pixels, and whether mirrored.

    Corners and sides may be fractions of a pixel.
    """

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor
    flip: Tensor


def published_train(images: Tensor, generator: torch.Generator, *, size: int | None = None) -> Tensor:
    """Randomly cropped, bicubically resized and mirrored images, ``(N, C, size, size)`` float32.

    See ``random_crops`` and ``resample``; where the attempt to crop fails, the shorter side is resized to
    ``size`` and the center cropped.

    Args:
        images: ``(N, C, H, W)`` in [0, 1], pixels already removed.
        generator: What is drawn for an image depends on its place in the batch, not on its pixels.
        size: Side of the result; the shorter side of ``images`` by default.
    """
    side = size or min(images.shape[-2:])
    crops = random_crops(len(images), (images.shape[-2], images.shape[-1]), generator)
    return resample(images, crops, side)


def published_eval(images: Tensor, *, size: int | None = None) -> Tensor:
    """Centers of images enlarged bicubically by 256/224, ``(N, C, size, size)`` float32.

    Of a square image of 224 pixels the network then sees the central 196, magnified by 8/7.

    Args:
        images: ``(N, C, H, W)`` in [0, 1], pixels already removed.
        size: Side of the result; the shorter side of ``images`` by default.
    """
    height, width = images.shape[-2], images.shape[-1]
    side = size or min(height, width)
    scale = round(side * _ENLARGED) / min(height, width)
    spans, offsets = [], []
    for length in (height, width):
        # The longer side is truncated to whole pixels before the center of the result is found.
        resized = int(length * scale)
        unit = length / resized
        spans.append(side * unit)
        offsets.append((resized - side + 1) // 2 * unit)
    values = (*offsets, *spans)
    top, left, tall, wide = (torch.full((1,), value, dtype=torch.float64) for value in values)
    center = Crops(top, left, tall, wide, torch.zeros(1, dtype=torch.bool))
    return resample(images, center, side, cut=False)


def recommended(
    images: Tensor, generator: torch.Generator, *, flip: bool = False, pad: int | None = None
) -> Tensor:
    """Images moved by at most ``pad`` whole pixels and mirrored, shaped as ``images``; no pixels mix.

    Since every pixel of the result is one of the image, removing before or after moving is the same.

    Args:
        images: ``(N, C, H, W)``; masks ``(N, 1, H, W)`` move alike with a generator in the same state.
        generator: What is drawn for an image depends on its place in the batch, not on its pixels.
        flip: Mirror one image in two; only where a mirrored image is of the same class.
        pad: Largest movement in pixels; a sixteenth of the shorter side by default, at least 1. The border
            is filled by reflection.

    Raises:
        ValueError: The padding is as large as the image.
    """
    n, _, height, width = images.shape
    reach = max(1, min(height, width) // 16) if pad is None else pad
    if not 0 <= reach < min(height, width):
        raise ValueError(
            f"cannot pad images of {height} x {width} pixels by {reach}; "
            f"allowed: 0 to {min(height, width) - 1}"
        )
    drawn = _uniforms(n, 3, generator)
    down, right = (drawn[:2] * (2 * reach + 1)).long() - reach
    mirrored = (drawn[2] < 0.5) & flip
    rows = _reflected(torch.arange(height) + down[:, None], height)  # (N, H)
    columns = torch.arange(width).expand(n, width)
    columns = torch.where(mirrored[:, None], width - 1 - columns, columns)
    columns = _reflected(columns + right[:, None], width)  # (N, W)
    return _gathered(images, rows, columns)


def separate_train(
    images: Tensor, removed: Tensor, fill: Tensor, generator: torch.Generator, *, size: int | None = None
) -> Tensor:
    """As ``published_train``, but images and masks are resized apart, so that no removed pixel mixes.

    Args:
        images: ``(N, C, H, W)`` in [0, 1], with all their pixels.
        removed: ``(N, U, H, W)`` bool, ``U`` 1 or ``C``; resized to the nearest pixel.
        fill: Color of removed pixels, ``(C,)``.
        generator: See ``published_train``; the same state gives the same crops.
        size: Side of the result.
    """
    side = size or min(images.shape[-2:])
    crops = random_crops(len(images), (images.shape[-2], images.shape[-1]), generator)
    moved = resample_nearest(removed, crops, side)
    color = fill.to(images.device, torch.float32)[:, None, None]
    return torch.where(moved, color, resample(images, crops, side))


def random_crops(n: int, shape: tuple[int, int], generator: torch.Generator) -> Crops:
    """Crops of ``n`` images of ``shape`` rows and columns, one attempt each, mirrored one in two.

    The rule is that of the published pipeline's sampler: aspect ratio (width by height) uniform in
    [3/4, 4/3]; height uniform among the whole numbers that give an area of 8 to 100 % and fit; place uniform.
    An attempt fails when the crop covers less than a tenth of the image, or all of it. The crop is then the
    central square, about one image in twenty. Five numbers are drawn per image, whatever happens.

    Args:
        n: Number of images.
        shape: Rows ``H`` and columns ``W``.
        generator: Of any device; take one of the CPU to have the same crops on all devices.
    """
    height, width = shape
    aspect, scale, y, x, flip = _uniforms(n, 5, generator)
    ratio = ASPECT[0] + (ASPECT[1] - ASPECT[0]) * aspect
    least, most = ((share * height * width / ratio).sqrt().round() for share in AREA)
    # round(tall * ratio) must not exceed the width; 1e-7 keeps an exact half from being rounded up.
    most = torch.minimum(most, ((width + 0.5 - 1e-7) / ratio).floor()).clamp(max=height)
    least = torch.minimum(least, most)
    tall = least + (scale * (most - least + 1)).floor()
    wide = (tall * ratio).round()
    covered = tall * wide / (height * width)
    failed = (covered < MIN_COVERED) | (covered >= 1)
    top, left = (y * (height - tall + 1)).floor(), (x * (width - wide + 1)).floor()
    side = min(height, width)
    center = [torch.full_like(tall, value) for value in ((height - side + 1) // 2, (width - side + 1) // 2)]
    return Crops(
        torch.where(failed, center[0], top),
        torch.where(failed, center[1], left),
        torch.where(failed, side, tall),
        torch.where(failed, side, wide),
        flip < 0.5,
    )


def resample(images: Tensor, crops: Crops, size: int, *, cut: bool = True) -> Tensor:
    """``crops`` of ``images``, each resized bicubically, ``(N, C, size, size)`` float32.

    Keys' cubic kernel with a = -1/2, widened where a crop shrinks, cut off and renormalized at the border, as
    Pillow and torchvision resize with antialiasing. Values may leave [0, 1] a little at edges. Computed as
    two matrix products per image, the same for any batch.

    Args:
        images: ``(N, C, H, W)``.
        crops: Of ``N`` images, or of one that stands for all.
        size: Side of the result.
        cut: The border is the crop's, as where a crop is resized; otherwise the image's, as where a resized
            image is cropped.
    """
    top, left, tall, wide, flip = (value.to(images.device) for value in crops)
    rows = _weights(top, tall, images.shape[-2], size, cut=cut)
    columns = _weights(left, wide, images.shape[-1], size, cut=cut)
    columns = torch.where(flip[:, None, None], columns.flip(1), columns)
    # Half-precision sums would make removed pixels differ from the fill.
    with torch.autocast(images.device.type, enabled=False):
        halfway = rows[:, None] @ images.float()  # (N, C, size, W)
        return halfway @ columns.transpose(1, 2)[:, None]  # (N, C, size, size)


def resample_nearest(masks: Tensor, crops: Crops, size: int) -> Tensor:
    """``crops`` of ``masks`` ``(N, U, H, W)``, each resized to the nearest pixel, dtype kept."""
    top, left, tall, wide, flip = (value.to(masks.device) for value in crops)
    rows = _nearest(top, tall, masks.shape[-2], size)
    columns = _nearest(left, wide, masks.shape[-1], size)
    columns = torch.where(flip[:, None], columns.flip(1), columns)
    return _gathered(masks, rows.expand(len(masks), -1), columns.expand(len(masks), -1))


def _uniforms(n: int, count: int, generator: torch.Generator) -> Tensor:
    """``(count, n)`` float64 on the CPU; image ``i`` has column ``i`` in a batch of any size."""
    drawn = torch.rand(n, count, generator=generator, device=generator.device, dtype=torch.float64)
    return drawn.cpu().T


def _weights(start: Tensor, length: Tensor, n_in: int, n_out: int, *, cut: bool) -> Tensor:
    """``(N, n_out, n_in)`` float32: how much of each input pixel is in each output pixel; rows sum to 1."""
    begin, span = (value.double()[:, None, None] for value in (start, length))
    scale = span / n_out
    middles = begin + _centers(n_out, start.device)[:, None] * scale
    places = _centers(n_in, start.device)
    values = _cubic((places - middles) / scale.clamp(min=1))
    if cut:
        # A pixel belongs to the crop when its center does.
        values = values * ((places > begin) & (places < begin + span))
    return (values / values.sum(-1, keepdim=True)).float()


def _centers(n: int, device: torch.device) -> Tensor:
    return torch.arange(n, dtype=torch.float64, device=device) + 0.5


def _cubic(x: Tensor) -> Tensor:
    """Keys 1981, "Cubic convolution interpolation for digital image processing", with a = -1/2."""
    a, d = -0.5, x.abs()
    near = ((a + 2) * d - (a + 3)) * d**2 + 1
    far = (((d - 5) * d + 8) * d - 4) * a
    return torch.where(d < 1, near, torch.where(d < 2, far, torch.zeros_like(d)))


def _nearest(start: Tensor, length: Tensor, n_in: int, n_out: int) -> Tensor:
    begin, span = (value.double()[:, None] for value in (start, length))
    places = begin + _centers(n_out, start.device) * span / n_out
    return places.floor().long().clamp(0, n_in - 1)


def _reflected(places: Tensor, n: int) -> Tensor:
    """Places mirrored at the first and last of ``n`` pixels, which are not repeated."""
    return (n - 1) - ((n - 1) - places.abs()).abs()


def _gathered(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Pixel ``(rows[n, i], columns[n, j])`` of image ``n`` at ``(i, j)``."""
    device = images.device
    which = torch.arange(len(images), device=device)[:, None, None]
    picked = images.permute(0, 2, 3, 1)[which, rows.to(device)[:, :, None], columns.to(device)[:, None, :]]
    return picked.permute(0, 3, 1, 2)
