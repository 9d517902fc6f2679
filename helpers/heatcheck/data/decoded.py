"""Photographs decoded once: a uint8 array on disk that is mapped into memory instead of read.

A run that stops leaves a part file and a journal of finished blocks with their checksums; the next run
decodes only what is missing, and the array appears under its name when every block is right.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from heatcheck.data.loading import map_threads
from heatcheck.data.preprocessing import Pixels, crop_pixels, get_mode, to_images
from heatcheck.runtime.progress import progress

FORMAT = 1
BLOCK = 256
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


class _Work(NamedTuple):
    """Files of one array: finished, in the making, the journal of its blocks, and the manifest."""

    final: Path
    part: Path
    journal: Path
    manifest: Path


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
    work = _files(Path(folder), _key(ids, paths, mode, size))
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


def _files(folder: Path, key: str) -> _Work:
    return _Work(*(folder / f"{key}.{suffix}" for suffix in ("npy", "part", "journal", "json")))


def _key(ids: Sequence[str], paths: Sequence[Path], mode: str, size: int) -> str:
    digest = hashlib.sha256(f"{FORMAT} {mode} {size} {BLOCK}\n".encode())
    for name, path in zip(ids, paths, strict=True):
        try:
            digest.update(f"{name} {path.stat().st_size}\n".encode())
        except FileNotFoundError as error:
            raise FileNotFoundError(f"image {path} is missing") from error
    return digest.hexdigest()[:24]


def _decode(
    work: _Work, ids: Sequence[str], paths: Sequence[Path], *, mode: str, size: int, workers: int | None
) -> None:
    shape = (len(ids), size, size, 3)
    work.final.parent.mkdir(parents=True, exist_ok=True)
    if not work.part.exists():
        _start(work.part, shape)
    blocks = range(0, len(ids), BLOCK)
    # What was written is read again before the array counts as finished: another process may have started
    # the same work, or the disk may have failed.
    for _ in range(_PASSES):
        digests = _finished(work, shape)
        missing = [start for start in blocks if start not in digests]
        if not missing:
            _publish(work, ids, mode, size, [digests[start] for start in blocks])
            return
        for start in progress(missing, label="decoding images"):
            part = paths[start : start + BLOCK]
            pixels = np.stack(map_threads(lambda path: crop_pixels(path, mode, size), part, workers))
            _write_block(work, start, pixels)
    raise OSError(f"{work.part} does not hold what was written to it; check the disk")


def _start(part: Path, shape: tuple[int, ...]) -> None:
    scratch = part.with_name(f".{part.name}.{os.getpid()}")
    with scratch.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        file.truncate(file.tell() + int(np.prod(shape)))
    scratch.replace(part)


def _write_block(work: _Work, start: int, pixels: Pixels) -> None:
    content = pixels.tobytes()
    with work.part.open("r+b") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        file.seek(start * pixels[0].nbytes, os.SEEK_CUR)
        file.write(content)
    with work.journal.open("a", encoding="utf-8") as file:
        file.write(f"{start} {hashlib.sha256(content).hexdigest()}\n")


def _finished(work: _Work, shape: tuple[int, ...]) -> dict[int, str]:
    """Checksum of every block of the part file that is what the journal says."""
    if not work.journal.exists():
        return {}
    pixels = np.load(work.part, mmap_mode="r")
    if pixels.shape != shape:
        raise ValueError(f"{work.part} is damaged; delete it and {work.journal}")
    # A run killed while writing leaves half a last line.
    lines = [line.split() for line in work.journal.read_text(encoding="utf-8").splitlines()]
    claimed = {int(words[0]): words[1] for words in lines if len(words) == 2 and words[0].isdecimal()}
    return {start: digest for start, digest in claimed.items() if _block_digest(pixels, start) == digest}


def _block_digest(pixels: Pixels, start: int) -> str:
    return hashlib.sha256(pixels[start : start + BLOCK].tobytes()).hexdigest()


def _publish(work: _Work, ids: Sequence[str], mode: str, size: int, digests: list[str]) -> None:
    manifest = {
        "format": FORMAT,
        "mode": mode,
        "size": size,
        "block": BLOCK,
        "sha256": digests,
        "ids": list(ids),
    }
    scratch = work.manifest.with_name(f".{work.manifest.name}.{os.getpid()}")
    scratch.write_text(json.dumps(manifest), encoding="utf-8")
    try:
        work.part.replace(work.final)
    except FileNotFoundError:
        # Another process finished the same array first.
        if not work.final.exists():
            raise
    # The manifest comes last: where it is, the array is whole.
    scratch.replace(work.manifest)
    work.journal.unlink(missing_ok=True)


def _open(work: _Work, *, verify: bool) -> DecodedImages:
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
        starts = range(0, len(ids), manifest["block"])
        wrong = [
            s
            for s, digest in zip(starts, manifest["sha256"], strict=True)
            if _block_digest(pixels, s) != digest
        ]
        if wrong:
            raise ValueError(
                f"decoded images {work.final} differ from their checksum from row {wrong[0]}; {advice}"
            )
    return DecodedImages(ids, pixels, manifest["mode"], work.final)
