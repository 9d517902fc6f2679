"""Progress of long loops: a bar on a terminal, plain lines elsewhere."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")

# A notebook's kernel has no terminal: the runner names a file here and shows what is written to it.
PROGRESS_FILE = "HEATCHECK_PROGRESS_FILE"
_SECONDS_BETWEEN_LINES = 5.0


def progress(items: Sequence[Item], *, label: str) -> Iterator[Item]:
    """``items`` one by one, reporting how many are done.

    On a terminal this is a tqdm bar on the error stream. With ``HEATCHECK_PROGRESS_FILE`` set, plain lines
    are appended to that file; otherwise nothing is written, so that logs and notebooks stay clean.
    """
    if sys.stderr.isatty():
        yield from tqdm(items, desc=label)
        return
    target = os.environ.get(PROGRESS_FILE)
    if target is None:
        yield from items
        return
    last = 0.0
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES or done == len(items):
            with Path(target).open("a", encoding="utf-8") as file:
                file.write(f"{label}: {done}/{len(items)}\n")
            last = now
