"""Simple questions about rendered scenes, drawn by the million while the Relation Network is trained.

Mirroring an image changes none of them, because none speaks of left and right.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.data.clevr.program import ATTRIBUTES as SPOKEN
from heatcheck.data.clevr.template_texts import SIMPLE
from heatcheck.data.clevr.text import SYNONYMS, THING
from heatcheck.data.clevr.vocabulary import answer_index, tokenize
from heatcheck.data.scenes import ATTRIBUTES

KINDS = tuple(ATTRIBUTES)  # shape, size, material, color: the columns of TrainingScenes.kinds
CLASSES = tuple(len(values) for values in ATTRIBUTES.values())
MOST_OBJECTS = 10  # in one scene
SLOTS = (len(KINDS), *(count + 1 for count in CLASSES))  # asked attribute, then each named value or none


class Asked(NamedTuple):
    """Questions about scenes.

    Attributes:
        tokens: ``(N, L)`` int64.
        lengths: ``(N,)`` int64.
        answers: ``(N,)`` int64 classes.
        slots: ``(N, n)`` int64 classes of the slots of the program.
        targets: ``(N, 10)`` bool, objects that are asked about.
        references: ``(N, 10)`` bool, objects they are related to; all where no relation matters.
        known: ``(N,)`` bool, questions of which these are known.
    """

    tokens: Tensor
    lengths: Tensor
    answers: Tensor
    slots: Tensor
    targets: NDArray[np.bool_]
    references: NDArray[np.bool_]
    known: NDArray[np.bool_]


class QuestionSource(Protocol):
    """Questions about scenes, to draw from."""

    @property
    def slot_classes(self) -> tuple[int, ...]:
        """Number of values of each slot of a program."""

    @property
    def askable(self) -> NDArray[np.int64]:
        """Scenes about which there is a question, in order."""

    def draw(
        self, rows: NDArray[np.int64], mirrored: NDArray[np.bool_], generator: np.random.Generator
    ) -> Asked:
        """One question about each scene of ``rows``, of which some are mirrored left to right."""


def pad(texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Tokens ``(N, L)`` and lengths ``(N,)`` of questions of different lengths."""
    lengths = [len(text) for text in texts]
    tokens = np.zeros((len(texts), max(lengths)), dtype=np.int64)
    for place, text in enumerate(texts):
        tokens[place, : len(text)] = text
    return torch.from_numpy(tokens), torch.tensor(lengths)


class SimpleQuestions:
    """All simple questions of many scenes, to draw from.

    A question names some attributes that only one object has together, and asks for another one of it. They
    are those of ``heatcheck.data.clevr.generate.simple_instances``, in the same words, but drawn fast enough
    for training and without balancing answers.

    Args:
        kinds: For each scene ``(objects, 4)`` numbers of the values of ``KINDS``.
        shares: Probability of each asked attribute.
    """

    def __init__(self, kinds: Sequence[NDArray[np.int8]], shares: Sequence[float] = (0.25,) * 4) -> None:
        self.kinds = [rows.astype(np.int64) for rows in kinds]
        self.choices = [_choices(rows) for rows in self.kinds]
        self.slot_classes = SLOTS
        # In a scene of twins only, no attribute of an object can be asked for without naming it.
        self.askable = np.flatnonzero([any(map(len, choices)) for choices in self.choices])
        self._edges = np.cumsum(np.asarray(shares, dtype=np.float64))
        self._words = _word_tokens()
        self._patterns = {name: [_pattern(text) for text in texts] for name, texts in SIMPLE.items()}
        self._answers = [[answer_index(value) for value in values] for values in ATTRIBUTES.values()]

    def draw(
        self, rows: NDArray[np.int64], mirrored: NDArray[np.bool_], generator: np.random.Generator
    ) -> Asked:
        """One question about each scene of ``rows``; whether it is mirrored does not matter.

        Args:
            rows: ``(N,)`` places of scenes; a scene may come several times.
            mirrored: ``(N,)``.
            generator: Decides which.

        Raises:
            ValueError: There is no question about one of the scenes.
        """
        silent = rows[~np.isin(rows, self.askable)]
        if len(silent):
            raise ValueError(f"there is no simple question about scene {silent[0]}; draw among askable ones")
        picks = generator.random((len(rows), 10))
        items, texts = [], []
        targets = np.zeros((len(rows), MOST_OBJECTS), dtype=np.bool_)
        for place, (row, pick) in enumerate(zip(rows.tolist(), picks.tolist(), strict=True)):
            asked = min(int(np.searchsorted(self._edges, pick[0], side="right")), 3)
            while not len(self.choices[row][asked]):
                asked = (asked + 1) % 4
            choices = self.choices[row][asked]
            item, named = divmod(int(choices[int(pick[1] * len(choices))]), 16)
            values = self.kinds[row][item]
            slots = [int(values[kind]) + 1 if named >> kind & 1 else 0 for kind in range(4)]
            items.append([self._answers[asked][values[asked]], asked, *slots])
            texts.append(self._text(KINDS[asked], slots, pick[2:]))
            targets[place, item] = True
        table = torch.tensor(items, dtype=torch.int64)
        everyone = np.ones(len(rows), dtype=np.bool_)
        references = np.ones_like(targets)
        return Asked(*pad(texts), table[:, 0], table[:, 1:], targets, references, everyone)

    def _text(self, asked: str, slots: Sequence[int], picks: Sequence[float]) -> list[int]:
        patterns = self._patterns[asked]
        before, after = patterns[int(picks[0] * len(patterns))]
        phrase = []
        for name, pick in zip(SPOKEN, picks[1:], strict=False):
            words = self._words[name][slots[KINDS.index(name)]]
            if words:
                phrase.append(words[int(pick * len(words))])
        return [*before, *phrase, *after]


def _choices(kinds: NDArray[np.int64]) -> list[NDArray[np.int16]]:
    """For each asked attribute the questions, ``16 * object + named attributes as bits``."""
    found: list[list[int]] = [[], [], [], []]
    for named in range(1, 16):
        columns = [place for place in range(4) if named >> place & 1]
        codes = np.ravel_multi_index(tuple(kinds[:, columns].T), tuple(CLASSES[place] for place in columns))
        alone = np.flatnonzero(np.bincount(codes)[codes] == 1)
        for asked in range(4):
            if not named >> asked & 1:
                found[asked] += (16 * alone + named).tolist()
    return [np.array(places, dtype=np.int16) for places in found]


def _word_tokens() -> dict[str, list[tuple[int, ...]]]:
    """For each attribute the tokens that may stand for no value, then for each value."""
    table = {}
    for name, values in ATTRIBUTES.items():
        spoken = [THING if name == "shape" else (), *(SYNONYMS.get(value, (value,)) for value in values)]
        table[name] = [tuple(token for word in words for token in tokenize(word)) for words in spoken]
    return table


def _pattern(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    before, after = text.split("{1}")
    return tokenize(before), tokenize(after)
