"""A chapter's figures and tables in one folder, for a paper."""

import shutil
from pathlib import Path

from heatcheck.publish.errors import PublishError
from heatcheck.publish.places import Places, check_chapter, check_writable, is_unfinished

SUFFIXES = (".svg", ".pdf", ".csv", ".tex")


def export(places: Places, chapter: str, folder: Path) -> list[Path]:
    """Paths of the copies of all figures (SVG, PDF) and tables (CSV, LaTeX) of the chapter's last run.

    Files in subfolders come to lie beside the others, the subfolder's name in front.

    Raises:
        ValueError: No such chapter.
        PublishError: The chapter has no results, is running now, or ``folder`` cannot be written.
    """
    results = places.results(check_chapter(places, chapter))
    if is_unfinished(results):
        raise PublishError(f"{chapter} is running or was stopped; let it finish: heatcheck run {chapter}")
    files = [path for path in sorted(results.rglob("*")) if path.is_file() and path.suffix in SUFFIXES]
    if not files:
        raise PublishError(f"{results} holds no figure or table; run: heatcheck run {chapter}")
    check_writable(folder)
    copies = []
    for file in files:
        copy = folder / "-".join(file.relative_to(results).parts)
        shutil.copyfile(file, copy)
        copies.append(copy)
    return copies
