"""The table of answers under deletion: computed once per model and image, shared by every method and run."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from heatcheck.benchmarks.deletion_scores import fill_of
from heatcheck.benchmarks.heatmaps import Explained, weights_hash
from heatcheck.metrics.patch_responses import Responses, patch_responses, single_deletions
from heatcheck.models.registry import MODELS
from heatcheck.removal.fills import Fill, get_fill
from heatcheck.removal.registry import FILLS
from heatcheck.runtime.fingerprint import code_fingerprint, library_versions
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.plugins import plugins_behind
from heatcheck.runtime.seeds import content_ids
from heatcheck.runtime.store import ResultsStore

_COLUMNS = ("logits", "normalizers", "top", "top_logits")


class Sets(NamedTuple):
    """Random sets of patches that are deleted together, the same for all images.

    Attributes:
        sizes: Numbers of patches.
        per_size: Sets of each size.
        seed: Seed of the draws.
    """

    sizes: tuple[int, ...]
    per_size: int
    seed: int


class TableKey(NamedTuple):
    """Which answers: patches per side, what deleted patches become, and which sets of them are deleted.

    Without ``sets`` every patch is deleted once by itself.
    """

    grid: int
    fill: str
    sets: Sets | None = None


class PatchTable(NamedTuple):
    """Answers of one classifier to ``N`` images, each intact and in ``V - 1`` variants.

    Attributes:
        ids: ``N`` names of images.
        targets: ``(N,)`` int64 classes.
        responses: Answers ``(N, V)``; the first variant is the intact image.
        deleted: ``(V, P * P)`` bool, which patches each variant lacks.
    """

    ids: tuple[str, ...]
    targets: Tensor
    responses: Responses
    deleted: Tensor

    @property
    def correct(self) -> Tensor:
        """``(N, V)`` bool: is the most probable class the target?"""
        return self.responses.top == self.targets[:, None]


def deleted_sets(key: TableKey) -> Tensor:
    """``(V, P * P)`` bool: which patches each variant lacks; the first variant lacks none.

    Raises:
        ValueError: A set would be larger than the grid.
    """
    if key.sets is None:
        return single_deletions(key.grid)
    cells = key.grid**2
    if any(not 1 <= size <= cells for size in key.sets.sizes):
        raise ValueError(f"sets must have 1 to {cells} patches, got {key.sets.sizes}")
    generator = np.random.Generator(np.random.Philox(key.sets.seed))
    rows = [np.zeros(cells, dtype=bool)]
    for size in key.sets.sizes:
        for _ in range(key.sets.per_size):
            row = np.zeros(cells, dtype=bool)
            row[generator.permutation(cells)[:size]] = True
            rows.append(row)
    return torch.from_numpy(np.stack(rows))


def table_tasks(explained: Explained, key: TableKey, *, seed: int, memory: str | None) -> list[Task]:
    """Tasks that fill the table of ``explained``, one per shard of images.

    Args:
        explained: Images and classifier.
        key: Which answers.
        seed: Seed of fills that draw numbers.
        memory: Extra memory routines may use.
    """
    tasks = []
    for shard in explained.shards():
        cell = table_cell(shard, key, seed)
        tasks.append(Task(cell, partial(_compute, shard, key, seed, memory)))
    return tasks


def table_cell(shard: Explained, key: TableKey, seed: int) -> dict[str, Any]:
    """Cell of one shard's answers: weights, images, grid, deletion value, type, code."""
    return {
        "kind": "patch-table",
        "code": [code_fingerprint(name) for name in (__name__, "heatcheck.models.catalog")],
        "libraries": library_versions(),
        "plugins": plugins_behind(FILLS.get(key.fill), MODELS.get(shard.classifier.name)),
        "model": shard.classifier.name,
        "weights": weights_hash(shard.classifier.module),
        "normalization": shard.classifier.normalization._asdict(),
        "dtype": str(shard.images.dtype),
        "images": list(content_ids(shard.images)),
        "ids": list(shard.data.ids),
        "targets": shard.data.targets.tolist(),
        "table": {**key._asdict(), "sets": key.sets and key.sets._asdict()},
        "seed": seed,
    }


def load_table(store: ResultsStore, explained: Explained, key: TableKey, seed: int) -> PatchTable:
    """Table of ``explained`` from ``store``; it must have been filled.

    Raises:
        LookupError: A shard is missing.
    """
    parts = []
    for shard in explained.shards():
        part = store.get(table_cell(shard, key, seed))
        if part is None:
            raise LookupError(
                f"the store has no answers of {shard.classifier.name!r} for {key}; run its tasks"
            )
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    columns = [torch.from_numpy(np.stack(table[name].to_list())) for name in _COLUMNS]
    return PatchTable(
        tuple(table["image"]),
        torch.tensor(table["target"].to_list(), dtype=torch.int64),
        Responses(*columns),
        deleted_sets(key),
    )


def deletion_value(explained: Explained, name: str, seed: int) -> Fill:
    """What deleted patches become: the fill called ``name`` with the run's seed.

    ``random`` is uniform in [-1, 1) in the space of the classifier's inputs, as published, not in colors.
    """
    return get_fill(name, seed=seed) if name == "random" else fill_of(explained, name, seed)


def _compute(
    shard: Explained, key: TableKey, seed: int, memory: str | None, _store: ResultsStore
) -> pd.DataFrame:
    with memory_budget(memory) if memory else nullcontext():
        responses = patch_responses(
            shard.classifier.module,
            shard.images,
            shard.data.targets,
            key.grid,
            deleted=deleted_sets(key),
            fill=deletion_value(shard, key.fill, seed),
            channels_last=shard.channels_last,
        )
    rows: Mapping[str, Sequence[object]] = {
        "image": list(shard.data.ids),
        "target": shard.data.targets.tolist(),
        **{name: list(part.cpu().numpy()) for name, part in zip(_COLUMNS, responses, strict=True)},
    }
    return pd.DataFrame(rows)
