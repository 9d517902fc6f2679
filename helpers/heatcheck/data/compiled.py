"""Compilation of the ray caster's inner loops."""

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

from heatcheck.data.cache import cache_folder
from heatcheck.runtime.fingerprint import code_fingerprint

Function = TypeVar("Function", bound=Callable[..., Any])

# All compiled functions are in this module and those it imports.
_TOP = "heatcheck.data.raycaster"


def compiled(function: Function) -> Function:
    """``function`` as machine code, compiled at its first call and kept on disk for the next process.

    Where the cache folder cannot be written it is compiled once per process; the numbers are the same.
    Fast-math is off, so that images do not depend on how a processor's loops were vectorized.
    """
    options = {"nogil": True, "error_model": "numpy"}
    folder = _code_folder()
    result: Function
    if folder is None:
        result = numba.njit(**options)(function)
        return result
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)  # read when the function is decorated, not later
    try:
        result = numba.njit(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    return result


@cache
def _code_folder() -> Path | None:
    """Folder for machine code of this version of the ray caster; None if it cannot be written.

    Numba notices a change of a function's own file only, not of the functions it calls in others, hence a
    folder for each version of all of them.
    """
    folder = cache_folder() / "compiled" / code_fingerprint(_TOP)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None
