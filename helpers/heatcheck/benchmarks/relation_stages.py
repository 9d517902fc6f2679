"""Stages in which a Relation Network is trained on rendered scenes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatcheck.benchmarks.relation_lessons import (
    Drawn,
    Lesson,
    batch_cells,
    batch_counts,
    batch_images,
    deciding_cells,
    draw_images,
    focus_cells,
    generator_of,
    plain,
)
from heatcheck.benchmarks.relation_measures import cell_accuracies
from heatcheck.benchmarks.relation_questions import CLASSES, QuestionSource
from heatcheck.models.relation_network import RelationNetwork
from heatcheck.models.relation_training import (
    CellHead,
    PairHead,
    ProgramHead,
    all_pairs_logits,
    cell_loss,
    sampled_logits,
)
from heatcheck.models.stages import Measure, Run, Stage, run_stage

IMPORTANCE = (2.0, 0.5, 1.0, 1.0)  # of shape, size, material and color: shape is learned last
_UNSEEN_STEP = 1 << 40  # a step that no stage reaches, whose questions are for measuring


@dataclass(frozen=True)
class Relating:
    """How a stage trains the whole network on questions.

    Attributes:
        images: Images per step.
        questions: Questions about each image.
        rounds: Permutations of pairs in each step; None for all pairs.
        focus: Cells, those that show most of objects, all of whose pairs are taken besides.
        pair_aid: Weight of the loss on deciding pairs at the start and at the end of the stage; 0 for none.
        cell_aid: Weight of the loss on cells' attributes at the start and at the end; 0 for none.
        fixed: Whether the encoder is left as it is; features are then computed once.
        statistics: Whether batch normalizations go on taking statistics.
    """

    images: int
    questions: int
    rounds: int | None
    focus: int = 0
    pair_aid: tuple[float, float] = (0.0, 0.0)
    cell_aid: tuple[float, float] = (0.0, 0.0)
    fixed: bool = False
    statistics: bool = True


class Heads(NamedTuple):
    """Training aids that are thrown away afterwards."""

    cells: CellHead
    pairs: PairHead


@dataclass(frozen=True)
class Session:
    """What stages have in common.

    Attributes:
        network: It is trained; its ``f1`` is in the form it has in training.
        lesson: Scenes.
        seed: Decides what is drawn.
        folder: Where checkpoints lie.
        every: Seconds between two measurements.
    """

    network: RelationNetwork
    lesson: Lesson
    seed: int = 0
    folder: Path | None = None
    every: float = 120.0

    def run(
        self,
        stage: Stage,
        modules: dict[str, nn.Module],
        step_loss: Callable[[int, float], Tensor],
        measure: Measure,
    ) -> Run:
        """Run of a stage with what is the same for all of them."""
        return run_stage(stage, modules, step_loss, folder=self.folder, measure=measure, every=self.every)


def teach_encoder(session: Session, head: CellHead, stage: Stage, unseen: Lesson, *, batch: int = 32) -> Run:
    """Run in which the encoder learns the attributes of the object in each cell."""
    network, lesson = session.network, session.lesson
    rows = np.arange(len(lesson))

    def step_loss(step: int, _: float) -> Tensor:
        drawn = draw_images(rows, batch, generator_of(session.seed, stage.name, step))
        network.cnn.train()
        with torch.autocast("cpu", torch.bfloat16):
            logits = head(network.cnn(batch_images(lesson, drawn)))
        return cell_loss(logits, batch_cells(lesson, drawn), CLASSES, IMPORTANCE)

    modules = {"cnn": network.cnn, "head": head}
    return session.run(stage, modules, step_loss, lambda: cell_accuracies(network, head, unseen))


def teach_questions(session: Session, source: QuestionSource, stage: Stage, *, batch: int = 128) -> Run:
    """Run in which the question encoder learns to name the slots of a question's program."""
    network, head = session.network, ProgramHead(source.slot_classes)

    def asked(step: int) -> tuple[Tensor, Tensor]:
        draw = generator_of(session.seed, stage.name, step)
        drawn = draw_images(source.askable, batch, draw)
        some = source.draw(drawn.rows, drawn.mirrored, draw)
        return network.encode_question(some.tokens, some.lengths), some.slots

    @torch.no_grad()
    def measure() -> dict[str, float]:
        return {"programs": head.accuracy(*asked(_UNSEEN_STEP))}

    modules = {"embedding": network.embedding, "lstm": network.lstm, "head": head}
    return session.run(stage, modules, lambda step, _: head.loss(*asked(step)), measure)


def teach_relations(
    session: Session, heads: Heads, source: QuestionSource, plan: tuple[Stage, Relating], measure: Measure
) -> Run:
    """Run in which the network learns to answer questions.

    Args:
        session: Network and scenes.
        heads: Training aids; kept between stages.
        source: Questions about the scenes.
        plan: How long and how fast; on which pairs and with which aids.
        measure: Asked now and then.
    """
    network, (stage, how) = session.network, plan
    features: list[Tensor] = []  # computed at the first step, which a finished stage does not reach
    network.cnn.requires_grad_(not how.fixed)

    def step_loss(step: int, share: float) -> Tensor:
        draw = generator_of(session.seed, stage.name, step)
        drawn = draw_images(source.askable, how.images, draw)
        network.train()
        network.cnn.train(how.statistics and not how.fixed)
        with torch.autocast("cpu", torch.bfloat16):
            if how.fixed and not features:
                features.append(all_features(network, session.lesson))
            maps = (
                features[0][torch.from_numpy(drawn.mirrored).long(), torch.from_numpy(drawn.rows)]
                if how.fixed
                else network.cnn(batch_images(session.lesson, drawn))
            )
            return _loss(session, heads, source, how, _Step(maps, drawn, share, draw))

    modules: dict[str, nn.Module] = {"network": network, "cells": heads.cells, "pairs": heads.pairs}
    try:
        return session.run(stage, modules, step_loss, measure)
    finally:
        network.cnn.requires_grad_(True)


@torch.no_grad()
def all_features(network: RelationNetwork, lesson: Lesson, *, chunk: int = 64) -> Tensor:
    """Features ``(2, N, 24, s, s)`` of images as they are and mirrored, with statistics as they stand."""
    network.cnn.eval()
    both = []
    for mirrored in (False, True):
        parts = []
        for rows in np.split(np.arange(len(lesson)), range(chunk, len(lesson), chunk)):
            drawn = plain(rows)._replace(mirrored=np.full(len(rows), mirrored))
            with torch.autocast("cpu", torch.bfloat16):
                parts.append(network.cnn(batch_images(lesson, drawn)).float())
        both.append(torch.cat(parts))
    return torch.stack(both)


def between(ends: tuple[float, float], share: float) -> float:
    """Value at ``share`` of the way from the first end to the second."""
    return ends[0] + (ends[1] - ends[0]) * share


class _Step(NamedTuple):
    """Features of the drawn images, the share of the budget that is spent, and random numbers."""

    maps: Tensor
    drawn: Drawn
    share: float
    draw: np.random.Generator


def _loss(session: Session, heads: Heads, source: QuestionSource, how: Relating, step: _Step) -> Tensor:
    network, asking = session.network, step.drawn.repeated(how.questions)
    asked = source.draw(asking.rows, asking.mirrored, step.draw)
    objects = network.objects(step.maps).repeat_interleave(how.questions, dim=0)
    code = network.encode_question(asked.tokens, asked.lengths)
    if how.rounds is None:
        return F.cross_entropy(all_pairs_logits(network, objects, code).float(), asked.answers)
    places = [step.draw.permutation(objects.shape[1]) for _ in range(how.rounds)]
    partners = torch.from_numpy(np.stack(places))
    counts = batch_counts(session.lesson, asking)
    focus = focus_cells(counts, how.focus) if how.focus else None
    logits, pairs = sampled_logits(network, objects, code, partners, focus)
    loss = F.cross_entropy(logits.float(), asked.answers)
    weight = between(how.pair_aid, step.share)
    if weight > 0:
        loss = loss + weight * heads.pairs.loss(pairs, deciding_cells(counts, asked), asked.answers)
    weight = between(how.cell_aid, step.share)
    if weight > 0:
        cells = batch_cells(session.lesson, step.drawn)
        loss = loss + weight * cell_loss(heads.cells(step.maps), cells, CLASSES, IMPORTANCE)
    return loss
