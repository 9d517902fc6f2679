"""Explained networks and the ranks their maps give, as cells of the results store.

One pass over a shard of images yields the levels of all estimators. Each estimator's levels are a cell of
their own, so that a retraining reads no more than it needs.
"""

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from heatcheck.attribution.estimator_protocols import CONTROLS, protocol_maps
from heatcheck.attribution.estimators import ESTIMATORS
from heatcheck.attribution.registry import METHODS
from heatcheck.benchmarks.heatmaps import MethodRequest, method_options, method_parts
from heatcheck.benchmarks.roar_conditions import comes_from_maps, derived
from heatcheck.benchmarks.roar_data import SPLITS, Split, data_key, load_data, part_of
from heatcheck.benchmarks.roar_networks import finished, load_network, network_cell
from heatcheck.benchmarks.roar_settings import PROBES, Settings, protocol_of
from heatcheck.data.parts import Part
from heatcheck.metrics.level_controls import gaussian_filtered, maximum_filtered
from heatcheck.metrics.levels import percent_levels, unit_importance
from heatcheck.models.registry import Classifier
from heatcheck.runtime.blocks import BLOCK
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.plugins import plugins_behind
from heatcheck.runtime.seeds import CounterGenerator
from heatcheck.runtime.store import ResultsStore

# Images per cell of levels: a block of the files they are gathered into.
SHARD = BLOCK
_MAPS = ("heatcheck.attribution.estimator_protocols", "heatcheck.metrics.level_controls")


class Shard(NamedTuple):
    """Some images of one split and the network that is explained on them."""

    checkpoint: int
    split: Split
    start: int
    stop: int


class Shown(NamedTuple):
    """Images ``(n, C, H, W)`` in [0, 1] that are explained, their classes ``(n,)`` and 64-bit identities."""

    images: Tensor
    targets: Tensor
    ids: tuple[int, ...]


def image_ids(part: Part, rows: Sequence[int]) -> tuple[int, ...]:
    """64-bit identities of the images at ``rows``, from their names."""
    return tuple(_number(part.ids[row]) for row in rows)


def ranked_from_maps(settings: Settings) -> list[str]:
    """Rankings of a run that come from maps: of estimators, controls and methods, filtered ones included."""
    filtered = [derived(name, probe) for name in settings.probes for probe in PROBES]
    return [*filter(comes_from_maps, settings.estimators), *filtered]


def shards(settings: Settings) -> list[Shard]:
    """All images of a run, for every explained network, in pieces."""
    data = load_data(data_key(settings))
    return [
        Shard(checkpoint, split, start, min(start + SHARD, len(part_of(data, split))))
        for checkpoint in range(settings.n_checkpoints)
        for split in SPLITS
        for start in range(0, len(part_of(data, split)), SHARD)
    ]


def level_task(settings: Settings, shard: Shard) -> Task:
    """Task whose table names a hash of every ranking's levels; the levels are cells of their own."""
    cell = {
        **_shard_cell(settings, shard),
        "kind": "roar-level-hashes",
        "rankings": [map_code(settings, name) for name in ranked_from_maps(settings)],
    }
    return Task(cell, partial(_rank, settings, shard))


def level_cell(settings: Settings, shard: Shard, ranking: str) -> dict[str, Any]:
    """Cell of the levels that one ranking gives to a shard."""
    return {
        **_shard_cell(settings, shard),
        "kind": "roar-levels",
        "ranking": map_code(settings, ranking),
    }


def read_levels(store: ResultsStore, settings: Settings, shard: Shard, ranking: str) -> Tensor:
    """Levels ``(n, U, H, W)`` uint8 of the images of ``shard``; their cell must be finished."""
    row = finished(store, level_cell(settings, shard, ranking)).iloc[0]
    return torch.frombuffer(bytearray(row["levels"]), dtype=torch.uint8).view(*row["shape"])


def map_levels(
    settings: Settings, module: nn.Module, shown: Shown, rankings: Sequence[str]
) -> dict[str, Tensor]:
    """Levels ``(n, U, H, W)`` uint8 on the CPU that maps of ``module`` give to images.

    Args:
        settings: Protocol, ties and options.
        module: Network in evaluation mode.
        shown: Images.
        rankings: Names of estimators, of controls and methods with maps, and of filtered ones.
    """
    names = list(dict.fromkeys(_map_name(ranking.partition("/")[0]) for ranking in rankings))
    maps = _maps(settings, module, shown, names)
    granularity = protocol_of(settings).granularity
    found = {}
    for ranking in rankings:
        name, _, probe = ranking.partition("/")
        values = maps[_map_name(name)]
        if name in ESTIMATORS and ESTIMATORS[name].squared:
            values = values.abs()
        if probe:
            values = maximum_filtered(values) if probe == "max-filter" else gaussian_filtered(values)
        units = unit_importance(values, granularity, settings.aggregate or "sum")
        found[ranking] = percent_levels(units, ties=settings.ties, seed=settings.seed, ids=shown.ids).cpu()
    return found


def shown_images(part: Part, rows: Sequence[int]) -> Shown:
    """Images of ``part`` at ``rows``."""
    return Shown(part.batch(rows), part.targets[list(rows)], image_ids(part, rows))


def _maps(settings: Settings, module: nn.Module, shown: Shown, names: Sequence[str]) -> dict[str, Tensor]:
    data = load_data(data_key(settings))
    normalization = data.normalization
    explained = Classifier(
        "explained", module, shown.images.shape[-1], normalization, tuple(data.images.classes)
    )
    mean, std = (torch.tensor(part).view(1, -1, 1, 1) for part in normalization)
    device = choose_device(settings.device)
    images = ((shown.images.cpu() - mean) / std).to(device)
    targets = shown.targets.to(device)
    if settings.target == "predicted":
        with torch.no_grad():
            targets = module(images).argmax(1)
    return protocol_maps(
        module,
        images,
        targets,
        names,
        protocol_of(settings),
        mean=normalization.mean,
        std=normalization.std,
        generator=CounterGenerator(settings.seed, shown.ids),
        method_options={
            name: method_options(MethodRequest(name, settings.options.get(name, {})), explained)
            for name in names
            if name in METHODS and name not in CONTROLS
        },
    )


def map_code(settings: Settings, ranking: str) -> dict[str, Any]:
    """What decides the levels that maps give to an image, but for the image and the network."""
    name = ranking.partition("/")[0]
    built_in = name in ESTIMATORS or name in CONTROLS
    # Any registered method may be behind another name.
    modules = _MAPS if built_in else (*_MAPS, "heatcheck.attribution.catalog")
    options = settings.options.get(name, {})
    plugins = [] if built_in else plugins_behind(*method_parts(name, options))
    return {
        **({"plugins": plugins} if plugins else {}),
        "ranking": ranking,
        "options": options,
        "code": [code_fingerprint(module) for module in modules],
        "protocol": protocol_of(settings)._asdict(),
        "aggregate": settings.aggregate,
        "ties": settings.ties,
        "target": settings.target,
        "seed": settings.seed,
    }


def _map_name(estimator: str) -> str:
    """Estimator whose map is ranked; a square has the order of what was squared, by magnitude."""
    return ESTIMATORS[estimator].ranked_from if estimator in ESTIMATORS else estimator


def _rank(settings: Settings, shard: Shard, store: ResultsStore) -> pd.DataFrame:
    rankings = ranked_from_maps(settings)
    cells = {name: level_cell(settings, shard, name) for name in rankings}
    missing = [name for name, cell in cells.items() if store.get(cell) is None]
    if missing:
        data = load_data(data_key(settings))
        module = load_network(store, settings, shard.checkpoint)
        with memory_budget(settings.memory) if settings.memory else nullcontext():
            shown = shown_images(part_of(data, shard.split), range(shard.start, shard.stop))
            found = map_levels(settings, module, shown, missing)
        for name, levels in found.items():
            store.put(cells[name], _levels_table(levels))
    hashes = [finished(store, cell)["sha256"].iloc[0] for cell in cells.values()]
    return pd.DataFrame({"ranking": rankings, "sha256": hashes})


def _levels_table(levels: Tensor) -> pd.DataFrame:
    content = levels.contiguous().numpy().tobytes()
    facts = {"shape": list(levels.shape), "sha256": hashlib.sha256(content).hexdigest()}
    return pd.DataFrame([{"levels": content, **facts}])


def _shard_cell(settings: Settings, shard: Shard) -> dict[str, Any]:
    return {
        "network": network_cell(settings, shard.checkpoint),
        "rows": [shard.split, shard.start, shard.stop],
    }


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
