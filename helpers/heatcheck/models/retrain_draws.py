"""What a run of training draws at random: everything follows from its seed and the number of a step."""

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from heatcheck.models.retrain_recipes import RetrainRecipe


def derived_seed(seed: int, *words: str | int) -> int:
    """Seed of 63 bits for one purpose of a run, such as ``derived_seed(seed, "order", epoch)``."""
    text = " ".join(str(word) for word in (seed, *words))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator_of(seed: int, *words: str | int) -> torch.Generator:
    """Generator on the CPU for one purpose of a run; see ``derived_seed``."""
    return torch.Generator().manual_seed(derived_seed(seed, *words))


def batch_rows(steps: range, n_images: int, recipe: RetrainRecipe) -> Iterator[Tensor]:
    """Rows ``(batch_size,)`` of the images of each of ``steps``, in order.

    Every epoch is an order of its own, from the recipe's seed and the epoch's number; a batch goes on with
    the next epoch's where one ends.
    """
    orders: dict[int, Tensor] = {}
    for step in steps:
        first, stop = step * recipe.batch_size, (step + 1) * recipe.batch_size
        rows: list[Tensor] = []
        for epoch in range(first // n_images, math.ceil(stop / n_images)):
            if epoch not in orders:
                generator = generator_of(recipe.seed, "order", epoch)
                orders = {epoch: torch.randperm(n_images, generator=generator)}
            begin = epoch * n_images
            rows.append(orders[epoch][max(0, first - begin) : stop - begin])
        yield torch.cat(rows)


@contextmanager
def fresh_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Within the block torch draws from ``seed``; afterwards its generators are as they were."""
    gpus: list[int] = []
    if device.type == "cuda":
        gpus = [torch.cuda.current_device() if device.index is None else device.index]
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)
        for index in gpus:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield
