"""Questions on which the Relation Network is trained."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from heatcheck.benchmarks.relation_complex import (
    FAMILIES,
    PROGRAM_CLASSES,
    ComplexQuestions,
    aim_of,
    complex_arrays,
    mirrored_slots,
    mirrored_tokens,
    program_slots,
    slots_of_simple,
)
from heatcheck.benchmarks.relation_questions import CLASSES, KINDS, SimpleQuestions, pad
from heatcheck.data.clevr.generate import complex_questions, simple_instances
from heatcheck.data.clevr.program import Node, SceneFacts, facts_of
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.templates import SIMPLE_TEMPLATES
from heatcheck.data.clevr.text import realize
from heatcheck.data.clevr.vocabulary import ANSWERS, encode, tokenize
from heatcheck.data.rendered import SPLITS
from heatcheck.data.scene_graph import scene_graph
from heatcheck.data.scenes import ATTRIBUTES, sample_scene

ASKED = {template.steps[-1].function.removeprefix("query_"): template for template in SIMPLE_TEMPLATES}


def facts(index: int) -> SceneFacts:
    return facts_of(scene_graph(sample_scene(0, index)))


def kinds_of(scene: SceneFacts) -> NDArray[np.int8]:
    rows = [[values.index(item[name]) for name, values in ATTRIBUTES.items()] for item in scene.objects]
    return np.array(rows, dtype=np.int8)


def named(slots: Sequence[int]) -> dict[str, str]:
    """Attributes that a question names, by its slots for them."""
    return {name: ATTRIBUTES[name][slot - 1] for name, slot in zip(KINDS, slots, strict=True) if slot}


@pytest.mark.parametrize("index", [0, 3, 4])
def test_simple_questions_are_all_that_the_templates_can_ask(index: int) -> None:
    scene = facts(index)
    questions = SimpleQuestions([kinds_of(scene)])
    for place, name in enumerate(KINDS):
        mine = set()
        for item, bits in (divmod(int(choice), 16) for choice in questions.choices[0][place]):
            literals = {kind: scene.objects[item][kind] for k, kind in enumerate(KINDS) if bits >> k & 1}
            mine.add((tuple(sorted(literals.items())), scene.objects[item][name]))
        theirs = {
            (tuple(sorted((k, v) for k, v in found.phrases[0]._asdict().items() if v)), found.outputs[-1])
            for found in simple_instances(scene, ASKED[name])
        }
        assert mine == theirs
        assert len(questions.choices[0][place]) == len(theirs)


def test_simple_questions_ask_for_an_attribute_of_the_only_object_they_name() -> None:
    scenes = [facts(index) for index in range(3)]
    source = SimpleQuestions([kinds_of(scene) for scene in scenes])
    rows = np.arange(60) % 3
    asked = source.draw(rows, np.zeros(60, dtype=np.bool_), np.random.default_rng(0))
    for place, row in enumerate(rows.tolist()):
        kind, *slots = asked.slots[place].tolist()
        literals = named(slots)
        fitting = [item for item in scenes[row].objects if literals.items() <= item.items()]
        assert len(fitting) == 1
        assert ANSWERS[asked.answers[place]] == fitting[0][KINDS[kind]]
        assert asked.targets[place].nonzero()[0].tolist() == [scenes[row].objects.index(fitting[0])]
        assert KINDS[kind] not in literals
    assert asked.references.all()
    assert asked.known.all()


def test_simple_questions_are_put_in_the_words_of_the_templates() -> None:
    scene = facts(0)
    source = SimpleQuestions([kinds_of(scene)])
    draw = np.random.default_rng(1)
    known: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    asked = source.draw(np.zeros(300, dtype=np.int64), np.zeros(300, dtype=np.bool_), draw)
    for place in range(300):
        key = tuple(asked.slots[place].tolist())
        if key not in known:
            known[key] = readings(scene, key)
        assert tuple(asked.tokens[place, : asked.lengths[place]].tolist()) in known[key]
    assert len(known) > 10


def readings(scene: SceneFacts, key: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Many of the ways to put one question in words, which are all for questions of few words."""
    template, literals = ASKED[KINDS[key[0]]], named(key[1:])
    instance = next(
        found
        for found in simple_instances(scene, template)
        if {k: v for k, v in found.phrases[0]._asdict().items() if v} == literals
    )
    draw = np.random.default_rng(0)
    return {tokenize(realize(template, instance.phrases, draw)) for _ in range(1500)}


def test_the_same_numbers_draw_the_same_questions() -> None:
    source = SimpleQuestions([kinds_of(facts(0))])
    still = np.zeros(20, dtype=np.bool_)
    one, other = (source.draw(np.zeros(20, dtype=np.int64), still, np.random.default_rng(3)) for _ in "ab")
    assert torch.equal(one.tokens, other.tokens)


def test_what_is_asked_for_follows_the_shares() -> None:
    source = SimpleQuestions([kinds_of(facts(0))], shares=(0.0, 0.0, 1.0, 0.0))
    asked = source.draw(np.zeros(30, dtype=np.int64), np.zeros(30, dtype=np.bool_), np.random.default_rng(3))
    assert set(asked.slots[:, 0].tolist()) == {KINDS.index("material")}


def test_scenes_without_a_question_are_known_and_refused() -> None:
    twins = np.array([[0, 1, 0, 3]] * 2 + [[1, 0, 1, 5]] * 2, dtype=np.int8)
    source = SimpleQuestions([kinds_of(facts(0)), twins, kinds_of(facts(1))])
    assert source.askable.tolist() == [0, 2]
    with pytest.raises(ValueError, match="no simple question about scene 1"):
        source.draw(np.array([0, 1]), np.zeros(2, dtype=np.bool_), np.random.default_rng(0))


def test_questions_are_padded_at_the_end() -> None:
    tokens, lengths = pad([[4, 5], [6, 7, 8], [9]])
    assert tokens.tolist() == [[4, 5, 0], [6, 7, 8], [9, 0, 0]]
    assert lengths.tolist() == [2, 3, 1]


@pytest.fixture(scope="module")
def asked_complex() -> list[Question]:
    return complex_questions([facts(index) for index in range(6)], seed=0, per_image=40)


def test_an_aim_is_the_last_set_and_the_object_it_is_related_to(asked_complex: list[Question]) -> None:
    aims = [aim_of(question.program, question.outputs) for question in asked_complex]
    for question, aim in zip(asked_complex, aims, strict=True):
        relations = [n for n in question.program if n.function.startswith(("relate", "same_"))]
        compares = any(node.function.startswith(("equal", "less", "greater")) for node in question.program)
        if len(relations) > 1 or compares:
            assert aim is None
        elif aim is not None:
            assert (aim.references is None) == (not relations)
            if question.program[-1].function == "count":
                assert len(aim.targets) == question.outputs[-1]
            if question.program[-1].function.startswith("query_"):
                assert len(aim.targets) == 1
    assert 0.3 < np.mean([aim is not None for aim in aims]) < 0.8


def test_slots_say_what_each_phrase_names() -> None:
    program = (
        Node("scene"),
        Node("filter_size", (0,), ("small",)),
        Node("unique", (1,)),
        Node("relate", (2,), ("right",)),
        Node("filter_shape", (3,), ("cylinder",)),
        Node("exist", (4,)),
    )
    assert program_slots(7, program) == [7, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, *[0] * 10]


def test_slots_stay_below_their_numbers_of_classes(asked_complex: list[Question]) -> None:
    for question in asked_complex:
        family = FAMILIES.index((question.template_file, question.family))
        slots = program_slots(family, question.program)
        assert len(slots) == len(PROGRAM_CLASSES)
        assert all(slot < count for slot, count in zip(slots, PROGRAM_CLASSES, strict=True))


def test_slots_of_a_mirrored_program_are_the_mirrored_slots(asked_complex: list[Question]) -> None:
    swap = {"left": "right", "right": "left"}
    for question in asked_complex:
        mirrored = tuple(
            Node(node.function, node.inputs, tuple(swap.get(value, value) for value in node.values))
            for node in question.program
        )
        slots = np.array([program_slots(0, question.program)])
        assert mirrored_slots(slots)[0].tolist() == program_slots(0, mirrored)


@pytest.mark.parametrize("phrase", ["Is it {} of that?", "to the {} of", "on the {} side of the ball"])
def test_mirrored_questions_say_right_instead_of_left(phrase: str) -> None:
    left, right = (np.array([tokenize(phrase.format(word))]) for word in ("left", "right"))
    assert np.array_equal(mirrored_tokens(left), right)
    assert np.array_equal(mirrored_tokens(mirrored_tokens(left)), left)


def test_simple_questions_have_the_slots_of_queries_without_a_relation() -> None:
    scene = facts(0)
    source = SimpleQuestions([kinds_of(scene)])
    still = np.zeros(40, dtype=np.bool_)
    asked = source.draw(np.zeros(40, dtype=np.int64), still, np.random.default_rng(0))
    for mine, slots in zip(slots_of_simple(asked.slots).tolist(), asked.slots.tolist(), strict=True):
        found = next(
            item
            for item in simple_instances(scene, ASKED[KINDS[slots[0]]])
            if {k: v for k, v in item.phrases[0]._asdict().items() if v} == named(slots[1:])
        )
        index = ("count", "exist", "shape", "material", "color", "size").index(KINDS[slots[0]])
        assert mine == program_slots(FAMILIES.index(("zero_hop.json", index)), found.program)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ComplexQuestions:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATCHECK_CACHE", str(tmp_path_factory.mktemp("cache")))
        arrays = complex_arrays("heldout", 4, per_image=5, block=2)
        again = complex_arrays("heldout", 4, per_image=5, block=2)
    assert all(np.array_equal(values, again[name]) for name, values in arrays.items())
    scenes = [facts(SPLITS["heldout"] + row) for row in range(4)]
    return ComplexQuestions(arrays, SimpleQuestions([kinds_of(scene) for scene in scenes]), share=0.5)


def test_complex_questions_are_those_of_the_generator(made: ComplexQuestions) -> None:
    first = SPLITS["heldout"] + 2
    expected = complex_questions([facts(first), facts(first + 1)], seed=0, first=first, per_image=5)
    rows, asked = made.at(np.arange(10, 20))
    assert rows.tolist() == [question.image - first + 2 for question in expected]
    encoded = encode([question.text for question in expected])
    assert torch.equal(asked.lengths, encoded.lengths)
    assert torch.equal(asked.tokens, encoded.tokens)
    assert [ANSWERS[answer] for answer in asked.answers] == [question.answer for question in expected]
    aims = [aim_of(question.program, question.outputs) for question in expected]
    for place, aim in enumerate(aims):
        assert asked.known[place] == (aim is not None)
        if aim is not None:
            assert asked.targets[place].nonzero()[0].tolist() == list(aim.targets)
            assert asked.references[place].all() == (aim.references is None)


def test_simple_questions_are_mixed_in_by_their_share(made: ComplexQuestions) -> None:
    rows = np.arange(200) % 4
    mirrored = np.arange(200) % 3 == 0
    asked = made.draw(rows, mirrored, np.random.default_rng(0))
    queries = {FAMILIES.index(("zero_hop.json", index)) for index in range(2, 6)}
    simple = sum(slots[0] in queries for slots in asked.slots.tolist())
    assert 70 <= simple <= 130
    assert asked.tokens.shape[1] >= int(asked.lengths.max())
    ends = asked.tokens.gather(1, asked.lengths[:, None] - 1)
    assert (ends > 0).all()
    assert made.slot_classes == PROGRAM_CLASSES
    assert len(made) == 20


def test_without_scenes_there_is_nothing_to_ask() -> None:
    with pytest.raises(ValueError, match="at least one scene"):
        complex_arrays("train", 0)
    assert CLASSES == (3, 2, 2, 8)
