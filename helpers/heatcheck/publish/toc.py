"""The order of chapters, as the book's table of contents has it."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from heatcheck.publish.places import Places, chapter_names


def ordered_chapters(places: Places) -> list[str]:
    """Names of all chapters: those of the book in its order, then the others."""
    names = chapter_names(places)
    return list(dict.fromkeys([*(name for name in toc_chapters(places.root) if name in names), *names]))


def toc_chapters(root: Path) -> list[str]:
    """Names of the executed notebooks that ``_toc.yml`` below ``root`` lists, in its order.

    Raises:
        ValueError: The file is no YAML.
    """
    try:
        content = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{root / '_toc.yml'} is no YAML: {error}") from error
    names = (Path(file) for file in _toc_files(content))
    return [path.name for path in names if path.parent == Path("book/chapters")]


def _toc_files(part: object) -> Iterator[str]:
    if isinstance(part, list):
        for item in part:
            yield from _toc_files(item)
    if isinstance(part, dict):
        if isinstance(part.get("file"), str):
            yield part["file"]
        for item in part.values():
            yield from _toc_files(item)
