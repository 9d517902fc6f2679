"""Tiny archives of data sets to retrain on, each in a folder that a test may spoil."""

from pathlib import Path

import pytest
from tests.data.tiny_archives import write_birdsnap, write_cifar10, write_food101, write_imagenet_splits


@pytest.fixture
def food101(tmp_path: Path) -> Path:
    return write_food101(tmp_path)


@pytest.fixture
def birdsnap(tmp_path: Path) -> Path:
    return write_birdsnap(tmp_path)


@pytest.fixture
def cifar10(tmp_path: Path) -> Path:
    return write_cifar10(tmp_path)


@pytest.fixture
def imagenet_splits(tmp_path: Path) -> Path:
    return write_imagenet_splits(tmp_path)
