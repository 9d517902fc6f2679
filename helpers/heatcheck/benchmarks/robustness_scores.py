"""Tasks of the robustness experiment: scores of each setting's heatmaps, similarities of pairs of them."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
from torch import Tensor

from heatcheck.attribution.registry import get_method
from heatcheck.benchmarks.deletion_scores import fill_of
from heatcheck.benchmarks.deletion_settings import Settings
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest, cell_heatmaps
from heatcheck.benchmarks.sweeps import Sweep, Value
from heatcheck.metrics.boxes import Region, Threshold, boxes_from_heatmaps
from heatcheck.metrics.curves import Spacing
from heatcheck.metrics.curves import deletion as deletion_curves
from heatcheck.metrics.flags import Flags
from heatcheck.metrics.localization import GroundTruth, localization_error
from heatcheck.metrics.ordering import Ties
from heatcheck.metrics.pooling import pool, resize_heatmaps
from heatcheck.metrics.scoring import softmax_of
from heatcheck.metrics.similarity import SIMILARITIES, compare_heatmaps
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.store import ResultsStore, cell_key

DELETION = "deletion"
IOU = "iou"


class Scoring(NamedTuple):
    """How heatmaps are scored: the deletion's choices, and threshold and region of the boxes."""

    fill: str
    ties: Ties
    step: int | None
    spacing: Spacing
    max_fraction: float
    seed: int
    threshold: Threshold
    region: Region
    ground_truth: GroundTruth
    alpha: float


class Setting(NamedTuple):
    """One method at one setting of a sweep on one shard of images.

    ``explained`` is what the method sees, ``clean`` the same images without noise; ``cell`` is that of the
    heatmaps, ``shard`` its number.
    """

    sweep: Sweep
    variant: str
    value: Value
    shard: int
    clean: Explained
    explained: Explained
    request: MethodRequest
    cell: dict[str, Any]


def score_task(setting: Setting, settings: Settings, alpha: float) -> Task:
    """What scores the heatmaps of a setting, which it computes where they are missing.

    Args:
        setting: The setting.
        settings: Choices of the deletion chapter.
        alpha: Threshold of the boxes, a fraction of what ``settings.threshold`` says.
    """
    scoring = Scoring(
        settings.fills[0],
        settings.ties,
        settings.step,
        settings.spacing,
        settings.max_fraction,
        settings.seed,
        settings.threshold,
        settings.region,
        settings.ground_truth,
        alpha,
    )
    cell = {
        "kind": "robustness-accuracy",
        "code": code_fingerprint(__name__),
        "heatmaps": cell_key(setting.cell),
        "scoring": scoring._asdict(),
    }
    return Task(cell, partial(_score, setting, scoring, settings.memory))


def _score(setting: Setting, scoring: Scoring, memory: str | None, store: ResultsStore) -> pd.DataFrame:
    """Deletion area and overlap of one shard's maps, a row per image and metric."""
    clean = setting.clean
    with memory_budget(memory) if memory else nullcontext():
        maps = _pooled(store, setting)
        curves = deletion_curves(
            softmax_of(clean.classifier.module),
            clean.images,
            maps,
            targets=clean.data.targets.to(clean.device),
            fill=fill_of(clean, scoring.fill, scoring.seed),
            ties=scoring.ties,
            step=scoring.step,
            spacing=scoring.spacing,
            max_fraction=scoring.max_fraction,
            seed=scoring.seed,
            channels_last=clean.channels_last,
        )
        tables = [_rows(clean, curves.flags, metric=DELETION, score=curves.auc)]
        if clean.data.boxes is not None:
            height, width = (int(side) for side in clean.images.shape[2:])
            large = resize_heatmaps(maps, (height, width))
            boxes = boxes_from_heatmaps(
                large, scoring.alpha, threshold=scoring.threshold, region=scoring.region
            )
            found = localization_error(boxes, clean.data.boxes, mode=scoring.ground_truth)
            tables.append(_rows(clean, found.flags, metric=IOU, score=found.ious))
    return pd.concat(tables, ignore_index=True)


def pair_tasks(listed: Sequence[Setting]) -> list[tuple[Setting, Task]]:
    """Tasks of all settings but the references, with what they are of."""
    references = {
        (one.sweep.name, one.variant, one.shard): one for one in listed if one.value == one.sweep.reference
    }
    tasks = []
    for one in listed:
        other = references[one.sweep.name, one.variant, one.shard]
        if one is other:
            continue
        cell = {
            "kind": "robustness-similarity",
            "code": code_fingerprint(__name__),
            "heatmaps": cell_key(one.cell),
            "reference": cell_key(other.cell),
            "signed": one.sweep.signed,
        }
        tasks.append((one, Task(cell, partial(_compare, one, other))))
    return tasks


def _compare(setting: Setting, reference: Setting, store: ResultsStore) -> pd.DataFrame:
    """Similarities of one shard's maps to those of the reference, a row per image and measure."""
    maps, others = _pooled(store, setting), _pooled(store, reference)
    found = compare_heatmaps(maps, others, signed=setting.sweep.signed)
    tables = [
        _rows(setting.clean, found.flags, measure=name, similarity=getattr(found, name))
        for name in SIMILARITIES
    ]
    return pd.concat(tables, ignore_index=True)


def _pooled(store: ResultsStore, setting: Setting) -> Tensor:
    maps = cell_heatmaps(store, setting.explained, setting.request, setting.cell)
    return pool(maps.to(setting.explained.device), get_method(setting.request.name).pooling)


def _rows(explained: Explained, flags: Flags, **columns: str | Tensor) -> pd.DataFrame:
    values = {
        name: column.double().cpu().numpy() if isinstance(column, Tensor) else column
        for name, column in columns.items()
    }
    return pd.DataFrame({"image": list(explained.data.ids), "flag": flags, **values})
