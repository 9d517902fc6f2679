"""Lists of large JSON files, item by item."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heatcheck.data.clevr.json_items import json_items

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.text(max_size=4).filter(lambda key: key != "wanted"), VALUES, max_size=3),
    st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), max_size=4),
    st.sampled_from([None, 1, 4]),
    st.booleans(),
)
def test_items_are_those_that_the_whole_file_holds(
    tmp_path: Path, others: dict[str, Any], items: list[dict[str, Any]], indent: int | None, last: bool
) -> None:
    content = others | {"wanted": items} if last else {"wanted": items} | others
    path = tmp_path / "file.json"
    path.write_text(json.dumps(content, indent=indent), encoding="utf-8")
    assert list(json_items(path, "wanted")) == items


def test_items_come_before_the_rest_of_the_file_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"list": [{"a": 1}, {"b": 2}, {"c"', encoding="utf-8")
    items = json_items(path, "list")
    assert [next(items), next(items)] == [{"a": 1}, {"b": 2}]
    with pytest.raises(ValueError, match="damaged or cut short"):
        next(items)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needed is '{' at character 0, got ''"),
        ("[]", "needed is '{'"),
        ("{}", "there is no list 'list' at the top level"),
        ('{"other": [{}]}', "there is no list 'list' at the top level"),
        ('{"other": {"list": []}}', "there is no list 'list' at the top level"),
        ('{"list": {}}', r"needed is '\[' at character 9"),
        ('{"list": [{} {}]}', "needed is ',' at character 13"),
        ('{"list": [1]}', "an item of 'list' is int, no object"),
        ('{"list": [{}', "needed is ','"),
        ('{"list"', "needed is ':'"),
        ('{"other": 1', "needed is ','"),
    ],
)
def test_what_is_no_list_of_objects_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"file.json is damaged or cut short: {message}"):
        list(json_items(path, "list"))


def test_missing_files_and_other_encodings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"file .*none.json is missing"):
        list(json_items(tmp_path / "none.json", "list"))
    (tmp_path / "bytes.json").write_bytes(b'{"list": [{"a": "\xff"}]}')
    with pytest.raises(ValueError, match="must be JSON in UTF-8"):
        list(json_items(tmp_path / "bytes.json", "list"))
