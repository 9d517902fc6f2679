"""Questions in words."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from heatcheck.data.clevr.program import ATTRIBUTES
from heatcheck.data.clevr.templates import Template

THING = ("thing", "object")  # what an object is called whose shape is not named
SYNONYMS = {
    "sphere": ("sphere", "ball"),
    "cube": ("cube", "block"),
    "large": ("large", "big"),
    "small": ("small", "tiny"),
    "metal": ("metallic", "metal", "shiny"),
    "rubber": ("rubber", "matte"),
    "left": ("left of", "to the left of", "on the left side of"),
    "right": ("right of", "to the right of", "on the right side of"),
    "front": ("in front of",),
}
_PARTS = re.compile(r"(\{R?\d+s?\}|\[[^]]*\])")
_MOST_OPTIONAL = 4  # optional parts of one pattern


class Phrase(NamedTuple):
    """The literals of one phrase; None where it does not name one.

    Attributes:
        relation: How its objects stand towards another.
        size: Their size.
        color: Their color.
        material: Their material.
        shape: Their shape; without one they are called things.
    """

    relation: str | None = None
    size: str | None = None
    color: str | None = None
    material: str | None = None
    shape: str | None = None


def realize(template: Template, phrases: tuple[Phrase, ...], generator: np.random.Generator) -> str:
    """A question in words: one of the template's patterns, with synonyms at random.

    Args:
        template: Any template.
        phrases: Its phrases; the first is number 1.
        generator: Decides about pattern, synonyms and optional words; always asked for equally many numbers.
    """
    draws = iter(generator.random(1 + 5 * len(phrases) + _MOST_OPTIONAL).tolist())
    pattern = _one_of(template.patterns, next(draws))
    parts: dict[str, str] = {}
    for number, phrase in enumerate(phrases, start=1):
        relation, noun = _relation(phrase, draws), _noun(phrase, draws)
        parts |= {f"{{{number}}}": noun, f"{{{number}s}}": f"{noun}s", f"{{R{number}}}": relation}
    words = [_kept(part, draws) if part[:1] == "[" else parts.get(part, part) for part in _split(pattern)]
    text = " ".join("".join(words).split())
    if len(phrases) == 2 and _exclude(*phrases):
        text = text.replace("another ", "a ").replace(" other ", " ")
    text = re.sub(r"\ba (?=[aeiou])", "an ", text)
    return f"{text[0].upper()}{text[1:]}?"


@cache
def _split(pattern: str) -> tuple[str, ...]:
    return tuple(_PARTS.split(pattern))


def _exclude(one: Phrase, other: Phrase) -> bool:
    """Whether no object fits both phrases, so that "other" can be left out.

    CLEVR leaves it out also beside "things" of no named shape, where the question then counts one too few.
    """
    named = ((getattr(one, name), getattr(other, name)) for name in ATTRIBUTES)
    return any(a is not None and b is not None and a != b for a, b in named)


def _noun(phrase: Phrase, draws: Iterator[float]) -> str:
    words = []
    for name in ATTRIBUTES:
        value, draw = getattr(phrase, name), next(draws)
        if value is not None:
            words.append(_one_of(SYNONYMS.get(value, (value,)), draw))
        elif name == "shape":
            words.append(_one_of(THING, draw))
    return " ".join(words)


def _relation(phrase: Phrase, draws: Iterator[float]) -> str:
    draw, value = next(draws), phrase.relation
    return "" if value is None else _one_of(SYNONYMS.get(value, (value,)), draw)


def _kept(optional: str, draws: Iterator[float]) -> str:
    return optional[1:-1] if next(draws) < 0.5 else ""


def _one_of(choices: tuple[str, ...], draw: float) -> str:
    """One of ``choices`` by a number in [0, 1)."""
    return choices[int(draw * len(choices))]
