"""The command ``heatcheck``: thin, everything it does lives in the package."""

import logging
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

# torch, papermill and Jupyter take seconds to import: commands import what they need themselves.
from heatcheck.publish import options, parameters, presets
from heatcheck.publish.data_commands import data_app
from heatcheck.publish.errors import PublishError, RunError, StoppedError
from heatcheck.publish.listing import default_text, format_table, type_name
from heatcheck.publish.places import Places, check_chapter, find_places
from heatcheck.publish.toc import ordered_chapters, toc_chapters

app = typer.Typer(
    help="Do attribution heatmaps tell the truth? Run the chapters, export their figures, build the book.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def root(
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error comes from.")] = False,
) -> None:
    """Options of all commands; ``main`` reads them."""
    del traceback


@app.command()
def run(
    *,
    chapters: options.Chapters = None,
    parameter: options.Parameters = None,
    preset: options.Preset = presets.DEFAULT,
    into: options.Into = None,
    store: options.Store = None,
    on: options.On = None,
    timeout: options.Timeout = None,
    force: options.Force = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only list what is out of date; fails if anything is.")
    ] = False,
) -> None:
    """Execute chapters that are out of date; their pages show the parameters they ran with."""
    places = find_places(Path.cwd(), into)
    jobs = _plan(places, chapters, _assignments(parameter, on), preset, store)
    if check:
        stale = [job.chapter.name for job in jobs if not job.current]
        for name in stale:
            typer.echo(f"{name} is out of date")
        raise typer.Exit(1 if stale else 0)
    from heatcheck.publish import runner  # noqa: PLC0415

    for path in runner.run_jobs(jobs, force=force, timeout=timeout, say=runner.tell):
        typer.echo(path)


@app.command("params")
def show_parameters(chapter: options.Chapter, preset: options.Preset = presets.DEFAULT) -> None:
    """List a chapter's parameters: name, type, value in the preset, meaning."""
    from heatcheck.publish.notebook import read_chapter  # noqa: PLC0415

    places = find_places(Path.cwd())
    declared = read_chapter(places.source(check_chapter(places, chapter))).parameters
    row = presets.preset_row(presets.load_presets(places.root), preset, chapter)
    values = parameters.resolve(declared, (presets.FILE, row))
    rows = [
        (name, item.type, repr(values[name]), item.meaning)
        for name, item in declared.items()
        if name not in parameters.RESERVED
    ]
    typer.echo(format_table(("parameter", "type", preset, "meaning"), rows))


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to see its options.")] = None,
    plugin: options.Plugins = None,
) -> None:
    """List all attribution methods, or the options of one."""
    from heatcheck.attribution.catalog import load_catalog  # noqa: PLC0415
    from heatcheck.attribution.registry import get_method  # noqa: PLC0415

    catalog = load_catalog()
    _load_plugins(plugin)
    if name is None:
        entries = sorted(catalog.values(), key=lambda entry: (entry.family, entry.name))
        rows = [
            (entry.name, entry.family, entry.cites or "", entry.summary.replace("``", ""))
            for entry in entries
        ]
        typer.echo(format_table(("method", "family", "cites", "summary"), rows))
        return
    entry = get_method(name)
    typer.echo(f"{entry.name} ({entry.family}): {entry.summary.replace('``', '')}")
    fields = [
        (option, type_name(field.annotation), default_text(entry.preset.get(option, field.default)))
        for option, field in entry.options.model_fields.items()
    ]
    typer.echo(format_table(("option", "type", "default"), fields))


@app.command()
def models(plugin: options.Plugins = None) -> None:
    """List all registered models; any of torchvision/NAME and timm/NAME can be named as well."""
    from heatcheck.models.catalog import load_models  # noqa: PLC0415

    _load_plugins(plugin)
    for name in load_models():
        typer.echo(name)


app.add_typer(data_app, name="data")


@app.command()
def build(
    *,
    preset: Annotated[
        str | None, typer.Option(help="Row of nbs/presets.toml; by default as each page was made last.")
    ] = None,
    into: options.Into = None,
    store: options.Store = None,
    timeout: options.Timeout = None,
    force: options.Force = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Take the executed notebooks as they are.")
    ] = False,
    archive: Annotated[
        Path | None, typer.Option("--zip", help="Also write the pages to this zip.", metavar="FILE")
    ] = None,
) -> None:
    """Execute what is out of date, build the book, print the path of its first page."""
    from heatcheck.publish import build as book  # noqa: PLC0415

    places = find_places(Path.cwd(), into)
    failed: RunError | None = None
    if not no_run:
        from heatcheck.publish import runner  # noqa: PLC0415

        names = toc_chapters(places.root)
        try:
            runner.run_jobs(
                _plan(places, names, None, preset, store), force=force, timeout=timeout, say=runner.tell
            )
        except RunError as error:
            failed = error
    typer.echo("building the pages", err=True)
    try:
        index = book.build_html(places)
    except PublishError as error:
        raise PublishError(f"{failed}\n{error}" if failed else str(error)) from error
    if archive is not None:
        typer.echo(book.zip_html(places, archive))
    typer.echo(index)
    if failed is not None:
        raise failed


@app.command()
def compare(
    *,
    method: options.OwnMethods,
    out: options.CardFolder = None,
    name: options.OwnName = None,
    parameter: options.Parameters = None,
    preset: options.Preset = presets.DEFAULT,
    into: options.Into = None,
    store: options.Store = None,
    on: options.On = None,
) -> None:
    """Run own methods through all four benchmarks; print and write a card of each, with files for a paper."""
    from heatcheck.publish.compare import compare as make_cards  # noqa: PLC0415

    cards = make_cards(
        find_places(Path.cwd(), into),
        method,
        name=name,
        preset=preset,
        assignments=_assignments(parameter, on),
        store=store,
        out=out,
        say=partial(typer.echo, err=True),
    )
    for card in cards:
        typer.echo(card.text)
        typer.echo(card.folder)


@app.command()
def export(
    chapter: options.Chapter,
    folder: Annotated[Path, typer.Argument(help="Where the files go.", metavar="DIR")],
    into: Annotated[
        Path | None, typer.Option("--from", help="Folder of a run with --into.", metavar="DIR")
    ] = None,
) -> None:
    """Copy all figures (SVG, PDF) and tables (CSV, LaTeX) of a chapter's last run to one folder."""
    from heatcheck.publish.export import export as copy  # noqa: PLC0415

    for path in copy(find_places(Path.cwd(), into), chapter, folder):
        typer.echo(path)


@app.command()
def keep(
    chapter: options.Chapter,
    name: Annotated[str, typer.Argument(help="Name of the kept run, such as embedded-200.", metavar="NAME")],
    into: Annotated[
        Path | None, typer.Option("--from", help="Folder of a run with --into.", metavar="DIR")
    ] = None,
) -> None:
    """Keep the tables of a chapter's last run, with a manifest, in book/results/CHAPTER/NAME."""
    from heatcheck.publish.keep import keep as keep_run  # noqa: PLC0415

    typer.echo(keep_run(find_places(Path.cwd(), into), chapter, name))


@app.command()
def check() -> None:
    """Check every chapter without running it: parameters, all presets, and its place in the book."""
    from heatcheck.publish.check import faults  # noqa: PLC0415

    found = faults(find_places(Path.cwd()))
    if found:
        raise PublishError("\n".join(found))
    typer.echo("all chapters are sound")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors become a message and an exit code, never a traceback unless asked for.

    Exit codes: 0 done, 1 something failed, 2 refused input, 130 stopped by the user.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # whoever cancels a run gets its results put back
    try:
        app(arguments, prog_name="heatcheck")
    except Exception as error:
        if "--traceback" in arguments:
            raise
        typer.echo(_message(error), err=True)
        if isinstance(error, StoppedError):
            logging.getLogger("asyncio").setLevel(
                logging.CRITICAL
            )  # it would complain of the unfinished cell
            sys.exit(130)
        sys.exit(2 if isinstance(error, ValueError) else 1)


def _message(error: Exception) -> str:
    if isinstance(error, ValueError | RuntimeError | OSError | MemoryError | ImportError):
        return f"heatcheck: {error or type(error).__name__}"
    return f"heatcheck: {type(error).__name__}: {error} (heatcheck --traceback ... shows where)"


def _assignments(parameter: Sequence[str] | None, on: str | None) -> list[str]:
    """Parameters as the chapter takes them; where cells are computed is one of them."""
    return [*(parameter or ()), *([] if on is None else [f"on={on}"])]


def _plan(
    places: Places,
    chapters: Sequence[str] | None,
    parameter: Sequence[str] | None,
    preset: str | None,
    store: Path | None,
) -> list[Any]:
    from heatcheck.publish.plan import plan, plan_again  # noqa: PLC0415

    names = dict.fromkeys(chapters or ordered_chapters(places))
    if preset is None:
        return [plan_again(places, name, store=store) for name in names]
    return [plan(places, name, preset=preset, assignments=parameter or (), store=store) for name in names]


def _load_plugins(files: Sequence[Path] | None) -> None:
    if files:
        from heatcheck.runtime.plugins import load_plugins  # noqa: PLC0415

        load_plugins([str(file) for file in files])


if __name__ == "__main__":
    main()
