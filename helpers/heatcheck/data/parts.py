"""What a retrained network learns from and is tested on: two parts with whole uint8 images."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.data.preprocessing import Pixels, to_images
from heatcheck.data.selection import list_digest

# Rows that are read at once from images that may be larger than memory.
_BLOCK = 1024


class Published(NamedTuple):
    """Numbers of classes, training and test images a data set was published with."""

    n_classes: int
    n_train: int
    n_test: int


@dataclass(frozen=True)
class Part:
    """Training or test images.

    Attributes:
        ids: ``N`` stable names, one per image.
        images: ``(N, H, W, 3)`` uint8 RGB, an array or a read-only memory map.
        targets: ``(N,)`` int64 class of each image.
        masks: ``(N, H, W)`` bool, pixels of the object that decides the class; None where unknown.
    """

    ids: tuple[str, ...]
    images: Pixels
    targets: Tensor
    masks: Tensor | None = None

    def __post_init__(self) -> None:
        lengths = {"images": len(self.images), "targets": len(self.targets)}
        if self.masks is not None:
            lengths["masks"] = len(self.masks)
        wrong = {name: length for name, length in lengths.items() if length != len(self.ids)}
        if wrong:
            raise ValueError(f"{len(self.ids)} ids, but {wrong}; all must be equally long")
        if self.images.dtype != np.uint8 or self.images.ndim != 4 or self.images.shape[-1] != 3:
            raise ValueError(
                f"images must be (N, H, W, 3) uint8, got {self.images.shape} {self.images.dtype}"
            )

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: Sequence[int]) -> Tensor:
        """Images at ``rows``, ``(n, 3, H, W)`` float32 in [0, 1]."""
        return to_images(np.asarray(self.images[list(rows)]))

    def take(self, rows: Sequence[int]) -> "Part":
        """The images at ``rows``, in that order, copied into memory."""
        index = list(rows)
        return Part(
            tuple(self.ids[row] for row in index),
            np.asarray(self.images[index]),
            self.targets[index],
            None if self.masks is None else self.masks[index],
        )


@dataclass(frozen=True)
class RetrainingSet:
    """Images on which networks are retrained.

    Attributes:
        name: Name of the data set, used in every table.
        classes: Class names in the order of a classifier's outputs.
        train: Training images.
        test: Test images; no image is in both parts.
        flip_safe: Mirroring an image keeps its class.
        digest: Hash of everything above; part of the key of every result.
        published: Numbers the data set was published with; None for those of this package.
        absent: Published images that are missing on this disk and were accepted as missing.
    """

    name: str
    classes: tuple[str, ...]
    train: Part
    test: Part
    flip_safe: bool
    digest: str
    published: Published | None = None
    absent: int = 0

    def facts(self) -> dict[str, str | int]:
        """What a run's manifest records: counts, published counts and hashes of the lists of names."""
        found: dict[str, str | int] = {
            "data": self.name,
            "digest": self.digest,
            "n_classes": len(self.classes),
            "n_train": len(self.train),
            "n_test": len(self.test),
            "train_sha256": list_digest(self.train.ids),
            "test_sha256": list_digest(self.test.ids),
            "absent": self.absent,
        }
        if self.published is not None:
            found |= {f"published_{name}": count for name, count in self.published._asdict().items()}
        return found


def content_digest(part: Part) -> str:
    """Hash of the names, images, classes and masks of ``part``, read block by block."""
    blocks = (np.asarray(part.images[rows]).tobytes() for rows in _blocks(len(part)))
    return part_digest(part, [hashlib.sha256(block).hexdigest() for block in blocks])


def part_digest(part: Part, image_digests: Sequence[str]) -> str:
    """Hash of ``part`` whose images have the hashes ``image_digests``."""
    digest = hashlib.sha256(f"{part.images.shape}\n{list_digest(part.ids)}\n".encode())
    digest.update("\n".join(image_digests).encode())
    digest.update(part.targets.numpy().tobytes())
    if part.masks is not None:
        digest.update(part.masks.numpy().tobytes())
    return digest.hexdigest()


def decoded_digest(part: Part, manifest: Path) -> str:
    """Hash of ``part`` whose images were decoded to disk; the block hashes of ``manifest`` stand for them."""
    recorded: Mapping[str, list[str]] = json.loads(manifest.read_text(encoding="utf-8"))
    return part_digest(part, recorded["sha256"])


def set_digest(name: str, classes: Sequence[str], flip_safe: bool, parts: Sequence[str]) -> str:
    """Hash of a whole set from the hashes of its two parts."""
    text = json.dumps([name, list(classes), flip_safe, list(parts)])
    return hashlib.sha256(text.encode()).hexdigest()


def training_mean(part: Part) -> Tensor:
    """Mean color of all pixels of ``part``, ``(3,)`` float32 in [0, 1]; the fill of removed pixels.

    Bytes are summed as integers, so the result does not depend on how many images are read at a time.
    """
    total = np.zeros(3, dtype=np.uint64)
    for rows in _blocks(len(part)):
        total += np.asarray(part.images[rows]).sum(axis=(0, 1, 2), dtype=np.uint64)
    n_pixels = len(part) * part.images.shape[1] * part.images.shape[2]
    if not n_pixels:
        raise ValueError("the mean color of no image is not defined; give at least one training image")
    mean: NDArray[np.float64] = total.astype(np.float64) / (255 * n_pixels)
    return torch.from_numpy(mean.astype(np.float32))


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, n, _BLOCK)]
