"""Numbers for the prose: named values in ``results.json`` beside a chapter's figures."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = "results.json"


def record(out: Path | str, /, **values: object) -> Path:
    """Path of ``results.json`` in folder ``out``, with ``values`` added; equal names are replaced.

    Pages quote the values by name, so a name that is recorded no longer fails the build.

    Args:
        out: Folder of the chapter's results; made when absent.
        **values: Text, numbers, booleans, None, or lists and dicts of them; what NumPy holds becomes plain.

    Raises:
        TypeError: A value is of another kind; the message names it.
        ValueError: A number is NaN or infinite, which JSON cannot hold.
        OSError: The folder cannot be written.
    """
    plain = {name: _plain(value, name) for name, value in values.items()}
    path = Path(out) / RESULTS
    merged = read_results(path) | plain
    text = json.dumps(merged, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"
    write_file(path, text.encode())
    return path


def read_results(path: Path | str) -> dict[str, Any]:
    """Values recorded in file ``path``; empty when there is no such file.

    Raises:
        ValueError: The file is no JSON object.
    """
    path = Path(path)
    if not path.exists():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON ({error}); delete it and run the chapter again") from error
    if not isinstance(values, dict):
        raise ValueError(
            f"{path} holds a {type(values).__name__}, not an object; delete it and run the chapter again"
        )
    return values


def write_file(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` in one step, making its folder; no reader sees half a file.

    Raises:
        OSError: The folder cannot be written; the message names it.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(content)
        scratch.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise OSError(
            f"cannot write {path.name} into folder {path.parent}: {reason}; choose a folder you may write"
        ) from error
    finally:
        if scratch.is_file():
            scratch.unlink()


def _plain(value: object, name: str) -> object:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"result {name!r} is {value}; record None where a number is undefined")
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{name}[{index}]") for index, item in enumerate(value)]
    kinds = "text, numbers, booleans, None, lists and dicts"
    raise TypeError(f"result {name!r} is a {type(value).__name__}; allowed: {kinds}")
