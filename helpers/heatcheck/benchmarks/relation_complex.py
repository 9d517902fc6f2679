"""Complex questions about rendered scenes, made once and kept in the cache folder, to train on."""

from collections.abc import Sequence
from typing import NamedTuple

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from heatcheck.benchmarks.relation_questions import KINDS, MOST_OBJECTS, Asked, SimpleQuestions
from heatcheck.benchmarks.relation_scenes import BLOCK
from heatcheck.data.cache import Arrays, cached_arrays
from heatcheck.data.clevr.generate import complex_questions
from heatcheck.data.clevr.program import ATTRIBUTES, RELATIONS, Node, Output, Program, facts_of
from heatcheck.data.clevr.templates import COMPLEX_TEMPLATES
from heatcheck.data.clevr.vocabulary import WORDS, answer_index, encode
from heatcheck.data.rendered import SPLITS, Split
from heatcheck.data.scene_graph import scene_graph
from heatcheck.data.scenes import ATTRIBUTES as VALUES
from heatcheck.data.scenes import sample_scene
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.progress import progress

FAMILIES = tuple((template.file, template.index) for template in COMPLEX_TEMPLATES)
PHRASES = 4  # most phrases of a template
_LITERALS = (RELATIONS, *(VALUES[name] for name in ATTRIBUTES))
_SLOT_SIZES = tuple(len(values) + 1 for values in _LITERALS)
PROGRAM_CLASSES = (len(FAMILIES), *_SLOT_SIZES * PHRASES)
_LONGEST = 47  # words
_EVERYONE = (1 << 16) - 1
_ZERO_HOP_QUERIES = (2, 5, 3, 4)  # templates that ask for shape, size, material and color
_LEFT, _RIGHT = WORDS.index("left") + 2, WORDS.index("right") + 2


class Aim(NamedTuple):
    """Which pairs of objects decide a question.

    Attributes:
        targets: Objects of the set whose members are named, counted or looked for.
        references: Objects they are related to; None where no relation matters.
    """

    targets: tuple[int, ...]
    references: tuple[int, ...] | None


def aim_of(program: Program, outputs: Sequence[Output]) -> Aim | None:
    """Objects that decide a question with at most one relation; None for other questions.

    No pair of objects can decide a question with several relations, or one that compares.
    """
    related = [place for place, node in enumerate(program) if node.function.startswith(("relate", "same_"))]
    joined = any(len(node.inputs) == 2 and node.function != "union" for node in program)
    if joined or len(related) > 1 or (related and any(node.function == "union" for node in program)):
        return None
    sets = [output for output in outputs if isinstance(output, tuple)]
    if not related:
        return Aim(sets[-1], None)
    source = outputs[program[related[0]].inputs[0]]
    return Aim(sets[-1], (source,)) if isinstance(source, int) else None


def program_slots(family: int, program: Program) -> list[int]:
    """Classes of ``PROGRAM_CLASSES``: the family, then relation and attributes of each phrase, 0 for none."""
    phrases: list[list[int]] = []
    for node in program:
        if node.function in ("scene", "relate") or node.function.startswith("same_"):
            phrases.append([0] * len(_LITERALS))
        place = _literal(node)
        if place is not None:
            phrases[-1][place] = 1 + _LITERALS[place].index(node.values[0])
    spoken = phrases[:PHRASES] + [[0] * len(_LITERALS)] * (PHRASES - len(phrases))
    return [family, *(value for phrase in spoken for value in phrase)]


def _literal(node: Node) -> int | None:
    if node.function == "relate":
        return 0
    if node.function.startswith("filter_"):
        return 1 + ATTRIBUTES.index(node.function.removeprefix("filter_"))
    return None


def mirrored_tokens(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same questions about mirrored scenes: left and right change places."""
    result = tokens.copy()
    result[tokens == _LEFT], result[tokens == _RIGHT] = _RIGHT, _LEFT
    return result


class ComplexQuestions:
    """Complex questions about scenes, with simple ones among them.

    Args:
        arrays: From ``complex_arrays``.
        simple: Simple questions about the same scenes.
        share: Share of simple questions.
    """

    def __init__(self, arrays: Arrays, simple: SimpleQuestions, share: float = 0.0) -> None:
        self.slot_classes = PROGRAM_CLASSES
        self._arrays, self._simple, self._share = arrays, simple, share
        order = np.argsort(arrays["rows"], kind="stable")
        bounds = np.searchsorted(arrays["rows"][order], np.arange(1, len(simple.kinds)))
        self._of_scene = np.split(order, bounds)
        self.askable = np.unique(arrays["rows"]).astype(np.int64)

    def __len__(self) -> int:
        return len(self._arrays["rows"])

    def draw(
        self, rows: NDArray[np.int64], mirrored: NDArray[np.bool_], generator: np.random.Generator
    ) -> Asked:
        """One question about each scene of ``rows``, of which some are mirrored left to right.

        Args:
            rows: ``(N,)`` places of scenes; a scene may come several times.
            mirrored: ``(N,)``; left and right change places in questions about mirrored scenes.
            generator: Decides which.
        """
        picks = generator.random((len(rows), 2))
        places = [self._of_scene[row] for row in rows.tolist()]
        chosen = np.array(
            [some[int(pick * len(some))] for some, pick in zip(places, picks[:, 0], strict=True)]
        )
        asked = self._asked(chosen, mirrored)
        other = np.flatnonzero((picks[:, 1] < self._share) & np.isin(rows, self._simple.askable))
        if not len(other):
            return asked
        return _replaced(asked, other, self._simple.draw(rows[other], mirrored[other], generator))

    def at(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], Asked]:
        """Scenes and questions at ``places`` of the arrays, not mirrored."""
        asked = self._asked(places, np.zeros(len(places), dtype=np.bool_))
        return self._arrays["rows"][places].astype(np.int64), asked

    def _asked(self, chosen: NDArray[np.int64], mirrored: NDArray[np.bool_]) -> Asked:
        picked = {name: values[chosen] for name, values in self._arrays.items()}
        lengths = picked["lengths"].astype(np.int64)
        tokens = picked["tokens"][:, : lengths.max()].astype(np.int64)
        tokens[mirrored] = mirrored_tokens(tokens[mirrored])
        slots = picked["slots"].astype(np.int64)
        slots[mirrored] = mirrored_slots(slots[mirrored])
        return Asked(
            torch.from_numpy(tokens),
            torch.from_numpy(lengths),
            torch.from_numpy(picked["answers"].astype(np.int64)),
            torch.from_numpy(slots),
            _objects(picked["targets"]),
            _objects(picked["references"]),
            picked["aimed"],
        )


def _replaced(asked: Asked, places: NDArray[np.int64], other: Asked) -> Asked:
    """``asked`` with the simple questions ``other`` at ``places``."""
    tokens = F.pad(asked.tokens, (0, max(0, other.tokens.shape[1] - asked.tokens.shape[1])))
    index = torch.from_numpy(places)
    tokens[index] = F.pad(other.tokens, (0, tokens.shape[1] - other.tokens.shape[1]))
    lengths, answers, slots = asked.lengths.clone(), asked.answers.clone(), asked.slots.clone()
    lengths[index], answers[index] = other.lengths, other.answers
    slots[index] = slots_of_simple(other.slots)
    objects = [getattr(asked, name).copy() for name in ("targets", "references", "known")]
    for mine, name in zip(objects, ("targets", "references", "known"), strict=True):
        mine[places] = getattr(other, name)
    return Asked(tokens, lengths, answers, slots, *objects)


def slots_of_simple(slots: Tensor) -> Tensor:
    """Slots ``(N, 21)`` of simple questions, which are queries without a relation, from theirs ``(N, 5)``."""
    families = [FAMILIES.index(("zero_hop.json", place)) for place in _ZERO_HOP_QUERIES]
    result = torch.zeros(len(slots), len(PROGRAM_CLASSES), dtype=torch.int64)
    result[:, 0] = torch.tensor(families)[slots[:, 0]]
    for place, name in enumerate(ATTRIBUTES):
        result[:, 2 + place] = slots[:, 1 + KINDS.index(name)]
    return result


def _objects(bits: NDArray[np.uint16]) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = (bits[:, None] >> np.arange(MOST_OBJECTS) & 1).astype(np.bool_)
    return result


def mirrored_slots(slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Slots of the same questions about mirrored scenes."""
    result = slots.copy()
    relations = slots[:, 1 :: len(_LITERALS)]
    left, right = (1 + RELATIONS.index(name) for name in ("left", "right"))
    swapped = np.where(relations == left, right, np.where(relations == right, left, relations))
    result[:, 1 :: len(_LITERALS)] = swapped
    return result


def complex_arrays(
    split: Split, n: int, *, seed: int = 0, per_image: int = 10, workers: int = 1, block: int = BLOCK
) -> Arrays:
    """Complex questions about the first ``n`` scenes of a split, made when first asked for.

    Args:
        split: ``train``, ``heldout`` or ``test``.
        n: Number of scenes.
        seed: Names the series of scenes.
        per_image: Questions per scene.
        workers: Processes that make them.
        block: Scenes per file.

    Returns:
        ``rows`` scenes, ``tokens (Q, 47)``, ``lengths``, ``answers``, ``slots (Q, 21)`` and, as bits,
        ``targets`` and ``references`` objects; ``aimed`` says whether these two are known.

    Raises:
        ValueError: ``n`` is not positive.
        CacheError: The cache folder cannot be used.
    """
    if n < 1:
        raise ValueError(f"need at least one scene, got n={n}")
    calls = [(seed, SPLITS[split] + start, min(block, n - start), per_image) for start in range(0, n, block)]
    if workers > 1:
        pool = joblib.Parallel(n_jobs=workers, return_as="generator")
        made = pool(joblib.delayed(_block)(*call) for call in calls)
    else:
        made = (_block(*call) for call in calls)
    blocks = list(progress(made, label=f"complex questions about {n} scenes", total=len(calls)))
    for place, part in enumerate(blocks):
        part["rows"] = part["rows"] + place * block
    return {name: np.concatenate([part[name] for part in blocks]) for name in blocks[0]}


def _block(seed: int, start: int, count: int, per_image: int) -> Arrays:
    key = {
        "seed": seed,
        "start": start,
        "count": count,
        "per_image": per_image,
        "code": code_fingerprint("heatcheck.data.clevr.generate"),
        "layout": 1,
    }
    return cached_arrays("clevr-complex", key, lambda: _make_block(seed, start, count, per_image))


def _make_block(seed: int, start: int, count: int, per_image: int) -> Arrays:
    facts = [facts_of(scene_graph(sample_scene(seed, index))) for index in range(start, start + count)]
    questions = complex_questions(facts, seed=seed, first=start, per_image=per_image)
    encoded = encode([question.text for question in questions])
    tokens = np.zeros((len(questions), _LONGEST), dtype=np.uint8)
    tokens[:, : encoded.tokens.shape[1]] = encoded.tokens.numpy()
    aims = [aim_of(question.program, question.outputs) for question in questions]
    families = [FAMILIES.index((question.template_file, question.family)) for question in questions]
    slots = [
        program_slots(family, question.program) for family, question in zip(families, questions, strict=True)
    ]
    return {
        "rows": np.array([question.image - start for question in questions], dtype=np.int32),
        "tokens": tokens,
        "lengths": encoded.lengths.numpy().astype(np.uint8),
        "answers": np.array([answer_index(question.answer) for question in questions], dtype=np.uint8),
        "slots": np.array(slots, dtype=np.uint8),
        "targets": np.array([_bits(aim.targets if aim else ()) for aim in aims], dtype=np.uint16),
        "references": np.array([_references(aim) for aim in aims], dtype=np.uint16),
        "aimed": np.array([aim is not None for aim in aims]),
    }


def _references(aim: Aim | None) -> int:
    return _EVERYONE if aim is None or aim.references is None else _bits(aim.references)


def _bits(objects: Sequence[int]) -> int:
    return sum(1 << item for item in objects)
