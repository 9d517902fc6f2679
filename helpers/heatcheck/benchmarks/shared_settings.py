"""What settings of every benchmark are checked for before anything is computed, and where that is done."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import pandas as pd

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import METHODS
from heatcheck.models.networks import NETWORKS
from heatcheck.models.registry import MODELS
from heatcheck.removal.fills import FILLS, get_fill
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.grid import Task, check_place, fill_store
from heatcheck.runtime.memory import parse_bytes
from heatcheck.runtime.plugins import added_by, load_entry_points, load_plugins
from heatcheck.runtime.store import ResultsStore


class Placed(Protocol):
    """Settings of a benchmark that say where it is computed."""

    @property
    def methods(self) -> list[str]:
        """Methods, those of plug-ins included."""

    @property
    def plugins(self) -> list[str]:
        """Python files that register own methods or models."""

    @property
    def device(self) -> str:
        """``auto``, ``cpu``, ``cuda`` or ``cuda:<index>``."""

    @property
    def workers(self) -> int:
        """Processes of this machine that compute when the device is a CPU; 0 is one per core."""

    @property
    def on(self) -> str:
        """``local``, ``ray`` or ``ray://HOST:PORT``."""


def load_methods(methods: Sequence[str], plugins: Sequence[str]) -> list[str]:
    """``methods`` and behind them those that the plug-in files register; everything is loaded then.

    A file of which ``methods`` name some adds no others.

    Args:
        methods: Names the user gave; whether they exist is for the caller to check.
        plugins: Python files that register own methods, models or fills.

    Raises:
        ValueError: There is no method, or one is named twice.
        PluginError: A plug-in cannot be used.
    """
    registries = (METHODS, MODELS, FILLS, NETWORKS)
    load_catalog()
    load_entry_points(registries)
    load_plugins(plugins, registries)
    check_different("methods", methods)
    added = [name for path in plugins for name in _unnamed(methods, registered_by(path))]
    return list(dict.fromkeys([*methods, *added]))


def registered_by(path: str | Path) -> list[str]:
    """Methods that the plug-in file at ``path``, which is loaded, registers."""
    added = {id(entry) for entry in added_by(path)}
    return [name for name, entry in METHODS.items() if id(entry) in added]


def _unnamed(methods: Sequence[str], registered: list[str]) -> list[str]:
    return [] if set(registered) & set(methods) else registered


def check_different(what: str, names: Sequence[object]) -> None:
    """Refuse ``names`` of ``what`` that are none or hold one twice.

    Raises:
        ValueError: They do.
    """
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"{what} must be one or more different names, got {list(names)}")


def check_fill(name: str) -> None:
    """Refuse a fill that is unknown or cannot run as it is.

    Raises:
        ValueError: There is no such fill, or it needs an option.
    """
    missing = get_fill(name).missing
    if missing:
        raise ValueError(f"fill {name!r} needs {', '.join(missing)}; register it, filled in, in a plug-in")


def check_machine(device: str, memory: str | None, on: str = "local") -> None:
    """Refuse a device that is not there, a memory size that is none, and a cluster that cannot be used.

    Raises:
        ValueError: It is so.
        ImportError: A cluster is asked for and Ray is not installed.
    """
    check_place(on, str(choose_device(device)))
    if memory:
        parse_bytes(memory)


def fill_cells(store: ResultsStore, tasks: Sequence[Task], settings: Placed, *, label: str) -> pd.DataFrame:
    """Tables of all ``tasks``, computed where ``settings`` say; see ``fill_store``.

    Args:
        store: Where finished cells are found and kept.
        tasks: In the order of the result's rows.
        settings: Checked settings of the run.
        label: What the progress bar calls the work.
    """
    device = choose_device(settings.device)
    return fill_store(
        store,
        tasks,
        label=label,
        workers=settings.workers if device.type == "cpu" else 1,
        setup=partial(load_methods, settings.methods, settings.plugins),
        on=settings.on,
        device=str(device),
    )
