"""A tiny archive that several tests read, and copies of it that a test may spoil."""

import shutil
from pathlib import Path

import pytest
from tests.data.clevr.tiny_release import write_release


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_release(tmp_path_factory.mktemp("release"))


@pytest.fixture
def own(tmp_path: Path, archive: Path) -> Path:
    """A copy of the archive that a test may change."""
    return Path(shutil.copytree(archive, tmp_path / "copy"))
