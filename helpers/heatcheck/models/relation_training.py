"""Aids for training the Relation Network on a processor, and sums over pairs that stand for all pairs.

Exact masks say what each cell of the feature map shows, and programs say which object is asked about. Heads
that learn these are thrown away afterwards. Pairs are drawn in rounds, in each of which every object is once
first and once second in a pair; that varies far less than pairs drawn at random.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatcheck.models.relation_network import CHANNELS, HIDDEN, QUESTION, RelationNetwork

POSITIVE_WEIGHT = 4.0  # of pairs that decide, against those that do not
TARGET_WEIGHT = 6.0  # of which pairs decide, against what they answer


class Cells(NamedTuple):
    """What the cells of feature maps show.

    Attributes:
        kinds: ``(N, K, A)`` int64 class of each attribute of the cell's object; of no meaning without one.
        weights: ``(N, K)`` how much the cell's object counts, 0 where the cell shows too little of any.
        empty: ``(N, K)`` bool, cells that show no object at all.
    """

    kinds: Tensor
    weights: Tensor
    empty: Tensor


class CellHead(nn.Module):
    """Names the attributes of the object in each cell.

    Args:
        classes: Number of values of each attribute.
    """

    def __init__(self, classes: tuple[int, ...]) -> None:
        super().__init__()
        self.classes = classes
        self.hidden = nn.Linear(CHANNELS, QUESTION)
        self.output = nn.Linear(QUESTION, 1 + sum(classes))

    def forward(self, features: Tensor) -> Tensor:
        """``(N, K, 1 + sum(classes))``: presence, then each attribute's logits, of ``(N, 24, s, s)``."""
        logits: Tensor = self.output(F.relu(self.hidden(features.flatten(2).mT)))
        return logits


def cell_loss(
    logits: Tensor, cells: Cells, classes: tuple[int, ...], importance: tuple[float, ...]
) -> Tensor:
    """Loss of a ``CellHead``: presence everywhere, attributes only where there is an object.

    With the background counted among the attributes, shape is drowned and stays at chance.

    Args:
        logits: ``(N, K, 1 + sum(classes))``.
        cells: What the cells show.
        classes: Number of values of each attribute.
        importance: Weight of each attribute.
    """
    logits = logits.float()
    seen = cells.weights > 0
    sure = seen | cells.empty
    total = F.binary_cross_entropy_with_logits(logits[..., 0][sure], seen[sure].float())
    weights = cells.weights[seen]
    parts = logits[..., 1:][seen].split(classes, dim=1)  # type: ignore[no-untyped-call]
    for part, goal, factor in zip(parts, cells.kinds[seen].unbind(1), importance, strict=True):
        errors = F.cross_entropy(part, goal, reduction="none")
        total = total + factor * (weights * errors).sum() / weights.sum().clamp(min=1e-6)
    return total


class ProgramHead(nn.Module):
    """Names the slots of a question's program from its code.

    Args:
        classes: Number of values of each slot.
    """

    def __init__(self, classes: tuple[int, ...]) -> None:
        super().__init__()
        self.classes = classes
        self.output = nn.Linear(QUESTION, sum(classes))

    def loss(self, code: Tensor, slots: Tensor) -> Tensor:
        """Sum over the slots ``(N, n)`` of the mean cross-entropies, from codes ``(N, 128)``."""
        pairs = zip(self._parts(code), slots.unbind(1), strict=True)
        return torch.stack([F.cross_entropy(part, goal) for part, goal in pairs]).sum()

    @torch.no_grad()
    def accuracy(self, code: Tensor, slots: Tensor) -> float:
        """Share of codes ``(N, 128)`` all of whose slots ``(N, n)`` are named rightly."""
        found = torch.stack([part.argmax(dim=1) for part in self._parts(code)], dim=1)
        return (found == slots).all(dim=1).double().mean().item()

    def _parts(self, code: Tensor) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = self.output(code).float().split(self.classes, dim=1)
        return parts


class Deciding(NamedTuple):
    """Which pairs decide a question.

    Attributes:
        first: ``(N, K)`` bool, cells that show what is asked about.
        second: ``(N, K)`` bool, cells that show what it is related to; all where no relation matters.
        known: ``(N,)`` bool, questions of which this is known.
        named: ``(N,)`` bool, questions whose answer such a pair can name.
    """

    first: Tensor
    second: Tensor
    known: Tensor
    named: Tensor

    def of_pairs(self, first: Tensor, second: Tensor) -> Tensor:
        """Whether pairs decide, ``(N, P)`` bool, given their cells ``(N, P)``."""
        return self.first.gather(1, first) & self.second.gather(1, second)


class PairHead(nn.Module):
    """Says whether a pair decides the question, and the answer if it does.

    Args:
        n_answers: Number of answers.
    """

    def __init__(self, n_answers: int) -> None:
        super().__init__()
        self.target = nn.Linear(HIDDEN, 1)
        self.answer = nn.Linear(HIDDEN, n_answers)

    def loss(self, pairs: "Pairs", deciding: Deciding, answers: Tensor) -> Tensor:
        """Loss of outputs of ``g`` given which pairs decide and the answers ``(N,)``."""
        relations, first, second = pairs
        decides = deciding.of_pairs(first, second)  # (N, P)
        known = deciding.known[:, None].expand_as(decides).float()
        found = self.target(relations)[..., 0].float()
        weight = torch.tensor(POSITIVE_WEIGHT, device=found.device)
        where = F.binary_cross_entropy_with_logits(found, decides.float(), known, pos_weight=weight)
        question, place = (decides & (deciding.known & deciding.named)[:, None]).nonzero(as_tuple=True)
        said = self.answer(relations[question, place]).float()
        what = F.cross_entropy(said, answers[question], reduction="sum") / max(1, len(question))
        return TARGET_WEIGHT * where + what


class Pairs(NamedTuple):
    """Outputs of ``g``.

    Attributes:
        relations: ``(N, P, 256)``.
        first: ``(N, P)`` int64 cell of each first object.
        second: ``(N, P)`` int64 cell of each second object.
    """

    relations: Tensor
    first: Tensor
    second: Tensor


class Logits(NamedTuple):
    """Logits ``(N, A)`` and the pairs they come from."""

    answers: Tensor
    pairs: Pairs


def all_pairs_logits(network: RelationNetwork, objects: Tensor, question: Tensor) -> Tensor:
    """Logits ``(N, A)`` from all pairs, with ``f1`` in the form it has in training; see ``fold``."""
    first, second = network.halves(objects, question)
    relations = network.later_layers(first[:, :, None] + second[:, None])  # (N, K, K, 256)
    return network.answer(_sum(relations.flatten(1, 2)) / objects.shape[1])


def sampled_logits(
    network: RelationNetwork,
    objects: Tensor,
    question: Tensor,
    partners: Tensor,
    focus: Tensor | None = None,
) -> Logits:
    """Logits from some pairs that stand for all, with ``f1`` in the form it has in training; see ``fold``.

    The sum over all pairs is estimated without bias: pairs among the cells of ``focus`` all count once, and
    every other pair that is drawn counts ``K`` over the number of rounds.

    Args:
        network: In training, its ``f1`` takes sums over pairs divided by ``K``.
        objects: ``(N, K, 26)``.
        question: ``(N, 128)``.
        partners: ``(R, K)`` int64: in each round a permutation, the second object of each first.
        focus: ``(N, M)`` int64 different cells whose pairs are all taken; none by default.
    """
    n, k, _ = objects.shape
    first, second = network.halves(objects, question)  # (N, K, 256)
    relations = network.later_layers((first[:, None] + second[:, partners]).flatten(1, 2))  # (N, R K, 256)
    i = torch.arange(k, device=partners.device).expand_as(partners).flatten().expand(n, -1)
    j = partners.flatten().expand(n, -1)
    pairs = Pairs(relations, i, j)
    if focus is None:
        summed = _sum(relations) * (k / len(partners))
        return Logits(network.answer(summed / k), pairs)
    near = focused_pairs(network, first, second, focus)
    inside = torch.zeros(n, k, dtype=torch.bool, device=focus.device).scatter(1, focus, value=True)
    outside = ~(inside.gather(1, i) & inside.gather(1, j))
    rest = _sum(relations * outside[..., None]) * (k / len(partners))
    summed = _sum(near.relations) + rest
    joined = (torch.cat(both, dim=1) for both in zip(near, pairs, strict=True))
    return Logits(network.answer(summed / k), Pairs(*joined))


def focused_pairs(network: RelationNetwork, first: Tensor, second: Tensor, focus: Tensor) -> Pairs:
    """All pairs among the cells ``focus`` ``(N, M)``, from the halves ``(N, K, 256)`` of the first layer."""
    m = focus.shape[1]
    places = focus[..., None].expand(-1, -1, HIDDEN)
    near = first.gather(1, places)[:, :, None] + second.gather(1, places)[:, None]  # (N, M, M, 256)
    relations = network.later_layers(near.flatten(1, 2))
    return Pairs(relations, focus.repeat_interleave(m, dim=1), focus.repeat(1, m))


@torch.no_grad()
def fold(network: RelationNetwork) -> None:
    """Make ``f1`` take plain sums over all pairs, in place; in training it takes them divided by ``K``."""
    network.f1.weight /= network.n_objects


@torch.no_grad()
def unfold(network: RelationNetwork) -> None:
    """Make ``f1`` take sums over pairs divided by ``K``, as in training, in place; undoes ``fold``."""
    network.f1.weight *= network.n_objects


def _sum(relations: Tensor) -> Tensor:
    """Sum ``(N, 256)`` over pairs ``(N, P, 256)``, in single precision at least."""
    return relations.sum(dim=1, dtype=torch.promote_types(relations.dtype, torch.float32))
