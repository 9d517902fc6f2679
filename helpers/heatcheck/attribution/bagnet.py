"""BagNet maps: the logit of a small window around each pixel, as the network itself judges it."""

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.attribution.passes import (
    Piece,
    Query,
    forward_size,
    in_chunks,
    stream,
    target_scores,
    wide,
)
from heatcheck.attribution.registry import register
from heatcheck.attribution.windows import coverage, make_windows
from heatcheck.runtime.seeds import CounterGenerator


class Bag(NamedTuple):
    """A network of windows.

    Attributes:
        module: The model, whose ``window_logits`` gives ``(N, K, h, w)`` logits of all windows that lie
            ``stride`` pixels apart.
        side: Side of a window in pixels.
        stride: Step between windows; 0 where all are classified one by one.
    """

    module: Any
    side: int
    stride: int


@register(
    "bagnet",
    family="intrinsic",
    cites="brendel2019approximating",
    variants={"bagnet-exact": {"windows": "own"}},
)
def bagnet(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    windows: Literal["all", "own"] = "all",
) -> Tensor:
    """Logit of the window around each pixel, ``(N, 1, H, W)`` (Brendel and Bethge 2019).

    Args:
        model: Bag of local features with the attribute ``receptive_field``, the side of its windows. With
            ``stride`` and ``window_logits(images)``, the logits ``(N, K, h, w)`` of windows ``stride`` pixels
            apart, all windows take ``stride**2`` passes; else each window is a pass.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model, where it has no ``window_logits``.
        generator: Not used.
        windows: ``all``: one window around each pixel, zeros added at the borders, as published. ``own``:
            those that the network averages; each spreads its share of the logit evenly over its pixels, so
            that the map's sum is the logit.

    Raises:
        ValueError: The model has no such attributes, or the images are smaller than a window.
    """
    bag = find_bag(model)
    query = Query(model, images, targets, forward_args)
    if not len(images):
        return wide(images[:, :1])
    if windows == "own":
        return own_windows(query, bag)[:, None]
    return (every_window(query, bag) if bag.stride else one_by_one(query, bag))[:, None]


def find_bag(model: nn.Module) -> Bag:
    """``model`` as a network of windows: it, or a module in it, has a receptive field.

    Raises:
        ValueError: There is none.
    """
    # A model around the network may change its images, so only its own window_logits will do.
    stride = int(getattr(model, "stride", 1)) if callable(getattr(model, "window_logits", None)) else 0
    for module in model.modules():
        side = getattr(module, "receptive_field", None)
        if isinstance(side, int):
            return Bag(model, side, stride)
    raise ValueError(
        f"{type(model).__name__} has no receptive_field, the side of the windows it classifies; bagnet "
        "explains bags of local features only"
    )


def every_window(query: Query, bag: Bag) -> Tensor:
    """Logits ``(N, H, W)`` of a window around each pixel, ``stride**2`` passes over shifted images."""
    height, width = query.images.shape[-2:]
    rows, columns = (-(-length // bag.stride) for length in (height, width))
    padded = _padded(query.images, bag.side, extra=bag.stride - 1)
    tall, wide_side = ((count - 1) * bag.stride + bag.side for count in (rows, columns))

    def write(piece: Piece, place: Tensor) -> None:
        top, left = divmod(piece.step, bag.stride)
        place.copy_(padded[piece.rows, :, top : top + tall, left : left + wide_side])

    shifted = query._replace(images=padded[:, :, :tall, :wide_side])
    size, n_steps = forward_size(shifted), bag.stride**2
    maps = wide(query.images.new_empty(len(query.images), rows * bag.stride, columns * bag.stride))
    for piece, logits in stream(_dense_scores(bag), shifted, write, n_steps=n_steps, size=size):
        top, left = divmod(piece.step, bag.stride)
        maps[piece.rows, top :: bag.stride, left :: bag.stride] = logits.to(maps.dtype)
    return maps[:, :height, :width].contiguous()


def one_by_one(query: Query, bag: Bag) -> Tensor:
    """Logits ``(N, H, W)`` of a window around each pixel, each of them an image of its own."""
    height, width = query.images.shape[-2:]
    padded = _padded(query.images, bag.side, extra=0)

    def write(piece: Piece, place: Tensor) -> None:
        top, left = divmod(piece.step, width)
        place.copy_(padded[piece.rows, :, top : top + bag.side, left : left + bag.side])

    def scores(part: Query) -> Tensor:
        with torch.no_grad():
            return target_scores(part)

    single = query._replace(images=padded[:, :, : bag.side, : bag.side])
    maps = wide(query.images.new_empty(len(query.images), height * width))
    for piece, logits in stream(scores, single, write, n_steps=height * width, size=forward_size(single)):
        maps[piece.rows, piece.step] = logits.to(maps.dtype)
    return maps.view(-1, height, width)


def own_windows(query: Query, bag: Bag) -> Tensor:
    """Logit spread over the pixels of the windows whose mean it is, ``(N, H, W)``; 0 where no window is.

    Raises:
        ValueError: The model cannot tell its windows' logits, or the images are smaller than a window.
    """
    if not bag.stride:
        raise ValueError("windows='own' needs a model with window_logits(images); use windows='all'")
    rows, columns = (
        make_windows(length, bag.side, bag.stride, cover=False) for length in query.images.shape[-2:]
    )
    logits = in_chunks(_dense_scores(bag), query, forward_size(query))
    shares = wide(logits) / (logits[0].numel() * bag.side**2)
    return coverage(rows).to(shares).T @ shares @ coverage(columns).to(shares)


def _dense_scores(bag: Bag) -> Any:
    def scores(part: Query) -> Tensor:
        with torch.no_grad():
            logits = bag.module.window_logits(part.images)
        check_window_logits(logits, part, bag)
        places = part.targets.to(logits.device)[:, None, None, None].expand(-1, 1, *logits.shape[-2:])
        found: Tensor = logits.gather(1, places)[:, 0]
        return found

    return scores


def check_window_logits(logits: object, query: Query, bag: Bag) -> None:
    """Refuse what a model's ``window_logits`` gave where it is not a logit per class and window.

    Raises:
        ValueError: Another shape, or a target that is no class.
    """
    sides = ((length - bag.side) // bag.stride + 1 for length in query.images.shape[-2:])
    wanted = (len(query.images), *sides)
    found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if not isinstance(logits, Tensor) or logits.ndim != 4 or (found[0], *found[2:]) != wanted:
        raise ValueError(
            f"window_logits must return ({wanted[0]}, K, {wanted[1]}, {wanted[2]}) for windows of {bag.side} "
            f"pixels, {bag.stride} apart; it returned {found}"
        )
    if int(query.targets.max()) >= logits.shape[1]:
        raise ValueError(
            f"target {int(query.targets.max())} is no class of the model; it scores the classes 0 to "
            f"{logits.shape[1] - 1}"
        )


def _padded(images: Tensor, side: int, *, extra: int) -> Tensor:
    """Zeros around, so that a window of ``side`` lies around every pixel, and ``extra`` more at the ends."""
    before = side // 2
    after = side - 1 - before + extra
    return F.pad(images, (before, after, before, after))
