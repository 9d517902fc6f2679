"""Tables on the terminal."""

from collections.abc import Sequence
from typing import Any

# Longer entries would push the last column, the meaning, off the screen.
_WIDEST = 60


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of a table with aligned columns; long entries are cut, except in the last column."""
    cut = [[*(_cut(cell) for cell in row[:-1]), row[-1]] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cut) for column in range(len(header) - 1)]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] + [row[-1]] for row in cut]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def data_text(name: str | None = None) -> str:
    """All data sets, one per line; with a name, all about one.

    Raises:
        ValueError: No such data set.
    """
    # Imported here because torch, behind it, takes seconds.
    from heatcheck.data.catalog import describe  # noqa: PLC0415

    sets = {item.name: item for item in describe()}
    if name is None:
        rows = [
            (item.name, item.kind, str(item.n or "any"), _yes(item.present), item.licence, item.where)
            for item in sets.values()
        ]
        return format_table(("data set", "kind", "images", "present", "licence", "where"), rows)
    if name not in sets:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(sets)}")
    item = sets[name]
    return "\n".join([f"{item.name}: {item.about}", f"{item.licence}; {item.where}", *item.details])


def type_name(annotation: Any) -> str:
    """How an annotation is written."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def default_text(value: Any) -> str:
    """How an option's default is shown."""
    return "required" if type(value).__name__ == "PydanticUndefinedType" else repr(value)


def _yes(there: bool) -> str:
    return "yes" if there else "no"


def _cut(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 4]} ..."
