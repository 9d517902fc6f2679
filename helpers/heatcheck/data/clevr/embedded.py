"""The embedded evaluation set: 256 scenes with masks and questions that ship with the package.

It is laid out as CLEVR-XAI's release, without stored ground truths. No scene of it was used in training;
``embedded_making`` makes it.
"""

import hashlib
import json
import tempfile
import zipfile
import zlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from heatcheck.data.cache import CACHE_VARIABLE, CacheError, cache_folder
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.data.clevr.release import Release, open_release

NAME = "clevr-embedded"
ARCHIVE, MANIFEST = "embedded.zip", "embedded.json"


class EmbeddedError(ValueError):
    """An embedded data set that is missing or changed, with what to do about it."""


@cache
def load_embedded(*, kind: Kind) -> Release:
    """The embedded set with questions of one kind; it is unpacked to the cache folder at first use.

    Args:
        kind: ``simple`` or ``complex``.

    Raises:
        EmbeddedError: The package's file is missing, or not the one its manifest describes.
        CacheError: The cache folder cannot be used.
        ValueError: The kind is unknown.
    """
    return open_release(unpack(assets_folder()), kind=kind, name=NAME)


def assets_folder() -> Path:
    """Folder of the embedded set and its manifest."""
    return Path(str(resources.files("heatcheck"))) / "assets" / "clevr"


def read_manifest(assets: Path | None = None) -> dict[str, Any]:
    """Manifest of the embedded set: source, license, how it was made, hashes, counts.

    Args:
        assets: Its folder; the package's own by default.

    Raises:
        EmbeddedError: It is missing or damaged.
    """
    path = (assets or assets_folder()) / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddedError(f"cannot read the manifest {path}: {error}; install the package again") from error
    return dict(manifest)


def unpack(assets: Path) -> Path:
    """Folder in the cache with the files of the archive in ``assets``.

    Files that are there already are compared with the archive; if one is missing or differs, all are unpacked
    again. Two processes may do this at once.

    Raises:
        EmbeddedError: The archive is missing, or not the one its manifest describes.
        CacheError: The cache folder cannot be used.
    """
    wanted, path = read_manifest(assets)["sha256"], assets / ARCHIVE
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise EmbeddedError(f"cannot read {path}: {error}; install the package again") from error
    if found != wanted:
        raise EmbeddedError(
            f"{path} has sha256 {found}, its manifest says {wanted}; install the package again"
        )
    folder = cache_folder() / f"{NAME}-{wanted[:16]}"
    try:
        with zipfile.ZipFile(path) as archive:
            if not _is_unpacked(archive, folder):
                _unpack(archive, folder)
    except OSError as error:
        raise CacheError(
            f"cannot use the cache folder {folder}: {error}; set {CACHE_VARIABLE} to a folder you may write"
        ) from error
    return folder


def _is_unpacked(archive: zipfile.ZipFile, folder: Path) -> bool:
    for entry in archive.infolist():
        path = folder / entry.filename
        if not path.is_file() or zlib.crc32(path.read_bytes()) != entry.CRC:
            return False
    return True


def _unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{NAME}-") as scratch:
        fresh = Path(scratch) / "fresh"
        archive.extractall(fresh)
        if folder.exists():
            folder.rename(Path(scratch) / "damaged")
        try:
            fresh.rename(folder)
        except OSError:
            # Another process may have been faster; then its files are there.
            if not _is_unpacked(archive, folder):
                raise
