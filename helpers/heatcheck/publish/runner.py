"""Chapters executed with papermill: all or nothing, named when they fail, skipped when current."""

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
import papermill
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from tqdm import tqdm

from heatcheck.publish import notebook
from heatcheck.publish.errors import Failure, RunError, StoppedError
from heatcheck.publish.kernel import OwnManager, death, kernel_environment, relayed, this_python_kernel
from heatcheck.publish.places import check_writable, fresh_results, put_back_results
from heatcheck.publish.plan import Job

Say = Callable[[str], None]


def run_jobs(
    jobs: Sequence[Job], *, force: bool = False, timeout: float | None = None, say: Say = lambda _: None
) -> list[Path]:
    """Paths of the executed notebooks, in order; what is current is not run again.

    A failing chapter does not stop the others. Its last good notebook and results stay.

    Args:
        jobs: The chapters.
        force: Run also what is current.
        timeout: Seconds one chapter may take.
        say: Where progress goes, line by line.

    Raises:
        RunError: Chapters failed; the message names each with its cell and exception.
        StoppedError: The user ended the run.
        PublishError: The output folder cannot be written.
    """
    failures: list[Failure] = []
    for job in jobs:
        put_back_results(job.places.results(job.chapter.name))
        if job.current and not force:
            say(f"{job.chapter.name}: up to date")
            continue
        try:
            run_job(job, timeout=timeout, say=say)
        except RunError as error:
            failures.extend(error.failures)
            say(f"{job.chapter.name}: failed")
    if failures:
        raise RunError(tuple(failures))
    return [job.places.notebook(job.chapter.name) for job in jobs]


def run_job(job: Job, *, timeout: float | None = None, say: Say = lambda _: None) -> Path:
    """Path of the executed notebook; see ``run_jobs``."""
    name, places = job.chapter.name, job.places
    check_writable(places.chapters)
    check_writable(places.results(name).parent)
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="heatcheck-") as scratch,
        fresh_results(places.results(name)) as out,
    ):
        node = _execute(job, Path(scratch), timeout, say)
        _check_outputs(name, node)
        notebook.write_notebook(
            notebook.tidy(node, {**job.facts, "exports": _files(out)}), places.notebook(name)
        )
    places.failed(name).unlink(missing_ok=True)
    say(f"{name}: done in {time.monotonic() - started:.0f} s")
    return places.notebook(name)


def _execute(job: Job, scratch: Path, timeout: float | None, say: Say) -> NotebookNode:
    """Executed notebook of ``job``; when it fails, its remains go beside the last good one."""
    name, log = job.chapter.name, scratch / "kernel.log"
    environment = kernel_environment(os.environ, scratch)
    reached: list[NotebookNode] = []
    with (
        _quiet_papermill(),
        relayed(scratch / "progress", say),
        this_python_kernel(job.places.root, environment, log) as manager,
    ):
        try:
            return _papermill(job, scratch / "partial.ipynb", manager, _reporter(job, reached, say), timeout)
        except (PapermillExecutionError, RuntimeError, KeyboardInterrupt, TimeoutError) as error:
            _keep_remains(job, scratch / "partial.ipynb")
            place = _place(job, reached)
            # nbclient ends the kernel on Ctrl-C; a kernel that died by itself is still managed.
            if isinstance(error, KeyboardInterrupt) or not manager.has_kernel:
                raise StoppedError(
                    f"{name}: stopped at {place}; finished results are kept, run again to go on"
                ) from error
            died = death(manager, log) if isinstance(error, DeadKernelError) else None
            raise RunError((Failure(name, f"{place}: {died or _reason(error, timeout)}"),)) from error


def _papermill(
    job: Job, partial: Path, manager: OwnManager, at_cell: Callable[..., None], timeout: float | None
) -> NotebookNode:
    return papermill.execute_notebook(
        notebook.with_parameters(job.chapter, job.values),
        # papermill formats the path with the parameters.
        str(partial).replace("{", "{{").replace("}", "}}"),
        progress_bar={"desc": job.chapter.name} if sys.stderr.isatty() else False,
        km=manager,
        on_cell_start=at_cell,
        timeout_func=None if timeout is None else _countdown(timeout),
    )


def _countdown(seconds: float) -> Callable[[NotebookNode], float]:
    """What nbclient asks for the seconds a cell may take: what is left since the first cell began."""
    ends: list[float] = []

    def left(_cell: NotebookNode) -> float:
        if not ends:
            ends.append(time.monotonic() + seconds)
        return max(0.01, ends[0] - time.monotonic())

    return left


def _reporter(job: Job, reached: list[NotebookNode], say: Say) -> Callable[..., None]:
    """What nbclient calls before each cell: notes it and, without a progress bar, says so."""
    count, bar = len(job.chapter.node.cells), sys.stderr.isatty()

    def at_cell(cell: NotebookNode, cell_index: int) -> None:
        if cell.cell_type != "code" or not cell.source.strip():
            return
        reached.append(cell)
        if not bar and not {"parameters", "injected-parameters"} & set(cell.metadata.get("tags", [])):
            say(f"{job.chapter.name}: cell {_number(cell)} of {count}: {_first_line(cell)[:60]}")

    return at_cell


def _keep_remains(job: Job, partial: Path) -> None:
    if partial.exists():
        node = notebook.tidy(nbformat.read(partial, as_version=4), job.facts | {"key": None})
        notebook.write_notebook(node, job.places.failed(job.chapter.name))


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _check_outputs(name: str, node: NotebookNode) -> None:
    # papermill lets a cell end the notebook with SystemExit; a page that stops half-way is none.
    errors = notebook.errors_in(node)
    if errors:
        raise RunError((Failure(name, f"{errors[0]}; a notebook must run to its end"),))


def _place(job: Job, reached: Sequence[NotebookNode]) -> str:
    """Where a run was: file, line, cell and its first line."""
    file = f"nbs/{job.chapter.path.name}"
    if not reached or reached[-1].id == notebook.INJECTED:
        return f"{file}, before its first cell"
    cell = reached[-1]
    before, found, _ = job.chapter.text.partition(cell.source)
    line = f":{before.count(chr(10)) + 1}" if found else ""
    return f"{file}{line}, cell {_number(cell)} `{_first_line(cell)[:80]}`"


def _number(cell: NotebookNode) -> int:
    return int(str(cell.id).removeprefix("cell-"))


def _first_line(cell: NotebookNode) -> str:
    return next(line.strip() for line in str(cell.source).splitlines() if line.strip())


def _reason(error: BaseException, timeout: float | None) -> str:
    if isinstance(error, PapermillExecutionError):
        return f"{error.ename}: {(error.evalue.strip().splitlines() or [''])[0][:300]}"
    if isinstance(error, CellTimeoutError):
        return f"still running after {timeout:g} s; raise --timeout or choose a smaller preset"
    return f"{type(error).__name__}: {error}"


@contextmanager
def _quiet_papermill() -> Iterator[None]:
    """Papermill logs what is raised as well; once is enough."""
    logger = logging.getLogger("papermill")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def tell(line: str) -> None:
    """Write ``line`` to the error stream, above a progress bar if there is one."""
    tqdm.write(line, file=sys.stderr)
