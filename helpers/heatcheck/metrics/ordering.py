"""In which order pixels are changed, and what is done with ties."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from heatcheck.runtime.seeds import CounterGenerator

Ties = Literal["stable", "random", "mean"]
TIES: tuple[Ties, ...] = ("stable", "random", "mean")


class Order(NamedTuple):
    """One ordering of one map's pixels.

    Attributes:
        row: Which map.
        sample: Number of the random order among tied pixels; None for the stable order.
    """

    row: int
    sample: int | None


def orders_of(heatmaps: Tensor, rows: list[int], ties: Ties, n_orders: int) -> list[Order]:
    """Orderings to evaluate, in the order of ``rows``.

    Args:
        heatmaps: ``(N, H, W)`` finite.
        rows: Maps to order.
        ties: ``stable`` is row-major, lowest index first; ``random`` draws one order among equal pixels;
            ``mean`` draws ``n_orders`` of them for a map with ties, and one for a map without.
        n_orders: Number of random orders of ``mean``.

    Raises:
        ValueError: Unknown tie rule, or no order.
    """
    if ties not in TIES:
        raise ValueError(f"unknown tie rule {ties!r}; allowed: {', '.join(TIES)}")
    if n_orders < 1:
        raise ValueError(f"n_orders must be at least 1, got {n_orders}")
    if ties == "stable":
        return [Order(row, None) for row in rows]
    samples = 1 if ties == "random" else n_orders
    return [
        Order(row, sample)
        for row in rows
        for sample in (range(samples) if has_ties(heatmaps[row]) else (None,))
    ]


def has_ties(heatmap: Tensor) -> bool:
    """Whether two pixels of a map ``(H, W)`` are equal."""
    values = heatmap.flatten().sort().values
    return bool((values[1:] == values[:-1]).any())


def pixel_ranks(heatmaps: Tensor, orders: list[Order], generator: CounterGenerator) -> Tensor:
    """Rank ``(len(orders), H, W)`` int32 of every pixel; 0 is changed first.

    Larger values come first and signs count. Equal values come in row-major order, or in an order drawn
    for this image and sample.

    Args:
        heatmaps: ``(N, H, W)`` finite.
        orders: What to rank.
        generator: Random numbers of the ``N`` images.
    """
    sequences = pixel_sequences(heatmaps, orders, generator)
    places = torch.arange(sequences.shape[1], dtype=torch.int32, device=sequences.device)
    ranks = torch.empty(sequences.shape, dtype=torch.int32, device=sequences.device)
    ranks.scatter_(1, sequences, places.expand_as(ranks))
    return ranks.view(len(orders), *heatmaps.shape[1:])


def pixel_sequences(heatmaps: Tensor, orders: list[Order], generator: CounterGenerator) -> Tensor:
    """Pixel indices ``(len(orders), H * W)`` int64 in the order of change; arguments as ``pixel_ranks``."""
    flat = heatmaps.flatten(1)
    if all(order.sample is None for order in orders):
        values = flat[[order.row for order in orders]]
        return torch.sort(values, dim=1, descending=True, stable=True).indices
    return torch.stack([_sequence(flat[row], row, sample, generator) for row, sample in orders])


def _sequence(values: Tensor, row: int, sample: int | None, generator: CounterGenerator) -> Tensor:
    """Pixel indices ``(H * W,)`` in the order of change."""
    if sample is None:
        return torch.sort(values, descending=True, stable=True).indices
    # A stable sort of shuffled pixels leaves equal ones in shuffled order.
    shuffled = torch.from_numpy(generator.numpy(row, sample).permutation(len(values))).to(values.device)
    return shuffled[torch.sort(values[shuffled], descending=True, stable=True).indices]
