"""Cells of a results store computed by one process, several or a cluster, with the same keys and results."""

import importlib.util
import os
import re
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import cloudpickle
import joblib
import pandas as pd

from heatcheck.runtime.progress import progress
from heatcheck.runtime.store import Cell, ResultsStore

LOCAL = "local"
_PLACES = "'local' (this machine), 'ray' (the Ray cluster this machine belongs to) or 'ray://HOST:PORT'"
_CLUSTER_DEVICES = ("cpu", "cuda", "cuda:0")


class Task(NamedTuple):
    """A cell and what computes its table: a pure function that may use other cells of the store.

    On a cluster the store's folder is the worker's own: cells are found in it and kept by ``get`` and
    ``put``, other files are not.
    """

    cell: Cell
    compute: Callable[[ResultsStore], pd.DataFrame]


def fill_store(
    store: ResultsStore,
    tasks: Sequence[Task],
    *,
    label: str,
    workers: int = 1,
    setup: Callable[[], object] | None = None,
    on: str = LOCAL,
    device: str = "cpu",
) -> pd.DataFrame:
    """Tables of all ``tasks`` below each other; only cells that are missing are computed.

    Args:
        store: Where finished cells are found and kept.
        tasks: In the order of the result's rows.
        label: What the progress bar calls the work.
        workers: Processes that compute on this machine; 0 is one per core. Worth it on a CPU, not on a GPU.
        setup: Called once in each process before its first task, to load plug-ins.
        on: ``local``, or a Ray cluster: ``ray`` or ``ray://HOST:PORT``. It computes what is missing, with
            one task per core; this process keeps the tables, so workers need not see the store.
        device: What the tasks compute on; for ``cuda`` a cluster gives each task a GPU of its own.

    Raises:
        ValueError: ``workers`` is negative, or ``on`` or ``device`` is none of the above.
        ImportError: A cluster is asked for and Ray is not installed.
        WorkerError: The cluster cannot be used, or a worker died with the same cell again and again.
        Exception: What a task raised. Cells that were finished before stay in the store.
    """
    if workers < 0:
        raise ValueError(f"workers must be 0 (one per core) or more, got {workers}")
    check_place(on, device)
    missing = [task for task in tasks if not store.path(task.cell).exists()]
    with closing(_steps(store, missing, workers=workers, setup=setup, on=on, device=device)) as done:
        for _ in progress(done, label=label, total=len(missing)):
            pass
    tables = [table for task in tasks if (table := store.get(task.cell)) is not None]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def usable_cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_place(on: str, device: str) -> None:
    """Refuse a place to compute that does not exist or cannot be used.

    Args:
        on: ``local``, ``ray`` or ``ray://HOST:PORT``.
        device: Name of a device; on a cluster ``cpu`` or ``cuda``, where every task sees one GPU.

    Raises:
        ValueError: One of them is not allowed.
        ImportError: A cluster is asked for and Ray is not installed.
    """
    if on == LOCAL:
        return
    if on != "ray" and not re.fullmatch(r"ray://[^\s/]+:\d+", on):
        raise ValueError(f"on={on!r} is no place to compute; allowed: {_PLACES}")
    if device not in _CLUSTER_DEVICES:
        raise ValueError(f"on={on!r} takes device 'cpu', or 'cuda' for one GPU per task, not {device!r}")
    # Only the client, for an address, speaks over grpc.
    needed = ("ray",) if on == "ray" else ("ray", "grpc")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"on={on!r} needs {' and '.join(missing)}, which is not installed; "
            "pip install 'heatcheck[cluster]', or compute on='local'"
        )


def _steps(
    store: ResultsStore,
    tasks: Sequence[Task],
    *,
    workers: int,
    setup: Callable[[], object] | None,
    on: str,
    device: str,
) -> Generator[None]:
    """Computes and keeps the tables of ``tasks``, one after each step."""
    if on != LOCAL and tasks:
        # Ray takes seconds to import, and is there only if it is asked for.
        from heatcheck.runtime.ray_grid import compute_on_ray  # noqa: PLC0415

        return compute_on_ray(store, tasks, setup=setup, on=on, device=device)
    count = min(workers or usable_cores(), len(tasks))
    return _parallel(store, tasks, count, setup) if count > 1 else _serial(store, tasks)


def _serial(store: ResultsStore, tasks: Sequence[Task]) -> Generator[None]:
    for task in tasks:
        store.put(task.cell, task.compute(store))
        yield


def _parallel(
    store: ResultsStore, tasks: Sequence[Task], count: int, setup: Callable[[], object] | None
) -> Generator[None]:
    # A task may hold objects of a plug-in, which exists in a worker only after ``setup``: so it travels as
    # bytes and is unpacked there.
    first = cloudpickle.dumps(setup)
    calls = (joblib.delayed(_work)(store.root, first, cloudpickle.dumps(task)) for task in tasks)
    pool = joblib.Parallel(n_jobs=count, return_as="generator_unordered", pre_dispatch=count, batch_size=1)
    with warnings.catch_warnings():
        # A worker whose memory has grown is replaced, and its next task is given to another; nothing is lost.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
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
