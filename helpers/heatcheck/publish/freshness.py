"""Is a page what its source, parameters and code would give today?"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heatcheck.publish.notebook import Chapter, read_facts
from heatcheck.publish.places import Places, is_unfinished
from heatcheck.runtime import fingerprint

# Where results lie does not change them.
_LOCATIONS = {"out", "store"}


def build_key(chapter: Chapter, values: Mapping[str, Any], root: Path) -> str:
    """Hash of all a page is made from.

    That is the notebook's text, its parameters, the modules of this package it imports (and those they
    import), the embedded data and weights, the libraries' versions and the contents of plug-in files.
    """
    modules = sorted(fingerprint.imported_modules(chapter.text))
    parts = {
        "source": chapter.text,
        "parameters": {name: value for name, value in values.items() if name not in _LOCATIONS},
        "code": {module: fingerprint.code_fingerprint(module) for module in modules},
        "libraries": fingerprint.library_versions(),
        "plugins": [_hash(root / path) for path in values.get("plugins", [])],
        "assets": _assets() if modules else {},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


def is_current(places: Places, chapter: str, key: str) -> bool:
    """Whether the executed notebook was made with ``key`` and all files it exported are still there."""
    facts = read_facts(places.notebook(chapter))
    folder = places.results(chapter)
    complete = all((folder / name).is_file() for name in facts.get("exports", []))
    return facts.get("key") == key and complete and not is_unfinished(folder)


def _assets() -> dict[str, str]:
    folder = Path(fingerprint.__file__).resolve().parents[1] / "assets"
    return {
        path.relative_to(folder).as_posix(): _hash(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
