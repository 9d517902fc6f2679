"""Parameters a chapter declares, one ``name: type = default  # meaning`` each, and values for them."""

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from heatcheck.publish import values

# The runner sets these; a chapter declares those it uses.
RESERVED = {
    "preset": "name of the row in nbs/presets.toml; choose it with --preset",
    "out": "folder of the chapter's exports; choose it with --into",
    "store": "folder of the results store; choose it with --store",
}
_FORM = "name: type = default  # meaning"


class Parameter(NamedTuple):
    """A declared parameter: its name, type, default and meaning."""

    name: str
    annotation: ast.expr
    default: Any
    meaning: str

    @property
    def type(self) -> str:
        """The type as it is written."""
        return ast.unparse(self.annotation)


def parse_parameters(source: str, *, where: str = "parameters cell") -> dict[str, Parameter]:
    """Parameters declared in the text of a ``parameters`` cell, in order.

    Args:
        source: Lines of the form ``name: type = default  # meaning``; a formatter may have broken them.
        where: What messages call the cell.

    Raises:
        ValueError: A line has another form, an unknown type, or a default that does not fit its type.
    """
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise ValueError(
            f"{where}, line {error.lineno}: {error.msg}; every line must be {_FORM!r}"
        ) from error
    comments = _comments(source)
    declared: dict[str, Parameter] = {}
    for statement in statements:
        line = f"{where}, line {statement.lineno}"
        parameter = _parse_statement(statement, comments, line)
        if parameter.name in declared:
            raise ValueError(f"{line}: {parameter.name!r} is declared twice")
        if parameter.name in RESERVED and parameter.type != "str":
            raise ValueError(f"{line}: {parameter.name!r} is set by the runner and must be str")
        declared[parameter.name] = parameter
    return declared


def resolve(declared: Mapping[str, Parameter], *layers: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Value of every declared parameter: its default, or what the last of ``layers`` says.

    Args:
        declared: Parameters of a chapter.
        *layers: Where values come from, as messages call it, and the values by name.

    Raises:
        ValueError: A name is not declared or reserved, or a value does not fit; the message says which.
    """
    resolved = {name: parameter.default for name, parameter in declared.items()}
    for origin, given in layers:
        for name, value in given.items():
            parameter = _known(name, declared, origin)
            try:
                resolved[name] = values.fit(value, parameter.annotation)
            except ValueError as error:
                raise _misfit(parameter, origin, error) from error
    return resolved


def read_assignments(declared: Mapping[str, Parameter], assignments: Sequence[str]) -> dict[str, Any]:
    """Values of command line arguments ``name=value``, each value TOML or bare text.

    Raises:
        ValueError: An argument has another form, is given twice, or does not fit its parameter.
    """
    given: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ValueError(f"-p {assignment}: write -p name=value")
        parameter = _known(name, declared, "-p")
        if name in given:
            raise ValueError(f"-p {name} is given twice")
        try:
            given[name] = values.read_argument(text, parameter.annotation)
        except ValueError as error:
            raise _misfit(parameter, "-p", error) from error
    return given


def _parse_statement(statement: ast.stmt, comments: Mapping[int, str], line: str) -> Parameter:
    match statement:
        case ast.AnnAssign(
            target=ast.Name(id=name), annotation=annotation, value=ast.expr() as default, simple=1
        ):
            pass
        case _:
            raise ValueError(f"{line}: every line must be {_FORM!r}, got {ast.unparse(statement)!r}")
    last = statement.end_lineno or statement.lineno
    meaning = " ".join(comments[number] for number in range(statement.lineno, last + 1) if number in comments)
    if not meaning:
        raise ValueError(f"{line}: {name!r} has no meaning; every line must be {_FORM!r}")
    try:
        values.check_type(annotation)
        value = values.fit(values.literal(default), annotation)
    except ValueError as error:
        raise ValueError(f"{line}: {name!r}: {error}") from error
    return Parameter(name, annotation, value, meaning)


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    return {line: text for line, text in found.items() if text}


def _known(name: str, declared: Mapping[str, Parameter], origin: str) -> Parameter:
    if name in RESERVED:
        raise ValueError(f"{origin}: parameter {name!r} is set by the runner: {RESERVED[name]}")
    if name not in declared:
        free = [known for known in declared if known not in RESERVED]
        near = get_close_matches(name, free, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"{origin}: unknown parameter {name!r}{hint} (declared: {', '.join(free) or 'none'})"
        )
    return declared[name]


def _misfit(parameter: Parameter, origin: str, error: ValueError) -> ValueError:
    return ValueError(f"{origin}: parameter {parameter.name!r} ({parameter.meaning}): {error}")
