"""Deletion and localization: heatmaps scored by what happens when their top pixels go, and by boxes.

Protocol of Agarwal & Nguyen (2020) with the choices of Petsiuk et al. (2018); both are parameters here.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from heatcheck.benchmarks.deletion_scores import Choices, score_boxes, score_heatmaps
from heatcheck.benchmarks.deletion_settings import DEFAULT_ALPHA, MEAN_ALPHAS, Settings, check, pooling_of
from heatcheck.benchmarks.heatmaps import (
    Explained,
    MethodRequest,
    cell_heatmaps,
    compute_heatmaps,
    heatmap_cells,
    prepare,
)
from heatcheck.benchmarks.shared_settings import fill_cells
from heatcheck.benchmarks.sources import Images, Sizes, load_images
from heatcheck.metrics.boxes import ALPHAS
from heatcheck.metrics.pooling import SIGNED, pool
from heatcheck.models.catalog import get_classifier
from heatcheck.models.registry import Classifier
from heatcheck.removal.registry import FILLS
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.plugins import plugins_behind
from heatcheck.runtime.store import ResultsStore, cell_key

__all__ = [
    "DEFAULT_ALPHA",
    "Job",
    "Results",
    "Settings",
    "check",
    "heatmap_cell",
    "make_jobs",
    "pooling_of",
    "run",
]


class Results(NamedTuple):
    """What a run gives.

    Attributes:
        settings: The settings of the run, the methods of its plug-ins included.
        shown: Images that are shown, with their classifier.
        counted: Images that are counted, with theirs.
        held: Images that thresholds are chosen on; None where there are none.
        heatmaps: For each method the pooled maps ``(N, H, W)`` of the shown images.
        scores: Tidy scores per counted image; columns ``benchmark, preset, data, model, method, options,
            target, pooling, image, metric, fill, alpha, fraction, value, flag``.
        heldout: The same for the held-out images, only what thresholds are chosen by.
        n_wrong: Images left out of the counted set because the classifier gets them wrong.
        selection: How the counted images were drawn from an archive; empty for embedded ones.
    """

    settings: Settings
    shown: Explained
    counted: Explained
    held: Explained | None
    heatmaps: Mapping[str, Tensor]
    scores: pd.DataFrame
    heldout: pd.DataFrame
    n_wrong: int
    selection: Mapping[str, int | str]


class Job(NamedTuple):
    """One method on one shard of images, with what is computed for its heatmaps (None: nothing but them)."""

    explained: Explained
    request: MethodRequest
    choices: Choices | None
    boxes_only: bool
    memory: str | None


class _Sets(NamedTuple):
    shown: Explained
    counted: Explained
    heldout: Explained | None
    loaded: Images


def run(settings: Settings, store: ResultsStore) -> Results:
    """Heatmaps and scores of every method; finished cells come from ``store``.

    Raises:
        ValueError: A method, option, model, data set or fill is unknown; nothing has been computed then.
        PluginError: A plug-in cannot be used.
    """
    settings = check(settings)
    device = choose_device(settings.device)
    with memory_budget(settings.memory) if settings.memory else nullcontext():
        sets = _load_sets(settings, device)
        # Photographs are shown, not counted: one of their curves costs as much as a hundred of the scenes'.
        shown = make_jobs(settings, sets.shown, options=settings.shown_options)
        _fill(store, shown, settings)
        scores = _fill(store, make_jobs(settings, sets.counted, choices=_choices(settings)), settings)
        heldout = _fill(store, _held_jobs(settings, sets.heldout), settings)
        maps = {name: _shown_maps(store, shown, name, settings) for name in settings.methods}
    wrong, selection = sets.loaded.n_wrong, sets.loaded.selection
    return Results(settings, sets.shown, sets.counted, sets.heldout, maps, scores, heldout, wrong, selection)


def _load_sets(settings: Settings, device: torch.device) -> _Sets:
    shown_model = _classifier(settings, settings.shown_model, device)
    shown = load_images(settings.shown, shown_model, Sizes(settings.n_shown, 0), device)
    model = _classifier(settings, settings.counted_model, device)
    loaded = load_images(settings.counted, model, Sizes(settings.n_images, settings.n_heldout), device)
    heldout = None if loaded.heldout is None else prepare(loaded.heldout, model, device)
    counted = prepare(loaded.test, model, device)
    return _Sets(prepare(shown.test, shown_model, device), counted, heldout, loaded)


def _classifier(settings: Settings, name: str, device: torch.device) -> Classifier:
    weights, count = settings.weights.get(name), settings.n_classes.get(name)
    return get_classifier(name, weights=weights, n_classes=count, device=str(device))


def _choices(settings: Settings) -> Choices:
    return Choices(
        pooling=SIGNED,
        deletion_fills=tuple(settings.fills),
        insertion_fill=settings.insertion_fill,
        ties=settings.ties,
        step=settings.step,
        spacing=settings.spacing,
        max_fraction=settings.max_fraction,
        seed=settings.seed,
        alphas=MEAN_ALPHAS if settings.threshold == "mean" else ALPHAS,
        threshold=settings.threshold,
        region=settings.region,
        ground_truth=settings.ground_truth,
    )


def make_jobs(
    settings: Settings,
    explained: Explained,
    *,
    choices: Choices | None = None,
    boxes_only: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Job]:
    """What is computed for every method and shard of ``explained``.

    Args:
        settings: Methods and their options.
        explained: Images and classifier.
        choices: What is scored; None: heatmaps alone.
        boxes_only: Score only what thresholds are chosen by.
        options: Options of methods that win over those of the settings.
    """
    shards, jobs = explained.shards(), []
    for name in settings.methods:
        request = MethodRequest(name, {**settings.options.get(name, {}), **(options or {}).get(name, {})})
        own = choices and choices._replace(pooling=pooling_of(settings, name))
        jobs += [Job(shard, request, own, boxes_only, settings.memory) for shard in shards]
    return jobs


def _held_jobs(settings: Settings, heldout: Explained | None) -> list[Job]:
    if heldout is None:
        return []
    return make_jobs(settings, heldout, choices=_choices(settings), boxes_only=True)


def _fill(store: ResultsStore, jobs: Sequence[Job], settings: Settings) -> pd.DataFrame:
    """Tables of all jobs; heatmaps and scores that are in ``store`` are not computed again."""
    label = "heatmaps and scores" if any(job.choices for job in jobs) else "heatmaps to show"
    table = fill_cells(store, [_task(job, settings) for job in jobs], settings, label=label)
    return table.assign(preset=settings.preset) if len(table) else table


def _task(job: Job, settings: Settings) -> Task:
    maps = heatmap_cell(job, settings)
    if job.choices is None:
        return Task(maps, partial(_compute_maps, job, maps))
    cell = {
        "kind": "deletion-scores",
        "code": code_fingerprint(__name__),
        "heatmaps": cell_key(maps),
        "choices": job.choices._asdict(),
        "plugins": plugins_behind(*map(FILLS.get, _fill_names(job.choices))),
        "boxes_only": job.boxes_only,
    }
    return Task(cell, partial(_compute_scores, job, maps))


def _fill_names(choices: Choices) -> list[str]:
    return [*choices.deletion_fills, choices.insertion_fill]


def _compute_maps(job: Job, cell: Mapping[str, Any], _store: ResultsStore) -> pd.DataFrame:
    with memory_budget(job.memory) if job.memory else nullcontext():
        return compute_heatmaps(job.explained, job.request, cell)


def _compute_scores(job: Job, cell: Mapping[str, Any], store: ResultsStore) -> pd.DataFrame:
    """Scores of one shard of images, with what they are of in every row."""
    if job.choices is None:
        raise ValueError("a job without choices has no scores")
    data = job.explained.data
    with memory_budget(job.memory) if job.memory else nullcontext():
        maps = cell_heatmaps(store, job.explained, job.request, cell)
        score = score_boxes if job.boxes_only else score_heatmaps
        table = score(job.explained, range(len(data)), maps, job.choices)
    targets = dict(zip(data.ids, data.targets.tolist(), strict=True))
    return table.assign(
        benchmark="deletion",
        data=data.name,
        model=job.explained.classifier.name,
        method=job.request.name,
        options=json.dumps(cell["options"], sort_keys=True),
        target=table["image"].map(targets),
    )


def heatmap_cell(job: Job, settings: Settings) -> dict[str, Any]:
    """Cell of the heatmaps of one job."""
    (cell,) = heatmap_cells(job.explained, job.request, seed=settings.seed)
    return cell


def _shown_maps(store: ResultsStore, jobs: Sequence[Job], name: str, settings: Settings) -> Tensor:
    mine = [job for job in jobs if job.request.name == name]
    maps = [cell_heatmaps(store, job.explained, job.request, heatmap_cell(job, settings)) for job in mine]
    return pool(torch.cat(maps), pooling_of(settings, name))
