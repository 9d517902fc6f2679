"""What is done to images in [0, 1] before augmentation and normalization: units replaced, or a mask instead.

A change is a function of a batch and of what was read with it, so one data set on a device serves every
estimator, fraction and mode.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from heatcheck.metrics.levels import Mode as Mode
from heatcheck.metrics.levels import apply_levels, keep_mask, percent_levels
from heatcheck.models.registry import Normalization
from heatcheck.models.retrain_draws import derived_seed
from heatcheck.runtime.counter_stream import BITS, counter_integers

# Visit of a batch that is evaluated; steps of training count from 0.
EVALUATION = -1
# Cells per side of the coarse noise that makes blocky masks.
_CELLS = (4, 8)


class Reading(NamedTuple):
    """What is known of a batch of ``n`` images.

    Attributes:
        rows: ``(n,)`` int64, their places in the data set, on the CPU.
        levels: ``(n, U, H, W)`` uint8 percent levels on the images' device, where a data set has them.
        visit: Step of training at which they are read, or ``EVALUATION``.
    """

    rows: Tensor
    levels: Tensor | None
    visit: int


Change = Callable[[Tensor, Reading], Tensor]
Imputation = Callable[[Tensor, Tensor, Reading], Tensor]


def removed_units(reading: Reading, percent: int, mode: Mode) -> Tensor:
    """Which units are replaced, bool ``(n, U, H, W)``: the first ``percent`` % of a ranking, or the others.

    Raises:
        ValueError: The data set has no levels.
    """
    return ~keep_mask(_levels(reading), percent, mode)


def removal(percent: int, mode: Mode, fill: Tensor | Imputation) -> Change:
    """Change that replaces the highest ranked ``percent`` % of units (``roar``) or keeps only them (``kar``).

    Hooker et al. 2019, section 3.

    Args:
        percent: Whole percent of the units of an image.
        mode: ``roar`` or ``kar``.
        fill: ``(C,)`` color or ``(C, H, W)`` image; or a function of images, ``removed_units`` and reading to
            images, such as an imputation.
    """
    _checked(mode)

    def change(images: Tensor, reading: Reading) -> Tensor:
        if isinstance(fill, Tensor):
            return apply_levels(images, _levels(reading), percent, mode=mode, fill=fill)
        return fill(images, removed_units(reading, percent, mode), reading)

    return change


def redrawn_removal(percent: int, mode: Mode, fill: Tensor, *, n_units: int, seed: int) -> Change:
    """Change whose units are drawn anew at every visit, each with probability ``percent`` %.

    The random control of the released code: a different mask each epoch, and of no exact count.

    Args:
        percent: Probability in percent with which a unit is chosen.
        mode: Whether the chosen ones are replaced (``roar``) or kept (``kar``).
        fill: ``(C,)`` color or ``(C, H, W)`` image.
        n_units: Units per pixel: 1, or the number of channels.
        seed: Decides the draws.
    """
    _checked(mode)

    def change(images: Tensor, reading: Reading) -> Tensor:
        shape = (n_units, *images.shape[-2:])
        chosen = counter_uniform(seed, reading, shape, images.device) < percent / 100
        return replace(images, chosen if mode == "roar" else ~chosen, fill)

    return change


def random_removal(percents: Sequence[int], fill: Tensor | Imputation, *, n_units: int, seed: int) -> Change:
    """Change for the training of one evaluator of all estimators: masks that know nothing of an image.

    Each image loses a part drawn from ``percents`` and 0, anew at every visit, with an exact count of units.
    Half of the masks are of single units, half blocky: ranks of coarse noise of 4 x 4 or 8 x 8 cells.

    Args:
        percents: Whole percents that may be removed.
        fill: As for ``removal``.
        n_units: Units per pixel: 1, or the number of channels.
        seed: Decides the draws.
    """
    choices = torch.tensor([0, *percents])

    def change(images: Tensor, reading: Reading) -> Tensor:
        n, _, height, width = images.shape
        device, n_cells = images.device, sum(side**2 for side in _CELLS)
        coarse = counter_uniform(seed, reading, (3 + n_units * n_cells,), device)
        fine = counter_uniform(seed + 1, reading, (n_units, height, width), device)
        percent = choices.to(device)[(coarse[:, 0] * len(choices)).long()]
        kind = (coarse[:, 1] * 2 * len(_CELLS)).long()  # one of twice as many: half of the masks stay fine
        values, first = fine, 3
        for number, side in enumerate(_CELLS):
            cells = coarse[:, first : first + n_units * side**2].reshape(n, n_units, side, side)
            first += n_units * side**2
            blocks = F.interpolate(cells, size=(height, width), mode="nearest")
            # Within a block the fine noise decides, in the digits below those of the coarse.
            blocky = torch.floor(blocks * 4096) / 4096 + fine / 4096
            values = torch.where((kind == number)[:, None, None, None], blocky, values)
        removed = percent_levels(values).to(torch.int64) < percent[:, None, None, None]
        if not isinstance(fill, Tensor):
            return fill(images, removed, reading)
        return replace(images, removed, fill)

    return change


def mask_only(percent: int, mode: Mode, *, channels: int = 3) -> Change:
    """Change that puts the mask in the image's place: 1 for a kept unit, 0 for a replaced one.

    What a network learns from it is what the mask alone gives away; normalize it with
    ``mask_normalization``.
    """
    _checked(mode)

    def change(images: Tensor, reading: Reading) -> Tensor:
        kept = keep_mask(_levels(reading), percent, mode)
        return kept.to(images.dtype).expand(-1, channels, -1, -1)

    return change


def mask_normalization(percent: int, mode: Mode, *, channels: int = 3) -> Normalization:
    """Normalization that takes the expected mean off a mask: ``1 - t`` where ``t`` is removed, ``t`` kept."""
    share = percent / 100 if _checked(mode) == "kar" else 1 - percent / 100
    return Normalization((share,) * channels, (1.0,) * channels)


def replace(images: Tensor, removed: Tensor, fill: Tensor) -> Tensor:
    """``images`` ``(n, C, H, W)`` with ``fill`` where ``removed`` ``(n, U, H, W)`` is true; a new tensor."""
    color = fill.to(images)
    return torch.where(removed, color[:, None, None] if color.ndim == 1 else color, images)


def counter_uniform(seed: int, reading: Reading, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Numbers uniform in [0, 1) of 24 bits, ``(n, *shape)`` float32, from seed, row and visit alone."""
    stream = derived_seed(seed, "visit", reading.visit)
    numbers = counter_integers(stream, reading.rows.tolist(), math.prod(shape), device=device)
    return ((numbers >> (BITS - 24)).float() / 2**24).view(-1, *shape)


def _levels(reading: Reading) -> Tensor:
    if reading.levels is None:
        raise ValueError("units can be removed by rank only where levels are given; give them to the images")
    return reading.levels


def _checked(mode: Mode) -> Mode:
    if mode not in get_args(Mode):
        raise ValueError(f"mode {mode!r} is unknown; allowed: {', '.join(get_args(Mode))}")
    return mode
