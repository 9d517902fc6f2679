"""Cells of a results store computed by one process or several, with the same keys and results."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import cloudpickle
import joblib
import pandas as pd

from heatcheck.runtime.progress import progress
from heatcheck.runtime.store import Cell, ResultsStore


class Task(NamedTuple):
    """A cell and what computes its table: a pure function that may use other cells of the store."""

    cell: Cell
    compute: Callable[[ResultsStore], pd.DataFrame]


def fill_store(
    store: ResultsStore,
    tasks: Sequence[Task],
    *,
    label: str,
    workers: int = 1,
    setup: Callable[[], object] | None = None,
) -> pd.DataFrame:
    """Tables of all ``tasks`` below each other; only cells that are missing are computed.

    Args:
        store: Where finished cells are found and kept.
        tasks: In the order of the result's rows.
        label: What the progress bar calls the work.
        workers: Processes that compute; 0 is one per core. Worth it on a CPU, not on a GPU.
        setup: Called once in each process before its first task, to load plug-ins.

    Raises:
        ValueError: ``workers`` is negative.
        Exception: What a task raised. Cells that were finished before stay in the store.
    """
    if workers < 0:
        raise ValueError(f"workers must be 0 (one per core) or more, got {workers}")
    missing = [task for task in tasks if not store.path(task.cell).exists()]
    count = min(workers or usable_cores(), len(missing))
    done = _parallel(store, missing, count, setup) if count > 1 else _serial(store, missing)
    for _ in progress(done, label=label, total=len(missing)):
        pass
    tables = [table for task in tasks if (table := store.get(task.cell)) is not None]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def usable_cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _serial(store: ResultsStore, tasks: Sequence[Task]) -> Iterator[None]:
    for task in tasks:
        store.put(task.cell, task.compute(store))
        yield


def _parallel(
    store: ResultsStore, tasks: Sequence[Task], count: int, setup: Callable[[], object] | None
) -> Iterator[None]:
    # A task may hold objects of a plug-in, which exists in a worker only after ``setup``: so it travels as
    # bytes and is unpacked there.
    first = cloudpickle.dumps(setup)
    calls = (joblib.delayed(_work)(store.root, first, cloudpickle.dumps(task)) for task in tasks)
    pool = joblib.Parallel(n_jobs=count, return_as="generator_unordered", pre_dispatch=count, batch_size=1)
    yield from pool(calls)


_READY: set[bytes] = set()


def _work(root: Path, setup: bytes, packed: bytes) -> None:
    if setup not in _READY:
        function = cloudpickle.loads(setup)
        if function is not None:
            function()
        _READY.add(setup)
    task: Task = cloudpickle.loads(packed)
    store = ResultsStore(root)
    store.put(task.cell, task.compute(store))
