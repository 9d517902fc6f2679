"""What the settings of every benchmark are checked for, before anything is computed."""

from collections.abc import Sequence

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import METHODS
from heatcheck.models.registry import MODELS
from heatcheck.removal.fills import FILLS, get_fill
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.memory import parse_bytes
from heatcheck.runtime.plugins import load_entry_points, load_plugins, plugin_module


def load_methods(methods: Sequence[str], plugins: Sequence[str]) -> list[str]:
    """``methods`` and behind them those that the plug-in files register; everything is loaded then.

    Args:
        methods: Names the user gave; whether they exist is for the caller to check.
        plugins: Python files that register own methods, models or fills.

    Raises:
        ValueError: There is no method, or one is named twice.
        PluginError: A plug-in cannot be used.
    """
    registries = (METHODS, MODELS, FILLS)
    load_catalog()
    load_entry_points(registries)
    load_plugins(plugins, registries)
    check_different("methods", methods)
    own = {plugin_module(path) for path in plugins}
    added = [name for name, entry in METHODS.items() if entry.function.__module__ in own]
    return list(dict.fromkeys([*methods, *added]))


def check_different(what: str, names: Sequence[str]) -> None:
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


def check_machine(device: str, memory: str | None) -> None:
    """Refuse a device that is not there and a memory size that is none.

    Raises:
        ValueError: It is so.
    """
    choose_device(device)
    if memory:
        parse_bytes(memory)
