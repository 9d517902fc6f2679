"""Search for what the phrases of a template may say about a scene (Johnson et al. 2017, supplement).

A set of objects is a number whose bits are the objects, so that two sets meet in one operation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from heatcheck.data.clevr.program import ATTRIBUTES, RELATIONS, SceneFacts
from heatcheck.data.clevr.templates import Step, Template
from heatcheck.data.clevr.text import Phrase
from heatcheck.data.scenes import ATTRIBUTES as VALUES

Found = int | str  # a set, an object, a number or a truth value; a word
Choice = tuple[Phrase, Found]
_TRIVIAL = 0.1  # share of relations that leave out no object, among all that are offered
_MAX_STEPS = 20_000  # steps tried before a template is given up on a scene: a chain has billions of readings


class Match(NamedTuple):
    """One reading of a template on a scene.

    Attributes:
        phrases: What its phrases say.
        answer: A count, a truth value or a word.
    """

    phrases: tuple[Phrase, ...]
    answer: Found


class _Offer(NamedTuple):
    """What a phrase may say at some step: all of ``usual``, and ``n_rare`` of ``rare`` at random."""

    usual: list[Choice]
    rare: list[Choice]
    n_rare: int


@dataclass(frozen=True)
class Searchable:
    """A scene prepared for ``search``.

    Attributes:
        everyone: All objects.
        kinds: Each phrase that fits an object, and the objects it fits.
        missing: All phrases that fit none.
        related: Objects that stand in a relation to object ``i``, by relation and ``i``.
        same: Objects other than ``i`` that share its value, by attribute and ``i``.
        values: Value of object ``i``, by attribute and ``i``.
        offers: What was worked out before, by function and input.
    """

    everyone: int
    kinds: tuple[tuple[Phrase, int], ...]
    missing: tuple[Phrase, ...]
    related: dict[str, tuple[int, ...]]
    same: dict[str, tuple[int, ...]]
    values: dict[str, tuple[str, ...]]
    offers: dict[tuple[str, Found], _Offer]


def searchable(facts: SceneFacts) -> Searchable:
    """The scene as ``search`` takes it."""
    values = {name: tuple(item[name] for item in facts.objects) for name in ATTRIBUTES}
    bits = {
        (name, value): _bits(place for place, own in enumerate(values[name]) if own == value)
        for name in ATTRIBUTES
        for value in VALUES[name]
    }
    everyone = (1 << len(facts.objects)) - 1
    kinds = []
    for literals in product(*((None, *VALUES[name]) for name in ATTRIBUTES)):
        fitting = everyone
        for name, value in zip(ATTRIBUTES, literals, strict=True):
            fitting &= everyone if value is None else bits[name, value]
        kinds.append((Phrase(None, *literals), fitting))
    return Searchable(
        everyone,
        tuple((phrase, fitting) for phrase, fitting in kinds if fitting),
        tuple(phrase for phrase, fitting in kinds if not fitting),
        {name: tuple(_bits(row) for row in facts.relationships[name]) for name in RELATIONS},
        {
            name: tuple(bits[name, value] & ~(1 << place) for place, value in enumerate(values[name]))
            for name in ATTRIBUTES
        },
        values,
        {},
    )


def search(template: Template, scene: Searchable, generator: np.random.Generator) -> Iterator[Match]:
    """Readings of ``template`` on ``scene`` in random order, depth first.

    In a reading every ``unique`` step finds exactly one object, no silent attribute is named, and outputs
    that have to differ do. The search ends early after a number of steps that only long templates reach.
    """
    rules = _Rules(
        template.steps,
        [
            [ATTRIBUTES.index(name) + 1 for phrase, name in template.silent if phrase == step.phrase]
            for step in template.steps
        ],
        [
            [min(pair) for pair in template.differ if max(pair) == place]
            for place in range(len(template.steps))
        ],
        iter(range(_MAX_STEPS)),
    )
    return _readings(rules, scene, generator, (), ())


class _Rules(NamedTuple):
    """A template's steps; for each, the attributes it may not name and the steps it has to differ from."""

    steps: tuple[Step, ...]
    silent: list[list[int]]
    differ: list[list[int]]
    budget: Iterator[int]


def _readings(
    rules: _Rules,
    scene: Searchable,
    generator: np.random.Generator,
    found: tuple[Found, ...],
    phrases: tuple[Phrase, ...],
) -> Iterator[Match]:
    """Readings that begin with the outputs ``found`` and the ``phrases`` that lead to them."""
    place = len(found)
    if place == len(rules.steps):
        yield Match(phrases, found[-1])
        return
    step = rules.steps[place]
    inputs = [found[source] for source in step.inputs]
    for phrase, output in _choices(step, inputs, scene, generator):
        if next(rules.budget, None) is None:
            return
        if any(phrase[position] is not None for position in rules.silent[place]):
            continue
        if any(found[other] == output for other in rules.differ[place]):
            continue
        said = _said(phrases, step.phrase, phrase)
        yield from _readings(rules, scene, generator, (*found, output), said)


def _said(phrases: tuple[Phrase, ...], number: int, phrase: Phrase) -> tuple[Phrase, ...]:
    """``phrases`` with what phrase ``number`` says now; a relation joins a phrase that is there already."""
    if number > len(phrases):
        return (*phrases, phrase)
    if number == 0 or phrase.relation is None:
        return phrases
    joined = phrases[number - 1]._replace(relation=phrase.relation)
    return (*phrases[: number - 1], joined, *phrases[number:])


def _choices(
    step: Step, inputs: list[Found], scene: Searchable, generator: np.random.Generator
) -> list[Choice]:
    """What a step may say and what it then returns, in random order."""
    if not step.phrase:
        return [(Phrase(), _output(step.function, inputs, scene))]
    key = (step.function, inputs[0])
    if key not in scene.offers:
        scene.offers[key] = _offer(step.function, inputs[0], scene)
    offer = scene.offers[key]
    chosen = offer.usual
    if offer.n_rare:
        rare = generator.permutation(len(offer.rare))[: offer.n_rare].tolist()
        chosen = chosen + [offer.rare[place] for place in rare]
    return [chosen[place] for place in generator.permutation(len(chosen)).tolist()]


def _offer(function: str, source: Found, scene: Searchable) -> _Offer:
    if function.startswith("relate_filter"):
        return _offer_related(function.removeprefix("relate_filter"), int(source), scene)
    if function == "relate":
        pairs = [(Phrase(name), scene.related[name][int(source)]) for name in RELATIONS]
        return _Offer([*pairs], [], 0)
    if function in ("filter", "filter_unique", "filter_count", "filter_exist"):
        return _offer_kinds(function.removeprefix("filter"), int(source), scene)
    name = function.removeprefix("filter_")
    fitting = {
        value: _bits(place for place, own in enumerate(scene.values[name]) if own == value) & int(source)
        for value in VALUES[name]
    }
    return _Offer([(Phrase()._replace(**{name: value}), some) for value, some in fitting.items()], [], 0)


def _offer_kinds(end: str, source: int, scene: Searchable) -> _Offer:
    """Kinds of objects among ``source``; for questions about how many there are, absent kinds too."""
    kinds = [(phrase, fitting & source) for phrase, fitting in scene.kinds]
    if end == "_unique":
        return _Offer([(phrase, _only(some)) for phrase, some in kinds if some.bit_count() == 1], [], 0)
    if not end:  # a plain filter has to leave something out
        kinds = [(phrase, some) for phrase, some in kinds if phrase != Phrase()]
    singles = sum(some.bit_count() == 1 for _, some in kinds)
    n_missing = len(kinds) if end == "_exist" else singles
    usual = [(phrase, _ended(end, some)) for phrase, some in kinds]
    return _Offer(usual, [(phrase, _ended(end, 0)) for phrase in scene.missing], n_missing)


def _offer_related(end: str, source: int, scene: Searchable) -> _Offer:
    """Relations to object ``source`` and kinds of objects; few of those whose relation leaves out none."""
    usual: list[Choice] = []
    rare: list[Choice] = []
    for relation in RELATIONS:
        related = scene.related[relation][source]
        for phrase, fitting in scene.kinds:
            some = related & fitting
            if (end == "_unique" and some.bit_count() != 1) or (not end and not some):
                continue
            choice = (phrase._replace(relation=relation), _ended(end, some))
            (rare if some == fitting else usual).append(choice)
    return _Offer(usual, rare, round(len(usual) * _TRIVIAL / (1 - _TRIVIAL)))


def _ended(end: str, some: int) -> Found:
    """What a step whose name ends in ``end`` returns when it finds the objects ``some``."""
    if end == "_unique":
        return _only(some)
    if end == "_count":
        return some.bit_count()
    return some > 0 if end == "_exist" else some


def _output(function: str, inputs: list[Found], scene: Searchable) -> Found:
    """Output of a step without words."""
    kind, _, name = function.partition("_")
    if kind == "scene":
        return scene.everyone
    if kind == "same":
        return scene.same[name][int(inputs[0])]
    if kind == "query":
        return scene.values[name][int(inputs[0])]
    if kind == "equal":
        return inputs[0] == inputs[1]
    first, last = int(inputs[0]), int(inputs[-1])
    by_kind = {
        "count": first.bit_count(),
        "exist": first > 0,
        "union": first | last,
        "intersect": first & last,
        "less": first < last,
        "greater": first > last,
    }
    return by_kind[kind]


def _bits(places: Iterator[int] | tuple[int, ...]) -> int:
    return sum(1 << place for place in places)


def _only(some: int) -> int:
    """The object of a set that has one."""
    return some.bit_length() - 1
