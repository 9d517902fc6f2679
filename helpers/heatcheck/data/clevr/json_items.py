"""A list in a large JSON file, item by item: only the text and one item are in memory at a time."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def json_items(path: Path | str, key: str) -> Iterator[dict[str, Any]]:
    """Objects of the list under the top-level key ``key``, in order.

    The questions of CLEVR take many times the size of their file once they are all Python objects.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no JSON object, is cut short, or has no list of objects under ``key``.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"file {path} is missing") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"file {path} cannot be read ({error}); it must be JSON in UTF-8") from error
    try:
        place = _find_list(text, key)
        if place is None:
            raise ValueError(f"there is no list {key!r} at the top level")
        yield from _items(text, place, key)
    except ValueError as error:
        raise ValueError(
            f"file {path} is damaged or cut short: {error}; it must be a JSON object with a list of objects "
            f"under {key!r}"
        ) from error


def _find_list(text: str, key: str) -> int | None:
    """Place behind the bracket that opens the list; None where there is no such list."""
    place = _expect(text, 0, "{")
    while not text.startswith("}", place):
        name, place = _DECODER.raw_decode(text, place)
        place = _expect(text, place, ":")
        if name == key:
            return _expect(text, place, "[")
        _, place = _DECODER.raw_decode(text, place)
        place = _next(text, place, "}")
    return None


def _items(text: str, start: int, key: str) -> Iterator[dict[str, Any]]:
    place = start
    while not text.startswith("]", place):
        item, place = _DECODER.raw_decode(text, place)
        if not isinstance(item, dict):
            raise ValueError(f"an item of {key!r} is {type(item).__name__}, no object")
        yield item
        place = _next(text, place, "]")


def _expect(text: str, place: int, mark: str) -> int:
    """Place of what follows ``mark``, which must be next."""
    found = _skip(text, place)
    if not text.startswith(mark, found):
        raise ValueError(f"needed is {mark!r} at character {found}, got {text[found : found + 10]!r}")
    return _skip(text, found + 1)


def _next(text: str, place: int, end: str) -> int:
    """Place of the next item behind a comma, or of ``end``."""
    found = _skip(text, place)
    return found if text.startswith(end, found) else _expect(text, found, ",")


def _skip(text: str, place: int) -> int:
    blank = _BLANK.match(text, place)
    return place if blank is None else blank.end()
