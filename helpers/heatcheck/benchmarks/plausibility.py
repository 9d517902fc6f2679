"""How much the network notices a removal that should not matter: a proxy of this book for plausible fills."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.attribution.lime import sample_bits
from heatcheck.attribution.perturbation import default_patch
from heatcheck.attribution.superpixels import SlicOptions, superpixels
from heatcheck.benchmarks.deletion_scores import fill_of
from heatcheck.benchmarks.heatmaps import Explained
from heatcheck.metrics.plausibility import entropy_change, feature_change
from heatcheck.metrics.pointing import masks_of_boxes
from heatcheck.metrics.resampling import mean_intervals
from heatcheck.metrics.scoring import ask, images_per_call, softmax_of
from heatcheck.runtime.memory import map_chunks
from heatcheck.runtime.seeds import CounterGenerator

HOLES = ("patch", "superpixels")
MEASURES = ("feature change", "entropy change")
_COLUMNS = ("hole", "fill", "measure", "mean", "low", "high", "n", "removed")


def plausibility_table(explained: Explained, fills: Sequence[str], *, seed: int = 0) -> pd.DataFrame:
    """Change of penultimate features and of entropy when pixels outside the object are removed.

    ``patch`` removes one square of the sliding patch's default side that does not touch the object,
    ``superpixels`` a random half of the superpixels but for the object's pixels.

    Args:
        explained: Images with masks or boxes of their object; without, the whole image may go.
        fills: What stands where pixels are removed.
        seed: Seed of the holes, the fills and the bootstrap.

    Returns:
        Columns ``hole, fill, measure, mean, low, high, n, removed``; ``n`` images had room for the hole,
        ``removed`` is the mean share of the image. The holes are the same for every fill. No rows for a
        model without a linear layer, which has no penultimate features.

    Raises:
        ValueError: A fill is unknown.
    """
    if not _linear(explained.classifier.module):
        return pd.DataFrame(columns=list(_COLUMNS))
    rows = []
    before = _asked(explained, explained.images)
    for hole, keep in zip(HOLES, (patches(explained, seed), halves(explained, seed)), strict=True):
        room = (keep == 0).flatten(1).any(1)
        removed = float((1 - keep[room].double()).mean()) if bool(room.any()) else float("nan")
        for name in fills:
            seen = fill_of(explained, name, seed)(explained.images, keep)
            after = _asked(explained, seen)
            changes = (feature_change(before[0], after[0]), entropy_change(before[1], after[1]))
            for measure, values in zip(MEASURES, changes, strict=True):
                column = torch.where(room, values, torch.nan).cpu().numpy()[:, None]
                mean, low, high = (float(part[0]) for part in mean_intervals(column, seed=seed))
                rows.append((hole, name, measure, mean, low, high, int((~np.isnan(column)).sum()), removed))
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def wide_plausibility(table: pd.DataFrame) -> pd.DataFrame:
    """A row per fill and a column per hole and measure, each ``mean [low, high]``.

    Args:
        table: Of ``plausibility_table``; without rows, the result says that nothing was measured.
    """
    if table.empty:
        return pd.DataFrame({"fill": ["not measured: the model ends in no linear layer"]})
    texts = [
        "" if np.isnan(mean) else f"{mean:.3f} [{low:.3f}, {high:.3f}]"
        for mean, low, high in table[["mean", "low", "high"]].to_numpy(dtype=float)
    ]
    named = table.assign(text=texts, column=table["measure"] + ", " + table["hole"])
    wide = named.pivot(index="fill", columns="column", values="text")
    order = list(dict.fromkeys(named["column"]))
    return wide.loc[list(dict.fromkeys(table["fill"])), order].rename_axis(columns=None).reset_index()


def patches(explained: Explained, seed: int) -> Tensor:
    """Masks ``(N, 1, H, W)``, 0 in one random square beside the object; all 1 where there is no room."""
    blocked, side = _objects(explained), default_patch(min(explained.images.shape[2:]), 1)
    free = F.max_pool2d(blocked.float(), side, stride=1)[:, 0] == 0
    keep = torch.ones_like(explained.images[:, :1])
    generator = CounterGenerator.for_images(explained.images, seed)
    for row, corners in enumerate(free):
        places = corners.nonzero()
        if len(places):
            top, left = places[int(generator.numpy(row).integers(len(places)))].tolist()
            keep[row, 0, top : top + side, left : left + side] = 0
    return keep


def halves(explained: Explained, seed: int) -> Tensor:
    """Masks ``(N, 1, H, W)``, 0 in a random half of the superpixels and 1 on the object."""
    mean, std = explained.classifier.normalization
    segments = superpixels(explained.images, SlicOptions(mean=mean, std=std))
    kept = [sample_bits(seed, 2, int(labels.max()) + 1)[1][labels] for labels in segments]
    return (torch.stack(kept)[:, None].to(explained.device) | _objects(explained)).to(explained.images)


def _linear(module: nn.Module) -> list[nn.Linear]:
    return [part for part in module.modules() if isinstance(part, nn.Linear)]


@contextmanager
def penultimate(module: nn.Module) -> Iterator[list[Tensor]]:
    """Inputs ``(N, D)`` of the model's last linear layer, appended at every call inside the block.

    Raises:
        ValueError: The model has no linear layer.
    """
    linear = _linear(module)
    if not linear:
        raise ValueError(f"{type(module).__name__} has no nn.Linear, so it has no penultimate features")
    seen: list[Tensor] = []
    handle = linear[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    try:
        yield seen
    finally:
        handle.remove()


def _asked(explained: Explained, images: Tensor) -> tuple[Tensor, Tensor]:
    """Penultimate features ``(N, D)`` and probabilities ``(N, K)``."""
    probabilities = softmax_of(explained.classifier.module)

    def chunk(part: slice) -> tuple[Tensor, Tensor]:
        with penultimate(explained.classifier.module) as features:
            found = ask(probabilities, images[part])
        return features[-1].flatten(1), found

    size = images_per_call(probabilities, images)
    parts = [found for _, found in map_chunks(chunk, len(images), size)]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _objects(explained: Explained) -> Tensor:
    """Pixels ``(N, 1, H, W)`` bool that must stay."""
    data, (height, width) = explained.data, explained.images.shape[2:]
    masks = data.masks
    if masks is None:
        masks = (
            torch.zeros(len(data), height, width, dtype=torch.bool)
            if data.boxes is None
            else masks_of_boxes(data.boxes, (height, width))
        )
    return masks[:, None].to(explained.device)
