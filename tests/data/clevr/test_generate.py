"""Questions about series of scenes."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.data.clevr.clevr_facts import functions, random_facts

from heatcheck.data.clevr import generate
from heatcheck.data.clevr.balance import open_answers
from heatcheck.data.clevr.expansion import is_degenerate
from heatcheck.data.clevr.generate import complex_questions, simple_questions
from heatcheck.data.clevr.program import execute
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.templates import COMPLEX_TEMPLATES, SIMPLE_TEMPLATES
from heatcheck.data.clevr.vocabulary import ANSWERS, UNKNOWN, answer_text, tokenize

SCENES = [random_facts(seed) for seed in range(24)]
SIMPLE = simple_questions(SCENES, seed=5, first=100)
COMPLEX = complex_questions(SCENES, seed=5, first=100)


@pytest.mark.parametrize("questions", [SIMPLE, COMPLEX], ids=["simple", "complex"])
def test_questions_are_numbered_and_answered_by_their_programs(questions: list[Question]) -> None:
    assert [question.index for question in questions] == list(range(len(questions)))
    for question in questions:
        outputs = execute(question.program, SCENES[question.image - 100])
        assert question.outputs == outputs
        assert not isinstance(outputs[-1], tuple)
        assert question.answer == answer_text(outputs[-1])
        assert question.answer in ANSWERS
        assert UNKNOWN not in tokenize(question.text)


def test_every_scene_gets_ten_complex_questions_of_different_forms() -> None:
    by_image: dict[int, list[tuple[str, int]]] = {}
    for question in COMPLEX:
        by_image.setdefault(question.image, []).append((question.template_file, question.family))
    assert list(by_image) == list(range(100, 124))
    assert all(len(forms) == len(set(forms)) == 10 for forms in by_image.values())


def test_forms_are_used_equally_often() -> None:
    used = Counter((question.template_file, question.family) for question in COMPLEX)
    assert len(used) == 90
    # A form whose numbers must differ but be equal has one answer, which closes at once.
    assert used.pop(("compare_integer.json", 0)) == 1
    assert max(used.values()) - min(used.values()) <= 1


def test_a_scene_is_asked_each_simple_question_at_most_once() -> None:
    pairs = [(question.image, question.family) for question in SIMPLE]
    assert len(pairs) == len(set(pairs))
    assert len(SIMPLE) > 0.9 * 4 * len(SCENES)
    assert {question.template_file for question in SIMPLE} == {"unique_query.json"}


def test_simple_questions_are_about_one_object_found_by_the_last_filter() -> None:
    for question in SIMPLE:
        names = functions(question.program)
        assert names[0] == "scene"
        assert names[-2] == "unique"
        assert names[-1].startswith("query_")
        filters = names[1:-2]
        assert filters
        assert all(name.startswith("filter_") for name in filters)
        assert names[-1].replace("query_", "filter_") not in filters
        assert question.outputs[-3] == (question.outputs[-2],)


def test_answers_were_open_when_they_were_given() -> None:
    templates = {(item.file, item.index): item for item in (*SIMPLE_TEMPLATES, *COMPLEX_TEMPLATES)}
    for questions in (SIMPLE, COMPLEX):
        counts: dict[tuple[str, int], Counter[str]] = {}
        for question in questions:
            key = (question.template_file, question.family)
            given = counts.setdefault(key, Counter())
            assert question.answer in open_answers(templates[key], given)
            given[question.answer] += 1


def test_no_relation_of_two_at_once_can_be_left_out() -> None:
    both = [question for question in COMPLEX if question.template_file == "single_and.json"]
    assert len(both) >= 10
    for question in both:
        assert not is_degenerate(question.program, SCENES[question.image - 100])


def test_questions_are_given_by_seed_and_scene_alone() -> None:
    assert complex_questions(SCENES[:6], seed=5, first=100) == [q for q in COMPLEX if q.image < 106]
    assert simple_questions(SCENES[:6], seed=5, first=100) == [q for q in SIMPLE if q.image < 106]
    assert simple_questions(SCENES, seed=6, first=100) != SIMPLE
    assert simple_questions(SCENES, seed=5, first=101) != [replace(q, image=q.image + 1) for q in SIMPLE]


def test_blocks_know_nothing_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "BLOCK", 8)
    whole = complex_questions(SCENES, seed=1, first=40)
    parts = [complex_questions(SCENES[start : start + 8], seed=1, first=40 + start) for start in (0, 8, 16)]
    joined = [question for part in parts for question in part]
    assert [replace(question, index=index) for index, question in enumerate(joined)] == whole


def test_fewer_questions_are_the_first_of_more() -> None:
    few = complex_questions(SCENES[:1], seed=2, per_image=3)
    more = complex_questions(SCENES[:1], seed=2, per_image=10)
    assert few == more[:3]


def test_a_scene_without_distinct_objects_gets_the_questions_that_are_left() -> None:
    twins = random_facts(0, 2)
    twins = type(twins)((twins.objects[0],) * 2, twins.relationships)
    assert simple_questions([twins], seed=0) == []
    found = complex_questions([twins], seed=0, per_image=90)
    assert found
    assert not any("unique" in functions(question.program) for question in found)
