"""What is kept of a heatmap: the relevance of each patch, and its scores by incremental deletion.

Heatmaps themselves are not stored: 16 numbers per image and transform serve every table.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
from torch import Tensor

from heatcheck.attribution.registry import attribute
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest, heatmap_cells, method_options
from heatcheck.benchmarks.patch_table import deletion_value
from heatcheck.benchmarks.shared_passes import Pass, pass_heatmaps, pass_of
from heatcheck.metrics.incremental import Direction, Update, incremental_deletion
from heatcheck.metrics.patches import TRANSFORMS, Transform, patch_sums
from heatcheck.metrics.scoring import softmax_of
from heatcheck.removal.registry import FILLS
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.plugins import plugins_behind
from heatcheck.runtime.seeds import CounterGenerator, content_ids
from heatcheck.runtime.store import ResultsStore


class Conditions(NamedTuple):
    """What a run computes under.

    Attributes:
        transforms: What is done to each pixel before patches are summed.
        seed: Seed of everything random.
        memory: Extra memory routines may use.
    """

    transforms: tuple[Transform, ...]
    seed: int
    memory: str | None


class Steps(NamedTuple):
    """How pixels are deleted one after the other.

    Attributes:
        n_steps: Points of a curve.
        direction: ``ascending`` deletes the least relevant pixels first.
        fill: What deleted pixels become.
        updated: Maps are made anew at every step.
    """

    n_steps: int
    direction: Direction
    fill: str
    updated: bool = False


def shared_work(requests: Sequence[MethodRequest]) -> list[Pass]:
    """Computations that give the maps of all ``requests``, each of them once."""
    return list({_identity(work): work for work in map(_work, requests)}.values())


def sum_tasks(
    shards: Sequence[Explained], work: Pass, grids: Sequence[int], conditions: Conditions
) -> list[Task]:
    """Tasks that compute the patch sums of all methods of one computation, one per shard of images.

    Tasks of several computations share their shards, which hold the images.

    Their tables have a row per image, member, grid and transform with columns ``image, member, grid,
    transform, sums``.
    """
    tasks = []
    for shard in shards:
        cell = _cell("patch-sums", shard, work, conditions) | {"grids": list(grids)}
        tasks.append(Task(cell, partial(_sums, shard, work, tuple(grids), conditions)))
    return tasks


def incremental_tasks(
    explained: Explained, request: MethodRequest, steps: Steps, conditions: Conditions
) -> list[Task]:
    """Tasks that score one method by incremental deletion, one per shard of images.

    Their tables have a row per image and transform with columns ``image, transform, value, flag, curve``.
    """
    tasks = []
    for shard in explained.shards():
        cell = _cell("incremental-deletion", shard, _work(request), conditions)
        fill = plugins_behind(FILLS.get(steps.fill))
        cell |= {"member": request.name, "steps": steps._asdict(), "fill plugins": fill}
        tasks.append(Task(cell, partial(_incremental, shard, request, steps, conditions)))
    return tasks


def map_sums(
    maps: Mapping[str, Tensor], ids: Sequence[str], grids: Sequence[int], transforms: Sequence[Transform]
) -> pd.DataFrame:
    """Patch sums of several methods' raw maps ``(N, C, H, W)``; columns as in ``sum_tasks``."""
    parts = []
    for member, heatmaps in maps.items():
        for grid in grids:
            for transform in transforms:
                sums = patch_sums(heatmaps, grid, transform).cpu().numpy()
                fixed = {"member": member, "grid": grid, "transform": transform}
                parts.append(pd.DataFrame({"image": list(ids), **fixed, "sums": list(sums)}))
    return pd.concat(parts, ignore_index=True)


def _work(request: MethodRequest) -> Pass:
    return pass_of(request.name, request.options)


def _identity(work: Pass) -> str:
    # Options may hold lists and tensors, which have no hash.
    return repr((work.method, sorted(work.options.items()), work.members))


def _cell(kind: str, shard: Explained, work: Pass, conditions: Conditions) -> dict[str, Any]:
    (maps,) = heatmap_cells(shard, work.request, seed=conditions.seed)
    return {
        **maps,
        "kind": kind,
        "own code": code_fingerprint(__name__),
        "transforms": list(conditions.transforms),
        "normalization": shard.classifier.normalization._asdict(),
    }


def _sums(
    shard: Explained, work: Pass, grids: tuple[int, ...], conditions: Conditions, _store: ResultsStore
) -> pd.DataFrame:
    with memory_budget(conditions.memory) if conditions.memory else nullcontext():
        maps = pass_heatmaps(shard, work, seed=conditions.seed)
        return map_sums(maps, shard.data.ids, grids, conditions.transforms)


def _incremental(
    shard: Explained, request: MethodRequest, steps: Steps, conditions: Conditions, _store: ResultsStore
) -> pd.DataFrame:
    with memory_budget(conditions.memory) if conditions.memory else nullcontext():
        maps = pass_heatmaps(shard, _work(request), seed=conditions.seed)[request.name]
        return pd.concat(_curves(shard, request, maps, steps, conditions), ignore_index=True)


def _curves(
    shard: Explained, request: MethodRequest, maps: Tensor, steps: Steps, conditions: Conditions
) -> Iterator[pd.DataFrame]:
    for transform in conditions.transforms:
        pooled = _pooled(maps, transform)
        found = incremental_deletion(
            softmax_of(shard.classifier.module),
            shard.images,
            pooled,
            shard.data.targets,
            n_steps=steps.n_steps,
            direction=steps.direction,
            fill=deletion_value(shard, steps.fill, conditions.seed),
            update=_updater(shard, request, transform, conditions.seed) if steps.updated else None,
            channels_last=shard.channels_last,
        )
        columns = {"value": found.values.cpu().numpy(), "flag": found.flags}
        curves = list(found.curves.cpu().numpy())
        fixed = {"image": list(shard.data.ids), "transform": transform}
        yield pd.DataFrame({**fixed, **columns, "curve": curves})


def _pooled(maps: Tensor, transform: Transform) -> Tensor:
    return TRANSFORMS[transform](maps.double().sum(1))


def _updater(shard: Explained, request: MethodRequest, transform: Transform, seed: int) -> Update:
    """Maps of partly deleted images; random numbers stay those of the intact ones."""
    generator = CounterGenerator(seed, shard.random_ids or content_ids(shard.images))
    options = method_options(request, shard.classifier)
    targets = shard.data.targets.to(shard.device)

    def update(images: Tensor) -> Tensor:
        maps = attribute(
            request.name, shard.classifier.module, images, targets, generator=generator, **options
        )
        return _pooled(maps, transform)

    return update
