"""Single questions of the CLEVR-XAI chapter, before any mean: scenes with masks, heatmaps to look at."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import ndimage

from heatcheck.benchmarks.clevr_xai import Results, Shown
from heatcheck.benchmarks.clevr_xai_questions import KINDS
from heatcheck.benchmarks.clevr_xai_scores import MASS
from heatcheck.benchmarks.clevr_xai_settings import paper_method
from heatcheck.benchmarks.clevr_xai_tables import Cut, chosen_poolings
from heatcheck.metrics.pooling import pool

Array = NDArray[np.float64]
N_EXAMPLES = 3
# Masks that are drawn in pictures of complex questions; more lines would hide the objects.
_OUTLINED = ("single", "unique", "union")
_DRAWN = ("sobel", "centre")  # controls that are worth a picture
_YELLOW = (1.0, 0.82, 0.25)


class Example(NamedTuple):
    """One question as it is shown.

    Attributes:
        image: ``(H, W, 3)`` in [0, 1].
        masks: Ground truths to outline, ``(H, W)`` bool by name.
        question: Its text.
        answer: The true answer.
        prediction: The model's answer.
        confidence: Softmax of that answer.
    """

    image: Array
    masks: Mapping[str, NDArray[np.bool_]]
    question: str
    answer: str
    prediction: str
    confidence: float


class Gallery(NamedTuple):
    """Heatmaps of some questions beside their images.

    Attributes:
        examples: ``n`` questions.
        images: ``(n, H, W, 3)`` in [0, 1].
        heatmaps: By the paper's name of each method ``(n, H, W)``, with the pooling whose mass is reported.
        titles: Answer of each question, and what the model said instead.
    """

    examples: list[Example]
    images: Array
    heatmaps: Mapping[str, Array]
    titles: list[str]


def examples(results: Results) -> list[Example]:
    """Some correctly answered questions of each kind with the outlines of their ground truths."""
    return [example for kind in KINDS if kind in results.right for example in _examples(results.right[kind])]


def gallery(results: Results, paper: pd.DataFrame, *, right: bool) -> Gallery:
    """Heatmaps of a few questions, correctly answered (``right``) or not; empty where there are none.

    Args:
        results: Of a run.
        paper: Its ``paper_table``; one variant of each method is shown, the one with the largest mean mass.
        right: Whether the questions were answered correctly.
    """
    found = results.right if right else results.wrong
    if not found:
        return Gallery([], np.zeros((0, 1, 1, 3)), {}, [])
    kind = next(kind for kind in KINDS if kind in found)
    shown = found[kind]
    cut = Cut(kind, results.settings.masks_of(kind)[0], MASS)
    poolings = chosen_poolings(results, cut, "best")
    maps = {
        paper_method(method): np.asarray(pool(shown.heatmaps[method], poolings[method])[:N_EXAMPLES].numpy())
        for method in [*representatives(paper), *(name for name in _DRAWN if name in shown.heatmaps)]
    }
    chosen = _examples(shown)
    titles = [
        item.answer if item.prediction == item.answer else f"{item.prediction}, not {item.answer}"
        for item in chosen
    ]
    return Gallery(chosen, np.stack([_outlined(item) for item in chosen]), maps, titles)


def representatives(paper: pd.DataFrame) -> list[str]:
    """The variant of each method in a ``paper_table`` with the largest relevance mass, the best first."""
    kind, truth = paper[["kind", "ground_truth"]].iloc[0]
    first = paper[(paper["kind"] == kind) & (paper["ground_truth"] == truth) & ~paper["is_control"]]
    mass = first[first["metric"] == MASS].sort_values("mean", ascending=False, na_position="last")
    return [str(method) for method in mass["method"]]


def question_list(found: Gallery) -> str:
    """The questions of a gallery as running text, numbered."""
    listed = [f"({number}) {item.question}" for number, item in enumerate(found.examples, start=1)]
    return "; ".join(listed) or "none"


def _examples(shown: Shown) -> list[Example]:
    images = np.asarray(shown.questions.images.permute(0, 2, 3, 1).double().numpy())
    found = []
    for row, facts in shown.answers.head(N_EXAMPLES).iterrows():
        place = int(str(row))
        masks = {
            name: np.asarray(mask[place].numpy())
            for name, mask in shown.questions.masks.items()
            if name in _OUTLINED and bool(shown.questions.defined[name][place])
        }
        text, answer, prediction = (str(facts[name]) for name in ("text", "answer", "prediction"))
        found.append(Example(images[place], masks, text, answer, prediction, float(facts["confidence"])))
    return found


def _outlined(example: Example) -> Array:
    """The image with the pixels just around its first ground truth in yellow."""
    image = example.image.copy()
    for mask in list(example.masks.values())[:1]:
        image[ndimage.binary_dilation(mask, iterations=2) & ~ndimage.binary_dilation(mask)] = _YELLOW
    return image
