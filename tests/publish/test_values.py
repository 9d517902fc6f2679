"""Case 14: a parameter's value makes the round trip or is refused."""

import ast
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatcheck.publish.values import check_type, fit, read_argument


def _type(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


FITTING = [
    (3, "int", 3),
    (-(10**30), "int", -(10**30)),
    (np.int64(3), "int", 3),
    (np.uint8(3), "int", 3),
    (3, "float", 3.0),
    (1e-300, "float", 1e-300),
    (np.float64(0.1), "float", 0.1),
    (np.float32(0.1), "float", float(np.float32(0.1))),
    (np.int32(2), "float", 2.0),
    (True, "bool", True),
    (np.bool_(False), "bool", False),
    ("8", "str", "8"),
    ("", "str", ""),
    ("a'b\"c\\\n\u00e9", "str", "a'b\"c\\\n\u00e9"),
    (np.str_("x"), "str", "x"),
    (None, "int | None", None),
    (3, "int | None", 3),
    (None, "None | str", None),
    (3, "float | int", 3),
    (3.5, "float | int", 3.5),
    ([], "list[int]", []),
    ([1, np.int64(2)], "list[int]", [1, 2]),
    ([1, 2.5], "list[float]", [1.0, 2.5]),
    ([[1], []], "list[list[int]]", [[1], []]),
    ([None, "a"], "list[str | None]", [None, "a"]),
    ({"a": 1}, "dict[str, float]", {"a": 1.0}),
    ({"a": {"b": [True]}}, "dict[str, dict[str, list[bool]]]", {"a": {"b": [True]}}),
    ("morf", 'Literal["morf", "lerf"]', "morf"),
    (-1, "Literal[-1, 1]", -1),
    (None, 'Literal["a"] | None', None),
]


@pytest.mark.parametrize(("value", "type_", "expected"), FITTING)
def test_a_fitting_value_becomes_the_equal_plain_value(value: object, type_: str, expected: object) -> None:
    check_type(_type(type_))
    fitted = fit(value, _type(type_))
    assert fitted == expected
    assert ast.literal_eval(repr(fitted)) == expected
    assert type(fitted) is type(expected)


REFUSED = [
    ("8", "int"),
    ("0.5", "float"),
    ("true", "bool"),
    (8, "str"),
    (8.0, "int"),
    (np.float64(8), "int"),
    (True, "int"),
    (True, "float"),
    (1, "bool"),
    (None, "int"),
    (None, "str"),
    (None, "list[int]"),
    (math.nan, "float"),
    (math.inf, "float"),
    (-math.inf, "float | None"),
    (np.float32("nan"), "float"),
    (np.float64("inf"), "list[float] | float"),
    (10**400, "float"),
    (2**60 + 1, "float"),
    ((1, 2), "list[int]"),
    ([(1,)], "list[list[int]]"),
    ([1, "2"], "list[int]"),
    ([1, math.nan], "list[float]"),
    (["a", None], "list[str]"),
    ("gradient", "list[str]"),
    (np.array([1, 2]), "list[int]"),
    (np.array(1), "int"),
    ({1, 2}, "list[int]"),
    ({1: 2}, "dict[str, int]"),
    ({"a": "1"}, "dict[str, int]"),
    (1 + 2j, "float"),
    (Decimal("0.5"), "float"),
    (Path("x"), "str"),
    (b"x", "str"),
    ("\ud800", "str"),
    ("other", 'Literal["morf", "lerf"]'),
    (True, "Literal[1, 2]"),
    (1.0, "Literal[1, 2]"),
    (np.datetime64("2020-01-01"), "str"),
]


@pytest.mark.parametrize(("value", "type_"), REFUSED)
def test_a_value_of_another_type_is_refused_with_what_was_wanted(value: object, type_: str) -> None:
    with pytest.raises(ValueError, match="wanted"):
        fit(value, _type(type_))


def test_the_message_says_which_part_of_a_list_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"^item 1: '2' is text, wanted int$"):
        fit([1, "2"], _type("list[int]"))


TYPES = [
    "list",
    "tuple[int, int]",
    "dict[int, str]",
    "dict",
    "set[int]",
    "Any",
    "list[tuple[int]]",
    "'int'",
    "1",
]


@pytest.mark.parametrize("type_", [*TYPES, "int | Path", "Optional[int]", "np.ndarray", "Literal[x]"])
def test_types_that_do_not_survive_a_notebook_are_refused(type_: str) -> None:
    with pytest.raises(ValueError, match=r"allowed|literal"):
        check_type(_type(type_))


ARGUMENTS = [
    ("8", "int", 8),
    ("1_000", "int", 1000),
    ("0.5", "float", 0.5),
    ("2", "float", 2.0),
    ("true", "bool", True),
    ("cpu", "str", "cpu"),
    ("cuda:1", "str", "cuda:1"),
    ("'8'", "str", "8"),
    ('"None"', "str", "None"),
    ("none", "int | None", None),
    ("None", "str | None", None),
    ("'none'", "str | None", "none"),
    ("none", 'Literal["none", "linear"]', "none"),
    ("2", "Literal[1, 2]", 2),
    ('["a", "b"]', "list[str]", ["a", "b"]),
    ("['a']", "list[str]", ["a"]),
    ("[]", "list[float]", []),
    ("[1, 0.5]", "list[float]", [1.0, 0.5]),
    ("{a = 1}", "dict[str, int]", {"a": 1}),
    ("a = b", "str", "a = b"),
    ("a#b", "str", "a#b"),
]


@pytest.mark.parametrize(("text", "type_", "expected"), ARGUMENTS)
def test_an_argument_is_toml_or_bare_text(text: str, type_: str, expected: object) -> None:
    assert read_argument(text, _type(type_)) == expected


BAD_ARGUMENTS = [
    ("'8'", "int", "text"),
    ("eight", "int", "for example 8"),
    ("8.0", "int", "float"),
    ("True", "bool", "for example true"),
    ("1", "bool", "int"),
    ("nan", "float", "not finite"),
    ("inf", "float", "not finite"),
    ("-inf", "float", "not finite"),
    ("1e999", "float", "not finite"),
    ("None", "int", "None is not allowed"),
    ("None", "str", "None is not allowed"),
    ("", "str", "empty"),
    (" ", "int", "empty"),
    ("8", "str", "int"),
    ("nan", "str", "float"),
    ("gradient", "list[str]", "for example"),
    ("[1, 'a']", "list[int]", "item 1"),
    ("(1, 2)", "list[int]", "for example"),
    ("2024-01-01", "str", "date"),
    ("mor", 'Literal["morf", "lerf"]', "for example morf"),
    ("1\nother = 2", "int", "more than one"),
    ("a, b", "list[str]", "for example"),
]


@pytest.mark.parametrize(("text", "type_", "says"), BAD_ARGUMENTS)
def test_a_bad_argument_is_refused_with_a_hint(text: str, type_: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_argument(text, _type(type_))


_SCALARS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.lists(_SCALARS)))
def test_every_plain_value_survives_being_written_as_python(value: dict[str, Any]) -> None:
    fitted = fit(value, _type("dict[str, list[str | float]]"))
    assert ast.literal_eval(repr(fitted)) == value
