"""Remove and retrain: is the information gone when a new network no longer sees the top pixels?

Protocol of Hooker, Erhan, Kindermans and Kim (2019), ROAR and its twin KAR, with the cheaper substitutes and
the controls that later work asked for. Every condition is a cell of its own: a stopped run resumes, and the
same cells are computed on one machine or on a cluster.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.benchmarks.roar_conditions import Condition, conditions
from heatcheck.benchmarks.roar_data import Data, data_key, load_data
from heatcheck.benchmarks.roar_levels import LevelHashes, level_hashes
from heatcheck.benchmarks.roar_maps import level_task, ranked_from_maps, shards
from heatcheck.benchmarks.roar_networks import finished, network_cell, network_task
from heatcheck.benchmarks.roar_recursive import recursive_task
from heatcheck.benchmarks.roar_settings import Settings as Settings
from heatcheck.benchmarks.roar_settings import check as check
from heatcheck.benchmarks.roar_settings import protocol_of
from heatcheck.benchmarks.roar_training import Outcome, condition_task, evaluator_task, outcome
from heatcheck.benchmarks.shared_settings import fill_cells
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.store import ResultsStore


class Results(NamedTuple):
    """What a run gives.

    Attributes:
        settings: Settings, the methods of plug-ins included.
        data: Images.
        outcomes: Answers to all test images, by condition.
        recursive: The same for removal in steps, by estimator, percent and run.
        accuracies: Accuracy of each explained network on unchanged test images.
    """

    settings: Settings
    data: Data
    outcomes: Mapping[Condition, Outcome]
    recursive: Mapping[tuple[str, int, int], Outcome]
    accuracies: tuple[float, ...]

    def bits(self, *, ranking: str, **asked: object) -> NDArray[np.bool_]:
        """Which test images are right, ``(runs, N)``, where exactly one condition per run fits.

        Args:
            ranking: Ranking of the condition.
            asked: Other fields of ``Condition``; those left out are ``roar``, percent 0, the run's fill,
                ``scratch`` and checkpoint 0.

        Raises:
            KeyError: The run has no such condition.
        """
        usual = {"percent": 0, "mode": "roar", "fill": self.settings.fill, "way": "scratch", "checkpoint": 0}
        found = Condition(ranking=ranking, run=0, **{**usual, **asked})  # type: ignore[arg-type]
        runs = [found._replace(run=run) for run in range(self.settings.n_runs)]
        present = [run for run in runs if run in self.outcomes]
        if not present:
            raise KeyError(f"the run has no condition {found}")
        return np.stack([self.outcomes[run].correct for run in present])


def run(settings: Settings, store: ResultsStore) -> Results:
    """Every network of a run, trained and tested; finished cells come from ``store``.

    Raises:
        ValueError: An estimator, data set or number is not allowed; nothing has been computed then.
        PluginError: A plug-in cannot be used.
    """
    settings = check(settings)
    with memory_budget(settings.memory) if settings.memory else nullcontext():
        data = load_data(data_key(settings))
        checkpoints = range(settings.n_checkpoints)
        networks = [network_task(settings, number) for number in checkpoints]
        _fill(store, networks, settings, "explained networks")
        if ranked_from_maps(settings):
            _fill(store, [level_task(settings, shard) for shard in shards(settings)], settings, "ranks")
        if settings.evaluator:
            evaluators = [evaluator_task(settings, number) for number in range(settings.n_runs)]
            _fill(store, evaluators, settings, "evaluators")
        hashes = level_hashes(settings, store) if ranked_from_maps(settings) else {}
        outcomes = _outcomes(store, settings, hashes)
        recursive = _recursive(store, settings, hashes)
    accuracies = tuple(
        float(finished(store, network_cell(settings, number))["accuracy"].iloc[0]) for number in checkpoints
    )
    return Results(settings, data, outcomes, recursive, accuracies)


def accuracy_table(results: Results) -> pd.DataFrame:
    """Accuracy of every condition; a row per network.

    Columns ``benchmark, preset, data, protocol, granularity, ranking, estimator, control, mode, percent``,
    ``fill, way, checkpoint, run, n_test, accuracy, loss, seconds``.
    """
    settings = results.settings
    rows = [
        {
            **condition._asdict(),
            "estimator": condition.estimator,
            "control": condition.control,
            "accuracy": found.correct.mean(),
            "loss": found.losses.mean(dtype=np.float64),
            "seconds": found.seconds,
            "n_test": len(found.correct),
        }
        for condition, found in results.outcomes.items()
    ]
    facts = {
        "benchmark": "roar",
        "preset": settings.preset,
        "data": results.data.images.name,
        "protocol": settings.protocol,
        "granularity": protocol_of(settings).granularity,
    }
    return pd.DataFrame(rows).assign(**facts)


def _outcomes(store: ResultsStore, settings: Settings, hashes: LevelHashes) -> dict[Condition, Outcome]:
    found = {condition: condition_task(settings, hashes, condition) for condition in conditions(settings)}
    _fill(store, list(found.values()), settings, "retrained networks")
    return {condition: outcome(finished(store, task.cell)) for condition, task in found.items()}


def _recursive(
    store: ResultsStore, settings: Settings, hashes: LevelHashes
) -> dict[tuple[str, int, int], Outcome]:
    tasks = {
        (name, number): recursive_task(settings, hashes, name, number)
        for name in settings.recursive
        for number in range(settings.n_runs)
    }
    _fill(store, list(tasks.values()), settings, "recursive removal")
    found = {}
    for (name, number), task in tasks.items():
        table = finished(store, task.cell)
        for percent in settings.percents:
            found[name, percent, number] = outcome(table[table["percent"] == percent])
    return found


def _fill(store: ResultsStore, tasks: Sequence[Task], settings: Settings, label: str) -> None:
    unique = list({store.path(task.cell): task for task in tasks}.values())
    fill_cells(store, unique, settings, label=label)
