"""Photographs decoded once: a uint8 array on disk that is mapped into memory instead of read.

A run that stops leaves a part file and a journal of finished blocks with their checksums; the next run
decodes only what is missing, and the array appears under its name when every block is right.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from heatcheck.data.loading import map_threads
from heatcheck.data.preprocessing import Pixels, crop_pixels, get_mode, to_images
from heatcheck.runtime.blocks import (
    BLOCK,
    BlockFiles,
    block_files,
    finished_blocks,
    first_damaged,
    publish_array,
    start_array,
    write_block,
)
from heatcheck.runtime.progress import progress

FORMAT = 1
_PASSES = 3


@dataclass(frozen=True)
class DecodedImages:
    """Crops of photographs on disk.

    Attributes:
        ids: ``N`` names.
        pixels: ``(N, size, size, 3)`` uint8 RGB, mapped read-only; a slice reads only its own images.
        mode: Preprocessing they went through.
        path: The file behind ``pixels``.
    """

    ids: tuple[str, ...]
    pixels: Pixels
    mode: str
    path: Path

    def __len__(self) -> int:
        return len(self.ids)

    def images(self, rows: Sequence[int]) -> Tensor:
        """Images at ``rows``, ``(n, 3, size, size)`` float32 in [0, 1]."""
        return to_images(self.pixels[list(rows)])


def decode_once(
    ids: Sequence[str],
    paths: Sequence[Path],
    folder: Path | str,
    *,
    mode: str = "squash256",
    size: int = 224,
    workers: int | None = None,
    verify: bool = False,
) -> DecodedImages:
    """Crops of all photographs, decoded now or by an earlier run.

    The array is found again by names, sizes of the files in bytes, preprocessing and size.

    Args:
        ids: ``N`` names.
        paths: ``N`` image files.
        folder: Where arrays are kept; made when missing.
        mode: Preprocessing; ``short224`` with ``size=256`` keeps everything that later random crops need.
        size: Side of the crop in pixels.
        workers: Threads that decode; the result does not depend on it.
        verify: Check every block of a finished array against its checksum.

    Raises:
        FileNotFoundError: An image is missing.
        ValueError: An image or a finished array is damaged; the message names it.
        OSError: The folder cannot be written, or the disk is full.
    """
    get_mode(mode)
    if len(ids) != len(paths):
        raise ValueError(f"{len(ids)} ids, but {len(paths)} paths; every image needs both")
    work = block_files(Path(folder), _key(ids, paths, mode, size))
    if not work.manifest.is_file():
        try:
            _decode(work, ids, paths, mode=mode, size=size, workers=workers)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise OSError(
                f"cannot write decoded images to {folder}: {error}; name a folder you may write with "
                f"{len(ids) * size * size * 3 / 1e9:.1f} GB free"
            ) from error
    return _open(work, verify=verify)


def _key(ids: Sequence[str], paths: Sequence[Path], mode: str, size: int) -> str:
    digest = hashlib.sha256(f"{FORMAT} {mode} {size} {BLOCK}\n".encode())
    for name, path in zip(ids, paths, strict=True):
        try:
            digest.update(f"{name} {path.stat().st_size}\n".encode())
        except FileNotFoundError as error:
            raise FileNotFoundError(f"image {path} is missing") from error
    return digest.hexdigest()[:24]


def _decode(
    work: BlockFiles, ids: Sequence[str], paths: Sequence[Path], *, mode: str, size: int, workers: int | None
) -> None:
    shape = (len(ids), size, size, 3)
    start_array(work, shape)
    blocks = range(0, len(ids), BLOCK)
    # What was written is read again before the array counts as finished: another process may have started
    # the same work, or the disk may have failed.
    for _ in range(_PASSES):
        digests = finished_blocks(work, shape, BLOCK)
        missing = [start for start in blocks if start not in digests]
        if not missing:
            _publish(work, ids, mode, size, [digests[start] for start in blocks])
            return
        for start in progress(missing, label="decoding images"):
            part = paths[start : start + BLOCK]
            pixels = np.stack(map_threads(lambda path: crop_pixels(path, mode, size), part, workers))
            write_block(work, start, pixels)
    raise OSError(f"{work.part} does not hold what was written to it; check the disk")


def _publish(work: BlockFiles, ids: Sequence[str], mode: str, size: int, digests: list[str]) -> None:
    manifest = {
        "format": FORMAT,
        "mode": mode,
        "size": size,
        "block": BLOCK,
        "sha256": digests,
        "ids": list(ids),
    }
    publish_array(work, manifest)


def _open(work: BlockFiles, *, verify: bool) -> DecodedImages:
    advice = f"delete {work.manifest} and {work.final} to decode the images again"
    try:
        manifest = json.loads(work.manifest.read_text(encoding="utf-8"))
        pixels = np.load(work.final, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"decoded images {work.final} are damaged ({error}); {advice}") from error
    ids = tuple(manifest["ids"])
    if pixels.shape != (len(ids), manifest["size"], manifest["size"], 3):
        raise ValueError(f"decoded images {work.final} have the shape {pixels.shape}; {advice}")
    if verify:
        wrong = first_damaged(pixels, manifest["sha256"], manifest["block"])
        if wrong is not None:
            raise ValueError(
                f"decoded images {work.final} differ from their checksum from row {wrong}; {advice}"
            )
    return DecodedImages(ids, pixels, manifest["mode"], work.final)
