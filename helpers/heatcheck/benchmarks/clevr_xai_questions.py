"""Which questions the CLEVR-XAI benchmark asks, and what the model answers."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from heatcheck.attribution.guard import untouched
from heatcheck.attribution.passes import Query, class_scores, forward_size, in_chunks
from heatcheck.benchmarks.heatmaps import Explained, prepare
from heatcheck.data.batch import LabelledImages
from heatcheck.data.catalog import CLEVR_XAI_IMAGES, CLEVR_XAI_ROOT, archive_root
from heatcheck.data.clevr.batch import VisualQuestions, load_questions
from heatcheck.data.clevr.ground_truth import RELEASED, First, Kind, object_set
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.release import Release, open_release
from heatcheck.models.registry import Classifier

KINDS: tuple[Kind, ...] = ("simple", "complex")
GROUND_TRUTHS_OF: Mapping[Kind, tuple[str, ...]] = RELEASED
_EXISTENCE = "exist"


class Questions(Protocol):
    """A set of questions of one kind, opened but not loaded."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions."""
        ...

    def load(self, rows: Sequence[int], size: int, masks: "MaskSource") -> VisualQuestions:
        """The questions at ``rows`` with images and masks of ``size`` pixels."""
        ...


class MaskSource(NamedTuple):
    """Where masks come from.

    Attributes:
        source: ``stored`` or ``computed``; see ``heatcheck.data.clevr.batch.load_questions``.
        first: ``published`` or ``both-branches``; see ``heatcheck.data.clevr.ground_truth.object_set``.
    """

    source: Literal["stored", "computed"] = "stored"
    first: First = "published"


class ReleasedQuestions(NamedTuple):
    """Questions of an archive in the layout of the release."""

    release: Release
    kind: Kind

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions of the kind."""
        return self.release.questions

    def load(self, rows: Sequence[int], size: int, masks: MaskSource) -> VisualQuestions:
        """The questions at ``rows`` with images and masks of ``size`` pixels."""
        return load_questions(self.release, self.kind, rows, size, source=masks.source, first=masks.first)


class Sample(NamedTuple):
    """Questions of one kind that a run is about, told by their places: nothing is held in memory.

    Attributes:
        data: Name of the data set, or its folder.
        kind: ``simple`` or ``complex``.
        size: Side of images and masks in pixels.
        masks: Where masks come from.
        rows: Places of the questions in the data set.
    """

    data: str
    kind: Kind
    size: int
    masks: MaskSource
    rows: tuple[int, ...]

    def load(self) -> VisualQuestions:
        """The questions with images and masks; those loaded last are kept, for the next method on them."""
        return _load(self)

    def take(self, places: Sequence[int]) -> "Sample":
        """Those at ``places`` of this sample."""
        return self._replace(rows=tuple(self.rows[place] for place in places))


@lru_cache(maxsize=4)
def _load(sample: Sample) -> VisualQuestions:
    return open_questions(sample.data, sample.kind).load(sample.rows, sample.size, sample.masks)


@cache
def open_questions(data: str, kind: Kind) -> Questions:
    """Questions of data set ``data``: ``embedded``, ``release``, or a folder laid out like the release.

    Raises:
        ValueError: There is no such data set.
        FileNotFoundError: The archive is not where its environment variable says.
    """
    if data in SOURCES:
        return SOURCES[data](kind)
    if Path(data).is_dir():
        return ReleasedQuestions(open_release(Path(data), kind=kind, name=Path(data).resolve().name), kind)
    raise ValueError(
        f"unknown data {data!r}; known: {', '.join(SOURCES)}, or the path of a folder laid out like the "
        "release, as `heatcheck data make clevr` makes it"
    )


def _embedded(kind: Kind) -> Questions:
    # Imported here because unpacking needs more than the rest of this module.
    from heatcheck.data.clevr.embedded import load_embedded  # noqa: PLC0415

    return ReleasedQuestions(load_embedded(kind=kind), kind)


def _release(kind: Kind) -> Questions:
    # The images may lie in a folder of their own.
    images = archive_root(CLEVR_XAI_IMAGES) if os.environ.get(CLEVR_XAI_IMAGES) else None
    return ReleasedQuestions(open_release(archive_root(CLEVR_XAI_ROOT), images, kind=kind), kind)


SOURCES: dict[str, Callable[[Kind], Questions]] = {"embedded": _embedded, "release": _release}


def choose_rows(
    questions: Sequence[Question], n: int, *, seed: int, drop_exist_no: bool = False
) -> list[int]:
    """Places of ``n`` questions in the order they are drawn, without replacement.

    A larger ``n`` begins with the questions of a smaller one; all of them come in ascending order.

    Args:
        questions: All questions.
        n: How many.
        seed: Seed of the draw.
        drop_exist_no: Leave out questions about existence whose answer is no.
    """
    allowed = [
        row
        for row, item in enumerate(questions)
        if not (drop_exist_no and item.program[-1].function == _EXISTENCE and item.answer == "no")
    ]
    if n >= len(allowed):
        return allowed
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(questions)).tolist()
    kept = set(allowed)
    return [row for row in order if row in kept][:n]


def explain(
    questions: VisualQuestions, classifier: Classifier, targets: Tensor, device: torch.device
) -> Explained:
    """Images, words and explained classes ``(N,)`` of ``questions`` as the classifier takes them."""
    data = LabelledImages(questions.name, questions.ids, questions.images, targets)
    words = (questions.tokens.to(device), questions.lengths.to(device))
    return prepare(data, classifier, device)._replace(forward_args=words)


def answer_questions(
    questions: VisualQuestions, classifier: Classifier, device: torch.device, *, first: First = "published"
) -> pd.DataFrame:
    """What the model answers, and what is known of each question.

    Args:
        questions: With images and masks.
        classifier: What answers them.
        device: Where it runs.
        first: Which first non-empty set is counted; see ``object_set``.

    Returns:
        A row per question: ``question`` (its id), ``image``, ``type``, ``length`` (nodes of its program),
        ``text``, ``answer``, ``prediction``, ``confidence`` (softmax of the predicted class), ``logit``,
        ``target`` (its class), ``correct``; for each ground truth ``area <name>``, the true share of the
        image, NaN where undefined, and ``objects <name>``, how many objects it holds.
    """
    explained = explain(questions, classifier, questions.answers, device)
    query = Query(classifier.module, explained.images, questions.answers.to(device), explained.forward_args)
    with untouched(classifier.module), torch.no_grad():
        logits = in_chunks(class_scores, query, forward_size(query)).cpu().double()
    confidence, predicted = logits.softmax(1).max(1)
    table = {
        "question": list(questions.ids),
        "image": [item.image for item in questions.questions],
        "type": [question_type(item) for item in questions.questions],
        "length": [len(item.program) for item in questions.questions],
        "text": list(questions.texts),
        "answer": [classifier.classes[place] for place in questions.answers.tolist()],
        "prediction": [classifier.classes[place] for place in predicted.tolist()],
        "confidence": confidence.numpy(),
        "logit": logits.amax(1).numpy(),
        "target": predicted.numpy(),
        "correct": (predicted == questions.answers).numpy(),
    }
    areas = {f"area {name}": area.numpy() for name, area in questions.target_areas.items()}
    counts = {f"objects {name}": _counts(questions, name, first) for name in questions.masks}
    return pd.DataFrame({**table, **areas, **counts})


def question_type(question: Question) -> str:
    """The queried attribute of a simple question, the file of a complex one's template."""
    stem = question.template_file.removesuffix(".json")
    return question.program[-1].function if stem == "unique_query" else stem


def _counts(questions: VisualQuestions, name: str, first: First) -> list[int]:
    return [len(objects_of(item, name, first) or ()) for item in questions.questions]


def objects_of(question: Question, name: str, first: First = "published") -> tuple[int, ...] | None:
    """Objects of ground truth ``name``; None where the question has none."""
    everything = question.outputs[0]  # every program begins with all objects of the scene
    n_objects = len(everything) if isinstance(everything, tuple) else 0
    return object_set(name, question.program, question.outputs, n_objects, first=first)
