"""The commands ``heatcheck data``: list data sets, show one, make one, count the pixels of ground truths."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

_SHOW = "show"


class _NameOrCommand(TyperGroup):
    """Takes a word that is no command for the name of a data set: ``heatcheck data imagenet``."""

    # Some versions of typer bring a click of their own, so there is no one type to name.
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands
        return super().resolve_command(ctx, args if known else [_SHOW, *args])


data_app = typer.Typer(
    cls=_NameOrCommand, invoke_without_command=True, add_completion=False, rich_markup_mode=None
)


@data_app.callback(subcommand_metavar="[NAME | make NAME | statistics DATA]")
def data(context: typer.Context) -> None:
    """List all data sets: what is here, and where the others are looked for; with a name, all about one."""
    if context.invoked_subcommand is None:
        from heatcheck.publish.listing import data_text  # noqa: PLC0415

        typer.echo(data_text())


@data_app.command(_SHOW, hidden=True)
def show(name: Annotated[str, typer.Argument(help="A data set.", metavar="NAME")]) -> None:
    """Show one data set in full."""
    from heatcheck.publish.listing import data_text  # noqa: PLC0415

    typer.echo(data_text(name))


@data_app.command()
def make(
    *,
    name: Annotated[str, typer.Argument(help="Only clevr can be made.", metavar="clevr")],
    scenes: Annotated[int, typer.Option(help="Number of scenes.", min=1, metavar="N")],
    seed: Annotated[int, typer.Option(help="Seed of scenes and questions.", metavar="S")],
    into: Annotated[
        Path | None, typer.Option(help="New folder; clevr-N-S by default.", metavar="DIR")
    ] = None,
    size: Annotated[str, typer.Option(help="Width and height of images, or side.", metavar="WxH")] = "128",
    ground_truths: Annotated[
        bool, typer.Option("--ground-truths", help="Also write the six folders of ground-truth masks.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; 0 is one per core.", min=0, metavar="W")] = 0,
) -> None:
    """Render scenes and ask questions about them, laid out as CLEVR-XAI's release; a stopped call goes on."""
    if name != "clevr":
        raise ValueError(f"cannot make the data set {name!r}; only clevr can be made")
    image_size = _rows_and_columns(size)
    from heatcheck.data.clevr.making import make_clevr  # noqa: PLC0415

    folder = into or Path(f"clevr-{scenes}-{seed}")
    typer.echo(
        make_clevr(folder, scenes, seed, image_size=image_size, ground_truths=ground_truths, workers=workers)
    )


@data_app.command()
def statistics(
    *,
    data: Annotated[
        str, typer.Argument(help="embedded, release, or a folder of questions.", metavar="DATA")
    ] = "embedded",
    kind: Annotated[Literal["simple", "complex"], typer.Option(help="Which questions.")] = "simple",
    size: Annotated[int, typer.Option(help="Side of the masks in pixels.", min=1, metavar="S")] = 128,
    masks: Annotated[Literal["stored", "computed"], typer.Option(help="Where masks come from.")] = "stored",
) -> None:
    """Count the questions of a CLEVR-XAI archive, and pixels and objects in each of their ground truths."""
    from heatcheck.benchmarks.clevr_statistics import statistics_text  # noqa: PLC0415

    typer.echo(statistics_text(data, kind, size=size, source=masks))


def _rows_and_columns(size: str) -> tuple[int, int]:
    """Rows and columns of ``480x320`` or ``128``, which name the width first."""
    parts = size.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"size must be like 128 or 480x320, got {size!r}")
    return int(parts[-1]), int(parts[0])
