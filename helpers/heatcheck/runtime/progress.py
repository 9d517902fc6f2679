"""Progress of long loops: a bar on a terminal, plain lines elsewhere."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")

# A notebook's kernel has no terminal: the runner names a file here and shows what is written to it.
PROGRESS_FILE = "HEATCHECK_PROGRESS_FILE"
_SECONDS_BETWEEN_LINES = 5.0


def progress(items: Iterable[Item], *, label: str, total: int | None = None) -> Iterator[Item]:
    """``items`` one by one, reporting how many are done of ``total``, which sequences know by themselves.

    On a terminal this is a tqdm bar on the error stream. With ``HEATCHECK_PROGRESS_FILE`` set, plain lines
    are appended to that file; otherwise nothing is written, so that logs and notebooks stay clean.
    """
    total = len(items) if isinstance(items, Sized) else total
    if sys.stderr.isatty():
        yield from tqdm(items, desc=label, total=total)
        return
    target = os.environ.get(PROGRESS_FILE)
    if target is None:
        yield from items
        return
    last = 0.0
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES or done == total:
            with Path(target).open("a", encoding="utf-8") as file:
                file.write(f"{label}: {done}/{total}\n")
            last = now
