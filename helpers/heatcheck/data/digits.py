"""Handwritten digits of 8 x 8 pixels from scikit-learn: small, real, and always there."""

import hashlib
from functools import cache

import numpy as np
import torch

from heatcheck.data.parts import Part

SIDE = 8
N_TRAIN, N_TEST = 1_400, 397
_WHITE = 16


@cache
def digits() -> tuple[Part, Part]:
    """Training and test images; gray is repeated in three equal channels, 16 becomes 255.

    Which images are for testing is decided once and for all by a hash of their number.
    """
    # Imported here because it takes a second, and other data sets do without it.
    from sklearn.datasets import load_digits  # noqa: PLC0415

    loaded = load_digits()
    gray = np.round(loaded.images * (255 / _WHITE)).astype(np.uint8)
    whole = Part(
        tuple(f"digits/{row:04d}" for row in range(len(gray))),
        np.repeat(gray[..., None], 3, axis=-1),
        torch.from_numpy(loaded.target.astype(np.int64)),
    )
    if len(whole) != N_TRAIN + N_TEST:
        raise ValueError(
            f"scikit-learn has {len(whole)} digits instead of {N_TRAIN + N_TEST}; take another version of it"
        )
    order = sorted(range(len(whole)), key=lambda row: hashlib.sha256(whole.ids[row].encode()).digest())
    return whole.take(order[:N_TRAIN]), whole.take(order[N_TRAIN:])
