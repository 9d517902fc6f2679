"""A page is current as long as all it was made from is the same."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from heatcheck.publish import freshness
from heatcheck.publish.notebook import read_chapter, tidy, write_notebook
from heatcheck.publish.places import Places
from heatcheck.runtime import fingerprint

Write = Callable[..., Path]
VALUES: dict[str, Any] = {"preset": "quick", "n": 1, "plugins": ["own.py"], "out": "a", "store": "b"}
CELL = "from heatcheck.runtime import seeds"


def _key(places: Places, values: Mapping[str, Any] = VALUES) -> str:
    return freshness.build_key(read_chapter(places.source("tiny")), values, places.root)


@pytest.fixture
def key(places: Places, write: Write) -> str:
    write(CELL)
    (places.root / "own.py").write_text("1")
    return _key(places)


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ({}, True),
        ({"out": "elsewhere", "store": "elsewhere"}, True),
        ({"n": 2}, False),
        ({"n": 1.5}, False),
        ({"preset": "smoke"}, False),
        ({"plugins": []}, False),
    ],
)
def test_parameters_count_and_locations_do_not(
    places: Places, key: str, values: Mapping[str, Any], same: bool
) -> None:
    assert (_key(places, {**VALUES, **values}) == key) is same


def test_the_text_of_the_notebook_and_of_plug_ins_counts(places: Places, key: str, write: Write) -> None:
    (places.root / "own.py").write_text("2")
    assert _key(places) != key
    (places.root / "own.py").write_text("1")
    assert _key(places) == key
    write(CELL, "2")
    assert _key(places) != key


@pytest.mark.parametrize(
    ("part", "same"),
    [("heatcheck.runtime.seeds", False), ("heatcheck.runtime.memory", True)],
)
def test_only_code_that_is_imported_counts(
    places: Places, key: str, monkeypatch: pytest.MonkeyPatch, part: str, same: bool
) -> None:
    before = fingerprint.code_fingerprint
    monkeypatch.setattr(
        fingerprint, "code_fingerprint", lambda module: "new" if module == part else before(module)
    )
    assert (_key(places) == key) is same


def test_library_versions_and_embedded_files_count(
    places: Places, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:
        context.setattr(fingerprint, "library_versions", lambda: {"torch": "0"})
        assert _key(places) != key
    with monkeypatch.context() as context:
        context.setattr(freshness, "_assets", lambda: {"weights.safetensors": "new"})
        assert _key(places) != key


def test_a_page_is_current_with_its_key_and_all_its_exports(places: Places, key: str) -> None:
    assert not freshness.is_current(places, "tiny", key)
    node = tidy(read_chapter(places.source("tiny")).node, {"key": key, "exports": ["a.csv"]})
    write_notebook(node, places.notebook("tiny"))
    assert not freshness.is_current(places, "tiny", key)
    places.results("tiny").mkdir(parents=True)
    (places.results("tiny") / "a.csv").touch()
    assert freshness.is_current(places, "tiny", key)
    assert not freshness.is_current(places, "tiny", "another")
    places.results("tiny").with_name(".latest.kept").mkdir()
    assert not freshness.is_current(places, "tiny", key)
