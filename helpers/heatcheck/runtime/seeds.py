"""Random numbers that depend on (seed, image, sample) and on nothing else."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

_MASK_64 = (1 << 64) - 1


def content_ids(images: Tensor) -> tuple[int, ...]:
    """One 64-bit identity per image, from its pixels: equal images get equal ids in any batch.

    Args:
        images: ``(N, ...)`` of any dtype and device.
    """
    rows = images.detach().to(device="cpu", dtype=torch.float32).flatten(1).contiguous().numpy()
    return tuple(
        int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "big") for row in rows
    )


@dataclass(frozen=True)
class CounterGenerator:
    """Counter-based generator: the numbers for an image do not depend on its place in a batch.

    Every draw is a Philox stream (Salmon et al. 2011) keyed by ``(seed, image id)`` with the sample's
    number as counter. The numbers are made on the CPU, so they are the same for every device.

    Attributes:
        seed: Any integer; runs with the same seed repeat exactly.
        ids: ``N`` identities, one per image; by default a hash of the pixels (``for_images``).
    """

    seed: int
    ids: tuple[int, ...]

    @classmethod
    def for_images(cls, images: Tensor, seed: int = 0) -> "CounterGenerator":
        """Generator for a batch ``(N, ...)`` whose identities are the images' contents."""
        return cls(seed, content_ids(images))

    def take(self, rows: Sequence[int] | slice) -> "CounterGenerator":
        """Generator of the images at ``rows``: draws for them stay the same."""
        chosen = self.ids[rows] if isinstance(rows, slice) else tuple(self.ids[row] for row in rows)
        return CounterGenerator(self.seed, chosen)

    def numpy(self, row: int, sample: int = 0) -> np.random.Generator:
        """NumPy generator of one image's sample; ``row`` counts within this batch."""
        key = np.array([self.seed & _MASK_64, self.ids[row] & _MASK_64], dtype=np.uint64)
        # The counter's high word is the sample, so streams of 2**192 numbers never overlap.
        return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, sample & _MASK_64]))

    def normal(self, sample: int, like: Tensor) -> Tensor:
        """Standard normal numbers shaped as ``like`` ``(N, ...)``, on its device, float32 or wider."""
        draws = [
            self.numpy(row, sample).standard_normal(like.shape[1:], dtype=np.float32)
            for row in range(len(self.ids))
        ]
        return _stack(draws, like)

    def uniform(self, sample: int, like: Tensor) -> Tensor:
        """Numbers uniform in [0, 1) shaped as ``like`` ``(N, ...)``, on its device, float32 or wider."""
        draws = [
            self.numpy(row, sample).random(like.shape[1:], dtype=np.float32) for row in range(len(self.ids))
        ]
        return _stack(draws, like)


def _stack(draws: list[np.ndarray], like: Tensor) -> Tensor:
    if len(draws) != len(like):
        raise ValueError(f"the generator knows {len(draws)} images, the batch has {len(like)}")
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.from_numpy(np.stack(draws)).to(device=like.device, dtype=dtype) if draws else like.to(dtype)
