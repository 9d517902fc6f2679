"""What a worker of a cluster does with a task: computes it in a store of its own and sends tables back."""

import os
import socket
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import cloudpickle
import pandas as pd

from heatcheck.runtime.fingerprint import code_fingerprint, library_versions
from heatcheck.runtime.grid import Task
from heatcheck.runtime.plugins import Source, carry_plugins, entry_point_packages
from heatcheck.runtime.store import Cell, ResultsStore, cell_key

_READY: set[bytes] = set()


class WorkerError(RuntimeError):
    """A cluster that cannot be used, or a worker that dies again and again; the message says what to do."""


class Start(NamedTuple):
    """What a worker needs before its first task.

    Attributes:
        setup: Function to call, pickled.
        plugins: Plug-in files of the run.
        folder: Where the run was started; relative paths are meant from there.
        modules: Modules of this package whose functions are called.
        made_with: What must be the same here; see ``made_with``.
    """

    setup: bytes
    plugins: Mapping[str, Source]
    folder: str
    modules: tuple[str, ...]
    made_with: Mapping[str, str]


class Outcome(NamedTuple):
    """What comes back from a worker.

    Attributes:
        files: Content of the files of all finished cells by name, in the order they are to be written.
        wanted: Cell that the task needs to know of before it can go on; None where it came to its end.
        error: What the task raised, pickled.
    """

    files: Mapping[str, bytes]
    wanted: Cell | None = None
    error: bytes | None = None


class _Wanted(BaseException):
    """A task looks for a cell that nobody has told the worker about.

    No ``Exception``, so that no task takes it for a failure of its own.
    """

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        self.cell = cell


class _WorkerStore(ResultsStore):
    """Store of one task: holds the cells it was sent, remembers those it finishes.

    Args:
        root: Folder of its own.
        known: Content of other cells by key; None for one that is not finished.
    """

    def __init__(self, root: Path, known: Mapping[str, bytes | None]) -> None:
        super().__init__(root)
        self._absent = {key for key, content in known.items() if content is None}
        self._finished: dict[str, None] = {}
        for key, content in known.items():
            if content is not None:
                (root / f"{key}.parquet").write_bytes(content)

    def get(self, cell: Cell) -> pd.DataFrame | None:
        """Table of a finished cell, or None; ends the task where that is not known yet."""
        if not self.path(cell).exists() and cell_key(cell) not in self._absent:
            raise _Wanted(cell)
        return super().get(cell)

    def put(self, cell: Cell, table: pd.DataFrame) -> None:
        """Keep ``table`` here and send it back."""
        super().put(cell, table)
        self._finished[cell_key(cell)] = None

    def files(self) -> dict[str, bytes]:
        """Content of the files of finished cells by name; its table is what makes a cell finished: last."""
        names = [f"{key}{ending}" for key in self._finished for ending in (".json", ".parquet")]
        return {name: (self.root / name).read_bytes() for name in names}


def work(start: bytes, packed: bytes, known: Mapping[str, bytes | None]) -> Outcome:
    """What became of a task; runs in a worker.

    Args:
        start: A pickled ``Start``.
        packed: The pickled task, which may hold objects of a plug-in.
        known: Content of other cells' tables by key, as far as the task has asked for them; None for one that
            is not finished.
    """
    with tempfile.TemporaryDirectory(prefix="heatcheck-") as folder:
        store = _WorkerStore(Path(folder), known)
        try:
            _prepare(start)
            task: Task = cloudpickle.loads(packed)
            store.put(task.cell, task.compute(store))
        except _Wanted as wanted:
            return Outcome(store.files(), wanted=wanted.cell)
        except Exception as error:  # whatever it is, it is raised again where the run was started
            return Outcome(store.files(), error=_pack(error))
        return Outcome(store.files())


def made_with(modules: Sequence[str]) -> dict[str, str]:
    """Versions and code that must be the same on every machine, since the keys of results say they are.

    Args:
        modules: Modules of this package.
    """
    code = {f"code of {module}": code_fingerprint(module) for module in modules}
    return {**library_versions(), "packages of plug-ins": ", ".join(entry_point_packages()), **code}


def _prepare(start: bytes) -> None:
    if start in _READY:
        return
    wanted: Start = cloudpickle.loads(start)
    here = made_with(wanted.modules)
    for name, there in wanted.made_with.items():
        if here[name] != there:
            raise WorkerError(
                f"{name}: {here[name] or 'none'!r} on {socket.gethostname()}, {there or 'none'!r} where the "
                "run was started; install the same versions of everything on all machines"
            )
    if Path(wanted.folder).is_dir():
        os.chdir(wanted.folder)
    carry_plugins(wanted.plugins)
    setup = cloudpickle.loads(wanted.setup)
    if setup is not None:
        setup()
    _READY.add(start)


def _pack(error: Exception) -> bytes:
    error.add_note(f"raised on {socket.gethostname()}:\n{traceback.format_exc()}")
    try:
        packed: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(packed)
    except Exception:  # an exception may refuse to travel in any way it likes
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.__notes__ = error.__notes__
        packed = cloudpickle.dumps(plain)
    return packed
