"""Files that are whole or not there."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` beside ``path``, then rename: no reader ever sees half a file.

    Raises:
        OSError: The folder cannot be written; nothing is left behind then.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_bytes(content)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
