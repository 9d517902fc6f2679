"""Arrays kept on disk: made once, written whole or not at all, checked when read."""

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CACHE_VARIABLE = "HEATCHECK_CACHE"
Arrays = dict[str, NDArray[Any]]
_CHECKSUM = "sha256"


class CacheError(RuntimeError):
    """A cache folder that cannot be used, with what to do about it."""


def cache_folder() -> Path:
    """Folder of made data: ``HEATCHECK_CACHE``, by default ``heatcheck`` in the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heatcheck"


def cached_arrays(name: str, key: Mapping[str, Any], make: Callable[[], Arrays]) -> Arrays:
    """Arrays ``make()`` returns, from disk where an earlier call left them.

    Two processes may do this at once: each writes a file of its own and renames it. A damaged file, one
    that was cut short or whose checksum differs, is made again.

    Args:
        name: Start of the file's name.
        key: All that the arrays depend on; another key is another file.
        make: A pure function of ``key``.

    Raises:
        CacheError: The folder cannot be read or written.
    """
    path = cache_path(name, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = _read(path)
        if found is None:
            found = make()
            _write(path, found)
    except OSError as error:
        raise CacheError(
            f"cannot use the cache file {path}: {error}; set {CACHE_VARIABLE} to a folder you may write"
        ) from error
    return found


def cache_path(name: str, key: Mapping[str, Any]) -> Path:
    """File that holds the arrays of ``key``, whether it exists or not."""
    text = json.dumps(key, sort_keys=True, allow_nan=False)
    return cache_folder() / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}.npz"


def _read(path: Path) -> Arrays | None:
    """Arrays of the file; None where there is none or it is damaged."""
    if not path.exists():
        return None
    content = io.BytesIO(path.read_bytes())
    try:
        with np.load(content) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception:
        # A damaged archive raises about anything; whatever it is, the arrays are made again.
        return None
    recorded = arrays.pop(_CHECKSUM, None)
    return arrays if recorded is not None and str(recorded) == _checksum(arrays) else None


def _write(path: Path, arrays: Arrays) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with scratch.open("wb") as file:
            np.savez_compressed(
                file, allow_pickle=False, **arrays, **{_CHECKSUM: np.array(_checksum(arrays))}
            )
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _checksum(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
