"""How much heatmaps change when a hyperparameter of their method does, with inpainting and without.

Protocol of Bansal, Agarwal and Nguyen (2020); the comparison of a method with its generative variant is that
of Agarwal and Nguyen (2020), paired: same images, seeds, segmentations, samples and shifts.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import pandas as pd
import pydantic
import torch

from heatcheck.attribution.registry import check_options, get_method
from heatcheck.benchmarks.deletion_settings import Settings, check, default_alpha
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest, heatmap_cells, prepare
from heatcheck.benchmarks.robustness_scores import Setting, pair_tasks, score_task
from heatcheck.benchmarks.shared_settings import fill_cells
from heatcheck.benchmarks.sources import Sizes, load_images
from heatcheck.benchmarks.sweeps import (
    NOISE,
    PUBLISHED_SIDE,
    SEED,
    Sweep,
    Value,
    get_sweep,
    label_of,
    sweep_options,
)
from heatcheck.models.catalog import get_classifier
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.seeds import CounterGenerator, content_ids
from heatcheck.runtime.store import ResultsStore, cell_key

# Number of the noise's stream, far from those that methods draw from.
_NOISE_STREAM = 1 << 42


class Plan(pydantic.BaseModel):
    """What is varied, beside the settings of the deletion chapter.

    Attributes:
        sweeps: Names out of ``sweeps.SWEEPS``.
        n_images: How many of the counted images take part, the first ones.
        options: Options of methods that are not varied, by method; those of a base method hold for its
            variant too.
        values: Own settings of a sweep, by its name: the reference first, lengths at an image side of 224.
        alphas: Thresholds of the boxes by method, fractions of what the settings' ``threshold`` says; one of
            a base method holds for a variant without its own. By default as in the deletion chapter without
            held-out images.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    sweeps: list[str] = pydantic.Field(min_length=1)
    n_images: int = pydantic.Field(default=10, ge=1)
    options: dict[str, dict[str, Any]] = {}
    values: dict[str, list[Value]] = {}
    alphas: dict[str, Annotated[float, pydantic.Field(ge=0)]] = {}


class Robustness(NamedTuple):
    """What a run gives.

    Attributes:
        sweeps: What was varied, with lengths in pixels of the images.
        similarities: Similarity of each varied setting to the reference; columns ``preset, data, model,
            method, variant, sweep, value, image, measure, similarity, flag``. ``method`` is the base method,
            ``variant`` is ``base`` or ``generative``.
        accuracy: Deletion area (lower is better) and overlap with the box of every setting, the reference
            too; the same columns with ``metric, score`` in place of ``measure, similarity``.
    """

    sweeps: tuple[Sweep, ...]
    similarities: pd.DataFrame
    accuracy: pd.DataFrame


def run_robustness(settings: Settings, plan: Plan, store: ResultsStore) -> Robustness:
    """Similarities and scores of all settings of the planned sweeps; finished cells come from ``store``.

    With input noise a method keeps the random numbers it has for the clean image, and its map is scored on
    the clean image.

    Args:
        settings: Of the deletion chapter: counted images and classifier, the first fill and the choices of
            the deletion, seed, device and workers. Its methods and their options do not matter here.
        plan: What is varied.
        store: Results store.

    Raises:
        ValueError: A sweep, option or value cannot be used.
    """
    check(settings)
    check_plan(plan)
    _check_alphas(plan, settings)
    device = choose_device(settings.device)
    with memory_budget(settings.memory) if settings.memory else nullcontext():
        images = _counted(settings, plan, device)
        sweeps = tuple(get_sweep(name, images.classifier.size, plan.values.get(name)) for name in plan.sweeps)
        listed = [setting for sweep in sweeps for setting in _settings(sweep, images, settings, plan)]
        # Scoring computes the heatmaps, each in one task; afterwards pairs of them only have to be read.
        accuracy = _tables(
            store,
            [(one, score_task(one, settings, _alpha(plan, one, settings))) for one in listed],
            settings,
        )
        similarities = _tables(store, pair_tasks(listed), settings)
    common = {"preset": settings.preset, "data": images.data.name, "model": images.classifier.name}
    return Robustness(sweeps, similarities.assign(**common), accuracy.assign(**common))


def check_plan(plan: Plan) -> None:
    """Refuse a plan with names or options that do not exist, before anything is computed.

    A preset may hold options, values and thresholds of sweeps that are not run this time.

    Raises:
        ValueError: A sweep, method or option is unknown, or a sweep is named twice.
    """
    if len(set(plan.sweeps)) < len(plan.sweeps):
        raise ValueError(f"sweeps must have different names, got {plan.sweeps}")
    for name in (*plan.sweeps, *plan.values):
        get_sweep(name, PUBLISHED_SIDE)
    for name, options in plan.options.items():
        check_options(name, options)
    for name in plan.alphas:
        get_method(name)


def _check_alphas(plan: Plan, settings: Settings) -> None:
    above = {name: alpha for name, alpha in plan.alphas.items() if alpha > 1}
    if above and settings.threshold != "mean":
        raise ValueError(f"alphas must be in [0, 1] for threshold {settings.threshold!r}, got {above}")


def with_noise(explained: Explained, variance: float, *, seed: int) -> Explained:
    """The same images with Gaussian noise of ``variance`` added in [0, 1] and clipped.

    Methods get the random numbers they would get for the clean images.

    Raises:
        ValueError: The variance is negative.
    """
    if variance < 0:
        raise ValueError(f"the variance of input noise must be 0 or more, got {variance}")
    if variance == 0:
        return explained
    data = explained.data
    draws = CounterGenerator.for_images(data.images, seed).normal(_NOISE_STREAM, data.images)
    noisy = (data.images + variance**0.5 * draws).clamp(0, 1)
    changed = prepare(replace(data, images=noisy), explained.classifier, explained.device)
    return changed._replace(random_ids=content_ids(explained.images))


def _alpha(plan: Plan, setting: Setting, settings: Settings) -> float:
    shared = plan.alphas.get(setting.sweep.method, default_alpha(settings))
    return plan.alphas.get(setting.request.name, shared)


def _counted(settings: Settings, plan: Plan, device: torch.device) -> Explained:
    """The first images that the deletion benchmark counts."""
    name = settings.counted_model
    weights, count = settings.weights.get(name), settings.n_classes.get(name)
    model = get_classifier(name, weights=weights, n_classes=count, device=str(device))
    # As many held-out images as there, since an archive draws both from one permutation.
    data = load_images(settings.counted, model, Sizes(settings.n_images, settings.n_heldout), device).test
    return prepare(data.take(range(min(plan.n_images, len(data)))), model, device)


def _settings(sweep: Sweep, images: Explained, settings: Settings, plan: Plan) -> list[Setting]:
    """All settings of a sweep on all shards, the method's and its variant's."""
    methods = {"base": sweep.method, "generative": sweep.generative}
    found = []
    for value in sweep.values:
        noise = float(value) if sweep.hyperparameter == NOISE else 0.0
        seed = settings.seed + (int(value) if sweep.hyperparameter == SEED else 0)
        pairs = list(
            zip(images.shards(), with_noise(images, noise, seed=settings.seed).shards(), strict=True)
        )
        for variant, method in methods.items():
            if method is None:
                continue
            options = sweep_options(sweep, plan.options, generative=variant == "generative", value=value)
            request = MethodRequest(method, options)
            for shard, (clean, seen) in enumerate(pairs):
                (cell,) = heatmap_cells(seen, request, seed=seed)
                found.append(Setting(sweep, variant, value, shard, clean, seen, request, cell))
    return found


def _tables(store: ResultsStore, tasks: Sequence[tuple[Setting, Task]], settings: Settings) -> pd.DataFrame:
    """Tables of all tasks with what they are of in every row; a cell that settings share runs once."""
    unique = {cell_key(task.cell): task for _, task in tasks}
    fill_cells(store, list(unique.values()), settings, label="robustness")
    labelled = [
        table.assign(
            method=one.sweep.method,
            variant=one.variant,
            sweep=one.sweep.name,
            value=label_of(one.value),
        )
        for one, task in tasks
        if (table := store.get(task.cell)) is not None
    ]
    return pd.concat(labelled, ignore_index=True)
