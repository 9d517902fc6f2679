"""Questions about series of scenes, with balanced answers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from heatcheck.data.clevr.balance import open_answers
from heatcheck.data.clevr.engine import Searchable, search, searchable
from heatcheck.data.clevr.expansion import is_degenerate, program_of
from heatcheck.data.clevr.program import Output, Program, SceneFacts, execute
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.templates import COMPLEX_TEMPLATES, SIMPLE_TEMPLATES, Template
from heatcheck.data.clevr.text import Phrase, realize
from heatcheck.data.clevr.vocabulary import answer_text
from heatcheck.runtime.seeds import CounterGenerator

BLOCK = 250  # images after which the counts of answers and of templates start again, as in CLEVR
_SIMPLE_STREAM, _COMPLEX_STREAM = 1, 2  # stream 0 of an image makes its scene
_Key = tuple[str, int]


class Instance(NamedTuple):
    """A template that says something about a scene, not yet in words.

    Attributes:
        phrases: What its phrases say.
        program: Its program.
        outputs: What each node returns on the scene; the last is the answer.
    """

    phrases: tuple[Phrase, ...]
    program: Program
    outputs: tuple[Output, ...]


def simple_instances(facts: SceneFacts, template: Template) -> list[Instance]:
    """All that a simple template can say about a scene, in a fixed order; no answer is held back.

    ``text.realize(template, instance.phrases, generator)`` puts one in words.
    """
    # Which one comes first in the search does not matter, as all are sorted.
    found = search(template, searchable(facts), np.random.Generator(np.random.Philox(0)))
    instances = (_instance(template, match.phrases, facts) for match in found)
    return sorted(instances, key=lambda item: [value or "" for phrase in item.phrases for value in phrase])


def simple_questions(facts: Sequence[SceneFacts], *, seed: int, first: int = 0) -> list[Question]:
    """Simple questions, at most one of each of the four forms per scene.

    Args:
        facts: Scenes of the images ``first``, ``first + 1`` and so on. Answers are balanced within blocks of
            250 from the first scene on, so a series may be split between blocks without any other question.
        seed: Names the series.
        first: ``image_index`` of the first scene.
    """
    return _all(facts, SIMPLE_TEMPLATES, len(SIMPLE_TEMPLATES), _Series(seed, first, _SIMPLE_STREAM))


def complex_questions(
    facts: Sequence[SceneFacts], *, seed: int, first: int = 0, per_image: int = 10
) -> list[Question]:
    """Complex questions, ``per_image`` per scene, each of another form.

    The forms used least so far come first. CLEVR takes equals among them in the order of its files, so that
    one image gets similar questions; here their order is random.

    Args:
        facts: Scenes of the images ``first``, ``first + 1`` and so on. Answers are balanced within blocks of
            250 from the first scene on, so a series may be split between blocks without any other question.
        seed: Names the series.
        first: ``image_index`` of the first scene.
        per_image: Questions per scene, 1 to 90; fewer where no form can say anything more.
    """
    return _all(facts, COMPLEX_TEMPLATES, per_image, _Series(seed, first, _COMPLEX_STREAM))


class _Series(NamedTuple):
    seed: int
    first: int
    stream: int


def _all(
    facts: Sequence[SceneFacts], templates: tuple[Template, ...], per_image: int, series: _Series
) -> list[Question]:
    questions: list[Question] = []
    for start in range(0, len(facts), BLOCK):
        part = facts[start : start + BLOCK]
        questions += _block(part, templates, per_image, series._replace(first=series.first + start))
    return [replace(question, index=index) for index, question in enumerate(questions)]


def _block(
    facts: Sequence[SceneFacts], templates: tuple[Template, ...], per_image: int, series: _Series
) -> Iterator[Question]:
    """Questions of one block of scenes, not yet numbered."""
    used: Counter[_Key] = Counter()
    answers: dict[_Key, Counter[str]] = {(form.file, form.index): Counter() for form in templates}
    for image, scene in enumerate(facts, start=series.first):
        generator = CounterGenerator(series.seed, (image,)).numpy(0, series.stream)
        prepared = searchable(scene)
        order = [templates[place] for place in generator.permutation(len(templates)).tolist()]
        made = 0
        for template in sorted(order, key=lambda form: used[form.file, form.index]):
            key = (template.file, template.index)
            instance = _accepted(template, scene, prepared, generator, answers[key])
            if instance is None:
                continue
            answer = _answer(instance.outputs[-1])
            used[key] += 1
            answers[key][answer] += 1
            text = realize(template, instance.phrases, generator)
            yield Question(0, image, text, answer, instance.program, instance.outputs, *key)
            made += 1
            if made == per_image:
                break


def _accepted(
    template: Template,
    facts: SceneFacts,
    prepared: Searchable,
    generator: np.random.Generator,
    counts: Counter[str],
) -> Instance | None:
    """The first reading whose answer is open and whose relations matter; None when there is none."""
    open_to = open_answers(template, counts)
    relates = any(step.function == "relate" for step in template.steps)
    for match in search(template, prepared, generator) if open_to else ():
        if _answer(match.answer) not in open_to:
            continue
        instance = _instance(template, match.phrases, facts)
        # CLEVR asks this only of templates with a relation of its own, not of those that relate and filter.
        if not relates or not is_degenerate(instance.program, facts):
            return instance
    return None


def _instance(template: Template, phrases: tuple[Phrase, ...], facts: SceneFacts) -> Instance:
    program = program_of(template, phrases)
    return Instance(phrases, program, execute(program, facts))


def _answer(output: Output) -> str:
    """The last output in words; it is never a set of objects."""
    assert not isinstance(output, tuple)
    return answer_text(output)
