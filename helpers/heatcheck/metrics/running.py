"""Curves of many images side by side: one running copy per image, of which a step rewrites only what changes.

A step writes ``C * q`` values per image instead of a whole composite: on light models, most of the time.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from heatcheck.metrics.composites import Composer
from heatcheck.metrics.ordering import Order, pixel_sequences
from heatcheck.metrics.scoring import Scorer, ask
from heatcheck.runtime.memory import map_chunks
from heatcheck.runtime.seeds import CounterGenerator


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
