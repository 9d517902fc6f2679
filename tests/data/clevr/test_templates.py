"""Templates: their number, programs, constraints and words."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tests.data.clevr.clevr_facts import RECORDED
from tests.data.clevr.recorded import GOLDEN

from heatcheck.data.clevr.expansion import program_of
from heatcheck.data.clevr.program import ATTRIBUTES, execute, read_program
from heatcheck.data.clevr.templates import COMPLEX_TEMPLATES, SIMPLE_TEMPLATES, Template
from heatcheck.data.clevr.text import SYNONYMS, THING, Phrase
from heatcheck.data.clevr.vocabulary import WORDS
from heatcheck.data.scenes import ATTRIBUTES as VALUES

GENERATED = {
    (case["template_filename"], case["template_index"]): case
    for case in GOLDEN["generated_complex_questions"]["questions"]
    if case["question"]
}
ALL = {f"{template.file}-{template.index}": template for template in (*SIMPLE_TEMPLATES, *COMPLEX_TEMPLATES)}
COMPLEX = {name: template for name, template in ALL.items() if template not in SIMPLE_TEMPLATES}
PUT_RIGHT = "comparison.json-4"  # the recorded generator is silent about the wrong object in this one


def test_files_have_as_many_templates_as_those_of_clevr() -> None:
    assert Counter(template.file for template in COMPLEX_TEMPLATES) == {
        "zero_hop.json": 6,
        "one_hop.json": 6,
        "two_hop.json": 6,
        "three_hop.json": 6,
        "compare_integer.json": 9,
        "comparison.json": 16,
        "same_relate.json": 28,
        "single_and.json": 5,
        "single_or.json": 8,
    }
    assert [(template.file, template.index) for template in SIMPLE_TEMPLATES] == [
        ("unique_query.json", index) for index in range(4)
    ]


def test_ten_complex_templates_name_no_object_for_certain() -> None:
    unnamed = [
        template
        for template in COMPLEX_TEMPLATES
        if not any(node.function == "unique" for node in program_of(template, (Phrase("left"),) * 4))
    ]
    assert Counter(template.file for template in unnamed) == {
        "zero_hop.json": 2,
        "compare_integer.json": 3,
        "single_or.json": 5,
    }


def recorded_phrases(template: Template, nodes: list[dict[str, Any]]) -> tuple[Phrase, ...]:
    """What a recorded program says in the words of a template; fails where its form is another."""
    waiting = list(nodes)
    phrases = [Phrase() for _ in range(template.n_phrases)]

    def take(function: str) -> str | None:
        assert waiting[0]["type"] == function
        values = waiting.pop(0)["value_inputs"]
        return values[0] if values else None

    for step in template.steps:
        parts = step.function.split("_")
        if not step.phrase:
            take(step.function)
            continue
        said = {"relation": take("relate")} if "relate" in parts else {}
        for name in ATTRIBUTES if "filter" in parts else ():
            if waiting[0]["type"] == f"filter_{name}":
                said[name] = take(f"filter_{name}")
        if parts[-1] in ("unique", "count", "exist"):
            take(parts[-1])
        phrases[step.phrase - 1] = phrases[step.phrase - 1]._replace(**said)
    assert not waiting
    return tuple(phrases)


@pytest.mark.parametrize("template", COMPLEX.values(), ids=COMPLEX)
def test_the_recorded_question_of_a_template_is_one_of_ours_node_by_node(template: Template) -> None:
    case = GENERATED[template.file, template.index]
    phrases = recorded_phrases(template, case["program"])
    program, outputs = read_program(case["program"])
    assert program_of(template, phrases) == program
    assert execute(program, RECORDED) == outputs


@pytest.mark.parametrize("name", [name for name in COMPLEX if name != PUT_RIGHT])
def test_recorded_questions_obey_our_constraints(name: str) -> None:
    template = COMPLEX[name]
    case = GENERATED[template.file, template.index]
    phrases = recorded_phrases(template, case["program"])
    assert all(getattr(phrases[number - 1], name) is None for number, name in template.silent)
    ends = _step_outputs(template, phrases)
    assert all(ends[one] != ends[other] for one, other in template.differ)


def _step_outputs(template: Template, phrases: tuple[Phrase, ...]) -> list[Any]:
    """Output of the last node of each step: that of the program cut off there."""
    found = []
    for place in range(len(template.steps)):
        cut = replace(template, steps=template.steps[: place + 1])
        found.append(execute(program_of(cut, phrases), RECORDED)[-1])
    return found


@pytest.mark.parametrize(
    ("index", "silent"),
    [
        (0, {(1, "size"), (2, "size")}),
        (4, {(2, "size"), (3, "size")}),
        (5, {(1, "size"), (3, "size")}),
        (6, {(2, "size"), (4, "size")}),
        (15, {(2, "shape"), (4, "shape")}),
    ],
)
def test_comparisons_are_silent_about_the_attribute_of_the_compared_objects(
    index: int, silent: set[tuple[int, str]]
) -> None:
    template = ALL[f"comparison.json-{index}"]
    assert template.silent == silent
    name = next(iter(silent))[1]
    assert template.steps[-1].function == f"equal_{name}"


def words_of(template: Template) -> set[str]:
    """All words that questions of a template can have."""
    words: set[str] = set()
    for pattern in template.patterns:
        words |= set(re.sub(r"\{\w+\}|[][;]", " ", pattern).split())
        for number, plural in re.findall(r"\{(\d)(s?)\}", pattern):
            words |= _noun_words(template, int(number), plural)
        if "{R" in pattern:
            words |= {word for value in VALUES_OF_RELATION for word in _spoken(value)}
    if "a" in words and _vowel_follows(template):
        words.add("an")
    return words


VALUES_OF_RELATION = ("left", "right", "behind", "front")


def _spoken(value: str) -> set[str]:
    return {word for synonym in SYNONYMS.get(value, (value,)) for word in synonym.split()}


def _noun_words(template: Template, number: int, plural: str) -> set[str]:
    named = [name for name in ATTRIBUTES if (number, name) not in template.silent]
    adjectives = {
        word for name in named if name != "shape" for value in VALUES[name] for word in _spoken(value)
    }
    shapes = {word for value in VALUES["shape"] for word in _spoken(value)} if "shape" in named else set()
    return adjectives | {f"{noun}{plural}" for noun in (*shapes, *THING)}


def _vowel_follows(template: Template) -> bool:
    """Whether "a" may stand before "object": a phrase may be bare, which simple ones never are."""
    return template in COMPLEX_TEMPLATES


def test_complex_questions_use_exactly_the_80_words() -> None:
    assert set.union(*map(words_of, COMPLEX_TEMPLATES)) == set(WORDS)


def test_simple_questions_use_38_of_them() -> None:
    words = set.union(*map(words_of, SIMPLE_TEMPLATES))
    assert len(words) == 38
    assert words < set(WORDS)


def longest(template: Template) -> int:
    """Words of the longest question a template can make."""
    return max(_longest_of(template, pattern) for pattern in template.patterns)


def _longest_of(template: Template, pattern: str) -> int:
    n_words = len(re.sub(r"\{\w+\}|[][;]", " ", pattern).split())
    for number in re.findall(r"\{(\d)s?\}", pattern):
        silent = [name for phrase, name in template.silent if phrase == int(number) and name != "shape"]
        n_words += 4 - len(silent)
    return n_words + 5 * len(re.findall(r"\{R\d\}", pattern))


def test_questions_are_at_most_as_long_as_those_of_the_release() -> None:
    assert max(map(longest, COMPLEX_TEMPLATES)) == 47
    assert max(map(longest, SIMPLE_TEMPLATES)) == 11


@pytest.mark.parametrize("template", ALL.values(), ids=ALL)
def test_every_pattern_speaks_of_every_phrase_in_known_parts(template: Template) -> None:
    numbers = {str(number) for number in range(1, template.n_phrases + 1)}
    relations = {str(step.phrase) for step in template.steps if step.function.startswith("relate")}
    for pattern in template.patterns:
        assert set(re.findall(r"\{(\d)s?\}", pattern)) == numbers
        assert sorted(re.findall(r"\{R(\d)\}", pattern)) == sorted(relations)
        assert set(re.findall(r"\{[^}]*\}", pattern)) <= {
            f"{{{part}}}" for number in numbers for part in (number, f"{number}s", f"R{number}")
        }


@pytest.mark.parametrize("template", ALL.values(), ids=ALL)
def test_patterns_differ_but_for_the_one_that_is_listed_twice(template: Template) -> None:
    twice = [pattern for pattern, n in Counter(template.patterns).items() if n > 1]
    expected = ["what is the shape of the {1}"] if ALL["unique_query.json-0"] == template else []
    assert twice == expected
