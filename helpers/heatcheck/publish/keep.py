"""Larger runs kept in the repository: small tables with a manifest, shown beside a reader's own."""

import json
import platform
import shutil
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import torch

from heatcheck.publish.errors import PublishError
from heatcheck.publish.notebook import METADATA
from heatcheck.publish.places import Places, check_chapter, check_writable, is_unfinished
from heatcheck.runtime.fingerprint import library_versions

MANIFEST = "manifest.json"
# Exports that are tables have a LaTeX twin; plotted rows are large and stay out of the repository.
_TWIN = ".tex"


def keep(places: Places, chapter: str, name: str) -> Path:
    """Folder ``book/results/CHAPTER/NAME`` with the tables of the chapter's last run and a manifest.

    The manifest says the date, device, library versions, key, preset and parameters of the run.

    Raises:
        ValueError: No such chapter, or a name that is none or is taken by the last run itself.
        PublishError: The chapter has not run, or the folder cannot be written.
    """
    results = places.results(check_chapter(places, chapter))
    if not name.replace("-", "").isalnum() or name == results.name:
        raise ValueError(
            f"name {name!r} is not allowed; use letters, digits and hyphens, not {results.name!r}"
        )
    if is_unfinished(results) or not places.notebook(chapter).is_file():
        raise PublishError(f"{chapter} has no finished run to keep; run: heatcheck run {chapter}")
    tables = [path for path in sorted(results.glob("*.csv")) if path.with_suffix(_TWIN).exists()]
    folder = check_writable(places.root / "book" / "results" / chapter / name)
    for table in tables:
        shutil.copyfile(table, folder / table.name)
    text = json.dumps(_manifest(places, chapter), indent=1, sort_keys=True) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    return folder


def _manifest(places: Places, chapter: str) -> dict[str, object]:
    facts = nbformat.read(places.notebook(chapter), as_version=4).metadata[METADATA]
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "chapter": chapter,
        "date": datetime.now(UTC).date().isoformat(),
        "device": gpu or f"{platform.machine()} CPU",
        "key": facts["key"],
        "libraries": library_versions(),
        "parameters": facts["own"],
        "preset": facts["preset"],
    }
