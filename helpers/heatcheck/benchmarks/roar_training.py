"""One condition: a network is trained on changed images, or taken as it is, and tested on changed images."""

import dataclasses
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from heatcheck.benchmarks.image_changes import Change, mask_normalization, mask_only, redrawn_removal, removal
from heatcheck.benchmarks.masked_batches import MaskedImages, masked_images
from heatcheck.benchmarks.retraining_modes import condition_network, evaluator_network
from heatcheck.benchmarks.roar_conditions import INTACT, Condition, intact
from heatcheck.benchmarks.roar_data import Split, data_key, load_data, part_of
from heatcheck.benchmarks.roar_fills import fill_of
from heatcheck.benchmarks.roar_levels import LevelHashes, Source, level_key, level_reader
from heatcheck.benchmarks.roar_networks import (
    checkpoint_file,
    finished,
    load_network,
    module_from,
    network_cell,
    training_code,
    weights_table,
)
from heatcheck.benchmarks.roar_settings import Fill, Settings, protocol_of, recipe_of
from heatcheck.models.networks import NETWORKS
from heatcheck.models.retrain_draws import derived_seed
from heatcheck.models.retraining import Evaluation, evaluate
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.fingerprint import code_fingerprint, library_versions
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.plugins import plugins_behind
from heatcheck.runtime.store import Cell, ResultsStore

REDRAWN = "random-redrawn"


class Outcome(NamedTuple):
    """What a network says about the ``N`` test images.

    Attributes:
        correct: ``(N,)`` bool.
        losses: ``(N,)`` float32 cross-entropies in nats.
        seconds: CPU seconds of training and testing.
    """

    correct: NDArray[np.bool_]
    losses: NDArray[np.float32]
    seconds: float


def run_seed(settings: Settings, run: int) -> int:
    """Seed of retraining ``run``, the same for all conditions."""
    return derived_seed(settings.seed, "retraining", run)


def condition_task(settings: Settings, hashes: LevelHashes, condition: Condition) -> Task:
    """Task that judges one condition; its table has a row per test image."""
    cell = condition_cell(settings, hashes, condition)
    return Task(cell, partial(_judge, settings, condition, cell))


def evaluator_task(settings: Settings, run: int) -> Task:
    """Task that trains the one network that judges all estimators, on random masks."""
    return Task(evaluator_cell(settings, run), partial(_train_evaluator, settings, run))


def outcome(table: pd.DataFrame) -> Outcome:
    """Outcome that a task's ``table`` holds."""
    return Outcome(
        table["correct"].to_numpy(dtype=np.bool_),
        table["loss"].to_numpy(dtype=np.float32),
        float(table["seconds"].iloc[0]),
    )


def _common_cell(settings: Settings, run: int, fill: Fill) -> dict[str, Any]:
    road = {"sigma": settings.road_sigma, "code": code_fingerprint("heatcheck.removal.road")}
    return {
        "code": training_code(),
        "libraries": library_versions(),
        "plugins": plugins_behind(NETWORKS.get(recipe_of(settings).network)),
        "data": load_data(data_key(settings)).images.digest,
        "recipe": dataclasses.asdict(recipe_of(settings, run_seed(settings, run))),
        "fill": road if fill == "road" else fill,
        "seed": settings.seed,
    }


def condition_cell(settings: Settings, hashes: LevelHashes, condition: Condition) -> dict[str, Any]:
    """Cell of one condition."""
    plain = condition.ranking in (INTACT, REDRAWN)
    explains = condition.way in ("finetune", "none")
    return {
        "kind": "roar-condition",
        **_common_cell(settings, condition.run, condition.fill),
        "levels": [condition.ranking] if plain else level_key(settings, hashes, condition),
        "condition": [condition.mode, condition.percent, condition.way],
        "network": network_cell(settings, condition.checkpoint) if explains else None,
        "evaluator": evaluator_cell(settings, condition.run) if condition.way == "evaluator" else None,
    }


def evaluator_cell(settings: Settings, run: int) -> dict[str, Any]:
    """Cell of the one network that judges all estimators in run ``run``."""
    return {
        "kind": "roar-evaluator",
        **_common_cell(settings, run, settings.fill),
        "granularity": protocol_of(settings).granularity,
        "percents": settings.percents,
    }


def images_of(settings: Settings, store: ResultsStore, condition: Condition, split: Split) -> MaskedImages:
    """Training or test images as the networks of ``condition`` see them."""
    data, part = load_data(data_key(settings)), part_of(load_data(data_key(settings)), split)
    plain = condition.ranking in (INTACT, REDRAWN)
    source = Source(settings, store, condition.checkpoint, split)
    leaks = condition.way == "leak"
    return masked_images(
        part,
        mask_normalization(condition.percent, condition.mode) if leaks else data.normalization,
        levels=None if plain else level_reader(source, condition.ranking),
        change=_change(settings, condition, split),
        flip_safe=data.images.flip_safe,
        device=choose_device(settings.device),
    )


def outcome_table(found: Evaluation, seconds: float) -> pd.DataFrame:
    """Table of a network's answers, a row per test image."""
    return pd.DataFrame(
        {
            "image": np.arange(len(found.correct), dtype=np.int32),
            "correct": found.correct.numpy(),
            "loss": found.losses.numpy(),
            "seconds": seconds,
        }
    )


def _change(settings: Settings, condition: Condition, split: Split) -> Change | None:
    if condition.ranking == INTACT:
        return None
    if condition.way == "leak":
        return mask_only(condition.percent, condition.mode)
    fill = fill_of(settings, condition.fill, split)
    if condition.ranking != REDRAWN:
        return removal(condition.percent, condition.mode, fill)
    if not isinstance(fill, torch.Tensor):
        raise ValueError("random-redrawn removes other pixels at every visit; its fill is 'mean' only")
    return redrawn_removal(
        condition.percent, condition.mode, fill, n_units=n_units(settings), seed=settings.seed
    )


def n_units(settings: Settings) -> int:
    """Units per pixel: 1, or the number of channels."""
    return 3 if protocol_of(settings).granularity == "element" else 1


def _judge(settings: Settings, condition: Condition, cell: Cell, store: ResultsStore) -> pd.DataFrame:
    start = process_time()
    recipe = recipe_of(settings, run_seed(settings, condition.run))
    with memory_budget(settings.memory) if settings.memory else nullcontext():
        with checkpoint_file(cell) as checkpoint:
            module = _network(settings, store, condition, checkpoint)
        found = evaluate(module, images_of(settings, store, condition, "test").evaluation(recipe))
    return outcome_table(found, process_time() - start)


def _network(settings: Settings, store: ResultsStore, condition: Condition, checkpoint: Path) -> nn.Module:
    data = load_data(data_key(settings))
    if condition.way == "evaluator":
        return module_from(finished(store, evaluator_cell(settings, condition.run)), settings, data)
    if condition.way == "none":
        return load_network(store, settings, condition.checkpoint)
    tuned = condition.way == "finetune"
    return condition_network(
        "finetune" if tuned else "scratch",
        images_of(settings, store, condition, "train"),
        recipe_of(settings, run_seed(settings, condition.run)),
        n_classes=len(data.images.classes),
        explained=load_network(store, settings, condition.checkpoint) if tuned else None,
        device=choose_device(settings.device),
        checkpoint=checkpoint,
    )


def _train_evaluator(settings: Settings, run: int, store: ResultsStore) -> pd.DataFrame:
    data = load_data(data_key(settings))
    with checkpoint_file(evaluator_cell(settings, run)) as checkpoint:
        module = evaluator_network(
            images_of(settings, store, intact(settings, run), "train"),
            recipe_of(settings, run_seed(settings, run)),
            n_classes=len(data.images.classes),
            percents=settings.percents,
            fill=fill_of(settings, settings.fill, "train", remember=False),
            n_units=n_units(settings),
            device=choose_device(settings.device),
            checkpoint=checkpoint,
        )
    return weights_table(module)
