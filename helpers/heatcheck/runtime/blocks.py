"""Large byte arrays on disk, written block by block: a run that stops goes on where it was.

Rows are written to a part file, and a journal keeps the checksum of every finished block. The array appears
under its name, with a manifest beside it, when every block is what its checksum says.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heatcheck.runtime.files import write_whole

Bytes = NDArray[np.uint8]
# Rows per block.
BLOCK = 256


class BlockFiles(NamedTuple):
    """Files of one array: finished, in the making, the journal of its blocks, and the manifest."""

    final: Path
    part: Path
    journal: Path
    manifest: Path


def block_files(folder: Path, key: str) -> BlockFiles:
    """Files of the array called ``key``."""
    return BlockFiles(*(folder / f"{key}.{suffix}" for suffix in ("npy", "part", "journal", "json")))


def start_array(files: BlockFiles, shape: Sequence[int]) -> None:
    """Make the part file for ``shape``, rows first, unless there is one; nothing is written to its rows."""
    files.final.parent.mkdir(parents=True, exist_ok=True)
    if files.part.exists():
        return
    scratch = files.part.with_name(f".{files.part.name}.{os.getpid()}")
    with scratch.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": tuple(shape)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + int(np.prod(shape)))
    scratch.replace(files.part)


def write_block(files: BlockFiles, start: int, rows: Bytes) -> None:
    """Write ``rows`` from row ``start`` on, and then their checksum to the journal."""
    content = np.ascontiguousarray(rows).tobytes()
    with files.part.open("r+b") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        file.seek(start * rows[0].nbytes, os.SEEK_CUR)
        file.write(content)
    with files.journal.open("a", encoding="utf-8") as file:
        file.write(f"{start} {hashlib.sha256(content).hexdigest()}\n")


def finished_blocks(files: BlockFiles, shape: Sequence[int], block: int = BLOCK) -> dict[int, str]:
    """Checksum by first row of every block of the part file that is what the journal says.

    Raises:
        ValueError: The part file has another shape.
    """
    if not files.journal.exists():
        return {}
    array = np.load(files.part, mmap_mode="r")
    if array.shape != tuple(shape):
        raise ValueError(f"{files.part} is damaged; delete it and {files.journal}")
    # A run killed while writing leaves half a last line.
    lines = [line.split() for line in files.journal.read_text(encoding="utf-8").splitlines()]
    claimed = {int(words[0]): words[1] for words in lines if len(words) == 2 and words[0].isdecimal()}
    return {start: digest for start, digest in claimed.items() if block_digest(array, start, block) == digest}


def block_digest(array: Bytes, start: int, block: int = BLOCK) -> str:
    """Checksum of the rows of a block."""
    return hashlib.sha256(array[start : start + block].tobytes()).hexdigest()


def publish_array(files: BlockFiles, manifest: Mapping[str, Any]) -> None:
    """Give the part file its name and write ``manifest`` beside it; then the array is whole."""
    try:
        files.part.replace(files.final)
    except FileNotFoundError:
        # Another process finished the same array first.
        if not files.final.exists():
            raise
    # The manifest comes last: where it is, the array is whole.
    write_whole(files.manifest, json.dumps(manifest).encode())
    files.journal.unlink(missing_ok=True)


def first_damaged(array: Bytes, digests: Sequence[str], block: int = BLOCK) -> int | None:
    """First row of the first block that differs from its checksum, or None."""
    starts = range(0, len(array), block)
    wrong = (s for s, digest in zip(starts, digests, strict=True) if block_digest(array, s, block) != digest)
    return next(wrong, None)
