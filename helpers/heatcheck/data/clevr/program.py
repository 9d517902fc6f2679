"""Functional programs of questions: what they are, what they return on a scene, how files write them.

Functions and their meaning are those of CLEVR (Johnson et al. 2017, supplement). A program is a list of
nodes; each takes the outputs of earlier nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

ATTRIBUTES = ("size", "color", "material", "shape")  # the order in which programs filter
RELATIONS = ("left", "right", "behind", "front")

Output = tuple[int, ...] | int | bool | str


@dataclass(frozen=True)
class Node:
    """One step of a program.

    Attributes:
        function: Name of the function.
        inputs: Places of the nodes whose outputs it takes, all earlier.
        values: Literal arguments: an attribute's value, or a relation.
    """

    function: str
    inputs: tuple[int, ...] = ()
    values: tuple[str, ...] = ()


Program = tuple[Node, ...]


@dataclass(frozen=True)
class SceneFacts:
    """What programs can ask of a scene.

    Attributes:
        objects: Size, color, material and shape of each object.
        relationships: For each relation and object, the sorted objects that stand so towards it.
    """

    objects: tuple[Mapping[str, str], ...]
    relationships: Mapping[str, tuple[tuple[int, ...], ...]]


class InvalidProgramError(ValueError):
    """A program that means nothing on this scene: it speaks of the one object where there is not one."""


def facts_of(graph: Mapping[str, Any]) -> SceneFacts:
    """Facts of a scene in CLEVR's JSON format.

    Raises:
        ValueError: An attribute or a relation is missing, or a relation is not one list per object.
    """
    try:
        objects = tuple({name: str(item[name]) for name in ATTRIBUTES} for item in graph["objects"])
        relationships = {
            name: tuple(tuple(sorted(int(place) for place in row)) for row in graph["relationships"][name])
            for name in RELATIONS
        }
    except KeyError as error:
        raise ValueError(
            f"the scene lacks {error}; it needs 'objects' with {', '.join(ATTRIBUTES)} "
            f"and 'relationships' with {', '.join(RELATIONS)}"
        ) from error
    everyone = set(range(len(objects)))
    for name, rows in relationships.items():
        if len(rows) != len(objects) or not all(set(row) <= everyone for row in rows):
            raise ValueError(f"relation {name!r} must list objects 0 to {len(objects) - 1} for each of them")
    return SceneFacts(objects, relationships)


def execute(program: Program, facts: SceneFacts) -> tuple[Output, ...]:
    """Output of every node: sorted objects, one object, a count, a truth value or an attribute's value.

    Raises:
        InvalidProgramError: A ``unique`` node got no object, or several.
        ValueError: A function is unknown.
    """
    outputs: list[Output] = []
    for place, node in enumerate(program):
        function = _function(node.function, f"node {place}")
        outputs.append(function.apply(facts, node.values, [outputs[source] for source in node.inputs]))
    return tuple(outputs)


def read_program(
    nodes: Sequence[Mapping[str, Any]], where: str = "program"
) -> tuple[Program, tuple[Output, ...] | None]:
    """Program and recorded outputs of a question file; None where it records none.

    CLEVR's files call a node's function ``function``, those of its generator and CLEVR-XAI ``type``; the
    latter also record outputs as ``_output``.

    Args:
        nodes: The list under ``program``.
        where: What errors call it.

    Raises:
        ValueError: A node is malformed, or only some of them record their output.
    """
    program = tuple(_read_node(node, place, f"{where}, node {place}") for place, node in enumerate(nodes))
    if not program:
        raise ValueError(f"{where} has no nodes")
    recorded = ["_output" in node for node in nodes]
    if not any(recorded):
        return program, None
    if not all(recorded):
        raise ValueError(f"{where}, node {recorded.index(False)} lacks '_output', which other nodes have")
    return program, tuple(_read_output(node["_output"], where) for node in nodes)


def write_program(program: Program, outputs: Sequence[Output]) -> list[dict[str, Any]]:
    """The program as CLEVR-XAI's files write it, with outputs."""
    return [
        {
            "type": node.function,
            "inputs": list(node.inputs),
            "value_inputs": list(node.values),
            "_output": list(output) if isinstance(output, tuple) else output,
        }
        for node, output in zip(program, outputs, strict=True)
    ]


class _Function(NamedTuple):
    n_inputs: int
    n_values: int
    apply: Callable[[SceneFacts, tuple[str, ...], list[Any]], Output]


def _unique(facts: SceneFacts, values: tuple[str, ...], inputs: list[Any]) -> Output:
    found: tuple[int, ...] = inputs[0]
    if len(found) != 1:
        raise InvalidProgramError(f"'unique' needs exactly one object, got {found}")
    return found[0]


def _filter(name: str) -> _Function:
    return _Function(
        1, 1, lambda facts, values, inputs: tuple(i for i in inputs[0] if facts.objects[i][name] == values[0])
    )


def _same(name: str) -> _Function:
    def apply(facts: SceneFacts, values: tuple[str, ...], inputs: list[Any]) -> Output:
        one: int = inputs[0]
        value = facts.objects[one][name]
        return tuple(i for i, item in enumerate(facts.objects) if i != one and item[name] == value)

    return _Function(1, 0, apply)


def _query(name: str) -> _Function:
    return _Function(1, 0, lambda facts, values, inputs: facts.objects[inputs[0]][name])


def _equal() -> _Function:
    return _Function(2, 0, lambda facts, values, inputs: bool(inputs[0] == inputs[1]))


_FUNCTIONS: Mapping[str, _Function] = {
    "scene": _Function(0, 0, lambda facts, values, inputs: tuple(range(len(facts.objects)))),
    **{f"filter_{name}": _filter(name) for name in ATTRIBUTES},
    "unique": _Function(1, 0, _unique),
    "relate": _Function(1, 1, lambda facts, values, inputs: facts.relationships[values[0]][inputs[0]]),
    **{f"same_{name}": _same(name) for name in ATTRIBUTES},
    "union": _Function(2, 0, lambda facts, values, inputs: tuple(sorted({*inputs[0], *inputs[1]}))),
    "intersect": _Function(2, 0, lambda facts, values, inputs: tuple(sorted({*inputs[0]} & {*inputs[1]}))),
    "count": _Function(1, 0, lambda facts, values, inputs: len(inputs[0])),
    "exist": _Function(1, 0, lambda facts, values, inputs: len(inputs[0]) > 0),
    **{f"query_{name}": _query(name) for name in ATTRIBUTES},
    "equal_integer": _equal(),
    "less_than": _Function(2, 0, lambda facts, values, inputs: bool(inputs[0] < inputs[1])),
    "greater_than": _Function(2, 0, lambda facts, values, inputs: bool(inputs[0] > inputs[1])),
    **{f"equal_{name}": _equal() for name in ATTRIBUTES},
}


def _function(name: str, where: str) -> _Function:
    if name not in _FUNCTIONS:
        raise ValueError(f"{where} has the unknown function {name!r}; known: {', '.join(_FUNCTIONS)}")
    return _FUNCTIONS[name]


def _read_node(node: Mapping[str, Any], place: int, where: str) -> Node:
    name = node.get("type", node.get("function"))
    if not isinstance(name, str):
        raise ValueError(f"{where} names no function under 'type' or 'function'")
    inputs, values = tuple(node.get("inputs") or ()), tuple(node.get("value_inputs") or ())
    function = _function(name, where)
    if (len(inputs), len(values)) != function[:2]:
        raise ValueError(
            f"{where}, {name}, needs {function.n_inputs} inputs and {function.n_values} values, "
            f"got {len(inputs)} and {len(values)}"
        )
    if not all(type(source) is int and 0 <= source < place for source in inputs):
        raise ValueError(f"{where}, {name}, may take only earlier nodes, got inputs {list(inputs)}")
    if name == "relate" and values[0] not in RELATIONS:
        raise ValueError(f"{where} has the unknown relation {values[0]!r}; known: {', '.join(RELATIONS)}")
    return Node(name, inputs, tuple(str(value) for value in values))


def _read_output(output: Any, where: str) -> Output:
    if isinstance(output, bool | int | str):
        return output
    if isinstance(output, list) and all(type(place) is int for place in output):
        return tuple(sorted(output))
    raise ValueError(
        f"{where} records the output {output!r}; it must be objects, a number, a truth value or a word"
    )
