from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from heatcheck.data.cache import Arrays, CacheError, cache_folder, cache_path, cached_arrays

KEY = {"n": 3, "size": 64}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path / "made" / "here"))
    return tmp_path / "made" / "here"


def make() -> Arrays:
    return {"images": np.arange(24, dtype=np.uint8).reshape(2, 3, 4), "targets": np.array([5, -1])}


def refuse() -> Arrays:
    raise AssertionError("made again though it was on disk")


def assert_same(found: Arrays) -> None:
    expected = make()
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_what_was_made_once_is_read_afterwards(folder: Path) -> None:
    assert_same(cached_arrays("some", KEY, make))
    assert_same(cached_arrays("some", KEY, refuse))
    assert [path.name for path in folder.iterdir()] == [cache_path("some", KEY).name]


def test_another_key_is_another_file_and_the_order_of_a_key_is_not() -> None:
    assert cache_path("some", KEY) == cache_path("some", dict(reversed(KEY.items())))
    assert cache_path("some", KEY) != cache_path("some", {**KEY, "n": 4})
    assert cache_path("some", KEY) != cache_path("other", KEY)


def test_without_the_variable_the_users_cache_folder_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEATCHECK_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "heatcheck"
    monkeypatch.setenv("XDG_CACHE_HOME", "elsewhere")
    assert cache_folder() == Path("elsewhere") / "heatcheck"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(b"not an archive at all" * 50)


def foreign(path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, images=np.zeros(3))


def tampered(path: Path) -> None:
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["targets"] = arrays["targets"] + 1
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


@pytest.mark.parametrize("damage", [truncate, flip, empty, garbage, foreign, tampered])
def test_a_damaged_file_is_made_again(damage: Callable[[Path], None]) -> None:
    cached_arrays("some", KEY, make)
    damage(cache_path("some", KEY))
    assert_same(cached_arrays("some", KEY, make))
    assert_same(cached_arrays("some", KEY, refuse))


def test_every_flipped_byte_is_noticed_or_harmless() -> None:
    cached_arrays("some", KEY, make)
    path = cache_path("some", KEY)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x11]) + whole[place + 1 :])
        assert_same(cached_arrays("some", KEY, make))


def test_work_that_was_interrupted_leaves_no_file(folder: Path) -> None:
    def interrupted() -> Arrays:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_arrays("some", KEY, interrupted)
    assert list(folder.iterdir()) == []
    assert_same(cached_arrays("some", KEY, make))


def test_the_rest_of_a_killed_writer_is_no_file_of_the_cache(folder: Path) -> None:
    folder.mkdir(parents=True)
    path = cache_path("some", KEY)
    path.with_name(f".{path.name}.123").write_bytes(b"half a fi")
    assert_same(cached_arrays("some", KEY, make))
    assert_same(cached_arrays("some", KEY, refuse))


def test_another_process_may_finish_first() -> None:
    def overtaken() -> Arrays:
        return cached_arrays("some", KEY, make)

    assert_same(cached_arrays("some", KEY, overtaken))
    assert_same(cached_arrays("some", KEY, refuse))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path / "file"))
    with pytest.raises(CacheError, match=r"file.*set HEATCHECK_CACHE to a folder you may write"):
        cached_arrays("some", KEY, make)
