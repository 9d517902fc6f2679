"""The networks that are explained, as cells of the results store."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from heatcheck.benchmarks.masked_batches import masked_images
from heatcheck.benchmarks.roar_data import SPLITS, Data, data_key, load_data, part_of
from heatcheck.benchmarks.roar_settings import Settings, recipe_of
from heatcheck.data.cache import cache_folder
from heatcheck.models.networks import NETWORKS, network_builder
from heatcheck.models.retrain_draws import derived_seed
from heatcheck.models.retraining import evaluate, retrain
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.fingerprint import code_fingerprint, library_versions
from heatcheck.runtime.grid import Task
from heatcheck.runtime.plugins import plugins_behind
from heatcheck.runtime.store import ResultsStore, cell_key

_TRAINING = (
    "heatcheck.models.retraining",
    "heatcheck.models.networks",
    "heatcheck.benchmarks.masked_batches",
)


def training_code() -> list[str]:
    """Fingerprints of the code that decides a trained network."""
    return [code_fingerprint(module) for module in _TRAINING]


def network_cell(settings: Settings, checkpoint: int) -> dict[str, Any]:
    """Cell of an explained network."""
    recipe = recipe_of(settings, derived_seed(settings.seed, "explained", checkpoint))
    return {
        "kind": "roar-network",
        "code": training_code(),
        "libraries": library_versions(),
        "plugins": plugins_behind(NETWORKS.get(recipe.network)),
        "data": load_data(data_key(settings)).images.digest,
        "recipe": dataclasses.asdict(recipe),
    }


def network_task(settings: Settings, checkpoint: int) -> Task:
    """Task that trains an explained network on unchanged images."""
    return Task(network_cell(settings, checkpoint), partial(_train, settings, checkpoint))


def load_network(store: ResultsStore, settings: Settings, checkpoint: int) -> nn.Module:
    """Explained network ``checkpoint`` in evaluation mode on the run's device; its cell must be finished."""
    data = load_data(data_key(settings))
    return module_from(finished(store, network_cell(settings, checkpoint)), settings, data)


def module_from(table: pd.DataFrame, settings: Settings, data: Data) -> nn.Module:
    """Network whose weights are in ``table``, in evaluation mode on the run's device."""
    module = network_builder(recipe_of(settings).network, len(data.images.classes))()
    module.load_state_dict(load(table["weights"].iloc[0]))
    module.to(memory_format=torch.channels_last)
    return module.to(choose_device(settings.device)).eval()


@contextmanager
def checkpoint_file(cell: Mapping[str, Any]) -> Iterator[Path]:
    """File of a training that may be stopped, by the cell it belongs to; it is deleted when all went well."""
    path = cache_folder() / "checkpoints" / f"{cell_key(cell)}.pt"
    yield path
    path.unlink(missing_ok=True)


def weights_table(module: nn.Module, **facts: object) -> pd.DataFrame:
    """Table of one row that keeps the weights of ``module``."""
    return pd.DataFrame([{"weights": save(_plain_state(module)), **facts}])


def finished(store: ResultsStore, cell: Mapping[str, Any]) -> pd.DataFrame:
    """Table of a cell that was computed before.

    Raises:
        LookupError: It is no longer there.
    """
    table = store.get(cell)
    if table is None:
        raise LookupError(f"the store lost the cell {store.path(cell).name}; run again")
    return table


def _train(settings: Settings, checkpoint: int, _store: ResultsStore) -> pd.DataFrame:
    data, device = load_data(data_key(settings)), choose_device(settings.device)
    recipe = recipe_of(settings, derived_seed(settings.seed, "explained", checkpoint))
    build = network_builder(recipe.network, len(data.images.classes))
    train, test = (
        masked_images(
            part_of(data, split), data.normalization, flip_safe=data.images.flip_safe, device=device
        )
        for split in SPLITS
    )
    with checkpoint_file(network_cell(settings, checkpoint)) as path:
        module = retrain(
            build, train, recipe, device=device, checkpoint=path, label="explained network"
        ).module
    return weights_table(module, accuracy=evaluate(module, test.evaluation(recipe)).accuracy)


def _plain_state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}
