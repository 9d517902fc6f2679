"""The five ground truths of CLEVR-XAI: which objects decide a question's answer.

After Arras, Osman & Samek 2022. The objects come from the functional program and its outputs on the scene;
the published code's choices are kept where they can be observed in the released masks.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from heatcheck.data.clevr.program import Node, Output, Program

Kind = Literal["simple", "complex"]
First = Literal["published", "both-branches"]

GROUND_TRUTHS = ("single", "all", "unique", "unique-first-nonempty", "union")
RELEASED: dict[Kind, tuple[str, ...]] = {
    "simple": ("single", "all"),
    "complex": ("unique", "unique-first-nonempty", "union", "all"),
}
"""The ground truths that are published with each set of questions."""

_FIRST = ("published", "both-branches")
_SETS = ("filter_", "relate", "intersect", "union", "same_")
_COMPARISONS = ("equal_", "less_than", "greater_than")
_Found = frozenset[int]


def object_set(
    name: str,
    program: Program,
    outputs: Sequence[Output],
    n_objects: int,
    *,
    first: First = "published",
) -> tuple[int, ...] | None:
    """Sorted objects of the ground truth ``name``; None where it is undefined for this question.

    - ``single``: the output of the last filter, where that is exactly one object (simple questions).
    - ``all``: every object of the scene.
    - ``unique``: the outputs of all ``unique`` nodes.
    - ``unique-first-nonempty``: ``unique`` and the first set that is not empty, walking from the last node.
    - ``union``: the outputs of all functions that return sets of objects, ``scene`` excepted.

    Args:
        name: One of ``GROUND_TRUTHS``.
        program: The question's program.
        outputs: What each node returned on the scene.
        n_objects: Number of objects in the scene.
        first: At a comparison of two numbers, ``published`` walks on and so meets the second number's objects
            first; ``both-branches`` takes the first set that is not empty from each of the two.

    Raises:
        ValueError: Unknown name or mode, or there is not one output per node.
    """
    if name not in GROUND_TRUTHS:
        raise ValueError(f"unknown ground truth {name!r}; allowed: {', '.join(GROUND_TRUTHS)}")
    if first not in _FIRST:
        raise ValueError(f"unknown mode first={first!r}; allowed: {', '.join(_FIRST)}")
    if len(outputs) != len(program):
        raise ValueError(f"{len(program)} nodes, but {len(outputs)} outputs; execute the program first")
    if name == "all":
        return tuple(range(n_objects)) or None
    found = _RULES[name](program, outputs)
    if name == "unique-first-nonempty":
        found |= _first_nonempty(program, outputs, both=first == "both-branches")
    return tuple(sorted(found)) or None


def _single(program: Program, outputs: Sequence[Output]) -> _Found:
    filtered = _outputs_of("filter_", program, outputs)
    found = _objects(filtered[-1]) if filtered else frozenset()
    return found if len(found) == 1 else frozenset()


def _unique(program: Program, outputs: Sequence[Output]) -> _Found:
    return frozenset[int]().union(*map(_objects, _outputs_of("unique", program, outputs)))


def _union(program: Program, outputs: Sequence[Output]) -> _Found:
    return frozenset[int]().union(*map(_objects, _outputs_of(_SETS, program, outputs)))


def _outputs_of(
    functions: str | tuple[str, ...], program: Program, outputs: Sequence[Output]
) -> list[Output]:
    """Outputs of the nodes whose function begins with one of ``functions``."""
    pairs = zip(program, outputs, strict=True)
    return [output for node, output in pairs if node.function.startswith(functions)]


_RULES: dict[str, Callable[[Program, Sequence[Output]], _Found]] = {
    "single": _single,
    "unique": _unique,
    "unique-first-nonempty": _unique,
    "union": _union,
}


def _first_nonempty(program: Program, outputs: Sequence[Output], *, both: bool) -> _Found:
    for node, output in zip(reversed(program), reversed(outputs), strict=True):
        if both and node.function.startswith(_COMPARISONS):
            return _of_branches(node, program, outputs)
        if not _returns_set(node):
            continue
        if found := _objects(output):
            return found
        if node.function in {"union", "intersect"}:
            return _of_branches(node, program, outputs)
    return frozenset()


def _of_branches(node: Node, program: Program, outputs: Sequence[Output]) -> _Found:
    """First set that is not empty, walking back from each input of ``node``, united."""
    return frozenset[int]().union(*(_of_chain(start, program, outputs) for start in node.inputs))


def _of_chain(start: int, program: Program, outputs: Sequence[Output]) -> _Found:
    index = start
    while True:
        node = program[index]
        if _returns_set(node) and (found := _objects(outputs[index])):
            return found
        # The published walk follows nodes of one input only; it ends at `scene` and where branches meet.
        if len(node.inputs) != 1:
            return frozenset()
        index = node.inputs[0]


def _returns_set(node: Node) -> bool:
    return node.function.startswith(_SETS)


def _objects(output: Output) -> _Found:
    """Objects of a set, or the one object of ``unique``."""
    if isinstance(output, tuple):
        return frozenset(output)
    # A bool is an int, but no node of this kind returns one.
    return frozenset({output}) if isinstance(output, int) else frozenset()
