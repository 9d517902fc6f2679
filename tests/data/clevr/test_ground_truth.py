"""Which objects decide an answer: the recorded sets of CLEVR-XAI, and how the five sets relate."""

from typing import Any

import numpy as np
import pytest
from tests.data.clevr.recorded import GOLDEN, from_runs, recorded_owners

from heatcheck.data.clevr.ground_truth import GROUND_TRUTHS, RELEASED, object_set
from heatcheck.data.clevr.mask_images import object_mask, resize_mask
from heatcheck.data.clevr.program import Node, Output, Program, execute, facts_of, read_program

CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in GOLDEN["ground_truth_programs"]}
FACTS = facts_of(GOLDEN["scene"]["scene"])
OWNERS = recorded_owners()
N_OBJECTS = 6
RECORDED_NAMES = {
    "unique": "unique",
    "unique-first-nonempty": "unique_first_nonempty",
    "union": "union",
    "all": "all_objects",
}
GENERATED = [item for item in GOLDEN["generated_complex_questions"]["questions"] if item["question"]]
CHAIN = ("unique", "unique-first-nonempty", "union", "all")


def program_of(nodes: list[dict[str, Any]]) -> tuple[Program, tuple[Output, ...]]:
    program, outputs = read_program(nodes)
    assert outputs is not None
    return program, outputs


def check_masks(objects: tuple[int, ...], recorded: dict[str, Any]) -> None:
    mask = object_mask(OWNERS, objects)
    small = resize_mask(mask, 128)
    assert (mask.sum(), small.sum()) == (recorded["n_320x480"], recorded["n_128x128"])
    if "runs_128x128" in recorded:
        np.testing.assert_array_equal(small, from_runs(recorded["runs_128x128"]))


@pytest.mark.parametrize("name", RECORDED_NAMES)
@pytest.mark.parametrize("case", CASES)
def test_objects_and_masks_are_the_recorded_ones(case: str, name: str) -> None:
    program, outputs = program_of(CASES[case]["program"])
    recorded = CASES[case]["ground_truths"][RECORDED_NAMES[name]]
    objects = object_set(name, program, outputs, N_OBJECTS)
    assert list(objects or ()) == recorded["objects"]
    if objects is None:
        assert recorded["mask"] is None
        return
    assert (len(objects), N_OBJECTS) == tuple(recorded["stats"].values())
    check_masks(objects, recorded)


def test_the_single_object_is_defined_where_the_published_code_stops_with_an_error() -> None:
    published = [case["ground_truths"]["first (last filter, code as published)"] for case in CASES.values()]
    assert {item["error"] for item in published} == {"TypeError: unhashable type: 'list'"}
    recorded = CASES["simple_material"]["ground_truths"]["single_object (last filter, intended)"]
    objects = object_set("single", *program_of(CASES["simple_material"]["program"]), N_OBJECTS)
    assert objects == tuple(recorded["objects"])
    check_masks(objects, recorded)


@pytest.mark.parametrize("case", CASES)
def test_executing_a_recorded_program_gives_its_recorded_outputs(case: str) -> None:
    program, outputs = program_of(CASES[case]["program"])
    assert execute(program, FACTS) == outputs


@pytest.mark.parametrize(
    "item", GENERATED, ids=lambda item: f"{item['template_filename']}-{item['template_index']}"
)
def test_objects_of_generated_questions_are_the_recorded_ones(item: dict[str, Any]) -> None:
    program, outputs = program_of(item["program"])
    for name, recorded in item["ground_truth_objects"].items():
        objects = object_set(name.replace("_", "-"), program, outputs, N_OBJECTS)
        assert list(objects or ()) == recorded, name


@pytest.mark.parametrize("first", ["published", "both-branches"])
@pytest.mark.parametrize(
    "item", GENERATED, ids=lambda item: f"{item['template_filename']}-{item['template_index']}"
)
def test_each_ground_truth_contains_the_one_before(item: dict[str, Any], first: Any) -> None:
    program, outputs = program_of(item["program"])
    sets = [set(object_set(name, program, outputs, N_OBJECTS, first=first) or ()) for name in CHAIN]
    assert sets[0] <= sets[1] <= sets[2] <= sets[3] == set(range(N_OBJECTS))


@pytest.mark.parametrize(
    "item", GENERATED, ids=lambda item: f"{item['template_filename']}-{item['template_index']}"
)
def test_both_modes_agree_but_for_comparisons_of_numbers(item: dict[str, Any]) -> None:
    program, outputs = program_of(item["program"])
    published = object_set("unique-first-nonempty", program, outputs, N_OBJECTS)
    both = object_set("unique-first-nonempty", program, outputs, N_OBJECTS, first="both-branches")
    if program[-1].function in {"equal_integer", "less_than", "greater_than"}:
        assert set(published or ()) <= set(both or ())
    else:
        assert published == both


@pytest.mark.parametrize(
    ("case", "published", "both"),
    [
        ("compare_integer_both", (1, 3, 4), (1, 2, 3, 4)),
        ("compare_integer_second_empty", (1, 2), (1, 2)),
        ("compare_integer_relate", (1, 2, 4, 5), (0, 1, 2, 4, 5)),
        ("compare_attribute", (0, 2), (0, 2)),
        ("or_all_empty", None, None),
        ("and_empty_branches", (0, 2, 4), (0, 2, 4)),
    ],
)
def test_both_branches_of_a_comparison_count_when_asked_for(
    case: str, published: tuple[int, ...] | None, both: tuple[int, ...] | None
) -> None:
    program, outputs = program_of(CASES[case]["program"])
    name = "unique-first-nonempty"
    assert object_set(name, program, outputs, N_OBJECTS) == published
    assert object_set(name, program, outputs, N_OBJECTS, first="both-branches") == both


def test_a_chain_ends_where_two_branches_meet() -> None:
    # The chain of the first input leads to a union of two empty sets; what lies behind it does not count.
    program = (
        Node("scene"),
        Node("filter_color", (0,), ("cyan",)),
        Node("filter_size", (1,), ("large",)),
        Node("union", (2, 2)),
        Node("filter_shape", (3,), ("cube",)),
        Node("intersect", (4, 4)),
        Node("count", (5,)),
    )
    outputs: tuple[Output, ...] = ((0, 1), (0,), (), (), (), (), 0)
    assert object_set("unique-first-nonempty", program, outputs, 2) is None
    assert object_set("union", program, outputs, 2) == (0,)


@pytest.mark.parametrize("last", [(), (0, 1)])
def test_a_single_object_is_undefined_unless_the_last_filter_leaves_exactly_one(
    last: tuple[int, ...],
) -> None:
    program = (Node("scene"), Node("filter_color", (0,), ("cyan",)), Node("count", (1,)))
    assert object_set("single", program, ((0, 1), last, len(last)), 2) is None
    assert object_set("single", program[:1], ((0, 1),), 2) is None


def test_a_later_scene_node_does_not_count_in_the_union() -> None:
    program = (Node("scene"), Node("filter_color", (0,), ("cyan",)), Node("scene"), Node("count", (2,)))
    assert object_set("union", program, ((0, 1, 2), (1,), (0, 1, 2), 3), 3) == (1,)


def test_a_scene_without_objects_has_no_ground_truth() -> None:
    program = (Node("scene"), Node("exist", (0,)))
    assert [object_set(name, program, ((), False), 0) for name in GROUND_TRUTHS] == [None] * 5


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            ("first", (Node("scene"),), ((),), 0),
            {},
            "unknown ground truth 'first'; allowed: single, all, unique",
        ),
        (("unique", (Node("scene"),), ((),), 0), {"first": "second"}, "unknown mode first='second'"),
        (("unique", (Node("scene"),), (), 0), {}, "1 nodes, but 0 outputs"),
    ],
)
def test_unknown_names_and_missing_outputs_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        object_set(*arguments, **options)


def test_the_published_ground_truths_are_among_the_five() -> None:
    assert {name for names in RELEASED.values() for name in names} == set(GROUND_TRUTHS)
