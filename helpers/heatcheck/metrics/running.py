"""Curves of many images: what a model answers while more and more of their pixels change.

Many images go side by side, one running copy each, of which a step rewrites only what changes: ``C * q``
values per image instead of a whole composite, which is on light models most of the time.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from heatcheck.metrics.composites import Changes, Composer
from heatcheck.metrics.ordering import Order, pixel_ranks, pixel_sequences
from heatcheck.metrics.scoring import Scorer, ask, images_per_call
from heatcheck.runtime.memory import current_limits, map_chunks
from heatcheck.runtime.seeds import CounterGenerator

# From so many images on, running copies beat composites that mix steps to fill a pass, measured on CPUs.
_ENOUGH_ORDERS = 8


class Orderings(NamedTuple):
    """Orders of change of ``V`` images' pixels, with what is asked about each.

    Attributes:
        maps: ``(N, H, W)`` finite heatmaps.
        orders: ``V`` orders.
        classes: ``(V,)`` int64 class whose probability is wanted.
        counts: ``S`` increasing numbers of changed pixels.
        generator: Random numbers of the ``N`` images.
    """

    maps: Tensor
    orders: list[Order]
    classes: Tensor
    counts: list[int]
    generator: CounterGenerator


def ordered_scores(probabilities: Scorer, composer: Composer, orderings: Orderings) -> Tensor:
    """Scores ``(V, S)`` float64 of every ordering at every count.

    Args:
        probabilities: Class probabilities ``(B, K)`` of images ``(B, C, H, W)``.
        composer: Images and what stands behind them.
        orderings: What is changed, in which order.
    """
    maps, orders, classes, counts, generator = orderings
    size = images_per_call(probabilities, composer.images)
    if composer.runs_along and len(orders) >= min(size, _ENOUGH_ORDERS):
        return running_scores(probabilities, composer, orderings, size)
    steps = torch.tensor(counts, dtype=torch.int32, device=maps.device)
    # Ranks of a few images at a time, so that memory does not grow with the number of images or orders.
    block = max(1, current_limits(maps.device).budget // (32 * maps[0].numel()))
    scores = [maps.new_empty((0, len(counts)))]
    for start in range(0, len(orders), block):
        some = orders[start : start + block]
        changes = Changes([order.row for order in some], pixel_ranks(maps, some, generator), steps)
        wanted = classes[start : start + block].repeat_interleave(len(counts))[:, None]
        score = partial(_composed_scores, probabilities, composer, changes, wanted)
        parts = [found for _, found in map_chunks(score, len(wanted), size)]
        scores.append(torch.cat(parts).view(len(some), len(counts)))
    return torch.cat(scores)


def running_scores(probabilities: Scorer, composer: Composer, orderings: Orderings, size: int) -> Tensor:
    """Scores ``(V, S)`` float64 of every ordering at every count, ``size`` orderings at a time.

    Args:
        probabilities: Class probabilities ``(B, K)`` of images ``(B, C, H, W)``.
        composer: Images and what stands behind them; a fill that depends on the mask cannot run along.
        orderings: What is changed, in which order.
        size: Most images per forward pass.
    """

    def run(part: slice) -> Tensor:
        return _run(probabilities, composer, orderings, part)

    parts = [found for _, found in map_chunks(run, len(orderings.orders), size)]
    return torch.cat(parts)


def _composed_scores(
    probabilities: Scorer, composer: Composer, changes: Changes, wanted: Tensor, part: slice
) -> Tensor:
    return ask(probabilities, composer.compose(changes, part)).gather(1, wanted[part])[:, 0]


def _run(probabilities: Scorer, composer: Composer, orderings: Orderings, part: slice) -> Tensor:
    orders = orderings.orders[part]
    rows = [order.row for order in orders]
    images, behind = composer.images[rows], composer.behind_of(rows)
    before, after = (behind, images) if composer.inserting else (images, behind)
    current, target = (_pixels(batch, composer.layout) for batch in (before.clone(), after))
    sequences = pixel_sequences(orderings.maps, orders, orderings.generator)  # (B, H W)
    channels_last = composer.layout == torch.channels_last
    axis = 1 if channels_last else 2
    scores, done = [], 0
    for count in orderings.counts:
        places = (
            sequences[:, done:count]
            .unsqueeze(3 - axis)
            .expand((-1, -1, images.shape[1]) if channels_last else (-1, images.shape[1], -1))
        )
        current.scatter_(axis, places, target.gather(axis, places))
        done = count
        found = ask(probabilities, _images(current, images.shape, channels_last))
        scores.append(found.gather(1, orderings.classes[part, None]))
    return torch.cat(scores, 1)


def _pixels(images: Tensor, layout: torch.memory_format) -> Tensor:
    """Images with pixels along one axis: ``(B, C, H W)``, or ``(B, H W, C)`` in channels-last memory."""
    if layout == torch.channels_last:
        return images.permute(0, 2, 3, 1).flatten(1, 2)
    return images.flatten(2)


def _images(pixels: Tensor, shape: torch.Size, channels_last: bool) -> Tensor:
    """Inverse of ``_pixels``, a view: ``(B, C, H, W)``."""
    _, channels, height, width = shape
    if channels_last:
        return pixels.view(-1, height, width, channels).permute(0, 3, 1, 2)
    return pixels.view(-1, channels, height, width)
