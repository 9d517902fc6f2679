"""What a batch is: images in [0, 1] with their classes and, where known, masks and boxes."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LabelledImages:
    """Images and what is known about them.

    Attributes:
        name: Name of the data set, used in every table.
        ids: ``N`` stable names, one per image.
        images: ``(N, 3, H, W)`` float32 in [0, 1], not normalised.
        targets: ``(N,)`` int64 class of each image.
        masks: ``(N, H, W)`` bool, pixels of the object that decides the class; None where unknown.
        boxes: For each image its ground-truth boxes ``(n, 4)`` float64, half-open ``[x0, y0, x1, y1)`` in
            pixels of ``images``; None where unknown.
    """

    name: str
    ids: tuple[str, ...]
    images: Tensor
    targets: Tensor
    masks: Tensor | None = None
    boxes: tuple[Tensor, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> "LabelledImages":
        """The images at ``rows``, in that order."""
        index = list(rows)
        return LabelledImages(
            self.name,
            tuple(self.ids[row] for row in index),
            self.images[index],
            self.targets[index],
            None if self.masks is None else self.masks[index],
            None if self.boxes is None else tuple(self.boxes[row] for row in index),
        )
