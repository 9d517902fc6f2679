"""Levels of any ranking for the images of one split: from stored maps, from masks, or from nothing at all."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from filelock import FileLock
from torch import Tensor

from heatcheck.benchmarks.masked_batches import Read, masked_images
from heatcheck.benchmarks.rank_map_spec import RankMapSpec
from heatcheck.benchmarks.rank_maps import fill_rank_maps
from heatcheck.benchmarks.roar_conditions import Condition, comes_from_maps
from heatcheck.benchmarks.roar_data import Data, Split, data_key, load_data, part_of
from heatcheck.benchmarks.roar_maps import SHARD, image_ids, level_cell, level_task, read_levels, shards
from heatcheck.benchmarks.roar_networks import finished, load_network
from heatcheck.benchmarks.roar_settings import Settings, protocol_of, recipe_of
from heatcheck.data.cache import cache_folder
from heatcheck.data.parts import Part
from heatcheck.metrics.level_controls import derangement, leaky_levels, random_levels, rolled
from heatcheck.metrics.levels import percent_levels
from heatcheck.models.retraining import evaluate
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.store import ResultsStore, cell_key

LevelHashes = Mapping[tuple[str, int], str]
# Levels that take no more than this are held in memory instead of being made for every batch.
_HELD = 1 << 28


class Source(NamedTuple):
    """Whose levels: the run, its store, the number of the explained network, and the split."""

    settings: Settings
    store: ResultsStore
    checkpoint: int
    split: Split

    @property
    def data(self) -> Data:
        """Images of the run."""
        return load_data(data_key(self.settings))

    @property
    def part(self) -> Part:
        """Images of the split."""
        return part_of(self.data, self.split)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Units, height and width of the levels of an image."""
        height, width = self.part.images.shape[1:3]
        return (3 if protocol_of(self.settings).granularity == "element" else 1), height, width


def level_reader(source: Source, ranking: str) -> Read:
    """Function of rows ``(n,)`` to the levels ``(n, U, H, W)`` uint8 that ``ranking`` gives these images."""
    name, _, control = ranking.partition("/")
    if control in _MATCHED:
        return _MATCHED[control](source, level_reader(source, name))
    if comes_from_maps(ranking):
        return _stored(source, ranking)
    return _held(_KNOWING[name](source), source)


def level_hashes(settings: Settings, store: ResultsStore) -> LevelHashes:
    """Hash of the stored levels of every ranking and explained network; their cells must be finished."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for shard in shards(settings):
        table = finished(store, level_task(settings, shard).cell)
        for ranking, digest in zip(table["ranking"], table["sha256"], strict=True):
            found[ranking, shard.checkpoint].append(digest)
    return {key: hashlib.sha256(json.dumps(parts).encode()).hexdigest() for key, parts in found.items()}


def level_key(settings: Settings, hashes: LevelHashes, condition: Condition) -> list[str]:
    """What decides the levels of a condition: a hash of stored ones, or the code and seed of others."""
    name, _, control = condition.ranking.partition("/")
    key = [condition.ranking, protocol_of(settings).granularity]
    if control in _MATCHED or not comes_from_maps(condition.ranking):
        code = code_fingerprint("heatcheck.metrics.level_controls")
        key += [str(settings.seed), settings.ties, protocol_of(settings).random, code]
    stored = name if control in _MATCHED else condition.ranking
    if comes_from_maps(stored):
        key.append(hashes[stored, condition.checkpoint])
    return key


def _stored(source: Source, ranking: str) -> Read:
    """Levels from maps, gathered from the store into one file that is mapped into memory."""
    settings, n = source.settings, len(source.part)
    own = (source.checkpoint, source.split)
    parts = {shard.start: shard for shard in shards(settings) if (shard.checkpoint, shard.split) == own}
    spec = RankMapSpec(
        estimator=f"{ranking} {cell_key(level_cell(settings, parts[0], ranking))}",
        data=f"{source.data.images.digest} {source.split}",
        n_images=n,
        shape=source.shape,
        granularity=protocol_of(settings).granularity,
        aggregate=(settings.aggregate or "sum") if source.shape[0] == 1 else None,
        ties=settings.ties,
        grid=tuple(settings.percents),
    )

    def gather(rows: slice, names: Sequence[str]) -> dict[str, Tensor]:
        return {name: read_levels(source.store, settings, parts[rows.start], name) for name in names}

    folder = cache_folder() / "rank-maps"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{cell_key(level_cell(settings, parts[0], ranking))}.lock"):
        maps = fill_rank_maps(folder, {ranking: spec}, gather)[ranking]
    return lambda rows: maps.read(rows.tolist())


def _random(source: Source) -> Read:
    exact = protocol_of(source.settings).random == "exact"

    def read(rows: Tensor) -> Tensor:
        ids = image_ids(source.part, rows.tolist())
        return random_levels(source.settings.seed, ids, source.shape, exact=exact)

    return read


def _inside(source: Source, *, first: bool) -> Read:
    """The object's pixels before all others, or after them; of equal ones a random one comes first."""
    masks = source.part.masks
    if masks is None:
        raise ValueError(
            f"data set {source.data.images.name!r} has no masks of objects; leave out the estimators oracle "
            "and inverse-oracle"
        )

    def read(rows: Tensor) -> Tensor:
        inside = masks[rows][:, None].expand(-1, *source.shape).float()
        ids = image_ids(source.part, rows.tolist())
        values = inside if first else -inside
        return percent_levels(values, ties="hash", seed=source.settings.seed, ids=ids)

    return read


def _leaky(source: Source) -> Read:
    return lambda rows: leaky_levels(source.settings.seed, source.part.targets[rows], source.shape)


def _shuffled(source: Source, read: Read) -> Read:
    return _exchanged(source, read, None)


def _shuffled_within_class(source: Source, read: Read) -> Read:
    return _exchanged(source, read, _predictions(source))


def _exchanged(source: Source, read: Read, groups: Tensor | None) -> Read:
    n = len(source.part)
    ids = image_ids(source.part, range(n))
    owners = derangement(n, source.settings.seed, groups, ids=ids, alone="keep")
    return lambda rows: read(owners[rows])


def _rolled(source: Source, read: Read) -> Read:
    def moved(rows: Tensor) -> Tensor:
        return rolled(read(rows), source.settings.seed, image_ids(source.part, rows.tolist()))

    return moved


def _predictions(source: Source) -> Tensor:
    """Classes that the explained network gives to all images of the split."""
    module = load_network(source.store, source.settings, source.checkpoint)
    images = masked_images(source.part, source.data.normalization)
    return evaluate(module, images.evaluation(recipe_of(source.settings))).predictions


def _held(read: Read, source: Source) -> Read:
    """``read`` itself, or a look into what it gives for all images where that is small."""
    n, units = len(source.part), source.shape[0] * source.shape[1] * source.shape[2]
    if n * units > _HELD:
        return read
    levels = torch.cat([read(rows) for rows in torch.split(torch.arange(n), SHARD)])
    return lambda rows: levels[rows]


_KNOWING: dict[str, Callable[[Source], Read]] = {
    "random": _random,
    "oracle": lambda source: _inside(source, first=True),
    "inverse-oracle": lambda source: _inside(source, first=False),
    "leaky": _leaky,
}
_MATCHED: dict[str, Callable[[Source, Read], Read]] = {
    "shuffle": _shuffled,
    "shuffle-class": _shuffled_within_class,
    "roll": _rolled,
}
