"""The list of data sets."""

from pathlib import Path

import pytest

from heatcheck.data.catalog import (
    BIRDSNAP_ROOT,
    CIFAR10_ROOT,
    CLEVR_ROOT,
    CLEVR_XAI_ROOT,
    FOOD101_ROOT,
    IMAGENET_ROOT,
    PLACES365_ROOT,
    archive_root,
    describe,
)
from heatcheck.data.retraining_sets import RETRAINING_SETS

ARCHIVES = {
    "imagenet": IMAGENET_ROOT,
    "places365": PLACES365_ROOT,
    "clevr-xai": CLEVR_XAI_ROOT,
    "clevr": CLEVR_ROOT,
    "food101": FOOD101_ROOT,
    "birdsnap": BIRDSNAP_ROOT,
    "cifar10": CIFAR10_ROOT,
}
HERE = ("metal-color", "clevr-embedded", "photographs", "color-material", "shape-material-size", "digits")


@pytest.fixture(autouse=True)
def no_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ARCHIVES.values():
        monkeypatch.delenv(variable, raising=False)


def test_names_are_different_and_the_embedded_sets_are_present() -> None:
    listed = {item.name: item for item in describe()}
    assert list(listed) == [*HERE, *ARCHIVES]
    assert all(listed[name].present for name in HERE)
    assert listed["clevr-embedded"].n == 256
    assert listed["photographs"].n == 6
    assert all(item.licence and item.about for item in listed.values())


def test_an_archive_says_how_to_name_its_folder() -> None:
    listed = {item.name: item for item in describe()}
    for name, variable in ARCHIVES.items():
        assert not listed[name].present
        assert variable in listed[name].where
        assert listed[name].details


def test_an_archive_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IMAGENET_ROOT, str(tmp_path))
    entry = next(item for item in describe() if item.name == "imagenet")
    assert entry.present
    assert entry.where == str(tmp_path)
    assert archive_root(IMAGENET_ROOT) == tmp_path


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACES365_ROOT, str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=rf"{PLACES365_ROOT} names .*nowhere, which is no folder"):
        archive_root(PLACES365_ROOT)
    entry = next(item for item in describe() if item.name == "places365")
    assert not entry.present
    assert "nowhere" in entry.where


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=rf"set {IMAGENET_ROOT} to the folder of the archive"):
        archive_root(IMAGENET_ROOT)


def test_every_data_set_to_retrain_on_is_listed() -> None:
    assert set(RETRAINING_SETS) <= {item.name for item in describe()}
