"""Images with some of their pixels replaced, made a chunk at a time."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from heatcheck.removal.fills import Fill, get_fill


class Changes(NamedTuple):
    """Which pixels are changed.

    Attributes:
        rows: Image of each of ``V`` orderings.
        ranks: ``(V, H, W)`` int32 rank of every pixel; 0 is changed first.
        counts: ``(S,)`` int32 number of changed pixels at each point.
    """

    rows: list[int]
    ranks: Tensor
    counts: Tensor


class Composer(NamedTuple):
    """What composites are made of.

    Attributes:
        images: ``(N, C, H, W)`` unmodified.
        behind: ``(N, C, H, W)`` values of removed pixels, or the fill that makes them from the mask.
        inserting: Changed pixels come back from the image, instead of going away.
        layout: Memory format of the composites.
    """

    images: Tensor
    behind: Tensor | Fill
    inserting: bool
    layout: torch.memory_format

    @classmethod
    def of(
        cls, images: Tensor, fill: str | Fill | Tensor, inserting: bool, channels_last: bool
    ) -> "Composer":
        """Composer for ``images``; a fill that needs no mask is applied here, once.

        Raises:
            ValueError: Filled images of another shape, or an unknown fill.
        """
        layout = torch.channels_last if channels_last else torch.contiguous_format
        images = images.contiguous(memory_format=layout)
        return cls(images, _behind(images, fill, layout), inserting, layout)

    @property
    def runs_along(self) -> bool:
        """Whether what stands behind a removed pixel is the same at every step."""
        return not isinstance(self.behind, Fill)

    def behind_of(self, rows: list[int]) -> Tensor:
        """What stands behind the images at ``rows``, ``(B, C, H, W)``.

        Raises:
            ValueError: The fill depends on the mask.
        """
        if isinstance(self.behind, Fill):
            raise ValueError(f"fill {self.behind.name!r} depends on the mask; compose its images one by one")
        return self.behind[rows]

    def compose(self, changes: Changes, part: slice) -> Tensor:
        """Composites ``(B, C, H, W)`` of the pairs (ordering, point) in ``part``, points varying fastest.

        Args:
            changes: The ``V`` orderings and ``S`` points.
            part: Consecutive pairs within ``range(V * S)``.
        """
        _, channels, height, width = self.images.shape
        out = torch.empty(
            (part.stop - part.start, channels, height, width),
            dtype=self.images.dtype,
            device=self.images.device,
            memory_format=self.layout,
        )
        done = 0
        for order, low, high in segments(part, len(changes.counts)):
            changed = changes.ranks[order] < changes.counts[low:high].view(-1, 1, 1, 1)
            self._write(changes.rows[order], changed, out[done : done + high - low])
            done += high - low
        return out

    def _write(self, row: int, changed: Tensor, out: Tensor) -> None:
        """Composites of one image for masks ``(B, 1, H, W)``, without copies of the image."""
        image = self.images[row : row + 1]
        if isinstance(self.behind, Fill):
            keep = changed if self.inserting else ~changed
            out.copy_(self.behind(image.expand(len(changed), -1, -1, -1), keep))
            return
        behind = self.behind[row : row + 1]
        after, before = (image, behind) if self.inserting else (behind, image)
        torch.where(changed, after, before, out=out)


def segments(part: slice, n_points: int) -> Iterator[tuple[int, int, int]]:
    """Runs ``(ordering, first point, end point)`` of consecutive pairs that belong to one ordering."""
    start = part.start
    while start < part.stop:
        order, low = divmod(start, n_points)
        high = min(n_points, low + part.stop - start)
        yield order, low, high
        start += high - low


def _behind(images: Tensor, fill: str | Fill | Tensor, layout: torch.memory_format) -> Tensor | Fill:
    if isinstance(fill, Tensor):
        if fill.shape != images.shape or not fill.is_floating_point() or not torch.isfinite(fill).all():
            raise ValueError(
                f"filled images must be finite, floating and shaped {tuple(images.shape)} as the images, "
                f"got {tuple(fill.shape)} {fill.dtype}"
            )
        return fill.detach().to(images).contiguous(memory_format=layout)
    chosen = get_fill(fill) if isinstance(fill, str) else fill
    if chosen.name == "zero":
        return images.new_zeros((1, 1, 1, 1)).expand_as(images)
    return chosen if chosen.uses_mask else chosen.substrate(images).contiguous(memory_format=layout)
