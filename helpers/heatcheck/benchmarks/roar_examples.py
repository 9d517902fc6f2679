"""Single images of a remove-and-retrain run: what is removed, what is kept, and masks side by side."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_conditions import label
from heatcheck.benchmarks.roar_levels import Source, level_reader
from heatcheck.benchmarks.roar_maps import ranked_from_maps, read_levels, shards
from heatcheck.metrics.levels import apply_levels, keep_mask
from heatcheck.metrics.retraining_curves import GRID
from heatcheck.runtime.store import ResultsStore

Array = NDArray[np.float64]
# Images among which the one with the largest object is shown.
_AMONG = 64


class Removals(NamedTuple):
    """One image as networks see it, in steps.

    Attributes:
        image: ``(H, W, 3)`` in [0, 1], untouched.
        labels: Names of ``E`` rankings.
        percents: ``P`` percentages.
        removed: ``(E, P, H, W, 3)``: the units that rank first are gone.
        kept: ``(E, P, H, W, 3)``: nothing else is left.
        title: Class of the image.
    """

    image: Array
    labels: tuple[str, ...]
    percents: tuple[int, ...]
    removed: Array
    kept: Array
    title: str


class Masks(NamedTuple):
    """Masks alone, as a network sees them that is to guess the class.

    Attributes:
        images: ``(N, H, W, 3)`` in [0, 1].
        titles: Their ``N`` classes.
        labels: Names of ``E`` rankings.
        kept: ``(E, N, H, W)``: share of a pixel's units that are kept.
    """

    images: Array
    titles: tuple[str, ...]
    labels: tuple[str, ...]
    kept: Array


def shown_row(results: Results) -> int:
    """Row of the test image whose object is largest among the first ones; 0 where objects are unknown."""
    masks = results.data.images.test.masks
    return 0 if masks is None else int(masks[:_AMONG].flatten(1).sum(1).argmax())


def removals(
    results: Results,
    store: ResultsStore,
    names: Sequence[str],
    *,
    row: int | None = None,
    percents: Sequence[int] = GRID,
) -> Removals:
    """What rankings ``names`` remove and keep of one test image, in the run's mean color.

    Args:
        results: Of a run.
        store: Its results store.
        names: Rankings of the run.
        row: Row of the test image; by default ``shown_row``.
        percents: Any whole percentages, not only those of the run.

    Raises:
        KeyError: A ranking is none of the run.
        ValueError: No ranking is given.
    """
    test = results.data.images.test
    row = shown_row(results) if row is None else row
    image = test.batch([row])
    levels = _levels(results, store, names, [row])
    frames = [
        torch.stack(
            [
                apply_levels(image, levels[name], percent, mode=mode, fill=results.data.mean)[0]
                for name in names
                for percent in percents
            ]
        )
        for mode in ("roar", "kar")
    ]
    shape = (len(names), len(percents))
    removed, kept = (_drawn(part).reshape(*shape, *test.images.shape[1:]) for part in frames)
    title = results.data.images.classes[int(test.targets[row])]
    labels = tuple(label(name) for name in names)
    return Removals(_drawn(image)[0], labels, tuple(percents), removed, kept, title)


def masks(
    results: Results, store: ResultsStore, names: Sequence[str], *, percent: int, n_classes: int = 3
) -> Masks:
    """Keep masks of rankings ``names`` for two test images of each of the first classes.

    Raises:
        KeyError: A ranking is none of the run.
        ValueError: No ranking is given, or no class has two images.
    """
    images = results.data.images
    rows: list[int] = []
    for target in range(len(images.classes)):
        found = torch.nonzero(images.test.targets == target).flatten().tolist()
        if len(found) > 1 and len(rows) < 2 * n_classes:
            rows += found[:2]
    if not rows:
        raise ValueError("no class has two test images; run more of them")
    levels = _levels(results, store, names, rows)
    kept = [keep_mask(levels[name], percent).double().mean(1).numpy() for name in names]
    titles = tuple(images.classes[int(target)] for target in images.test.targets[rows])
    shown = _drawn(images.test.batch(rows))
    return Masks(shown, titles, tuple(label(name) for name in names), np.stack(kept))


def _levels(
    results: Results, store: ResultsStore, names: Sequence[str], rows: Sequence[int]
) -> dict[str, Tensor]:
    """Percent levels ``(n, U, H, W)`` of test images, exact at every percentage."""
    settings = results.settings
    known = {*settings.estimators, *ranked_from_maps(settings)}
    if not names or not known.issuperset(names):
        wrong = ", ".join(name for name in names if name not in known) or "none"
        raise KeyError(f"no ranking {wrong} in this run; there are: {', '.join(sorted(known))}")
    stored = ranked_from_maps(settings)
    found = {}
    for name in names:
        if name in stored:
            found[name] = torch.cat([_stored(results, store, name, row) for row in rows])
        else:
            read = level_reader(Source(settings, store, 0, "test"), name)
            found[name] = read(torch.tensor(list(rows)))
    return found


def _stored(results: Results, store: ResultsStore, name: str, row: int) -> Tensor:
    """Levels of one image as they came from its map, not only at the run's percentages."""
    shard = next(
        part
        for part in shards(results.settings)
        if (part.checkpoint, part.split) == (0, "test") and part.start <= row < part.stop
    )
    place = row - shard.start
    return read_levels(store, results.settings, shard, name)[place : place + 1]


def _drawn(images: Tensor) -> Array:
    """Images ``(N, C, H, W)`` as they are drawn, ``(N, H, W, 3)``."""
    return np.asarray(images.permute(0, 2, 3, 1).double().clamp(0, 1).numpy())
