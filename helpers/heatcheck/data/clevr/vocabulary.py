"""Words of questions and classes of answers, as numbers.

The sets are those of CLEVR (Johnson et al. 2017): 28 answers, and the 80 words that all its question
templates can produce. The order in the original networks was never published; weights depend on the one here.
"""

import string
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from heatcheck.data.scenes import COLORS, MATERIALS, SHAPES, SIZES

ANSWERS: tuple[str, ...] = (
    "yes",
    "no",
    *(str(number) for number in range(11)),
    *SHAPES,
    *COLORS,
    *MATERIALS,
    *SIZES,
)
_WORDS = """
a an and another any anything are as ball balls behind big block blocks blue both brown color cube cubes
cyan cylinder cylinders do does either else equal fewer front gray greater green has have how in is it its
large left less made many material matte metal metallic more number object objects of on or other purple red
right rubber same shape shiny side size small sphere spheres than that the there thing things tiny to
visible what yellow
"""
WORDS = tuple(_WORDS.split())  # in alphabetical order
PADDING, UNKNOWN = 0, 1  # words follow, from 2 on
N_TOKENS = len(WORDS) + 2

_ANSWER_INDEX = {answer: index for index, answer in enumerate(ANSWERS)}
_TOKEN = {word: index for index, word in enumerate(WORDS, start=2)}
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Encoded(NamedTuple):
    """Questions as numbers.

    Attributes:
        tokens: ``(N, L)`` int64, padded at the end with ``PADDING`` to the longest of the questions.
        lengths: ``(N,)`` int64, number of words of each.
    """

    tokens: Tensor
    lengths: Tensor


def answer_text(value: str | bool | int) -> str:
    """The answer as one word: files write yes and no as booleans and counts as numbers."""
    if isinstance(value, bool):  # before int, because a bool is one
        return "yes" if value else "no"
    return str(value)


def answer_index(text: str) -> int:
    """Class of an answer, its place in ``ANSWERS``.

    Raises:
        ValueError: There is no such answer.
    """
    index = _ANSWER_INDEX.get(text)
    if index is None:
        raise ValueError(f"{text!r} is no answer; the {len(ANSWERS)} answers are {', '.join(ANSWERS)}")
    return index


def tokenize(text: str) -> tuple[int, ...]:
    """Token of each word in reading order: 2 to 81, or ``UNKNOWN``; case and punctuation do not count."""
    words = text.lower().translate(_NO_PUNCTUATION).split()
    return tuple(_TOKEN.get(word, UNKNOWN) for word in words)


def encode(texts: Sequence[str]) -> Encoded:
    """Tokens and lengths of ``texts``.

    Raises:
        ValueError: A text has no word.
    """
    rows = [tokenize(text) for text in texts]
    empty = next((place for place, row in enumerate(rows) if not row), None)
    if empty is not None:
        raise ValueError(f"question {empty} has no word: {texts[empty]!r}; leave it out")
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    tokens = torch.full((len(rows), max(map(len, rows), default=0)), PADDING, dtype=torch.int64)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return Encoded(tokens, lengths)
