import json
from pathlib import Path

import numpy as np
import pytest

from heatcheck.figures.results import read_results, record


def test_values_of_several_cells_are_merged_and_equal_names_replaced(tmp_path: Path) -> None:
    record(tmp_path, best="rise", n=8)
    path = record(tmp_path, n=16, score={"rise": 0.25})
    assert path == tmp_path / "results.json"
    assert read_results(path) == {"best": "rise", "n": 16, "score": {"rise": 0.25}}


def test_the_order_of_recording_does_not_change_the_bytes(tmp_path: Path) -> None:
    record(tmp_path / "a", x=1)
    first = record(tmp_path / "a", y=2).read_bytes()
    record(tmp_path / "b", y=2)
    assert record(tmp_path / "b", x=1).read_bytes() == first


def test_numpy_values_become_plain(tmp_path: Path) -> None:
    path = record(
        tmp_path, a=np.float32(0.5), b=np.int64(3), c=np.array([1, 2]), d=np.bool_(True), e=(None, "x")
    )
    assert read_results(path) == {"a": 0.5, "b": 3, "c": [1, 2], "d": True, "e": [None, "x"]}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), np.float64("-inf")])
def test_a_number_that_json_cannot_hold_is_refused_by_name(tmp_path: Path, number: float) -> None:
    record(tmp_path, kept=1)
    with pytest.raises(ValueError, match=r"'score\.rise'.*record None"):
        record(tmp_path, score={"rise": number})
    assert read_results(tmp_path / "results.json") == {"kept": 1}


def test_a_value_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'where' is a .*Path; allowed: text"):
        record(tmp_path, where=tmp_path)


@pytest.mark.parametrize(("text", "fault"), [("{", "is no JSON"), ("[1]", "holds a list")])
def test_a_broken_file_is_named(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ValueError, match=rf"results\.json {fault}.*run the chapter again"):
        record(tmp_path, n=1)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    with pytest.raises(OSError, match=r"cannot write results\.json into folder .*taken.*choose a folder"):
        record(tmp_path / "taken", n=1)


def test_text_is_stored_as_strict_utf8_json(tmp_path: Path) -> None:
    path = record(tmp_path, name="Müller")
    assert "Müller" in path.read_text(encoding="utf-8")
    assert json.loads(path.read_bytes()) == {"name": "Müller"}
