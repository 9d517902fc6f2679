"""Level maps on disk: one compact map per estimator and image instead of a modified data set per threshold.

A map is a byte per unit, exact at every percentage, or half a byte, exact at the percentages of a grid.
Outside the file levels are always percent levels: ``level < p`` selects the top ``p`` per cent.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heatcheck.benchmarks.rank_map_spec import RankMapSpec as RankMapSpec
from heatcheck.benchmarks.rank_map_spec import pack_levels, unpack_levels
from heatcheck.runtime.blocks import (
    BLOCK,
    BlockFiles,
    Bytes,
    block_files,
    finished_blocks,
    first_damaged,
    publish_array,
    start_array,
    write_block,
)
from heatcheck.runtime.progress import progress
from heatcheck.runtime.store import cell_key

FORMAT = 1


@dataclass(frozen=True)
class RankMaps:
    """Finished level maps of one estimator, mapped from disk.

    Attributes:
        spec: What they are.
        packed: ``(N, row_bytes)`` uint8, mapped read-only.
        digests: sha256 of every block of rows.
        path: The file.
    """

    spec: RankMapSpec
    packed: Bytes
    digests: tuple[str, ...]
    path: Path

    def __len__(self) -> int:
        return self.spec.n_images

    def read(self, rows: Sequence[int] | slice) -> Tensor:
        """Percent levels of the images at ``rows``, ``(n, U, H, W)`` uint8 on the CPU."""
        chosen = self.packed[rows if isinstance(rows, slice) else list(rows)]
        return unpack_levels(torch.from_numpy(np.array(chosen)), self.spec)

    def require(self, percent: int) -> int:
        """``percent`` itself, if the maps are exact there.

        Raises:
            ValueError: They are not; the message lists where they are.
        """
        if percent not in self.spec.percents:
            allowed = ", ".join(map(str, self.spec.percents))
            raise ValueError(
                f"rank maps of {self.spec.estimator} are not exact at {percent} %; allowed: {allowed}"
            )
        return percent

    def verify(self) -> None:
        """Compare every block with its checksum.

        Raises:
            ValueError: A block is damaged; the message names it.
        """
        wrong = first_damaged(self.packed, self.digests, BLOCK)
        if wrong is not None:
            last = min(wrong + BLOCK, len(self)) - 1
            raise ValueError(
                f"rank maps {self.path} of {self.spec.estimator} are damaged: block {wrong // BLOCK} (rows "
                f"{wrong} to {last}) differs from its checksum; delete {self.path} and "
                f"{self.path.with_suffix('.json')} to compute them again"
            )


class RankMapWriter:
    """Level maps in the making: blocks of images in any order, by any number of runs.

    Args:
        folder: Where stores are kept; made when missing.
        spec: What is stored.

    Raises:
        OSError: The folder cannot be written.
        ValueError: What an earlier run left is damaged.
    """

    def __init__(self, folder: Path | str, spec: RankMapSpec) -> None:
        self.spec = spec
        self.files = _files(Path(folder), spec)
        self._shape = (spec.n_images, spec.row_bytes)
        if not self.files.manifest.is_file():
            try:
                start_array(self.files, self._shape)
            except OSError as error:
                raise OSError(
                    f"cannot write rank maps to {folder}: {error}; name a folder you may write with "
                    f"{self._shape[0] * self._shape[1] / 1e9:.1f} GB free"
                ) from error

    def missing(self) -> list[slice]:
        """Blocks of rows that are not written yet."""
        if self.files.manifest.is_file():
            return []
        done = finished_blocks(self.files, self._shape, BLOCK)
        return [block for block in _blocks(self.spec.n_images) if block.start not in done]

    def write(self, start: int, levels: Tensor) -> None:
        """Keep the percent levels ``(n, U, H, W)`` uint8 of the block that begins at row ``start``.

        Raises:
            ValueError: They are no whole block, or not the spec's levels.
        """
        expected = (min(BLOCK, self.spec.n_images - start), *self.spec.shape)
        if start % BLOCK or not 0 <= start < self.spec.n_images or tuple(levels.shape) != expected:
            raise ValueError(
                f"block at row {start} got levels {tuple(levels.shape)}; blocks begin at multiples of "
                f"{BLOCK} below {self.spec.n_images}, and this one has {expected}"
            )
        if levels.dtype != torch.uint8 or int(levels.max()) > 99:
            raise ValueError(f"levels must be uint8 from 0 to 99, got {levels.dtype} up to {levels.max()}")
        write_block(self.files, start, pack_levels(levels, self.spec).cpu().numpy())

    def publish(self) -> RankMaps:
        """The finished maps.

        Raises:
            ValueError: Blocks are missing, or differ from what was written.
        """
        if not self.files.manifest.is_file():
            # Read again what was written: the disk may have failed, or another process written beside us.
            done = finished_blocks(self.files, self._shape, BLOCK)
            starts = [block.start for block in _blocks(self.spec.n_images)]
            missing = [start for start in starts if start not in done]
            if missing:
                raise ValueError(
                    f"rank maps of {self.spec.estimator} lack {len(missing)} block(s), the first at row "
                    f"{missing[0]}; write them first"
                )
            publish_array(self.files, _manifest(self.spec, [done[start] for start in starts]))
        return open_rank_maps(self.files.final.parent, self.spec)


def fill_rank_maps(
    folder: Path | str,
    specs: Mapping[str, RankMapSpec],
    compute: Callable[[slice, Sequence[str]], Mapping[str, Tensor]],
) -> dict[str, RankMaps]:
    """Finished maps by name; only blocks that no earlier run has finished are computed.

    Args:
        folder: Where stores are kept.
        specs: What is stored under each name, all for the same images.
        compute: Percent levels ``(n, U, H, W)`` by name, of a block of rows and the names that lack it: one
            pass over the images serves all estimators.

    Raises:
        ValueError: The specs have different numbers of images.
    """
    if len({spec.n_images for spec in specs.values()}) > 1:
        raise ValueError(f"rank maps of {', '.join(specs)} have different numbers of images; fill them apart")
    writers = {name: RankMapWriter(folder, spec) for name, spec in specs.items()}
    wanted: dict[tuple[int, int], list[str]] = {}
    for name, writer in writers.items():
        for block in writer.missing():
            wanted.setdefault((block.start, block.stop), []).append(name)
    for start, stop in progress(sorted(wanted), label="rank maps"):
        names = wanted[start, stop]
        found = compute(slice(start, stop), names)
        for name in names:
            writers[name].write(start, found[name])
    return {name: writer.publish() for name, writer in writers.items()}


def open_rank_maps(folder: Path | str, spec: RankMapSpec, *, verify: bool = False) -> RankMaps:
    """Finished maps of ``spec``.

    Args:
        folder: Where stores are kept.
        spec: What is wanted.
        verify: Check every block against its checksum.

    Raises:
        FileNotFoundError: There are none; the message says how those of the same estimator differ.
        ValueError: The store is damaged, or of another format.
    """
    files = _files(Path(folder), spec)
    if not files.manifest.is_file():
        raise FileNotFoundError(
            f"no finished rank maps of {spec.estimator} in {folder}{_nearest(Path(folder), spec)}"
        )
    advice = f"delete {files.manifest} and {files.final} to compute them again"
    try:
        manifest = json.loads(files.manifest.read_text(encoding="utf-8"))
        packed = np.load(files.final, mmap_mode="r")
        digests = tuple(manifest["sha256"])
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise ValueError(f"rank maps {files.final} are damaged ({error}); {advice}") from error
    if manifest != _manifest(spec, digests) | {"version": manifest.get("version")}:
        raise ValueError(f"rank maps {files.manifest} are of another kind than their name says; {advice}")
    if packed.shape != (spec.n_images, spec.row_bytes) or len(digests) != len(_blocks(spec.n_images)):
        raise ValueError(f"rank maps {files.final} have the shape {packed.shape}; {advice}")
    maps = RankMaps(spec, packed, digests, files.final)
    if verify:
        maps.verify()
    return maps


def _files(folder: Path, spec: RankMapSpec) -> BlockFiles:
    return block_files(folder, cell_key(_identity(spec)))


def _identity(spec: RankMapSpec) -> dict[str, Any]:
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(spec).items()}
    return {"format": FORMAT, "block": BLOCK, **plain}


def _manifest(spec: RankMapSpec, digests: Sequence[str]) -> dict[str, Any]:
    return {**_identity(spec), "version": version("heatcheck"), "sha256": list(digests)}


def _blocks(n: int) -> list[slice]:
    return [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]


def _nearest(folder: Path, spec: RankMapSpec) -> str:
    """How the stored maps of the same estimator that differ least differ, as a piece of a message."""
    wanted = _identity(spec)
    differences: list[list[str]] = []
    for path in sorted(folder.glob("*.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest.get("estimator") == spec.estimator:
            changed = [name for name in wanted if manifest.get(name) != wanted[name]]
            differences.append(
                [f"{name} {manifest.get(name)!r} instead of {wanted[name]!r}" for name in changed]
            )
    if not differences:
        return "; compute them first"
    nearest = min(differences, key=len)
    return f"; those there are have {', '.join(nearest)}: ask for these or compute others"
