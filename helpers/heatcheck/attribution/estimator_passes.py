"""The passes behind the estimators: noisy copies drawn once for all bases, and statistics over them."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from heatcheck.attribution.gradient import path_gradients
from heatcheck.attribution.gradient_pairs import gradient_pairs
from heatcheck.attribution.guided import rectified_gradients
from heatcheck.attribution.passes import Piece, Query, in_chunks, input_gradients, join, wide
from heatcheck.attribution.smoothing import Noise, Running, Smoothed, add_maps, noise_deviation, smoothed

Base = Literal["grad", "gb", "ig"]


class Path(NamedTuple):
    """The line of integrated gradients.

    Attributes:
        start: Where it starts, ``(N, C, H, W)``; it ends at the images.
        nodes: Places in [0, 1] where gradients are taken.
        weights: Weights of the gradients there.
    """

    start: Tensor
    nodes: list[float]
    weights: list[float]

    def weight_at(self, node: float) -> float:
        """Weight of an end of the line; 0 where it is no node."""
        return sum(weight for place, weight in zip(self.nodes, self.weights, strict=True) if place == node)

    def inner(self) -> tuple[list[float], list[float]]:
        """Nodes between the ends, with their weights."""
        pairs = zip(self.nodes, self.weights, strict=True)
        kept = [(node, weight) for node, weight in pairs if 0 < node < 1]
        return [node for node, _ in kept], [weight for _, weight in kept]


class Work(NamedTuple):
    """What is asked of a model.

    Attributes:
        query: Images and targets, with a generator of noise.
        path: The line of integrated gradients.
        noise: Number of noisy copies, and how noisy they are.
        size: Most images at once.
    """

    query: Query
    path: Path
    noise: Noise
    size: int

    def take(self, rows: slice) -> "Work":
        """The same for the images at ``rows``."""
        query = self.query.at([Piece(0, rows)], self.query.images[rows])
        return self._replace(query=query, path=self.path._replace(start=self.path.start[rows]))


def start_gradients(work: Work) -> Tensor | None:
    """Gradients ``(N, C, H, W)`` at the start of the line, the same for all copies; None if it is no node."""
    if not work.path.weight_at(0):
        return None
    return in_chunks(input_gradients, work.query._replace(images=work.path.start), work.size)


def noisy_maps(work: Work, bases: Sequence[Base], at_start: Tensor | None) -> dict[Base, Smoothed]:
    """Statistics of the maps of ``bases`` over the noisy copies of the images.

    Copies of few images share a pass: as many as make up ``size`` images. Each image's copies are counted in
    ascending order whatever ``size`` is.

    Args:
        work: What is asked.
        bases: Maps to take statistics of.
        at_start: See ``start_gradients``.
    """
    images, n_samples = work.query.images, work.noise.n_samples
    block = max(1, work.size // len(images))
    running = {base: Running(*(torch.zeros_like(wide(images)) for _ in range(2))) for base in bases}
    for first in range(0, n_samples if bases else 0, block):
        samples = range(first, min(first + block, n_samples))
        pieces = [Piece(sample, slice(0, len(images))) for sample in samples]
        copies = join([_noisy_copy(work, sample) for sample in samples])
        maps = base_maps(work, pieces, copies, bases, at_start)
        for base in bases:
            for sample, found in zip(samples, torch.split(maps[base], len(images)), strict=True):
                add_maps(running[base], found, sample)
    return {base: smoothed(running[base], n_samples) for base in bases}


def base_maps(
    work: Work, pieces: Sequence[Piece], images: Tensor, bases: Sequence[Base], at_start: Tensor | None
) -> dict[Base, Tensor]:
    """Maps of ``bases`` at ``images`` ``(n, C, H, W)``, which stand for the rows of ``pieces``.

    ``grad`` and ``gb`` share their forward pass, and the gradient of ``grad`` is that at the end of the line
    of ``ig``. Maps that had to be computed on the way may come along.

    Args:
        work: What is asked.
        pieces: Rows of the images of ``work``.
        images: The images or copies of them.
        bases: Maps to compute.
        at_start: See ``start_gradients``.
    """
    query, path, size = work.query.at(pieces, images), work.path, work.size
    maps: dict[Base, Tensor] = {}
    at_end = path.weight_at(1) if "ig" in bases else 0.0
    if "gb" in bases and ("grad" in bases or at_end):
        maps["grad"], maps["gb"] = gradient_pairs(query, size)
    elif "gb" in bases:
        maps["gb"] = rectified_gradients(query, "guided")
    elif "grad" in bases or at_end:
        maps["grad"] = in_chunks(input_gradients, query, size)
    if "ig" in bases:
        start = join([path.start[piece.rows] for piece in pieces])
        total = path_gradients(query, start, *path.inner(), size)
        if at_end:
            total.add_(maps["grad"], alpha=at_end)
        if at_start is not None:
            total.add_(join([at_start[piece.rows] for piece in pieces]), alpha=path.weight_at(0))
        maps["ig"] = total.mul_(images - start)
    return maps


def _noisy_copy(work: Work, sample: int) -> Tensor:
    images = work.query.images
    generator = work.query.generator
    assert generator is not None, "the query of estimators always has a generator"
    draws = generator.normal(sample, images).to(images.dtype)
    return torch.addcmul(images, noise_deviation(images, work.noise), draws)
