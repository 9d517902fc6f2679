"""How well a Relation Network in training does, on scenes it was not trained on."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.benchmarks.relation_complex import FAMILIES, ComplexQuestions
from heatcheck.benchmarks.relation_lessons import (
    LEAST,
    Lesson,
    batch_cells,
    batch_counts,
    batch_images,
    generator_of,
    plain,
)
from heatcheck.benchmarks.relation_questions import CLASSES, KINDS, Asked, QuestionSource, SimpleQuestions
from heatcheck.models.relation_network import RelationNetwork
from heatcheck.models.relation_training import CellHead, all_pairs_logits

_CHUNK = 16  # questions per pass; more are slower on a processor


@torch.no_grad()
def cell_accuracies(network: RelationNetwork, head: CellHead, lesson: Lesson) -> dict[str, float]:
    """Share of cells that are named rightly, by attribute, and of cells whose ``presence`` is.

    ``best_...`` counts only the cell that shows most of each object.
    """
    network.cnn.eval()
    rows = np.arange(len(lesson))
    cells = batch_cells(lesson, plain(rows))
    parts = np.array_split(rows, max(1, len(rows) // _CHUNK))
    logits = torch.cat([head(network.cnn(batch_images(lesson, plain(part)))) for part in parts])
    attributes = logits[..., 1:].split(CLASSES, dim=2)  # type: ignore[no-untyped-call]
    hits = torch.stack([part.argmax(dim=2) for part in attributes], dim=2) == cells.kinds
    seen = cells.weights > 0
    sure = seen | cells.empty
    best = _best_cells(lesson) & seen
    report = {"presence": ((logits[..., 0] > 0) == seen)[sure].double().mean().item()}
    for place, name in enumerate(KINDS):
        report[name] = hits[..., place][seen].double().mean().item()
        report[f"best_{name}"] = hits[..., place][best].double().mean().item()
    return {name: round(value, 4) for name, value in report.items()}


def _best_cells(lesson: Lesson) -> Tensor:
    """Cells ``(N, K)`` that show more of some object than other cells do, and of no object more."""
    counts = batch_counts(lesson, plain(np.arange(len(lesson))))
    own = (counts == counts.max(axis=2, keepdims=True)) & (counts >= LEAST)
    most_of_own = np.where(own, counts, 0)
    best = own & (most_of_own == most_of_own.max(axis=1, keepdims=True))
    return torch.from_numpy(best.any(axis=2))


@torch.no_grad()
def hits(
    network: RelationNetwork,
    lesson: Lesson,
    rows: NDArray[np.int64],
    asked: Asked,
    *,
    folded: bool = False,
    precise: bool = False,
) -> Tensor:
    """Whether each question is answered rightly from all pairs, ``(N,)`` bool.

    Args:
        network: Its mode is restored.
        lesson: Scenes.
        rows: ``(N,)`` scene of each question.
        asked: Questions.
        folded: Whether ``f1`` takes plain sums; in training it does not.
        precise: Compute in float32 rather than bfloat16.
    """
    was_training = network.training
    network.eval()
    found = []
    for part in np.array_split(np.arange(len(rows)), max(1, len(rows) // _CHUNK)):
        with torch.autocast("cpu", torch.bfloat16, enabled=not precise):
            objects = network.objects(network.cnn(batch_images(lesson, plain(rows[part]))))
            code = network.encode_question(asked.tokens[part], asked.lengths[part])
            logits = (
                network.answer_objects(objects, code) if folded else all_pairs_logits(network, objects, code)
            )
        found.append(logits.argmax(dim=1) == asked.answers[part])
    network.train(was_training)
    return torch.cat(found)


def asked_of_each(source: QuestionSource, n: int) -> tuple[NDArray[np.int64], Asked]:
    """Scenes and ``n`` questions, one about each scene in turn; the same ones at every call."""
    drawn = plain(source.askable[np.arange(n) % len(source.askable)])
    return drawn.rows, source.draw(drawn.rows, drawn.mirrored, generator_of(0, "measure", n))


def accuracy_at(network: RelationNetwork, lesson: Lesson, source: QuestionSource, n: int) -> float:
    """Share of ``n`` questions about unseen scenes that are answered rightly, in bfloat16."""
    rows, asked = asked_of_each(source, n)
    return round(hits(network, lesson, rows, asked).double().mean().item(), 4)


def simple_accuracies(
    network: RelationNetwork,
    lesson: Lesson,
    source: SimpleQuestions,
    n: int,
    *,
    folded: bool = False,
    precise: bool = False,
) -> dict[str, float]:
    """Share of simple questions answered rightly, over all and by asked attribute; see ``hits``."""
    rows, asked = asked_of_each(source, n)
    right = hits(network, lesson, rows, asked, folded=folded, precise=precise).double()
    report = {"accuracy": right.mean().item()}
    kinds = asked.slots[:, 0]
    report |= {name: right[kinds == place].mean().item() for place, name in enumerate(KINDS)}
    return {name: round(value, 4) for name, value in report.items()}


def family_accuracies(
    network: RelationNetwork, lesson: Lesson, source: ComplexQuestions, *, folded: bool = False
) -> dict[str, dict[str, float]]:
    """Number and share of complex questions answered rightly, by file of their template, in float32."""
    rows, asked = source.at(np.arange(len(source)))
    right = hits(network, lesson, rows, asked, folded=folded, precise=True).double()
    files = np.array([FAMILIES[family][0].removesuffix(".json") for family in asked.slots[:, 0].tolist()])
    groups = {"all": np.ones(len(files), dtype=np.bool_)} | {name: files == name for name in np.unique(files)}
    return {
        str(name): {
            "n": float(member.sum()),
            "accuracy": round(right[torch.from_numpy(member)].mean().item(), 4),
        }
        for name, member in groups.items()
    }
