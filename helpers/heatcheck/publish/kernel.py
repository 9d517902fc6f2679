"""A Jupyter kernel of this very Python, and the lines its long loops report."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_core.utils import run_sync

from heatcheck.publish.errors import PublishError
from heatcheck.runtime.progress import PROGRESS_FILE

_SECONDS_BETWEEN_LOOKS = 0.3


class OwnManager(KernelManager):
    """Kernel manager that knows its clients: nbclient leaves those of a manager it was given open."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.clients: list[BlockingKernelClient] = []

    def client(self, **options: Any) -> BlockingKernelClient:
        """A client for the kernel, to be closed with it."""
        client = super().client(**options)
        self.clients.append(client)
        return client

    def close(self) -> None:
        """End the kernel and all clients."""
        for client in self.clients:
            client.stop_channels()
        if self.has_kernel:
            self.shutdown_kernel(now=True)


def kernel_environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Environment a notebook runs in: the user's, with what makes runs repeatable where it says nothing.

    Args:
        environment: The user's environment.
        scratch: Folder of the run; progress lines and IPython's own files go there.
    """
    # Two threads on two busy cores are slower than one, and one thread repeats bytes exactly.
    defaults = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    # Without widgets a library's first import would print a warning with this machine's paths.
    quiet = "ignore:IProgress not found"
    warnings = ",".join(part for part in (quiet, environment.get("PYTHONWARNINGS", "")) if part)
    own = {"PYTHONWARNINGS": warnings, PROGRESS_FILE: str(scratch / "progress"), "IPYTHONDIR": str(scratch)}
    return {**defaults, **environment, **own}


@contextmanager
def this_python_kernel(folder: Path, environment: Mapping[str, str], log: Path) -> Iterator[OwnManager]:
    """Manager of a running kernel; the kernel ends with the block, however that is left.

    No installed kernel specification is looked at: the kernel is the Python that runs this.

    Args:
        folder: Working directory of the kernel.
        environment: Its environment variables.
        log: File for what the kernel writes outside of cells.

    Raises:
        PublishError: The kernel does not start.
    """
    manager = OwnManager(
        kernel_name=NATIVE_KERNEL_NAME,
        kernel_spec_manager=KernelSpecManager(kernel_dirs=[], ensure_native_kernel=True),
        client_class="jupyter_client.asynchronous.AsyncKernelClient",  # what nbclient talks through
    )
    with log.open("wb") as file:
        try:
            manager.start_kernel(cwd=str(folder), env=dict(environment), stdout=file, stderr=file)
        except OSError as error:
            raise PublishError(f"no kernel starts from {sys.executable}: {error}") from error
        try:
            yield manager
        finally:
            manager.close()


@contextmanager
def relayed(progress: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Within the block, every line that is appended to the file ``progress`` is said as it arrives."""
    ended = threading.Event()

    def follow() -> None:
        position = 0
        while True:
            last = ended.wait(_SECONDS_BETWEEN_LOOKS)
            position = _say_new_lines(progress, position, say)
            if last:
                return

    thread = threading.Thread(target=follow, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def death(manager: OwnManager, log: Path) -> str:
    """How a kernel that died by itself ended, and the last thing it said."""
    code = None if manager.provisioner is None else run_sync(manager.provisioner.poll)()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if line.strip() and not line.startswith("[IPKernelApp]")]
    end = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    memory = "; the system does that when memory runs out" if code == -signal.SIGKILL else ""
    return f"the notebook's process ended with {end}{memory}" + (f" ({said[-1][:200]})" if said else "")


def _say_new_lines(progress: Path, position: int, say: Callable[[str], None]) -> int:
    if not progress.exists():
        return position
    with progress.open("rb") as file:
        file.seek(position)
        new = file.read()
    complete = new[: new.rfind(b"\n") + 1]
    for line in complete.decode("utf-8", errors="replace").splitlines():
        say(line)
    return position + len(complete)
