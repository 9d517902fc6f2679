"""Results store: atomic, resumable, honest about what it finds."""

import json
from pathlib import Path

import pandas as pd
import pytest

from heatcheck.runtime.store import ResultsStore, StoreError, cell_key


def table(value: float) -> pd.DataFrame:
    return pd.DataFrame({"image": ["a"], "value": [value]})


def test_the_key_depends_on_values_and_not_on_their_order() -> None:
    assert cell_key({"a": 1, "b": [1, 2]}) == cell_key({"b": [1, 2], "a": 1})
    assert cell_key({"a": 1}) != cell_key({"a": 2})
    with pytest.raises(ValueError, match="JSON"):
        cell_key({"a": float("nan")})


def test_a_store_of_another_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    ResultsStore(tmp_path).put({"a": 1}, table(1))
    (tmp_path / "store.json").write_text(json.dumps({"format": 0}))
    with pytest.raises(StoreError, match="format 0, this version reads format 1"):
        ResultsStore(tmp_path)
    assert len(list(tmp_path.glob("*.parquet"))) == 1


def test_a_damaged_cell_is_named_with_what_to_do(tmp_path: Path) -> None:
    store = ResultsStore(tmp_path)
    store.put({"a": 1}, table(1))
    store.path({"a": 1}).write_bytes(b"half a file")
    with pytest.raises(StoreError, match=r"damaged.*delete it"):
        store.get({"a": 1})


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="name a folder you may write"):
        ResultsStore(tmp_path / "file")


def test_no_scratch_files_stay(tmp_path: Path) -> None:
    ResultsStore(tmp_path).put({"a": 1}, table(1))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
