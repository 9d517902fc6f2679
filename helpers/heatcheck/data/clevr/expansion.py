"""From what a template's phrases say to the program, and whether the question needs its relations."""

from heatcheck.data.clevr.program import (
    ATTRIBUTES,
    InvalidProgramError,
    Node,
    Output,
    Program,
    SceneFacts,
    execute,
)
from heatcheck.data.clevr.templates import Step, Template
from heatcheck.data.clevr.text import Phrase

_ENDS = ("unique", "count", "exist")


def program_of(template: Template, phrases: tuple[Phrase, ...]) -> Program:
    """Program of a template whose phrases are ``phrases``, phrase 1 first.

    A step of several nodes becomes its relation, one filter for each named attribute in the order size,
    color, material, shape, and its end.
    """
    nodes: list[Node] = []
    last: list[int] = []  # for each step, its last node
    for step in template.steps:
        inputs = tuple(last[source] for source in step.inputs)
        phrase = phrases[step.phrase - 1] if step.phrase else Phrase()
        for function, values in _expanded(step, phrase):
            nodes.append(Node(function, inputs, values))
            inputs = (len(nodes) - 1,)
        # A filter that names nothing is no node at all, and hands its input on.
        last.append(inputs[0])
    return tuple(nodes)


def is_degenerate(program: Program, facts: SceneFacts) -> bool:
    """Whether the answer stays the same when one of the relations is left out of the question.

    The relation is replaced by the whole scene; if the question then makes no sense, the relation was needed.
    """
    answer = execute(program, facts)[-1]
    places = [place for place, node in enumerate(program) if node.function == "relate"]
    return any(_answer(without_relation(program, place), facts) == answer for place in places)


def without_relation(program: Program, place: int) -> Program:
    """The program with the whole scene in place of the relation at ``place``, without nodes of no use."""
    nodes = [*program[:place], Node("scene"), *program[place + 1 :]]
    used = {len(nodes) - 1}
    for position in range(len(nodes) - 1, -1, -1):
        if position in used:
            used.update(nodes[position].inputs)
    kept = {old: new for new, old in enumerate(sorted(used))}
    return tuple(
        Node(nodes[old].function, tuple(kept[source] for source in nodes[old].inputs), nodes[old].values)
        for old in sorted(used)
    )


def _answer(program: Program, facts: SceneFacts) -> Output | None:
    try:
        return execute(program, facts)[-1]
    except InvalidProgramError:
        return None


def _expanded(step: Step, phrase: Phrase) -> list[tuple[str, tuple[str, ...]]]:
    """Functions and literals of the nodes that one step stands for."""
    parts = step.function.split("_")
    if "filter" not in parts and step.function != "relate":
        return [(step.function, ())]
    nodes: list[tuple[str, tuple[str, ...]]] = []
    if parts[0] == "relate":
        nodes.append(("relate", (str(phrase.relation),)))
    if "filter" in parts:
        named = ((name, getattr(phrase, name)) for name in ATTRIBUTES)
        nodes += [(f"filter_{name}", (value,)) for name, value in named if value is not None]
    if parts[-1] in _ENDS:
        nodes.append((parts[-1], ()))
    return nodes
