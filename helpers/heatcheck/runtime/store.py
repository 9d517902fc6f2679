"""Results store: one table per finished cell, written atomically, found again by its key."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from heatcheck.runtime.files import write_whole

FORMAT = 1
Cell = Mapping[str, Any]


class StoreError(RuntimeError):
    """A results store that cannot be used, with what to do about it."""


class ResultsStore:
    """Folder of finished cells.

    A cell is a mapping of plain values (settings, seed, code fingerprint); its key is the hash of the
    mapping, so any change of a setting is another cell and a finished cell is never computed twice.

    Args:
        root: The folder; made when missing.

    Raises:
        StoreError: The folder cannot be written, or an older version of this package made it.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self._open()

    def _open(self) -> None:
        marker = self.root / "store.json"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not marker.exists():
                write_whole(marker, json.dumps({"format": FORMAT}).encode())
            found = json.loads(marker.read_text(encoding="utf-8"))["format"]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"cannot use {self.root} as a results store: {error}; name a folder you may write"
            ) from error
        if found != FORMAT:
            raise StoreError(
                f"{self.root} holds results of store format {found}, this version reads format {FORMAT}; "
                "name another folder, its finished cells are left as they are"
            )

    def path(self, cell: Cell) -> Path:
        """File of ``cell``'s table, whether it exists or not."""
        return self.root / f"{cell_key(cell)}.parquet"

    def get(self, cell: Cell) -> pd.DataFrame | None:
        """Table of a finished ``cell``, or None.

        Raises:
            StoreError: The file is damaged.
        """
        path = self.path(cell)
        if not path.exists():
            return None
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}); delete it to compute this cell again") from error

    def put(self, cell: Cell, table: pd.DataFrame) -> None:
        """Keep ``table`` as the result of ``cell``; a reader sees all of it or nothing."""
        path = self.path(cell)
        try:
            write_whole(path.with_suffix(".json"), _canonical(cell).encode())
            write_whole(path, table.to_parquet(index=False))
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error}; name a folder you may write") from error


def cell_key(cell: Cell) -> str:
    """Hash of a cell: equal for equal values, whatever their order."""
    return hashlib.sha256(_canonical(cell).encode()).hexdigest()[:24]


def _canonical(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True, allow_nan=False, ensure_ascii=False, indent=1)
