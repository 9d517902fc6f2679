"""The book as HTML: built beside the last one, which it replaces only when it is whole."""

import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from heatcheck.publish.errors import PublishError
from heatcheck.publish.notebook import stored_errors
from heatcheck.publish.places import Places, check_writable, put_back_results, stage
from heatcheck.publish.toc import toc_chapters

# jupyter-book is no module that Python could run by name.
_JUPYTER_BOOK = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
# Warnings are errors, references must resolve, all warnings are listed, and no old page is reused.
_OPTIONS = ("--all", "-W", "-n", "--keep-going", "-q")
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can hold; the same pages give the same bytes


def build_html(places: Places) -> Path:
    """Path of ``index.html`` of the freshly built book; when the build fails the last pages stay.

    Raises:
        PublishError: Jupyter Book is missing or of another version, a chapter has no notebook or holds an
            exception, or the build warned about anything.
    """
    _check_jupyter_book()
    for results in (places.base / "book" / "results").glob("*/latest"):
        put_back_results(results)
    stage(places)
    _check_notebooks(places)
    work = check_writable(places.base / "_build" / "work")
    log = places.log("book")
    command = [
        sys.executable,
        "-c",
        _JUPYTER_BOOK,
        "build",
        str(places.base),
        "--path-output",
        str(work),
        *_OPTIONS,
    ]
    with log.open("w", encoding="utf-8") as file:
        code = subprocess.run(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=places.base, check=False
        ).returncode
    built = work / "_build" / "html"
    if code or not (built / "index.html").exists():
        raise PublishError(_complaint(log))
    shutil.rmtree(places.html, ignore_errors=True)
    shutil.move(built, places.html)
    shutil.rmtree(work)
    return places.html / "index.html"


def zip_html(places: Places, path: Path) -> Path:
    """Path of a zip of the built book, readable without a network or a server once unpacked.

    Raises:
        PublishError: There is no built book, or the file cannot be written.
    """
    if not (places.html / "index.html").exists():
        raise PublishError(f"{places.html} holds no book; run: heatcheck build")
    files = sorted(file for file in places.html.rglob("*") if file.is_file())
    try:
        with zipfile.ZipFile(path, "w") as archive:
            for file in files:
                name = f"heatcheck/{file.relative_to(places.html).as_posix()}"
                entry = zipfile.ZipInfo(name, _ZIP_DATE)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    except OSError as error:
        raise PublishError(
            f"cannot write {path}: {error.strerror}; name a file in a folder you may write"
        ) from error
    return path


def _check_jupyter_book() -> None:
    install = "install the book extra: pip install -e '.[book]'"
    try:
        version = importlib.metadata.version("jupyter-book")
    except importlib.metadata.PackageNotFoundError as error:
        raise PublishError(
            f"building the book needs jupyter-book, which is not installed; {install}"
        ) from error
    if not version.startswith("1."):
        raise PublishError(f"jupyter-book {version} is installed, the book needs version 1; {install}")


def _check_notebooks(places: Places) -> None:
    """Jupyter Book would publish a stored traceback and drop a missing chapter."""
    names = toc_chapters(places.root)
    missing = [name for name in names if not places.notebook(name).exists()]
    if missing:
        raise PublishError(
            f"no executed notebook of {', '.join(missing)}; run: heatcheck run {' '.join(missing)}"
        )
    errors = [error for name in names for error in stored_errors(places.notebook(name))]
    if errors:
        raise PublishError("\n".join(["notebooks hold exceptions; run these chapters again:", *errors]))


def _complaint(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    wanted = [line for line in lines if any(word in line for word in ("WARNING", "ERROR", "Error:"))]
    shown = list(dict.fromkeys(wanted or lines[-10:]))[:40]
    return "\n".join([f"the book has faults, the last pages are kept (all messages: {log})", *shown])
