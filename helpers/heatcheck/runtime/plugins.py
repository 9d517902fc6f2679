"""Plug-ins: Python files and installed packages that register methods, models or data of their own."""

import hashlib
import importlib.metadata
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GROUPS = ("heatcheck.methods", "heatcheck.models")
Registries = Sequence[MutableMapping[str, Any]]
_LOADED: dict[Path, str] = {}
_LOADED_POINTS: set[tuple[str, str]] = set()


class PluginError(RuntimeError):
    """A plug-in that cannot be used; the message names the file and line."""


def load_plugins(paths: Sequence[str | Path], registries: Registries = ()) -> None:
    """Run Python files once each, so that what they register is known.

    A file that is loaded already is skipped. When a file fails, ``registries`` are as they were before
    it, so that it can be mended and loaded again.

    Args:
        paths: Python files.
        registries: Dictionaries the files may add to, such as ``METHODS``.

    Raises:
        PluginError: A file is missing, raises, or has changed since it was loaded.
    """
    for path in paths:
        _load_file(Path(path).expanduser(), registries)


def load_entry_points(registries: Registries = ()) -> None:
    """Import what installed packages offer in the groups ``heatcheck.methods`` and ``heatcheck.models``.

    Raises:
        PluginError: A package fails; the message names its entry point.
    """
    for group in GROUPS:
        for point in importlib.metadata.entry_points(group=group):
            if (group, point.value) in _LOADED_POINTS:
                continue
            with _all_or_nothing(registries):
                try:
                    point.load()
                except Exception as error:
                    raise PluginError(
                        f"entry point {point.name!r} ({point.value}) of group {group}: {_cause(error)}"
                    ) from error
            _LOADED_POINTS.add((group, point.value))


def plugin_module(path: str | Path) -> str:
    """Name of the module that a plug-in file becomes; what it defines says it in ``__module__``."""
    file = Path(path).expanduser().resolve()
    return f"heatcheck_plugin_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"


def plugins_in_force() -> list[str]:
    """What a result's key must hold: hashes of the files loaded so far, and packages with their versions."""
    return [*sorted(_LOADED.values()), *entry_point_packages()]


def entry_point_packages() -> list[str]:
    """Installed packages with entry points of ours, ``name==version``, sorted."""
    points = [point for group in GROUPS for point in importlib.metadata.entry_points(group=group)]
    return sorted({f"{point.dist.name}=={point.dist.version}" for point in points if point.dist})


def loaded_plugins() -> Mapping[Path, str]:
    """Files loaded so far, each with the hash of its content: what a result's key must hold."""
    return dict(_LOADED)


def _load_file(path: Path, registries: Registries) -> None:
    if path.suffix != ".py" or not path.is_file():
        raise PluginError(f"plug-in {str(path)!r} is no Python file; give the path of an existing .py file")
    file, content = path.resolve(), path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if _LOADED.get(file) == digest:
        return
    if file in _LOADED:
        raise PluginError(
            f"plug-in {path} has changed since it was loaded; start a new process to load it again"
        )
    with _all_or_nothing(registries):
        _execute(path, plugin_module(path))
    _LOADED[file] = digest


def _execute(path: Path, name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"plug-in {path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise PluginError(f"plug-in {path}, line {_line(error, path)}: {_cause(error)}") from error


@contextmanager
def _all_or_nothing(registries: Registries) -> Iterator[None]:
    before = [dict(registry) for registry in registries]
    try:
        yield
    except PluginError:
        for registry, content in zip(registries, before, strict=True):
            registry.clear()
            registry.update(content)
        raise


def _line(error: Exception, path: Path) -> str:
    """Line of ``path`` where ``error`` comes from."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return str(error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return str(lines[-1]) if lines else "unknown"


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
