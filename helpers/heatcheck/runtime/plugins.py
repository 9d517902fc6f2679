"""Plug-ins: Python files and installed packages that register methods, models or data of their own."""

import functools
import hashlib
import importlib.metadata
import sys
import traceback
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

GROUPS = ("heatcheck.methods", "heatcheck.models")
Registries = Sequence[MutableMapping[str, Any]]
_LOADED: dict[Path, str] = {}
_LOADED_POINTS: set[tuple[str, str]] = set()


class PluginError(RuntimeError):
    """A plug-in that cannot be used; the message names the file and line."""


class Source(NamedTuple):
    """A plug-in file as it was loaded: where it lies, and its content."""

    file: Path
    content: bytes


# What plug-ins registered, by the file or entry point that did: entries of the registries themselves, since a
# function may come from elsewhere or be wrapped.
_ADDED: dict[str, list[object]] = {}
# By the path as it was given, which may be relative to a folder that another machine does not have.
_SOURCES: dict[str, Source] = {}
_CARRIED: dict[str, Source] = {}


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
        _load_file(path, registries)


def load_entry_points(registries: Registries = ()) -> None:
    """Import what installed packages offer in the groups ``heatcheck.methods`` and ``heatcheck.models``.

    Raises:
        PluginError: A package fails; the message names its entry point.
    """
    for group in GROUPS:
        for point in importlib.metadata.entry_points(group=group):
            if (group, point.value) in _LOADED_POINTS:
                continue
            with _all_or_nothing(registries, f"{group} {point.value}"):
                try:
                    point.load()
                except Exception as error:
                    raise PluginError(
                        f"entry point {point.name!r} ({point.value}) of group {group}: {_cause(error)}"
                    ) from error
            _LOADED_POINTS.add((group, point.value))


def plugin_module(path: str | Path) -> str:
    """Name of the module that a plug-in file becomes; what it defines says it in ``__module__``."""
    file = _file(path)
    return f"heatcheck_plugin_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"


def plugins_in_force() -> list[str]:
    """What a result's key must hold: hashes of the files loaded so far, and packages with their versions."""
    return [*sorted(_LOADED.values()), *entry_point_packages()]


def plugins_behind(*parts: object) -> list[str]:
    """What the key of a result must hold that ``parts`` alone computed: plug-ins, if one of them is from one.

    A result of built-in parts is the same whatever plug-ins are loaded, so its key does not name them.

    Args:
        parts: Entries of the registries that plug-ins were loaded with; None counts as built in.
    """
    added = {id(entry) for entries in _ADDED.values() for entry in entries}
    return plugins_in_force() if any(id(part) in added for part in parts) else []


def added_by(path: str | Path) -> list[object]:
    """Entries that the plug-in file at ``path`` added to the registries it was loaded with."""
    return list(_ADDED.get(str(_file(path)), []))


def entry_point_packages() -> list[str]:
    """Installed packages with entry points of ours, ``name==version``, sorted."""
    return list(_entry_point_packages())


@functools.cache  # every cell of a run asks for them, and reading all installed packages takes a while
def _entry_point_packages() -> tuple[str, ...]:
    points = [point for group in GROUPS for point in importlib.metadata.entry_points(group=group)]
    return tuple(sorted({f"{point.dist.name}=={point.dist.version}" for point in points if point.dist}))


def loaded_plugins() -> Mapping[Path, str]:
    """Files loaded so far, each with the hash of its content: what a result's key must hold."""
    return dict(_LOADED)


def plugin_sources() -> Mapping[str, Source]:
    """Files loaded so far by the path they were given by, to be carried to a process that lacks them."""
    return dict(_SOURCES)


def carry_plugins(sources: Mapping[str, Source]) -> None:
    """Let ``load_plugins`` take these paths from ``sources`` instead of this machine's disk.

    The modules get the names they have where the files lie, so that what refers to them is understood.

    Args:
        sources: Of ``plugin_sources`` in another process.
    """
    _CARRIED.update(sources)


def _file(path: str | Path) -> Path:
    carried = _CARRIED.get(str(path))
    return carried.file if carried else Path(path).expanduser().resolve()


def _read(path: str | Path) -> Source:
    file = Path(path).expanduser()
    if str(path) in _CARRIED:
        return _CARRIED[str(path)]
    if file.suffix != ".py" or not file.is_file():
        raise PluginError(f"plug-in {str(file)!r} is no Python file; give the path of an existing .py file")
    return Source(file.resolve(), file.read_bytes())


def _load_file(given: str | Path, registries: Registries) -> None:
    source, path = _read(given), Path(given).expanduser()
    digest = hashlib.sha256(source.content).hexdigest()
    if _LOADED.get(source.file, digest) != digest:
        raise PluginError(
            f"plug-in {path} has changed since it was loaded; start a new process to load it again"
        )
    if source.file not in _LOADED:
        with _all_or_nothing(registries, str(source.file)):
            _execute(source.content, path, plugin_module(given))
        _LOADED[source.file] = digest
    _SOURCES[str(given)] = source


def _execute(content: bytes, path: Path, name: str) -> None:
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        # The very bytes whose hash goes into every key, not what the file may hold a moment later.
        exec(compile(content, str(path), "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        del sys.modules[name]
        raise PluginError(f"plug-in {path}, line {_line(error, path)}: {_cause(error)}") from error


@contextmanager
def _all_or_nothing(registries: Registries, plugin: str) -> Iterator[None]:
    """Remember what ``plugin`` adds to ``registries``; when it fails they are as they were."""
    before = [dict(registry) for registry in registries]
    try:
        yield
    except PluginError:
        for registry, content in zip(registries, before, strict=True):
            registry.clear()
            registry.update(content)
        raise
    _ADDED[plugin] = [
        entry
        for registry, content in zip(registries, before, strict=True)
        for name, entry in registry.items()
        if content.get(name) is not entry
    ]


def _line(error: Exception, path: Path) -> str:
    """Line of ``path`` where ``error`` comes from."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return str(error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return str(lines[-1]) if lines else "unknown"


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
