"""Types a notebook parameter may have, and the values that fit them."""

import ast
import math
import sys
import tomllib
from typing import Any

ALLOWED = "int, float, str, bool, list[...], dict[str, ...], T | None, Literal[...]"
_PLAIN: dict[str, type] = {"int": int, "str": str, "bool": bool}
_NO_VALUE = {"None", "none", "null"}


def check_type(annotation: ast.expr) -> None:
    """Refuse a type that parameters cannot have.

    Raises:
        ValueError: The type is none of those in ``ALLOWED``.
    """
    match annotation:
        case ast.Name(id="int" | "float" | "str" | "bool") | ast.Constant(value=None):
            return
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            check_type(item)
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), item])):
            check_type(item)
        case ast.Subscript(value=ast.Name(id="Literal")) if _options(annotation):
            return
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            check_type(left)
            check_type(right)
        case _:
            raise ValueError(f"type {ast.unparse(annotation)} is not known; allowed: {ALLOWED}")


def fit(value: object, annotation: ast.expr) -> Any:
    """``value`` as plain Python of the type ``annotation``: equal to what was given, or refused.

    NumPy scalars become plain numbers and whole numbers may stand for floats; nothing else is converted.

    Raises:
        ValueError: The value is of another type, not finite, or would change when written to the notebook.
    """
    value = _without_numpy(value)
    match annotation:
        case ast.Constant(value=None):
            fits = value is None
        case ast.Name(id="float"):
            return _fit_float(value)
        case ast.Name(id=name):
            fits = type(value) is _PLAIN[name] and (not isinstance(value, str) or _is_unicode(value))
        case ast.Subscript(value=ast.Name(id="list"), slice=item) if type(value) is list:
            return [_fit_part(f"item {index}", part, item) for index, part in enumerate(value)]
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, item])) if (
            type(value) is dict
        ):
            return {
                _fit_part("key", name, key): _fit_part(f"{name!r}", part, item)
                for name, part in value.items()
            }
        case ast.Subscript(value=ast.Name(id="Literal")):
            fits = any(type(value) is type(option) and value == option for option in _options(annotation))
        case ast.BinOp():
            return _fit_union(value, annotation)
        case _:
            fits = False
    if not fits:
        raise ValueError(f"{describe(value)}, wanted {ast.unparse(annotation)}")
    return value


def literal(node: ast.expr) -> Any:
    """Value of an expression that needs nothing to be run.

    Raises:
        ValueError: The expression is no literal.
    """
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise ValueError(f"{ast.unparse(node)} is no literal value") from error


def read_argument(text: str, annotation: ast.expr) -> Any:
    """Value written on a command line: TOML, or bare words where the type takes text.

    ``None`` is written ``none``; text that would read as something else is written in quotes.

    Raises:
        ValueError: The text is no value of the type ``annotation``.
    """
    if any(text == option for option in _alternatives(annotation, "Literal")):
        return text
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return fit(_bare_word(text, annotation), annotation)
    if set(table) != {"value"}:
        raise ValueError(f"{text!r} holds more than one value, wanted {ast.unparse(annotation)}")
    return fit(table["value"], annotation)


def describe(value: object) -> str:
    """``value`` and its type, short enough for a message."""
    shown = repr(value)
    shown = f"{shown[:60]}..." if len(shown) > 63 else shown
    kind = "text" if isinstance(value, str) else type(value).__name__
    return shown if value is None else f"{shown} is {kind}"


def _bare_word(text: str, annotation: ast.expr) -> str | None:
    if text in _NO_VALUE and _alternatives(annotation, "None"):
        return None
    wanted = ast.unparse(annotation)
    if not text.strip():
        raise ValueError(f"the value is empty, wanted {wanted}; write '\"\"' for an empty text")
    if text == "None":
        raise ValueError(f"None is not allowed, wanted {wanted}; write '\"None\"' if that text is meant")
    if not _alternatives(annotation, "str"):
        raise ValueError(f"{text!r} is no TOML value of type {wanted}; for example {_example(annotation)}")
    return text


def _fit_float(value: object) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{describe(value)}, wanted float")
    assert isinstance(value, int | float)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{describe(value)} and not finite, wanted a finite float")
    if number != value:
        raise ValueError(f"{describe(value)} that no float equals, wanted float")
    return number


def _fit_part(where: str, value: object, annotation: ast.expr) -> Any:
    try:
        return fit(value, annotation)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _fit_union(value: object, annotation: ast.expr) -> Any:
    alternatives = _alternatives(annotation)
    # A whole number stays whole where both int and float are allowed.
    for alternative in sorted(alternatives, key=lambda node: ast.unparse(node) == "float"):
        try:
            return fit(value, alternative)
        except ValueError:
            continue
    raise ValueError(f"{describe(value)}, wanted {ast.unparse(annotation)} (numbers finite)")


def _alternatives(annotation: ast.expr, kind: str | None = None) -> list[Any]:
    """Parts of a union; with ``kind``, those called so: ``None``, a plain type, or a Literal's options."""
    if isinstance(annotation, ast.BinOp):
        return [*_alternatives(annotation.left, kind), *_alternatives(annotation.right, kind)]
    if kind == "Literal":
        return _options(annotation)
    return [annotation] if kind is None or ast.unparse(annotation) == kind else []


def _options(annotation: ast.expr) -> list[object]:
    match annotation:
        case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=parts)):
            return [literal(part) for part in parts]
        case ast.Subscript(value=ast.Name(id="Literal"), slice=part):
            return [literal(part)]
    return []


def _without_numpy(value: object) -> object:
    numpy = sys.modules.get("numpy")  # who passes a NumPy scalar has imported NumPy
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _is_unicode(text: str) -> bool:
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def _example(annotation: ast.expr) -> str:
    match annotation:
        case ast.Name(id="bool"):
            return "true"
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return f"'[{_example(item).strip(chr(39))}]'"
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, item])):
            return f"'{{name = {_example(item).strip(chr(39))}}}'"
        case ast.Subscript(value=ast.Name(id="Literal")):
            return str(_options(annotation)[0])
        case ast.BinOp():
            return _example(_alternatives(annotation)[0])
    return {"int": "8", "float": "0.5", "str": "'\"text\"'"}.get(ast.unparse(annotation), "none")
