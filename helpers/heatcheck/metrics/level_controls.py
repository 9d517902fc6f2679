"""Level maps that know nothing of the image, or of the wrong one: what an estimator has to beat.

Random rankings are a weak opponent for smooth maps. The matched controls keep an estimator's own maps and
break their tie to the image, so what is left of a score comes from the maps' shapes, or from the class they
betray.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.metrics.unit_ranks import BYTES_PER_UNIT, from_raster, rank_levels
from heatcheck.removal.fills import gaussian_line
from heatcheck.removal.separable import blurred_along
from heatcheck.runtime.counter_stream import BITS, counter_integers, derive_seed
from heatcheck.runtime.memory import chunk_size, map_chunks

# Streams of their own, so that no control repeats the numbers of another.
_DRAWS, _LEAK, _CYCLE, _ROLL = 1 << 32, 1, 2, 3


def random_levels(
    seed: int,
    ids: Sequence[int],
    shape: tuple[int, int, int],
    *,
    exact: bool = True,
    draw: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Percent levels ``(N, U, H, W)`` uint8 of a random ranking: fixed per (seed, image), nothing is stored.

    Args:
        seed: Seed.
        ids: ``N`` identities of the images.
        shape: ``(U, H, W)``.
        exact: Rank the numbers, so that ``n_selected`` units are selected; else every unit is selected
            independently with probability ``p`` per cent, as published.
        draw: Number of the drawing; another one for every reading is what the released code does.
        device: Where they are made.
    """
    units, height, width = shape
    numbers_seed = derive_seed(seed, _DRAWS + draw) if draw else seed
    size = chunk_size(BYTES_PER_UNIT * units * height * width, torch.device(device or "cpu"))
    levels = torch.empty((len(ids), *shape), dtype=torch.uint8, device=device)

    def make(part: slice) -> Tensor:
        numbers = counter_integers(numbers_seed, ids[part], units * height * width, device=device)
        if exact:
            return rank_levels(numbers, range(1, 100))
        # The product of a 53-bit number and 100 fits 64 bits.
        return ((numbers * 100) >> BITS).to(torch.uint8)

    for part, found in map_chunks(make, len(ids), size):
        levels[part] = from_raster(found, shape)
    return levels


def leaky_levels(seed: int, classes: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Percent levels ``(N, U, H, W)`` of one random pattern per class: they tell nothing but the class.

    A retrained model reads the class off the mask, however little of the image is left.

    Args:
        seed: Seed.
        classes: ``(N,)`` int64 class whose pattern each image gets.
        shape: ``(U, H, W)``.
    """
    present, place = torch.unique(classes, return_inverse=True)
    patterns = random_levels(derive_seed(seed, _LEAK), present.tolist(), shape, device=classes.device)
    return patterns[place]


def shuffled(
    levels: Tensor,
    seed: int,
    groups: Tensor | None = None,
    *,
    ids: Sequence[int] | None = None,
    alone: Literal["refuse", "keep"] = "refuse",
) -> Tensor:
    """Levels ``(N, U, H, W)`` of other images: arguments as for ``derangement``, which tells whose."""
    rows = derangement(len(levels), seed, groups, ids=ids, alone=alone)
    return levels[rows.to(levels.device)]


def derangement(
    n: int,
    seed: int,
    groups: Tensor | None = None,
    *,
    ids: Sequence[int] | None = None,
    alone: Literal["refuse", "keep"] = "refuse",
) -> Tensor:
    """For each of ``n`` images the row of the image whose map it gets, ``(n,)`` int64; never its own.

    The images of a group, in an order drawn for them, hand their maps round in a circle.

    Args:
        n: Number of images of one split.
        seed: Seed.
        groups: ``(n,)`` int64, such as predicted classes: maps stay within their group. None: one group.
        ids: ``n`` identities of the images, so that the order of rows does not matter; by default the rows.
        alone: What an image does that is alone in its group: ``refuse``, or ``keep`` its own map.

    Raises:
        ValueError: An image is alone in its group, or arguments do not fit.
    """
    names = range(n) if ids is None else ids
    labels = torch.zeros(n, dtype=torch.int64) if groups is None else groups.detach().cpu()
    if alone not in ("refuse", "keep") or len(names) != n or labels.shape != (n,):
        raise ValueError(
            f"derangement of {n} images got {len(names)} ids, groups {tuple(labels.shape)} and "
            f"alone={alone!r}; it needs {n} ids, ({n},) groups and alone='refuse' or 'keep'"
        )
    order = torch.argsort(counter_integers(derive_seed(seed, _CYCLE), names, 1)[:, 0], stable=True)
    order = order[torch.argsort(labels[order], stable=True)]
    sizes = torch.unique(labels, return_counts=True)[1]
    if alone == "refuse" and bool((sizes == 1).any()):
        lonely = torch.unique(labels)[sizes == 1]
        raise ValueError(
            f"{len(lonely)} group(s), such as {int(lonely[0])}, hold a single image, which cannot get the "
            "map of another; leave these images out or pass alone='keep'"
        )
    ends = sizes.cumsum(0)
    following = torch.arange(1, n + 1)
    following[ends - 1] = ends - sizes
    rows = torch.empty(n, dtype=torch.int64)
    rows[order] = order[following]
    return rows


def rolled(levels: Tensor, seed: int, ids: Sequence[int]) -> Tensor:
    """Levels ``(N, U, H, W)`` moved round by an offset drawn for each image, at least a quarter of each side.

    Args:
        levels: ``(N, U, H, W)``.
        seed: Seed.
        ids: ``N`` identities of the images.

    Raises:
        ValueError: A side is shorter than 2, or the number of ids is not ``N``.
    """
    n, _, height, width = levels.shape
    if len(ids) != n or min(height, width) < 2:
        raise ValueError(
            f"levels {tuple(levels.shape)} with {len(ids)} ids cannot be rolled; one id per image and sides "
            "of 2 or more are needed"
        )
    numbers = counter_integers(derive_seed(seed, _ROLL), ids, 2, device=levels.device)
    index = []
    for column, side in enumerate((height, width)):
        least = -(-side // 4)
        offset = least + numbers[:, column, None] % (side - 2 * least + 1)
        index.append((torch.arange(side, device=levels.device) - offset) % side)
    images = torch.arange(n, device=levels.device).view(-1, 1, 1, 1)
    units = torch.arange(levels.shape[1], device=levels.device).view(1, -1, 1, 1)
    return levels[images, units, index[0][:, None, :, None], index[1][:, None, None, :]]


def maximum_filtered(maps: Tensor, size: int = 3) -> Tensor:
    """Each value ``(N, C, H, W)`` replaced by the largest around it, in windows of odd ``size``.

    With ``gaussian_filtered`` this asks whether smoothing, which adds no knowledge of the model, raises a
    score (Song, Cha and Seo 2023).
    """
    return F.max_pool2d(maps, size, stride=1, padding=size // 2)


def gaussian_filtered(maps: Tensor, sigma: float = 1.0) -> Tensor:
    """Maps ``(N, C, H, W)`` blurred by a Gaussian cut at four ``sigma`` pixels; borders are continued."""
    reach = int(4 * sigma + 0.5)
    line = gaussian_line(2 * reach + 1, sigma)
    around = F.pad(maps, (reach,) * 4, mode="replicate")
    return blurred_along(around, line)[..., reach : around.shape[2] - reach, reach : around.shape[3] - reach]
