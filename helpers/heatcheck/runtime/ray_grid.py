"""Cells computed by a Ray cluster: the same tasks, keys, store and results as on one machine.

Tables travel back and the process that started the run writes them. So workers need no shared folder, a cell
is finished exactly when its file is in the store, whatever a network file system still shows, and a worker or
machine that dies takes with it only the cells it was computing.
"""

import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import ray
import ray.exceptions

from heatcheck.runtime.files import write_whole
from heatcheck.runtime.fingerprint import PACKAGE
from heatcheck.runtime.grid import Task
from heatcheck.runtime.plugins import plugin_sources
from heatcheck.runtime.ray_worker import Outcome, Start, WorkerError, made_with, work
from heatcheck.runtime.store import Cell, ResultsStore, StoreError, cell_key

# How often a cell is begun anew when its worker or machine dies. What a task raises is never tried again.
MAX_RETRIES = 3
# Tasks that wait in the cluster beyond two per core or GPU: enough for a cluster that grows on demand to see
# a demand, few enough for its memory.
_AHEAD = 8

# Address this process has connected to by itself.
_CONNECTED: list[str] = []


class _Sent(NamedTuple):
    """A task in the cluster: its cell, where the cluster keeps it, and other cells it has asked for."""

    cell: Cell
    packed: Any
    known: dict[str, bytes | None]


def compute_on_ray(
    store: ResultsStore,
    tasks: Sequence[Task],
    *,
    setup: Callable[[], object] | None,
    on: str,
    device: str,
) -> Generator[None]:
    """Compute the tables of ``tasks`` on a cluster and keep them; one step per finished task.

    When the generator is closed, what still runs is stopped.

    Args:
        store: Where finished cells are kept and, when a task asks for them, found.
        tasks: What is computed.
        setup: Called once in each worker before its first task.
        on: ``ray`` or ``ray://HOST:PORT``.
        device: ``cuda`` gives each task a GPU of its own, ``cpu`` a core.

    Raises:
        WorkerError: The cluster cannot be used, or a worker died with one cell ``MAX_RETRIES`` times.
        Exception: What a task raised.
    """
    _connect(on)
    resource = "GPU" if device.startswith("cuda") else "CPU"
    if not _count(resource):
        raise WorkerError(
            f"the cluster has no {resource} for tasks on device {device!r}; it offers "
            f"{ray.cluster_resources()}; choose another device or add a machine"
        )
    gpus = 1 if resource == "GPU" else 0
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=MAX_RETRIES)(work)
    start = ray.put(cloudpickle.dumps(_start(tasks, setup)))
    waiting, running = deque(tasks), dict[Any, _Sent]()
    try:
        while waiting or running:
            while waiting and len(running) < 2 * _count(resource) + _AHEAD:
                task = waiting.popleft()
                sent = _Sent(task.cell, ray.put(cloudpickle.dumps(task)), {})
                running[remote.remote(start, sent.packed, sent.known)] = sent
            for reference in ray.wait(list(running))[0]:
                sent = running.pop(reference)
                wanted = _receive(store, reference, sent)
                if wanted is None:
                    yield
                    continue
                sent.known[cell_key(wanted)] = _content(store, wanted)
                running[remote.remote(start, sent.packed, sent.known)] = sent
    finally:
        for reference in running:
            with suppress(ray.exceptions.RayError, ConnectionError):
                ray.cancel(reference, force=True)


def _receive(store: ResultsStore, reference: Any, sent: _Sent) -> Cell | None:
    """Keeps what a worker has finished; the cell it still wants to know of, if any."""
    try:
        outcome: Outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        raise WorkerError(
            f"no worker finished cell {cell_key(sent.cell)}, begun up to {MAX_RETRIES + 1} times "
            f"({type(error).__name__}: {_first_line(error)}); finished cells are kept: see what stops the "
            "workers, such as too little memory, and run again"
        ) from error
    for name, content in outcome.files.items():
        try:
            write_whole(store.root / name, content)
        except OSError as error:
            raise StoreError(
                f"cannot write {store.root / name}: {error}; name a folder you may write"
            ) from error
    if outcome.error is not None:
        raise cloudpickle.loads(outcome.error)
    return outcome.wanted


def _content(store: ResultsStore, cell: Cell) -> bytes | None:
    path = store.path(cell)
    return path.read_bytes() if path.exists() else None


def _connect(on: str) -> None:
    """Makes this process part of the cluster ``on``; a connection the user has made serves as ``ray``."""
    if ray.is_initialized():
        if on == (_CONNECTED[-1] if _CONNECTED else "ray"):
            return
        if not _CONNECTED:
            raise WorkerError(
                f"this process is connected to a Ray cluster already, not to {on!r}; choose on='ray' to use "
                "that one, or call ray.shutdown() first"
            )
        ray.shutdown()
    _CONNECTED.clear()
    try:
        with _signals_kept():
            ray.init("auto" if on == "ray" else on, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise WorkerError(
            f"no Ray cluster for on={on!r}: {_first_line(error)}; start one with `ray start --head`, or name "
            "one with on='ray://HOST:PORT'"
        ) from error
    _CONNECTED.append(on)


@contextmanager
def _signals_kept() -> Iterator[None]:
    # Ray takes over SIGTERM, which is the caller's.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _count(resource: str) -> int:
    return int(ray.cluster_resources().get(resource, 0))


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


def _start(tasks: Sequence[Task], setup: Callable[[], object] | None) -> Start:
    modules = {_module(task.compute) for task in tasks}
    own = tuple(sorted(name for name in modules if name.partition(".")[0] == PACKAGE))
    return Start(cloudpickle.dumps(setup), plugin_sources(), str(Path.cwd()), own, made_with(own))


def _module(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(function.__module__)
