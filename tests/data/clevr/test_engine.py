"""What templates may say about a scene: the recorded instances, and what must hold on any scene."""

from collections.abc import Callable
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from tests.data.clevr.clevr_facts import RECORDED, functions, random_facts
from tests.data.clevr.recorded import GOLDEN

from heatcheck.data.clevr.balance import possible_answers
from heatcheck.data.clevr.engine import Match, search, searchable
from heatcheck.data.clevr.expansion import is_degenerate, program_of, without_relation
from heatcheck.data.clevr.generate import simple_instances
from heatcheck.data.clevr.program import ATTRIBUTES, Node, SceneFacts, execute, read_program
from heatcheck.data.clevr.templates import COMPLEX_TEMPLATES, SIMPLE_TEMPLATES, Template
from heatcheck.data.clevr.text import Phrase
from heatcheck.data.clevr.vocabulary import ANSWERS, answer_text
from heatcheck.data.scenes import ATTRIBUTES as VALUES

BY_NAME = {f"{item.file}-{item.index}": item for item in COMPLEX_TEMPLATES}
SCENES = [RECORDED, *(random_facts(seed) for seed in range(4))]


def matches(template: Template, facts: SceneFacts, n: int, seed: int = 0) -> list[Match]:
    return list(islice(search(template, searchable(facts), np.random.default_rng(seed)), n))


@pytest.mark.parametrize(
    "case", GOLDEN["simple_template_instances"]["templates"], ids=lambda case: case["final_function"]
)
def test_simple_templates_say_exactly_what_is_recorded(case: dict[str, Any]) -> None:
    found = simple_instances(RECORDED, SIMPLE_TEMPLATES[case["template_index"]])
    ours = {
        (tuple((node.function, node.values) for node in item.program), item.outputs[-1]) for item in found
    }
    recorded = {
        (tuple((function, tuple(values)) for function, values in program), answer)
        for program, answer in case["instances"]
    }
    assert ours == recorded
    assert len(found) == len(recorded) == case["number"]
    assert found == simple_instances(RECORDED, SIMPLE_TEMPLATES[case["template_index"]])


def test_as_many_kinds_fit_an_object_and_exactly_one_as_recorded() -> None:
    kinds = searchable(RECORDED).kinds
    recorded = GOLDEN["filter_options_unique"]
    assert len(kinds) == recorded["total"]
    assert sum(fitting.bit_count() == 1 for _, fitting in kinds) == recorded["unique"]


@pytest.mark.parametrize("facts", SCENES)
def test_kinds_and_missing_ones_are_all_there_are(facts: SceneFacts) -> None:
    scene = searchable(facts)
    for phrase, fitting in [*scene.kinds, *((phrase, 0) for phrase in scene.missing)]:
        named = {name: getattr(phrase, name) for name in ATTRIBUTES if getattr(phrase, name) is not None}
        objects = [i for i, item in enumerate(facts.objects) if named.items() <= item.items()]
        assert fitting == sum(2**i for i in objects)
    said = [*(phrase for phrase, _ in scene.kinds), *scene.missing]
    assert len(said) == len(set(said)) == 3 * 9 * 3 * 4


@pytest.mark.parametrize("template", BY_NAME.values(), ids=BY_NAME)
def test_the_program_of_a_reading_gives_its_answer_and_keeps_the_constraints(template: Template) -> None:
    for seed, facts in enumerate(SCENES):
        for match in matches(template, facts, 20, seed):
            program = program_of(template, match.phrases)
            outputs = execute(program, facts)  # a unique node without its one object would raise
            assert outputs[-1] == match.answer
            assert type(outputs[-1]) is type(match.answer)
            assert answer_text(match.answer) in possible_answers(template)
            assert all(getattr(match.phrases[number - 1], name) is None for number, name in template.silent)
            ends = [
                execute(_until(template, place, match), facts)[-1] for place in range(len(template.steps))
            ]
            assert all(ends[one] != ends[other] for one, other in template.differ)


def _until(template: Template, place: int, match: Match) -> tuple[Node, ...]:
    cut = Template(template.file, 0, template.steps[: place + 1], (), frozenset(), ())
    return program_of(cut, match.phrases)


def all_phrases(relations: tuple[str | None, ...] = (None,)) -> list[Phrase]:
    values = [(None, *VALUES[name]) for name in ATTRIBUTES]
    return [Phrase(*said) for said in product(relations, *values)]


@pytest.mark.parametrize("facts", SCENES)
def test_the_search_finds_every_reading_of_a_query_and_none_twice(facts: SceneFacts) -> None:
    template = BY_NAME["zero_hop.json-4"]  # color
    found = [match.phrases for match in matches(template, facts, 10**6)]
    expected = {
        (phrase,) for phrase in all_phrases() if phrase.color is None and len(_fitting(phrase, facts)) == 1
    }
    assert set(found) == expected
    assert len(found) == len(expected)


def _fitting(phrase: Phrase, facts: SceneFacts, among: tuple[int, ...] | None = None) -> list[int]:
    places = range(len(facts.objects)) if among is None else among
    return [
        i
        for i in places
        if all(getattr(phrase, name) in (None, facts.objects[i][name]) for name in ATTRIBUTES)
    ]


@pytest.mark.parametrize("facts", SCENES)
def test_one_relation_in_ten_leaves_nothing_out(facts: SceneFacts) -> None:
    template = BY_NAME["one_hop.json-0"]
    by_reference: dict[Phrase, list[Match]] = {}
    for match in matches(template, facts, 5000):
        by_reference.setdefault(match.phrases[0], []).append(match)
    for reference, found in list(by_reference.items())[:-1]:  # the last one may be cut off
        (one,) = _fitting(reference, facts)
        trivial = 0
        for match in found:
            phrase = match.phrases[1]
            related = facts.relationships[str(phrase.relation)][one]
            trivial += _fitting(phrase, facts, related) == _fitting(phrase, facts)
        n_useful = len(found) - trivial
        assert trivial <= round(n_useful / 9)


def _singles(counts: list[int]) -> int:
    return sum(n == 1 for n in counts)


@pytest.mark.parametrize(
    ("name", "n_absent"), [("zero_hop.json-1", len), ("zero_hop.json-0", _singles)], ids=["exist", "count"]
)
@pytest.mark.parametrize("facts", SCENES)
def test_absent_kinds_are_asked_about_as_often_as_the_generator_does(
    name: str, n_absent: Callable[[list[int]], int], facts: SceneFacts
) -> None:
    found = matches(BY_NAME[name], facts, 10**6)
    assert len({match.phrases for match in found}) == len(found)
    present = [n for n in (len(_fitting(phrase, facts)) for phrase in all_phrases()) if n]
    absent = [match for match in found if not _fitting(match.phrases[0], facts)]
    assert len(found) - len(absent) == len(present)
    assert len(absent) == n_absent(present)
    assert not any(match.answer for match in absent)


def test_a_plain_filter_always_names_something() -> None:
    for match in matches(BY_NAME["single_or.json-0"], RECORDED, 3000):
        assert Phrase() not in match.phrases


def test_the_order_is_random_but_given_by_the_generator() -> None:
    template = BY_NAME["two_hop.json-0"]
    one, same, other = (matches(template, RECORDED, 30, seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_search_through_billions_of_readings_ends() -> None:
    template = BY_NAME["three_hop.json-0"]
    found = sum(1 for _ in search(template, searchable(random_facts(3, 10)), np.random.default_rng(0)))
    assert 1_000 < found < 20_000


@pytest.mark.parametrize("case", GOLDEN["degeneracy"], ids=lambda case: case["name"])
def test_degenerate_questions_are_those_recorded(case: dict[str, Any]) -> None:
    nodes, truncated = (
        [{**node, "value_inputs": node.get("side_inputs", [])} for node in case[name]]
        for name in ("program", "truncated_program")
    )
    program, _ = read_program(nodes)
    assert execute(program, RECORDED)[-1] == case["answer"]
    place = functions(program).index("relate")
    assert without_relation(program, place) == read_program(truncated)[0]
    assert execute(without_relation(program, place), RECORDED)[-1] == case["answer_truncated"]
    assert is_degenerate(program, RECORDED) is case["degenerate"]


def test_a_question_that_makes_no_sense_without_its_relation_needs_it() -> None:
    program = (
        Node("scene"),
        Node("filter_color", (0,), ("gray",)),
        Node("unique", (1,)),
        Node("relate", (2,), ("behind",)),  # only the yellow ball
        Node("unique", (3,)),
        Node("query_color", (4,)),
    )
    assert execute(program, RECORDED)[-1] == "yellow"
    assert not is_degenerate(program, RECORDED)


def test_every_answer_of_a_template_is_in_the_vocabulary() -> None:
    for template in (*SIMPLE_TEMPLATES, *COMPLEX_TEMPLATES):
        assert set(possible_answers(template)) <= set(ANSWERS)
