"""Control experiments: how much of a map belongs to this question, this answer, this image and this network?

Each map is made again with one thing exchanged, then scored on the mask of the question it was made for, and
compared with the map as it was (after Adebayo et al. 2018 and Sixt & Landgraf 2022).
"""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from heatcheck.benchmarks.clevr_xai_questions import (
    GROUND_TRUTHS_OF,
    Sample,
    answer_questions,
    explain,
    objects_of,
    open_questions,
)
from heatcheck.benchmarks.clevr_xai_scores import COLUMNS, score_heatmaps
from heatcheck.benchmarks.heatmaps import Explained
from heatcheck.data.clevr.batch import VisualQuestions
from heatcheck.data.clevr.vocabulary import ANSWERS
from heatcheck.data.scenes import COLORS, MATERIALS, SHAPES, SIZES
from heatcheck.metrics.pooling import POOLINGS, pool
from heatcheck.metrics.similarity import pearson, spearman
from heatcheck.models.registry import Classifier
from heatcheck.models.state_dict import own_randomness

Experiment = Literal["other question", "other answer", "other image", "random weights"]
EXPERIMENTS: tuple[Experiment, ...] = ("other question", "other answer", "other image", "random weights")
SIMILARITIES = ("spearman", "pearson", "difference")
_ANSWER_KINDS = (("yes", "no"), tuple(map(str, range(11))), SHAPES, COLORS, MATERIALS, SIZES)


class Exchange(NamedTuple):
    """Questions of a control experiment with one thing exchanged.

    Attributes:
        experiment: What was exchanged.
        kept: Places of the questions for which there is something to exchange.
        explained: What is explained instead, one for each of ``kept``.
    """

    experiment: Experiment
    kept: tuple[int, ...]
    explained: Explained


def exchanges(
    sample: Sample, targets: Sequence[int], classifier: Classifier, device: torch.device, *, seed: int
) -> list[Exchange]:
    """All control experiments on the questions of ``sample`` that have something to exchange.

    Args:
        sample: Questions of one kind.
        targets: Class that is explained for each.
        classifier: The trained model.
        device: Where it runs.
        seed: Seed of the draws and of the random weights.
    """
    questions, classes = sample.load(), torch.tensor(targets)
    everyone = tuple(range(len(questions)))
    generator = np.random.Generator(np.random.Philox(seed))
    other_answers = torch.tensor([_other_answer(target, generator) for target in targets])
    random = dataclasses.replace(classifier, module=randomized(classifier.module, seed=seed))
    found = [
        _other_question(sample, classifier, device, generator),
        Exchange("other answer", everyone, explain(questions, classifier, other_answers, device)),
        _other_image(questions, classes, classifier, device, generator),
        Exchange("random weights", everyone, explain(questions, random, classes, device)),
    ]
    return [exchange for exchange in found if exchange is not None]


def compare_maps(
    own: Tensor,
    other: Tensor,
    questions: VisualQuestions,
    ground_truths: Sequence[str],
    *,
    pooling: str,
) -> pd.DataFrame:
    """Scores of the exchanged maps on the questions' masks, and how alike both maps are.

    Args:
        own: ``(N, C, H, W)`` raw maps as they were.
        other: Those with something exchanged, like ``own``.
        questions: What ``own`` explains.
        ground_truths: Which masks.
        pooling: How channels are joined where maps are compared.

    Returns:
        Columns ``COLUMNS``. Beside mass and rank the metrics are ``spearman`` and ``pearson`` correlation of
        the pooled pixels and ``difference``, the largest one of the raw maps as a share of the largest value;
        their value stands in the column of ``pooling``, the ground truth is empty.
    """
    scores = score_heatmaps(other, questions, ground_truths)
    pair = [pool(maps, pooling).flatten(1) for maps in (own, other)]
    largest = own.abs().flatten(1).amax(1).double()
    largest[largest == 0] = torch.nan  # nothing to compare with
    apart = (own.double() - other.double()).abs().flatten(1).amax(1)
    found = {"spearman": spearman(*pair), "pearson": pearson(*pair), "difference": apart / largest}
    fixed = {"question": list(questions.ids), "ground_truth": "", "flag": "ok"}
    parts = [
        pd.DataFrame({**fixed, "metric": metric, **dict.fromkeys(POOLINGS, np.nan), pooling: values.numpy()})
        for metric, values in found.items()
    ]
    return pd.concat([scores, *parts], ignore_index=True)[list(COLUMNS)]


def randomized(module: nn.Module, *, seed: int) -> nn.Module:
    """Copy of ``module`` with weights drawn anew, as before training; the caller's random state is kept."""
    device = next((weight.device for weight in module.parameters()), torch.device("cpu"))
    # On the CPU, so that the weights are the same for every device.
    fresh = copy.deepcopy(module).cpu()
    with own_randomness(seed):
        for part in fresh.modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
    return fresh.to(device).eval()


def _other_question(
    sample: Sample, classifier: Classifier, device: torch.device, generator: np.random.Generator
) -> Exchange | None:
    """Another question about the same image, whose ground truth is another set of objects."""
    everything = open_questions(sample.data, sample.kind).questions
    truth = GROUND_TRUTHS_OF[sample.kind][0]
    by_image: dict[int, list[int]] = {}
    for row, question in enumerate(everything):
        by_image.setdefault(question.image, []).append(row)
    kept, partners = [], []
    for place, row in enumerate(sample.rows):
        own = objects_of(everything[row], truth)
        near = [
            other
            for other in by_image[everything[row].image]
            if other != row and objects_of(everything[other], truth) not in (own, None)
        ]
        if near:
            kept.append(place)
            partners.append(near[generator.integers(len(near))])
    if not kept:
        return None
    others = sample._replace(rows=tuple(partners)).load()
    predicted = answer_questions(others, classifier, device)["target"].to_numpy()
    return Exchange(
        "other question", tuple(kept), explain(others, classifier, torch.tensor(predicted), device)
    )


def _other_image(
    questions: VisualQuestions,
    classes: Tensor,
    classifier: Classifier,
    device: torch.device,
    generator: np.random.Generator,
) -> Exchange | None:
    """The same class explained for another image and its question."""
    images = [question.image for question in questions.questions]
    kept, partners = [], []
    for place, image in enumerate(images):
        far = [other for other, name in enumerate(images) if name != image]
        if far:
            kept.append(place)
            partners.append(far[generator.integers(len(far))])
    if not kept:
        return None
    return Exchange(
        "other image", tuple(kept), explain(questions.take(partners), classifier, classes[kept], device)
    )


def _other_answer(target: int, generator: np.random.Generator) -> int:
    """Another class of the same kind: a color for a color, a number for a number."""
    kind = next(kind for kind in _ANSWER_KINDS if ANSWERS[target] in kind)
    others = [ANSWERS.index(name) for name in kind if name != ANSWERS[target]]
    return others[generator.integers(len(others))]
