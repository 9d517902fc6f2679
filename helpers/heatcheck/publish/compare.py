"""Cards of own methods: all four benchmarks, ranks among the built-in methods, files for a paper."""

import contextlib
import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch

from heatcheck.benchmarks import comparison
from heatcheck.benchmarks.comparison_card import card_table
from heatcheck.benchmarks.shared_settings import load_methods, registered_by
from heatcheck.figures.card import card_figure
from heatcheck.figures.card_text import card_latex, card_markdown, card_text
from heatcheck.figures.export import export_figure
from heatcheck.figures.results import write_file
from heatcheck.publish import presets
from heatcheck.publish.errors import StoppedError
from heatcheck.publish.places import Places, check_writable
from heatcheck.publish.plan import Job, plan
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.fingerprint import library_versions
from heatcheck.runtime.store import ResultsStore

CHAPTER = "comparison"
STEM = "card"
Say = Callable[[str], None]


class Card(NamedTuple):
    """A method's card.

    Attributes:
        method: Name of the method.
        text: The card for a terminal.
        folder: Where its files are.
    """

    method: str
    text: str
    folder: Path


def compare(
    places: Places,
    file: Path,
    *,
    name: str | None = None,
    preset: str = presets.DEFAULT,
    assignments: Sequence[str] = (),
    store: Path | None = None,
    out: Path | None = None,
    say: Say = lambda _: None,
) -> list[Card]:
    """Cards of the methods that ``file`` registers, each written to a folder.

    The comparison runs with the parameters that ``heatcheck run comparison`` would take, so that all it
    shares with the chapter's run comes from the results store.

    Args:
        places: The checkout; where it generates into another folder, cards go there by default.
        file: Python file that registers one or more methods.
        name: The one of them that is wanted; by default all.
        preset: Row of ``nbs/presets.toml``.
        assignments: Parameters of the chapter as on the command line, ``name=value``.
        store: Folder of the results store.
        out: Folder of the card, or of a folder for each where there are several; by default
            ``card-METHOD`` in the current folder.
        say: Where progress goes, line by line.

    Raises:
        ValueError: The file is missing or registers no method, it has none of that name, or a parameter is
            not allowed.
        PluginError: The file fails; the message names the line.
        PublishError: The folder cannot be written.
        StoppedError: The user ended the run.
    """
    file = file.expanduser().resolve()
    if file.suffix != ".py" or not file.is_file():
        raise ValueError(f"--method {file}: no such Python file; name one that registers a method")
    job = plan(places, CHAPTER, preset=preset, assignments=assignments, store=store)
    folder = None if out is None else Path.cwd() / out
    here = Path.cwd() if places.base == places.root else places.base
    # Chapters run in the repository's root: paths in parameters start there.
    with contextlib.chdir(places.root), _stoppable():
        methods = _chosen(job, file, name)
        folders = _folders(methods, folder, here)
        for path in folders:
            check_writable(path.parent)
        say(f"{', '.join(methods)}: comparing with the built-in methods, preset {preset}")
        results = comparison.run(_settings(job, file, methods), ResultsStore(job.values["store"]))
    rivals = [method for method in results.settings.methods if method not in registered_by(file)]
    manifest = _manifest(job, file, results.settings.device)
    return [
        _write(results, method, rivals, manifest, path) for method, path in zip(methods, folders, strict=True)
    ]


def _chosen(job: Job, file: Path, name: str | None) -> list[str]:
    """Methods of ``file`` that get a card."""
    load_methods(job.values["methods"], [*job.values.get("plugins", []), str(file)])
    own = registered_by(file)
    if not own:
        raise ValueError(
            f"{file.name} registers no method; decorate a function with @register from "
            "heatcheck.attribution.registry"
        )
    if name is not None and name not in own:
        raise ValueError(f"{file.name} registers no method {name!r}; it registers: {', '.join(own)}")
    return own if name is None else [name]


def _settings(job: Job, file: Path, methods: Sequence[str]) -> comparison.Settings:
    """Settings of the chapter with the methods of the file added."""
    fields = comparison.Settings.model_fields
    values = {name: value for name, value in job.values.items() if name in fields}
    values["methods"] = list(dict.fromkeys([*values["methods"], *methods]))
    values["plugins"] = list(dict.fromkeys([*values.get("plugins", []), job.places.shown(file)]))
    return comparison.Settings(**values)


def _folders(methods: Sequence[str], out: Path | None, here: Path) -> list[Path]:
    names = [f"{STEM}-{re.sub(r'[^A-Za-z0-9.+-]+', '-', method)}" for method in methods]
    if out is not None and len(methods) == 1:
        return [out]
    return [(out or here) / name for name in names]


def _write(
    results: comparison.Results, method: str, rivals: Sequence[str], manifest: dict[str, Any], folder: Path
) -> Card:
    """The card of ``method``, its files written to ``folder``."""
    table = card_table(results.columns, method, rivals=rivals)
    made = (
        f"Made with the preset `{manifest['preset']}` of Heatcheck's comparison on {manifest['device']}; "
        f"`{manifest['plugin']['file']}` has SHA-256 `{manifest['plugin']['sha256']}`. "
        "`manifest.json` has all parameters and versions."
    )
    export_figure(card_figure(table, method), folder / STEM, data=table)
    page = card_markdown(table, method, figure=f"{STEM}.svg", made=made)
    text = json.dumps({"method": method, **manifest}, indent=1, sort_keys=True, ensure_ascii=False)
    write_file(folder / f"{STEM}.md", page.encode())
    write_file(folder / f"{STEM}.tex", card_latex(table, method).encode())
    write_file(folder / "manifest.json", f"{text}\n".encode())
    return Card(method, card_text(table, method), folder)


def _manifest(job: Job, file: Path, device: str) -> dict[str, Any]:
    place = choose_device(device)
    gpu = torch.cuda.get_device_name(place) if place.type == "cuda" else None
    return {
        "chapter": CHAPTER,
        "preset": job.values["preset"],
        "date": datetime.now(UTC).date().isoformat(),
        "device": gpu or f"{platform.machine()} {place.type.upper()}",
        "libraries": library_versions(),
        "parameters": {name: value for name, value in job.values.items() if name not in ("out", "store")},
        "plugin": {"file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()},
    }


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        raise StoppedError("stopped; finished results are kept, run again to go on") from error
