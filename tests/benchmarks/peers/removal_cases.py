"""Removing the top units of images beside the usual loops, and how many bytes that takes on disk."""

from functools import partial

import numpy as np
import torch
from scipy.sparse.linalg import spsolve
from tests.benchmarks.peers.case import Case, Sides
from tests.benchmarks.peers.fill_peers import ROAD, equations, impute
from tests.benchmarks.peers.inputs import make_pictures
from torch import Tensor
from torch.nn import functional as F

from heatcheck.benchmarks.rank_map_spec import RankMapSpec
from heatcheck.metrics.levels import apply_levels, grid_levels, grid_to_percent, keep_mask, percent_levels
from heatcheck.removal.fills import get_fill

GRID = (10, 30, 50, 70, 90)
N_IMAGES, SIDE = 4, 220  # every percentage of the grid is a whole number of units, so nobody has to round
N_IMPUTED = 2
MEAN = torch.tensor([0.485, 0.456, 0.406])
# Images of training and test set, and side, after the first preprocessing.
DATA_SETS = {"ImageNet": (1_331_167, 224), "Food-101": (101_000, 224), "Birdsnap": (49_829, 224)}
STORAGE_HEADER = ["data set", "what is stored", "GB per estimator", "GB of 18", "of modified data sets"]


def removal_cases() -> list[Case]:
    """Removal at five fractions, and imputation of what was removed at five fractions."""
    alone = "SciPy direct solve of every image and channel"
    shared = "SciPy direct solve of every image, channels together"
    cases = [
        Case(
            f"top units removed at {len(GRID)} fractions, {unit}, {N_IMAGES} images of {SIDE}²",
            "np.percentile for every image and fraction",
            partial(removal_sides, unit),
            tolerance=0.0,
            target=2.0,
        )
        for unit in ("channel values", "pixels")
    ]
    for kind in ("scattered", "in blobs"):
        for peer, target in ((alone, 1.7), (shared, None)):
            cases.append(
                Case(
                    f"ROAD imputation at {len(GRID)} fractions, {kind}, {N_IMPUTED} images of {SIDE}²",
                    peer,
                    partial(imputation_sides, kind, together=target is None),
                    tolerance=1e-5,
                    target=target,
                )
            )
    return cases


def removal_sides(unit: str, n: int = N_IMAGES, side: int = SIDE) -> Sides:
    """Images ``(5 n, 3, side, side)`` of ``n``, without their top 10 to 90 per cent."""
    channels = 3 if unit == "channel values" else 1
    images = make_pictures(n, side)
    values = torch.randn((n, channels, side, side), generator=torch.Generator().manual_seed(0))

    def ours() -> Tensor:
        levels = grid_to_percent(grid_levels(values, GRID), GRID)
        return torch.cat([apply_levels(images, levels, p, mode="roar", fill=MEAN) for p in GRID])

    return Sides(ours, lambda: _by_percentile(images, values))


def imputation_sides(kind: str, *, together: bool, n: int = N_IMPUTED, side: int = SIDE) -> Sides:
    """Images ``(5 n, 3, side, side)`` of ``n``, their top 10 to 90 per cent imputed without noise."""
    images = make_pictures(n, side)
    generator = torch.Generator().manual_seed(1)
    values = torch.rand((n, 1, side, side), generator=generator)
    if kind == "in blobs":
        coarse = torch.rand((n, 1, 7, 7), generator=generator)
        values = F.interpolate(coarse, size=(side, side), mode="bilinear", align_corners=False)
    levels = percent_levels(values)
    keeps = [keep_mask(levels, percent) for percent in GRID]
    fill = get_fill("road", noise=0.0)
    theirs = partial(impute, stencil=ROAD) if together else _channel_by_channel
    return Sides(
        lambda: torch.cat([fill(images, keep) for keep in keeps]),
        lambda: torch.cat([theirs(images, ~keep) for keep in keeps]),
    )


def storage_table() -> list[list[str]]:
    """One line per data set and kind of storage, header first; nothing is measured, all is counted."""
    lines = []
    for name, (n, side) in DATA_SETS.items():
        modified = 2 * len(GRID) * n * 3 * side**2
        for label, size in storage_bytes(n, side).items():
            lines.append(
                [name, label, f"{size / 1e9:.1f}", f"{18 * size / 1e9:.0f}", f"1 : {modified / size:.0f}"]
            )
        lines.append(
            [name, "10 modified data sets", f"{modified / 1e9:.0f}", f"{18 * modified / 1e9:.0f}", ""]
        )
    return [STORAGE_HEADER, *lines]


def storage_bytes(n: int, side: int) -> dict[str, int]:
    """Bytes of one estimator's level maps for ``n`` images, by kind."""
    found = {}
    for unit, channels in (("channel values", 3), ("pixels", 1)):
        for label, grid in (("every percentage", None), ("5 fractions", GRID)):
            spec = RankMapSpec(
                "any",
                "any",
                n,
                (channels, side, side),
                "element" if channels == 3 else "pixel",
                None if channels == 3 else "sum",
                grid=grid,
            )
            found[f"levels of {unit}, {label}"] = n * spec.row_bytes
    return found


def _by_percentile(images: Tensor, values: Tensor) -> Tensor:
    fill = MEAN.numpy()[:, None, None]
    removed = []
    for percent in GRID:
        for image, value in zip(images.numpy(), values.numpy(), strict=True):
            top = value >= np.percentile(value, 100 - percent)
            removed.append(np.where(top, fill, image))
    return torch.from_numpy(np.stack(removed))


def _channel_by_channel(images: Tensor, holes: Tensor) -> Tensor:
    filled = images.double().numpy().copy()
    for image, hole in zip(filled, holes[:, 0].numpy(), strict=True):
        for channel in image:
            matrix, right = equations(channel[None], hole, ROAD)
            channel[hole] = spsolve(matrix, right[:, 0])
    return torch.from_numpy(filled).to(images.dtype)
