"""Recursive removal: each step's network makes the maps by which the next step removes.

Madsen et al. 2022, "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking
Allegedly Important Tokens and Retraining": so an estimator is not blamed for units that only became important
when redundant ones were gone.
"""

from functools import partial
from time import process_time
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from heatcheck.benchmarks.image_changes import removal
from heatcheck.benchmarks.masked_batches import MaskedImages, masked_images
from heatcheck.benchmarks.retraining_modes import condition_network
from heatcheck.benchmarks.roar_conditions import Condition
from heatcheck.benchmarks.roar_data import SPLITS, Split, data_key, load_data, part_of
from heatcheck.benchmarks.roar_fills import fill_of
from heatcheck.benchmarks.roar_levels import LevelHashes, Source, level_reader
from heatcheck.benchmarks.roar_maps import SHARD, Shown, image_ids, map_code, map_levels
from heatcheck.benchmarks.roar_settings import Settings, recipe_of
from heatcheck.benchmarks.roar_training import condition_cell, outcome_table, run_seed
from heatcheck.metrics.levels import percent_levels, selected
from heatcheck.models.retraining import evaluate
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.grid import Task
from heatcheck.runtime.store import ResultsStore


def recursive_task(settings: Settings, hashes: LevelHashes, estimator: str, run: int) -> Task:
    """Task whose table has a row per test image and percent of the run."""
    first = Condition(estimator, "roar", settings.percents[0], settings.fill, "scratch", 0, run)
    cell: dict[str, Any] = {
        **condition_cell(settings, hashes, first),
        "kind": "roar-recursive",
        "percents": settings.percents,
        "maps": map_code(settings, estimator),
    }
    return Task(cell, partial(_judge, settings, estimator, run))


def _judge(settings: Settings, estimator: str, run: int, store: ResultsStore) -> pd.DataFrame:
    data = load_data(data_key(settings))
    levels: dict[Split, Tensor] = {}
    for split in SPLITS:
        read = level_reader(Source(settings, store, 0, split), estimator)
        levels[split] = read(torch.arange(len(part_of(data, split))))
    tables = []
    for percent in settings.percents:
        start = process_time()
        images = {split: _images(settings, levels[split], percent, split) for split in SPLITS}
        module = condition_network(
            "scratch",
            images["train"],
            recipe_of(settings, run_seed(settings, run)),
            n_classes=len(data.images.classes),
            device=choose_device(settings.device),
        )
        found = evaluate(module, images["test"].evaluation(recipe_of(settings)))
        if percent != settings.percents[-1]:
            for split in SPLITS:
                new = _levels(settings, module, images[split], split, estimator)
                levels[split] = _joined(settings, new, levels[split], percent, split)
        tables.append(outcome_table(found, process_time() - start).assign(percent=percent))
    return pd.concat(tables, ignore_index=True)


def _images(settings: Settings, levels: Tensor, percent: int, split: Split) -> MaskedImages:
    data = load_data(data_key(settings))
    return masked_images(
        part_of(data, split),
        data.normalization,
        levels=levels,
        change=removal(percent, "roar", fill_of(settings, settings.fill, split)),
        flip_safe=data.images.flip_safe,
        device=choose_device(settings.device),
    )


def _levels(
    settings: Settings, module: nn.Module, images: MaskedImages, split: Split, estimator: str
) -> Tensor:
    """Levels that maps of ``module`` give to images of which units are gone already."""
    part = part_of(load_data(data_key(settings)), split)
    found = []
    for rows, changed in zip(
        torch.split(torch.arange(len(part)), SHARD), images.plain(chunk=SHARD), strict=True
    ):
        shown = Shown(changed, part.targets[rows], image_ids(part, rows.tolist()))
        found.append(map_levels(settings, module, shown, [estimator])[estimator])
    return torch.cat(found)


def _joined(settings: Settings, new: Tensor, old: Tensor, percent: int, split: Split) -> Tensor:
    """Levels with the removed units first, as they were, and the others as in ``new``."""
    part = part_of(load_data(data_key(settings)), split)
    # Levels count from 0, the most important; removed units come before all that remain.
    values = torch.where(selected(old, percent), 200 - old.float(), 99 - new.float())
    ids = image_ids(part, range(len(part)))
    return percent_levels(values, ties=settings.ties, seed=settings.seed, ids=ids)
