"""Where a checkout keeps its chapters, and where what is made from them goes."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from heatcheck.publish.errors import PublishError

# What jupyter-book reads besides `book/`; notebooks are there for pages that quote them.
_TOP_FILES = ("_config.yml", "_toc.yml")
_MORE_FILES = ("README.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE")


class Places(NamedTuple):
    """Folders of a checkout.

    Attributes:
        root: The repository; notebooks run here.
        base: Where generated files go: the repository itself, or the folder of a trial run.
    """

    root: Path
    base: Path

    @property
    def html(self) -> Path:
        """Folder of the built pages."""
        return self.base / "_build" / "html"

    @property
    def chapters(self) -> Path:
        """Folder of the executed notebooks."""
        return self.base / "book" / "chapters"

    def source(self, chapter: str) -> Path:
        """The notebook as it is written."""
        return self.root / "nbs" / f"{chapter}.py"

    def notebook(self, chapter: str) -> Path:
        """The executed notebook: the last that ran through."""
        return self.chapters / f"{chapter}.ipynb"

    def failed(self, chapter: str) -> Path:
        """What a failing run left, for a look at its traceback."""
        return self.chapters / f"{chapter}.failed.ipynb"

    def results(self, chapter: str) -> Path:
        """Folder of the figures and tables of the chapter's last good run."""
        return self.base / "book" / "results" / chapter / "latest"

    def log(self, name: str) -> Path:
        """File for the messages of a tool."""
        return self.base / "_build" / f"{name}.log"

    def shown(self, path: Path) -> str:
        """``path`` from the repository's root where it lies below it, so that pages name no machine."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)


def find_places(start: Path, into: Path | None = None) -> Places:
    """Folders of the checkout that ``start`` lies in.

    Args:
        start: Any folder of the checkout.
        into: Where generated files go; by default the checkout itself.

    Raises:
        ValueError: ``start`` is in no checkout, or ``into`` would overwrite it.
    """
    start = start.resolve()
    root = next((folder for folder in (start, *start.parents) if _is_checkout(folder)), None)
    if root is None:
        raise ValueError(
            f"{start} is in no checkout of the book: no folder from there up has nbs/ and _toc.yml; "
            "clone the repository and run heatcheck inside it"
        )
    base = root if into is None else (start / into).resolve()
    if into is not None and root.is_relative_to(base):
        raise ValueError(f"--into {into} is the checkout itself or holds it; name another folder")
    return Places(root, base)


def chapter_names(places: Places) -> tuple[str, ...]:
    """Names of all chapters, sorted."""
    return tuple(sorted(path.stem for path in (places.root / "nbs").glob("*.py")))


def check_chapter(places: Places, chapter: str) -> str:
    """``chapter``, when there is one of that name.

    Raises:
        ValueError: No such chapter; the message lists those there are.
    """
    names = chapter_names(places)
    if chapter not in names:
        raise ValueError(
            f"unknown chapter {chapter!r}; {places.root / 'nbs'} has: {', '.join(names) or 'none'}"
        )
    return chapter


def check_writable(folder: Path) -> Path:
    """``folder``, made when absent.

    Raises:
        PublishError: It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise PublishError(
            f"cannot write into {folder}: {error.strerror}; name a folder you may write with --into"
        ) from error


@contextmanager
def fresh_results(folder: Path) -> Iterator[Path]:
    """Empty ``folder`` within the block; when the block raises, what was there before comes back.

    Raises:
        PublishError: Another process is inside such a block for the same folder.
    """
    with _locked(folder):
        _put_back(folder)
        kept = _kept(folder)
        if folder.exists():
            folder.rename(kept)
        folder.mkdir(parents=True)
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder)
            if kept.exists():
                kept.rename(folder)
            raise
        shutil.rmtree(kept, ignore_errors=True)


def put_back_results(folder: Path) -> None:
    """Undo what a run that was killed left in ``folder``.

    Raises:
        PublishError: That run is still going on.
    """
    if is_unfinished(folder):
        with _locked(folder):
            _put_back(folder)


def is_unfinished(folder: Path) -> bool:
    """Whether ``folder`` is being filled, or was when its run was killed."""
    return _kept(folder).exists()


def _kept(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.kept")


def _put_back(folder: Path) -> None:
    if is_unfinished(folder):
        shutil.rmtree(folder, ignore_errors=True)
        _kept(folder).rename(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = FileLock(folder.with_name(f".{folder.name}.lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise PublishError(f"{folder} is being filled by another run; wait for it to end") from error
    try:
        yield
    finally:
        lock.release()


def stage(places: Places) -> None:
    """Copy the book's pages to ``places.base``, unless that is the checkout; generated files stay behind."""
    if places.base == places.root:
        return
    for name in _TOP_FILES:
        shutil.copy2(places.root / name, check_writable(places.base) / name)
    for name in _MORE_FILES:
        if (places.root / name).exists():
            shutil.copy2(places.root / name, places.base / name)
    for folder in ("book", "nbs"):
        shutil.copytree(
            places.root / folder, places.base / folder, ignore=_generated(places), dirs_exist_ok=True
        )


def _generated(places: Places) -> Callable[[str, list[str]], set[str]]:
    chapters, results = places.root / "book" / "chapters", places.root / "book" / "results"

    def names(folder: str, entries: list[str]) -> set[str]:
        here = Path(folder)
        if here == places.root / "book" and chapters.exists():
            return {"chapters"}
        of_run = {name for name in entries if name == "latest" or name.startswith(".")}
        return of_run if here.parent == results else {name for name in entries if name == "__pycache__"}

    return names


def _is_checkout(folder: Path) -> bool:
    return (folder / "nbs").is_dir() and (folder / "_toc.yml").is_file()
