"""Programs: what their functions return, and how files write them."""

from typing import Any

import pytest
from tests.data.clevr.clevr_facts import RECORDED, random_facts
from tests.data.clevr.recorded import GOLDEN

from heatcheck.data.clevr.program import (
    ATTRIBUTES,
    RELATIONS,
    InvalidProgramError,
    Node,
    Output,
    execute,
    facts_of,
    read_program,
    write_program,
)

HANDMADE = {case["name"]: case for case in GOLDEN["ground_truth_programs"]}
GENERATED = [case for case in GOLDEN["generated_complex_questions"]["questions"] if case["question"]]
SCENE: dict[str, Any] = {"type": "scene", "inputs": [], "value_inputs": []}


@pytest.mark.parametrize("name", HANDMADE)
def test_every_node_of_a_recorded_program_returns_what_is_recorded(name: str) -> None:
    case = HANDMADE[name]
    program, recorded = read_program(case["program"])
    outputs = execute(program, RECORDED)
    assert outputs == recorded
    assert [list(output) if isinstance(output, tuple) else output for output in outputs] == case[
        "node_outputs"
    ]
    assert [type(output) for output in outputs] == [type(output) for output in recorded or ()]


@pytest.mark.parametrize(
    "case", GENERATED, ids=lambda case: f"{case['template_filename']}-{case['template_index']}"
)
def test_recorded_complex_questions_have_the_recorded_outputs_and_answer(case: dict[str, Any]) -> None:
    program, recorded = read_program(case["program"])
    outputs = execute(program, RECORDED)
    assert outputs == recorded
    assert outputs[-1] == case["answer"]
    assert type(outputs[-1]) is type(case["answer"])
    assert write_program(program, outputs) == case["program"]


BLUE_AND_RED = (Node("scene"), Node("filter_color", (0,), ("blue",)), Node("filter_color", (0,), ("red",)))
NO_CYAN = (Node("scene"), Node("filter_color", (0,), ("cyan",)))
NONE_AND_ALL = (*NO_CYAN, Node("count", (1,)), Node("count", (0,)))
YELLOW = (Node("scene"), Node("filter_color", (0,), ("yellow",)), Node("unique", (1,)))
CASES: dict[str, tuple[tuple[Node, ...], Output]] = {
    "same leaves the object itself out": ((*YELLOW, Node("same_shape", (2,))), (1, 3)),
    "union is sorted and without doubles": (
        (*BLUE_AND_RED, Node("union", (1, 2)), Node("union", (3, 1))),
        (1, 2, 3, 5),
    ),
    "an intersection may be empty": ((*BLUE_AND_RED, Node("intersect", (1, 2))), ()),
    "nothing is counted as zero": ((*NO_CYAN, Node("count", (1,))), 0),
    "nothing does not exist": ((*NO_CYAN, Node("exist", (1,))), False),
    "the first number is the left one": ((*NONE_AND_ALL, Node("less_than", (2, 3))), True),
    "and not the right one": ((*NONE_AND_ALL, Node("greater_than", (2, 3))), False),
}


@pytest.mark.parametrize(("program", "output"), CASES.values(), ids=CASES)
def test_functions_return(program: tuple[Node, ...], output: Output) -> None:
    found = execute(program, RECORDED)[-1]
    assert found == output
    assert type(found) is type(output)


@pytest.mark.parametrize(("color", "found"), [("red", r"\(1, 2\)"), ("cyan", r"\(\)")])
def test_unique_needs_exactly_one_object(color: str, found: str) -> None:
    program = (Node("scene"), Node("filter_color", (0,), (color,)), Node("unique", (1,)))
    with pytest.raises(InvalidProgramError, match=f"'unique' needs exactly one object, got {found}"):
        execute(program, RECORDED)


def test_an_unknown_function_is_named_when_executed() -> None:
    with pytest.raises(
        ValueError, match=r"node 0 has the unknown function 'frob'; known: scene, filter_size"
    ):
        execute((Node("frob"),), RECORDED)


@pytest.mark.parametrize("seed", range(5))
def test_relations_never_hold_in_both_directions(seed: int) -> None:
    facts = random_facts(seed)
    for one, other in (("left", "right"), ("behind", "front")):
        for i, row in enumerate(facts.relationships[one]):
            assert all(
                i in facts.relationships[other][j] and i not in facts.relationships[one][j] for j in row
            )


def test_both_dialects_of_files_are_read() -> None:
    clevr_xai = [SCENE, {"type": "filter_size", "inputs": [0], "value_inputs": ["small"]}]
    clevr = [
        {"function": node["type"], **{key: node[key] for key in ("inputs", "value_inputs")}}
        for node in clevr_xai
    ]
    expected = (Node("scene"), Node("filter_size", (0,), ("small",)))
    assert read_program(clevr_xai) == read_program(clevr) == (expected, None)


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([], "question 7 has no nodes"),
        ([{"inputs": []}], "question 7, node 0 names no function"),
        ([{"type": "frob", "inputs": []}], "node 0 has the unknown function 'frob'"),
        ([SCENE, {"type": "count", "inputs": []}], "node 1, count, needs 1 inputs and 0 values, got 0 and 0"),
        ([SCENE, {"type": "filter_size", "inputs": [0]}], "needs 1 inputs and 1 values, got 1 and 0"),
        ([SCENE, {"type": "count", "inputs": [1]}], r"may take only earlier nodes, got inputs \[1\]"),
        ([SCENE, {"type": "count", "inputs": [-1]}], r"may take only earlier nodes, got inputs \[-1\]"),
        ([SCENE, {"type": "count", "inputs": [False]}], "may take only earlier nodes"),
        (
            [SCENE, {"type": "relate", "inputs": [0], "value_inputs": ["above"]}],
            "unknown relation 'above'; known: left",
        ),
        ([{**SCENE, "_output": [0]}, {"type": "count", "inputs": [0]}], "node 1 lacks '_output'"),
        ([{**SCENE, "_output": {"a": 1}}], r"records the output \{'a': 1\}"),
        ([{**SCENE, "_output": None}], "records the output None"),
        ([{**SCENE, "_output": ["x"]}], r"records the output \['x'\]"),
    ],
)
def test_malformed_programs_say_where_and_what(nodes: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_program(nodes, "question 7")


def test_facts_hold_attributes_and_sorted_relations_only() -> None:
    assert set(RECORDED.relationships) == set(RELATIONS)
    assert all(set(item) == set(ATTRIBUTES) for item in RECORDED.objects)
    shuffled = {**GOLDEN["scene"]["scene"]}
    shuffled["relationships"] = {
        name: [row[::-1] for row in rows] for name, rows in shuffled["relationships"].items()
    }
    assert facts_of(shuffled) == RECORDED


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"objects": [{"size": "small"}]}, "lacks 'color'"),
        ({"relationships": {"left": []}}, "relation|lacks"),
        ({"relationships": None}, "relationships"),
    ],
)
def test_scenes_that_lack_something_say_what(change: dict[str, Any], says: str) -> None:
    graph = {**GOLDEN["scene"]["scene"], **change}
    if graph["relationships"] is None:
        del graph["relationships"]
    with pytest.raises(ValueError, match=says):
        facts_of(graph)


@pytest.mark.parametrize("rows", [[[]] * 5, [[6], [], [], [], [], []]])
def test_relations_must_be_between_the_objects_of_the_scene(rows: list[list[int]]) -> None:
    graph = {**GOLDEN["scene"]["scene"]}
    graph["relationships"] = {**graph["relationships"], "left": rows}
    with pytest.raises(ValueError, match=r"relation 'left' must list objects 0 to 5 for each of them"):
        facts_of(graph)
