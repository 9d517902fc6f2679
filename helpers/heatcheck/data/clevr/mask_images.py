"""Segmentation masks as CLEVR-XAI stores them, and how masks are resized.

A mask image is a PNG in which every object has one flat color. The color of object ``i`` stands in the scene
file as linear RGB in [0, 1], while the PNG holds sRGB bytes (Arras, Osman & Samek 2022).
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Pixels = NDArray[np.uint8]
Owners = NDArray[np.int8]
Mask = NDArray[np.bool_]

BACKGROUND = (64, 64, 64)
MASK_VIEW = (320, 480)  # rows and columns of the released images and masks
# Where sRGB turns from a line into a power, in [0, 1]; the linear value there is this over 12.92.
_KNEE = 0.0404482362771082
# Rounding to bytes moves a color by 0.008 at most; one that is farther away belongs to no object.
_FARTHEST = 0.05


def srgb_to_linear(values: ArrayLike) -> NDArray[np.float64]:
    """Linear light in [0, 1] of sRGB bytes of any shape.

    With ``v = byte / 255``: ``v / 12.92`` below 0.04045, else ``((v + 0.055) / 1.055) ** 2.4`` (IEC
    61966-2-1).
    """
    v = np.asarray(values, dtype=np.float64) / 255
    return np.where(v < _KNEE, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def linear_to_srgb_bytes(values: ArrayLike) -> Pixels:
    """Nearest sRGB bytes of linear light in [0, 1], any shape; the inverse of ``srgb_to_linear``."""
    linear = np.clip(np.asarray(values, dtype=np.float64), 0.0, 1.0)
    v = np.where(linear < _KNEE / 12.92, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    rounded: Pixels = np.rint(v * 255).astype(np.uint8)
    return rounded


def decode_masks(pixels: Pixels, mask_colors: ArrayLike, *, where: str = "mask image") -> Owners:
    """Which object each pixel shows, ``(H, W)`` int8, -1 for the background.

    An object has the color of the image that is nearest to its own in linear RGB.

    Args:
        pixels: ``(H, W, 3)`` uint8 sRGB.
        mask_colors: ``(n, 3)`` linear RGB in [0, 1], in the order of the scene's objects.
        where: What error messages call the image.

    Raises:
        ValueError: There is no background, two objects have the same color, or a color belongs to no object.
    """
    colors = np.asarray(mask_colors, dtype=np.float64).reshape(-1, 3)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise ValueError(f"{where}: needed are (H, W, 3) uint8 pixels, got {pixels.shape} {pixels.dtype}")
    codes = _pack(pixels)
    found = np.unique(codes)  # sorted by red, then green, then blue
    background = int(_pack(np.array(BACKGROUND)))
    if background not in found:
        raise ValueError(
            f"{where}: no pixel has the background color {BACKGROUND}; it must be a CLEVR-XAI mask"
        )
    matched = _match(found[found != background], colors, where)
    owner_of = np.full(len(found), -1, dtype=np.int8)
    owner_of[np.searchsorted(found, matched)] = np.arange(len(colors), dtype=np.int8)
    return owner_of[np.searchsorted(found, codes)]


def paint_masks(owners: Owners, colors: ArrayLike) -> Pixels:
    """Mask image ``(H, W, 3)`` uint8 sRGB, the inverse of ``decode_masks``.

    Args:
        owners: ``(H, W)`` object of each pixel, -1 for the background.
        colors: ``(n, 3)`` sRGB bytes of the objects, all different and none the background's.

    Raises:
        ValueError: Colors are not distinct, or a pixel's object has none.
    """
    painted = np.asarray(colors, dtype=np.uint8).reshape(-1, 3)
    table = np.concatenate([painted, np.array([BACKGROUND], dtype=np.uint8)])
    if len(np.unique(table, axis=0)) < len(table):
        raise ValueError(f"colors {painted.tolist()} must differ from each other and from {BACKGROUND}")
    if owners.size and not -1 <= owners.min() <= owners.max() < len(painted):
        raise ValueError(
            f"owners reach from {owners.min()} to {owners.max()}, but there are {len(painted)} colors"
        )
    # The background's -1 takes the last row of the table.
    return np.ascontiguousarray(table[owners])


def object_mask(owners: Owners, objects: Iterable[int]) -> Mask:
    """Pixels that show one of ``objects``, ``(H, W)`` bool, from owners ``(H, W)``."""
    return np.isin(owners, np.array(sorted(objects), dtype=np.int64))


def resize_mask(masks: Mask, size: int | tuple[int, int]) -> Mask:
    """Masks ``(..., size, size)`` bool from masks ``(..., H, W)``; the aspect ratio is given up.

    CLEVR-XAI resizes 1.0 and 0.0 bilinearly with antialiasing and takes what is above 0. The weights of the
    triangle filter are never negative, so that is: pixel ``i`` of ``t`` is true where a true pixel ``j`` of
    ``s`` lies inside its support, ``|(j + 1/2) - (i + 1/2) s / t| < max(s / t, 1)``. This is decided here in
    integers, without rounding.

    Args:
        masks: ``(..., H, W)`` bool.
        size: Side of the result, or its rows and columns.

    Raises:
        ValueError: ``masks`` is not boolean, or a side is not positive.
    """
    rows, columns = (size, size) if isinstance(size, int) else size
    if masks.dtype != np.bool_ or masks.ndim < 2 or 0 in masks.shape[-2:]:
        raise ValueError(f"masks must be (..., H, W) bool, got {masks.shape} {masks.dtype}")
    if rows < 1 or columns < 1:
        raise ValueError(f"masks cannot be resized to {rows} x {columns} pixels; both must be positive")
    return _any_in_reach(_any_in_reach(masks, rows, -2), columns, -1)


def _any_in_reach(masks: Mask, target: int, axis: int) -> Mask:
    """True where any pixel along ``axis`` within the support of the target's pixel is true."""
    source = masks.shape[axis]
    centers, reach = (2 * np.arange(target) + 1) * source, 2 * max(source, target)
    # First and one past the last j with |(2j + 1) target - center| < reach.
    low = np.maximum(_floor_half(centers - reach, target) + 1, 0)
    high = np.minimum(-_floor_half(-(centers + reach), target) - 1, source)
    moved = np.moveaxis(masks, axis, 0)
    before = np.zeros((source + 1, *moved.shape[1:]), dtype=np.int32)
    np.cumsum(moved, axis=0, out=before[1:])
    return np.moveaxis(before[high] > before[low], 0, axis)


def _floor_half(bound: NDArray[np.int64], target: int) -> NDArray[np.int64]:
    """Largest ``j`` with ``(2j + 1) * target <= bound``."""
    return (bound - target) // (2 * target)


def _pack(pixels: NDArray[np.uint8] | NDArray[np.int64]) -> NDArray[np.int64]:
    """One number per pixel, sorted like (red, green, blue)."""
    wide = pixels.astype(np.int64)
    return (wide[..., 0] << 16) | (wide[..., 1] << 8) | wide[..., 2]


def _unpack(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=-1)


def _match(found: NDArray[np.int64], colors: NDArray[np.float64], where: str) -> NDArray[np.int64]:
    """Packed color of each object, of those ``found`` in the image."""
    if len(found) < len(colors):
        raise ValueError(
            f"{where}: {len(found)} colors besides the background for {len(colors)} objects; "
            "every object must be visible in a color of its own"
        )
    shown = _unpack(found)
    if not len(colors):
        _refuse(shown, where)
        return found
    distance = np.linalg.norm(srgb_to_linear(shown)[None] - colors[:, None], axis=-1)
    nearest = distance.argmin(axis=1)  # the first one on a tie
    _check_distinct(nearest, shown, where)
    _refuse(np.delete(shown, nearest, axis=0), where)
    worst = int(distance.min(axis=1).argmax())
    if distance[worst].min() > _FARTHEST:
        raise ValueError(
            f"{where}: no color is that of object {worst}, linear {colors[worst].tolist()}, sRGB "
            f"{linear_to_srgb_bytes(colors[worst]).tolist()}; the nearest is {shown[nearest[worst]].tolist()}"
        )
    matched: NDArray[np.int64] = found[nearest]
    return matched


def _check_distinct(nearest: NDArray[np.intp], shown: NDArray[np.int64], where: str) -> None:
    first: dict[int, int] = {}
    for index, color in enumerate(nearest.tolist()):
        if color in first:
            raise ValueError(
                f"{where}: objects {first[color]} and {index} both have the color {shown[color].tolist()}; "
                "scene and mask do not belong together"
            )
        first[color] = index


def _refuse(colors: Sequence[Sequence[int]] | NDArray[np.int64], where: str) -> None:
    if len(colors):
        some = ", ".join(str(tuple(int(byte) for byte in color)) for color in colors[:3])
        raise ValueError(
            f"{where}: {len(colors)} colors belong to no object, such as {some}; scene and mask do not "
            "belong together, or the mask was resized or compressed"
        )
