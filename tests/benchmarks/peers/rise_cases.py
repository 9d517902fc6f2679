"""Deletion against a plain loop over images and steps, one image a forward pass.

This is how the reference code of Petsiuk et al. (2018) evaluates a single image; the loop is written anew.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from tests.benchmarks.peers.case import Case, Sides
from tests.benchmarks.peers.inputs import Problem, make_cnn, make_problem
from torch import Tensor, nn

from heatcheck.metrics.curves import deletion
from heatcheck.metrics.scoring import softmax_of
from heatcheck.models.lite0 import efficientnet_lite0

PEER = "RISE-style loop, 1 image per pass"


def rise_cases() -> list[Case]:
    """All cases against the plain loop."""
    return [
        Case(
            "deletion, 4-layer CNN, 32 images of 32², 28 steps",
            PEER,
            partial(_deletion, make_cnn, (32, 3, 32, 32)),
            1e-5,
            1.4,
        ),
        Case(
            "deletion, EfficientNet-Lite0, 1 image of 224², 28 steps",
            PEER,
            partial(_deletion, _make_lite0, (1, 3, 224, 224)),
            1e-5,
            1.0,
        ),
    ]


def plain_deletion(problem: Problem, step: int) -> Tensor:
    """Curves ``(N, S + 1)`` float64 of the most probable class, image by image and step by step."""
    classifier = nn.Sequential(problem.model, nn.Softmax(dim=1)).eval()
    curves = []
    with torch.no_grad():
        for row, heatmap in enumerate(problem.heatmaps):
            image = problem.images[row : row + 1].clone()
            target = int(classifier(image).argmax())
            curves.append(_one_curve(classifier, image, heatmap, target, step=step))
    return torch.tensor(curves, dtype=torch.float64)


def _one_curve(
    classifier: nn.Module, image: Tensor, heatmap: Tensor, target: int, *, step: int
) -> list[float]:
    """Probabilities of ``target`` while pixels of ``image`` ``(1, C, H, W)`` are set to 0, in place."""
    order = np.argsort(-heatmap.numpy().ravel())
    values = image.view(image.shape[1], -1).numpy()
    scores = [float(classifier(image)[0, target])]
    for start in range(0, len(order), step):
        values[:, order[start : start + step]] = 0
        scores.append(float(classifier(image)[0, target]))
    return scores


def _deletion(make_model: Callable[[], nn.Module], shape: tuple[int, int, int, int]) -> Sides:
    problem = make_problem(make_model, shape)
    step = max(1, shape[2] * shape[3] // 28)

    def ours() -> Tensor:
        return deletion(softmax_of(problem.model), problem.images, problem.heatmaps, step=step).scores

    return Sides(ours, lambda: plain_deletion(problem, step))


def _make_lite0() -> nn.Module:
    return efficientnet_lite0().module
