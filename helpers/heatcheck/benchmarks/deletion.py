"""Deletion and localization: heatmaps scored by what happens when their top pixels go, and by boxes.

Protocol of Agarwal & Nguyen (2020) with the choices of Petsiuk et al. (2018); both are parameters here.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import pydantic
import torch
from torch import Tensor

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import METHODS, check_options, get_method
from heatcheck.benchmarks.deletion_scores import Choices, score_boxes, score_heatmaps
from heatcheck.benchmarks.heatmaps import (
    Explained,
    MethodRequest,
    cell_heatmaps,
    heatmap_cells,
    prepare,
)
from heatcheck.benchmarks.sources import Sizes, load_images
from heatcheck.metrics.boxes import ALPHAS
from heatcheck.metrics.pooling import POOLINGS, SIGNED, pool
from heatcheck.models.catalog import get_classifier
from heatcheck.models.registry import MODELS, Classifier
from heatcheck.removal.fills import get_fill
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.grid import Task, fill_store
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.plugins import load_entry_points, load_plugins, loaded_plugins
from heatcheck.runtime.store import ResultsStore, cell_key

# The saliency metric's threshold where no held-out images choose one.
DEFAULT_ALPHA = 0.15


class Settings(pydantic.BaseModel):
    """Everything a run of this benchmark depends on; the chapter's parameters.

    Attributes:
        preset: Name of the preset, a label in every row.
        methods: Registered methods and variants.
        options: Options of methods, by method.
        shown_options: Options that differ on the shown images, which are larger.
        poolings: Pooling over channels, by method; each method has a default.
        plugins: Python files that register own methods or models.
        shown: Data set that is shown image by image.
        shown_model: Its classifier.
        n_shown: How many images are shown.
        counted: Data set the statistics come from.
        counted_model: Its classifier.
        weights: Weights of torchvision and timm models, by model: a file, ``hub`` or ``random``.
        n_images: How many images are counted.
        n_heldout: How many further images choose thresholds.
        fills: What replaces deleted pixels on the counted images; the first one is the headline.
        ties: Order of equal pixels: ``stable``, ``random`` or ``mean``.
        seed: Seed of everything random.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:<index>``.
        workers: Processes that compute when the device is a CPU; 0 is one per core.
        memory: Extra memory routines may use, such as ``512MB``; None leaves it to the device.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    preset: str = "quick"
    methods: list[str]
    options: dict[str, dict[str, Any]] = {}
    shown_options: dict[str, dict[str, Any]] = {}
    poolings: dict[str, str] = {}
    plugins: list[str] = []
    shown: str = "photographs"
    shown_model: str = "efficientnet-lite0"
    n_shown: int = pydantic.Field(default=6, ge=1)
    counted: str = "metal-color"
    counted_model: str = "resnet8-metal-color"
    weights: dict[str, str] = {}
    n_images: int = pydantic.Field(default=100, ge=2)
    n_heldout: int = pydantic.Field(default=100, ge=0)
    fills: list[str] = pydantic.Field(default=["zero"], min_length=1)
    ties: str = "stable"
    seed: int = 0
    device: str = "auto"
    workers: int = pydantic.Field(default=1, ge=0)
    memory: str | None = None


class Results(NamedTuple):
    """What a run gives.

    Attributes:
        settings: The settings of the run.
        shown: Images that are shown, with their classifier.
        heatmaps: For each method the pooled maps ``(N, H, W)`` of the shown images.
        scores: Tidy scores per image of both data sets; columns ``benchmark, preset, data, model, method,
            options, pooling, image, metric, fill, alpha, fraction, value, flag``.
        heldout: The same for the held-out images, only what thresholds are chosen by.
        n_wrong: Images left out of the counted set because the classifier gets them wrong.
    """

    settings: Settings
    shown: Explained
    heatmaps: Mapping[str, Tensor]
    scores: pd.DataFrame
    heldout: pd.DataFrame
    n_wrong: int


class Job(NamedTuple):
    """One method on one set of images, with what is computed for its heatmaps."""

    explained: Explained
    request: MethodRequest
    choices: Choices
    boxes_only: bool
    memory: str | None


def run(settings: Settings, store: ResultsStore) -> Results:
    """Heatmaps and scores of every method; finished cells come from ``store``.

    Raises:
        ValueError: A method, option, model, data set or fill is unknown; nothing has been computed then.
        PluginError: A plug-in cannot be used.
    """
    check(settings)
    device = choose_device(settings.device)
    with memory_budget(settings.memory) if settings.memory else nullcontext():
        shown, counted, heldout, n_wrong = _images(settings, device)
        jobs = [
            *_jobs(settings, shown, fills=settings.fills[:1], alphas=(DEFAULT_ALPHA,), shown=True),
            *_jobs(settings, counted, fills=settings.fills, alphas=ALPHAS),
        ]
        choosing = _jobs(settings, heldout, fills=[], alphas=ALPHAS, boxes_only=True) if heldout else []
        scores, held = _scores(store, jobs, settings), _scores(store, choosing, settings)
        maps = {job.request.name: _shown_maps(store, job, settings) for job in jobs[: len(settings.methods)]}
    return Results(settings, shown, maps, scores, held, n_wrong)


def check(settings: Settings) -> None:
    """Refuse settings that cannot run, before anything is computed, and load the plug-ins they name.

    Raises:
        ValueError: A name or option is unknown; the message lists what is allowed.
        PluginError: A plug-in cannot be used.
    """
    load_catalog()
    load_entry_points((METHODS, MODELS))
    load_plugins(settings.plugins, (METHODS, MODELS))
    if len(set(settings.methods)) < len(settings.methods) or not settings.methods:
        raise ValueError(f"methods must be one or more different names, got {settings.methods}")
    for name in settings.methods:
        for options in (settings.options, settings.shown_options):
            check_options(name, options.get(name, {}))
    for what in ("options", "shown_options", "poolings"):
        names = getattr(settings, what)
        unused = sorted(set(names) - set(settings.methods))
        if unused:
            raise ValueError(f"{what} are given for {', '.join(unused)}, which are not among the methods")
    for pooling in settings.poolings.values():
        if pooling not in (SIGNED, *POOLINGS):
            raise ValueError(f"unknown pooling {pooling!r}; known: {SIGNED}, {', '.join(POOLINGS)}")
    for fill in settings.fills:
        get_fill(fill)


def pooling_of(settings: Settings, method: str) -> str:
    """How the channels of ``method`` are joined: the user's choice, else the method's default."""
    return settings.poolings.get(method, get_method(method).pooling)


def _images(settings: Settings, device: torch.device) -> tuple[Explained, Explained, Explained | None, int]:
    """Images that are shown, counted and held out, with the number of counted ones left out."""
    shown_model = _classifier(settings, settings.shown_model, device)
    shown = load_images(settings.shown, shown_model, Sizes(settings.n_shown, 0), device)
    model = _classifier(settings, settings.counted_model, device)
    counted = load_images(settings.counted, model, Sizes(settings.n_images, settings.n_heldout), device)
    heldout = None if counted.heldout is None else prepare(counted.heldout, model, device)
    return (
        prepare(shown.test, shown_model, device),
        prepare(counted.test, model, device),
        heldout,
        counted.n_wrong,
    )


def _classifier(settings: Settings, name: str, device: torch.device) -> Classifier:
    return get_classifier(name, weights=settings.weights.get(name), device=str(device))


def _jobs(
    settings: Settings,
    explained: Explained,
    *,
    fills: Sequence[str],
    alphas: tuple[float, ...],
    boxes_only: bool = False,
    shown: bool = False,
) -> list[Job]:
    jobs = []
    for name in settings.methods:
        choices = Choices(
            pooling=pooling_of(settings, name),
            deletion_fills=tuple(fills),
            insertion_fill="blur",
            ties=settings.ties,
            alphas=ALPHAS,
            saliency_alphas=alphas,
        )
        options = settings.options.get(name, {}) | (settings.shown_options.get(name, {}) if shown else {})
        request = MethodRequest(name, options)
        jobs.append(Job(explained, request, choices, boxes_only, settings.memory))
    return jobs


def _scores(store: ResultsStore, jobs: Sequence[Job], settings: Settings) -> pd.DataFrame:
    """Scores of all jobs; heatmaps and scores that are in ``store`` are not computed again."""
    tasks = [_task(job, cell) for job in jobs for cell in _heatmap_cells(job, settings)]
    on_cpu = all(job.explained.device.type == "cpu" for job in jobs)
    table = fill_store(
        store,
        tasks,
        label="heatmaps and scores",
        workers=settings.workers if on_cpu else 1,
        setup=partial(check, settings),
    )
    return table.assign(preset=settings.preset) if len(table) else table


def _task(job: Job, heatmap_cell: Mapping[str, Any]) -> Task:
    cell = {
        "kind": "deletion-scores",
        "code": code_fingerprint(__name__),
        "heatmaps": cell_key(heatmap_cell),
        "choices": job.choices._asdict(),
        "boxes_only": job.boxes_only,
    }
    return Task(cell, partial(_compute, job, heatmap_cell))


def _compute(job: Job, heatmap_cell: Mapping[str, Any], store: ResultsStore) -> pd.DataFrame:
    """Scores of one shard of images, with what they are of in every row."""
    with memory_budget(job.memory) if job.memory else nullcontext():
        maps = cell_heatmaps(store, job.explained, job.request, heatmap_cell)
        score = score_boxes if job.boxes_only else score_heatmaps
        table = score(job.explained, heatmap_cell["rows"], maps, job.choices)
    return table.assign(
        benchmark="deletion",
        data=job.explained.data.name,
        model=job.explained.classifier.name,
        method=job.request.name,
        options=json.dumps(heatmap_cell["options"], sort_keys=True),
    )


def _heatmap_cells(job: Job, settings: Settings) -> list[dict[str, Any]]:
    plugins = sorted(loaded_plugins().values())
    return heatmap_cells(job.explained, job.request, seed=settings.seed, plugins=plugins)


def _shown_maps(store: ResultsStore, job: Job, settings: Settings) -> Tensor:
    cells = _heatmap_cells(job, settings)
    maps = torch.cat([cell_heatmaps(store, job.explained, job.request, cell) for cell in cells])
    return pool(maps, job.choices.pooling)
