"""What the shipped Relation Networks went through, and how to go through it again."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from heatcheck.benchmarks.relation_complex import ComplexQuestions, complex_arrays
from heatcheck.benchmarks.relation_lessons import Lesson, make_lesson
from heatcheck.benchmarks.relation_measures import accuracy_at, simple_accuracies
from heatcheck.benchmarks.relation_questions import CLASSES, SimpleQuestions
from heatcheck.benchmarks.relation_scenes import training_scenes
from heatcheck.benchmarks.relation_stages import (
    Heads,
    Relating,
    Session,
    teach_encoder,
    teach_questions,
    teach_relations,
)
from heatcheck.data.rendered import Split
from heatcheck.models.relation_network import N_ANSWERS, RelationNetwork
from heatcheck.models.relation_training import CellHead, PairHead
from heatcheck.models.stages import Run, Stage
from heatcheck.models.state_dict import own_randomness

SHARES = (0.34, 0.2, 0.23, 0.23)  # of questions that ask for shape, size, material and color in training
Relations = tuple[tuple[Stage, Relating], ...]


@dataclass(frozen=True)
class Plan:
    """Stages of a training on simple questions about rendered scenes.

    Attributes:
        encoder: Attributes of cells.
        question: Programs of questions.
        relations: Questions about images, several stages.
        n_scenes: Training scenes.
        n_unseen: Scenes that accuracies are measured on.
        size: Side of the images in pixels.
        batch: Images per step of the first stage.
        n_measured: Questions of each measurement on the way.
        seed: Decides weights and batches; scenes are of seed 0.
    """

    encoder: Stage
    question: Stage
    relations: Relations
    n_scenes: int = 20_000
    n_unseen: int = 2000
    size: int = 128
    batch: int = 32
    n_measured: int = 512
    seed: int = 0


@dataclass(frozen=True)
class ComplexPlan:
    """Stages in which a network that answers simple questions learns complex ones.

    Attributes:
        question: Programs of questions.
        relations: Questions about images, several stages.
        n_scenes: Training scenes, the first of those of the simple questions.
        n_unseen: Scenes that accuracies are measured on.
        share: Share of simple questions among the others.
        n_measured: Complex questions of each measurement on the way, and as many simple ones.
        seed: Decides batches.
    """

    question: Stage
    relations: Relations
    n_scenes: int = 10_000
    n_unseen: int = 1000
    share: float = 0.25
    n_measured: int = 512
    seed: int = 0


SIMPLE = Plan(
    Stage("encoder", 780.0, 3e-3),
    Stage("question", 20.0, 3e-3),
    (
        (Stage("matching", 400.0, 1e-3), Relating(128, 1, 1, pair_aid=(1.0, 1.0), fixed=True)),
        (Stage("jointly", 600.0, 1e-3), Relating(32, 4, 2, pair_aid=(1.0, 0.1), cell_aid=(0.5, 0.0))),
        (Stage("answers", 780.0, 3e-4), Relating(16, 4, None, statistics=False)),
    ),
)
COMPLEX = ComplexPlan(
    Stage("complex-question", 120.0, 2e-3),
    (
        (
            Stage("complex-relating", 720.0, 1e-3),
            Relating(128, 1, 1, focus=12, pair_aid=(1.0, 0.3), fixed=True),
        ),
        (Stage("complex-answers", 370.0, 1e-4), Relating(64, 1, None, fixed=True)),
    ),
)


class World(NamedTuple):
    """Scenes of one split and simple questions about them."""

    lesson: Lesson
    questions: SimpleQuestions


def make_world(
    split: Split, n: int, size: int, *, shares: tuple[float, ...] = (0.25,) * 4, workers: int = 1
) -> World:
    """The first ``n`` scenes of a split; they are rendered when first asked for."""
    scenes = training_scenes(split, n, size=size, workers=workers)
    return World(make_lesson(scenes), SimpleQuestions(scenes.kinds, shares))


def train_simple(
    plan: Plan, seen: World, unseen: World, folder: Path | None = None
) -> tuple[RelationNetwork, dict[str, Run]]:
    """Network, with ``f1`` in the form it has in training, and what happened in each stage.

    Args:
        plan: What to do.
        seen: Training scenes.
        unseen: Scenes that accuracies are measured on.
        folder: Where checkpoints lie, from which an interrupted training goes on.
    """
    with own_randomness(plan.seed):
        network = RelationNetwork(plan.size)
        heads = Heads(CellHead(CLASSES), PairHead(N_ANSWERS))
        network.cnn.to(memory_format=torch.channels_last)
        session = Session(network, seen.lesson, plan.seed, folder)
        runs = {
            plan.encoder.name: teach_encoder(
                session, heads.cells, plan.encoder, unseen.lesson, batch=plan.batch
            ),
            plan.question.name: teach_questions(session, seen.questions, plan.question),
        }
        for stage, how in plan.relations:
            runs[stage.name] = teach_relations(
                session,
                heads,
                seen.questions,
                (stage, how),
                lambda: simple_accuracies(network, unseen.lesson, unseen.questions, plan.n_measured),
            )
    return network.eval(), runs


def train_complex(
    plan: ComplexPlan,
    network: RelationNetwork,
    seen: World,
    unseen: World,
    *,
    folder: Path | None = None,
    workers: int = 1,
) -> dict[str, Run]:
    """What happened in each stage; ``network``, with ``f1`` in the form it has in training, is trained.

    Args:
        plan: What to do.
        network: Trained on simple questions.
        seen: Training scenes, at least as many as the plan names.
        unseen: Scenes that accuracies are measured on.
        folder: Where checkpoints lie, from which an interrupted training goes on.
        workers: Processes that make questions.
    """
    source = ComplexQuestions(
        complex_arrays("train", plan.n_scenes, workers=workers), seen.questions, plan.share
    )
    unseen_source = ComplexQuestions(
        complex_arrays("heldout", plan.n_unseen, workers=workers), unseen.questions
    )
    with own_randomness(plan.seed):
        heads = Heads(CellHead(CLASSES), PairHead(N_ANSWERS))
        session = Session(network, seen.lesson.first(plan.n_scenes), plan.seed, folder)
        runs = {plan.question.name: teach_questions(session, source, plan.question)}

        def measure() -> dict[str, float]:
            simple = simple_accuracies(network, unseen.lesson, unseen.questions, plan.n_measured)
            return {
                "complex": accuracy_at(network, unseen.lesson, unseen_source, plan.n_measured),
                "simple": simple["accuracy"],
            }

        for stage, how in plan.relations:
            runs[stage.name] = teach_relations(session, heads, source, (stage, how), measure)
    network.eval()
    return runs
