from collections.abc import Iterator
from pathlib import Path

import numba
import pytest

from heatcheck.data import compiled as module
from heatcheck.data.compiled import compiled


@pytest.fixture(autouse=True)
def fresh_folder() -> Iterator[None]:
    module._code_folder.cache_clear()
    yield
    module._code_folder.cache_clear()


def double(value: float) -> float:
    return 2 * value


def test_machine_code_is_kept_in_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path))
    before = numba.config.CACHE_DIR
    assert compiled(double)(1.5) == 3
    assert list(tmp_path.glob("compiled/*/*/*.nbi"))
    assert before == numba.config.CACHE_DIR


def test_a_folder_that_cannot_be_written_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path / "file"))
    assert compiled(double)(1.5) == 3


def test_a_changed_ray_caster_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path))
    folders = set()
    for version in ("one", "two"):
        module._code_folder.cache_clear()
        monkeypatch.setattr(module, "code_fingerprint", lambda _, version=version: version)
        folders.add(module._code_folder())
    assert len(folders) == 2
