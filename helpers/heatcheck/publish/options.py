"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

Chapter = Annotated[str, typer.Argument(help="Name of a notebook in nbs/.", metavar="CHAPTER")]
Chapters = Annotated[
    list[str] | None,
    typer.Argument(help="Names of notebooks in nbs/; all when none is named.", metavar="[CHAPTER]..."),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "-p", "--parameter", metavar="NAME=VALUE", help="A parameter; the value is TOML or bare text."
    ),
]
Preset = Annotated[str, typer.Option(help="Row of nbs/presets.toml.")]
Into = Annotated[
    Path | None, typer.Option(help="Folder for everything generated, instead of the checkout.", metavar="DIR")
]
Store = Annotated[Path | None, typer.Option(help="Results store; .cache/store by default.", metavar="DIR")]
Force = Annotated[bool, typer.Option("--force", help="Run also what is up to date.")]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="Where cells are computed: local, ray or ray://HOST:PORT; short for -p on=...",
        metavar="WHERE",
    ),
]
Timeout = Annotated[float | None, typer.Option(help="Seconds one chapter may take.", min=1, metavar="S")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="Python file that registers own methods or models.", metavar="FILE"),
]
OwnMethods = Annotated[
    Path, typer.Option("--method", help="Python file that registers own methods.", metavar="FILE")
]
OwnName = Annotated[str | None, typer.Option(help="Method of the file that is wanted; all by default.")]
CardFolder = Annotated[
    Path | None, typer.Argument(help="Folder of the card; card-METHOD by default.", metavar="[DIR]")
]
