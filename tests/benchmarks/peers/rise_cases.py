"""Deletion and masks against plain loops, as Petsiuk et al. (2018) describe them; the loops are written anew.

Deletion: one image and one step per forward pass, or one step of all images. Masks: one after the other, a
coarse grid of bits enlarged by scikit-image and cropped at random.
"""

import math
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from skimage.transform import resize
from tests.benchmarks.peers.case import Case, Sides
from tests.benchmarks.peers.inputs import Problem, make_cnn, make_problem
from torch import Tensor, nn

from heatcheck.attribution import rise
from heatcheck.metrics.curves import deletion
from heatcheck.metrics.scoring import softmax_of
from heatcheck.models.lite0 import efficientnet_lite0

PEER = "RISE-style loop, 1 image per pass"
BATCHED = "RISE-style loop, all images per pass"
N_MASKS, CELLS, KEEP, SIDE = 200, 8, 0.1, 224


def rise_cases() -> list[Case]:
    """All cases against the plain loops."""
    cnn = "deletion, 4-layer CNN, {} images of 32², 28 steps"
    return [
        Case(cnn.format(32), PEER, partial(_deletion, make_cnn, (32, 3, 32, 32), 1), 1e-5, 1.4),
        Case(cnn.format(32), BATCHED, partial(_deletion, make_cnn, (32, 3, 32, 32), 32), 1e-5, 0.95),
        Case(cnn.format(64), PEER, partial(_deletion, make_cnn, (64, 3, 32, 32), 1), 1e-5, 1.4),
        Case(cnn.format(64), BATCHED, partial(_deletion, make_cnn, (64, 3, 32, 32), 64), 1e-5, 0.95),
        Case(
            "deletion, EfficientNet-Lite0, 1 image of 224², 28 steps",
            PEER,
            partial(_deletion, _make_lite0, (1, 3, 224, 224), 1),
            1e-5,
            1.0,
        ),
        *(
            Case(
                f"RISE masks, {N_MASKS} of {SIDE}² from {CELLS} x {CELLS} cells, {use}",
                f"loop, scikit-image {version('scikit-image')} resize and crop per mask",
                partial(_masks, keep_all=keep_all),
                1e-5,
                8.0,
            )
            for use, keep_all in (("one at a time", False), ("all kept", True))
        ),
    ]


def plain_deletion(problem: Problem, step: int, chunk: int) -> Tensor:
    """Curves ``(N, S + 1)`` float64 of the most probable class, ``chunk`` images and one step per pass."""
    classifier = nn.Sequential(problem.model, nn.Softmax(dim=1)).eval()
    curves = []
    with torch.no_grad():
        for start in range(0, len(problem.images), chunk):
            images = problem.images[start : start + chunk].clone()
            curves.append(_curves(classifier, images, problem.heatmaps[start : start + chunk], step))
    return torch.from_numpy(np.concatenate(curves)).double()


def resized_mask(grid: NDArray[np.bool_], corner: tuple[int, int]) -> Tensor:
    """Mask ``(side, side)`` float32 as the method describes it: bits enlarged linearly, then cropped.

    Args:
        grid: ``(cells, cells)`` bits.
        corner: Top and left of the crop, from 0 to the side of an enlarged cell.
    """
    enlarged = (CELLS + 1) * math.ceil(SIDE / CELLS)
    coarse = grid.astype(np.float32)
    whole = resize(coarse, (enlarged, enlarged), order=1, mode="reflect", anti_aliasing=False)
    top, left = corner
    return torch.from_numpy(whole[top : top + SIDE, left : left + SIDE])


def _curves(classifier: nn.Module, images: Tensor, heatmaps: Tensor, step: int) -> NDArray[np.float32]:
    """Probabilities ``(B, S + 1)`` of the top class while pixels of ``images`` are set to 0, in place."""
    order = np.argsort(-heatmaps.flatten(1).numpy(), axis=1)  # (B, H W)
    values, rows = images.flatten(2).numpy(), np.arange(len(images))
    first = classifier(images).numpy()
    targets = first.argmax(1)
    scores = [first[rows, targets]]
    for start in range(0, order.shape[1], step):
        values[rows[:, None], :, order[:, start : start + step]] = 0
        scores.append(classifier(images).numpy()[rows, targets])
    return np.stack(scores, axis=1)


def _deletion(make_model: Callable[[], nn.Module], shape: tuple[int, int, int, int], chunk: int) -> Sides:
    problem = make_problem(make_model, shape)
    step = max(1, shape[2] * shape[3] // 28)

    def ours() -> Tensor:
        return deletion(softmax_of(problem.model), problem.images, problem.heatmaps, step=step).scores

    return Sides(ours, lambda: plain_deletion(problem, step, chunk))


def _masks(*, keep_all: bool) -> Sides:
    """Sides of RISE's masks; for the check, of all masks, the loop is given our bits and corners.

    Args:
        keep_all: Write all masks into one tensor, as the authors do before the first forward pass. Else each
            is dropped when the next is made, as in our RISE, and only the last is returned.
    """
    cell = math.ceil(SIDE / CELLS)
    legacy = np.random.RandomState(0)

    def our_mask(number: int) -> Tensor:
        return rise.rise_mask(0, number, (SIDE, SIDE), CELLS, KEEP)

    def their_mask(number: int) -> Tensor:
        grid = legacy.rand(CELLS, CELLS) < KEEP
        return resized_mask(grid, (legacy.randint(cell), legacy.randint(cell)))

    def same_mask(number: int) -> Tensor:
        with mock.patch.object(rise, "enlarge_mask") as enlarge:
            our_mask(number)
        grid, _, corner = enlarge.call_args.args
        return resized_mask(grid.numpy(), corner)

    make = _all_masks if keep_all else _last_mask
    return Sides(
        partial(make, our_mask),
        partial(make, their_mask),
        lambda: (_all_masks(our_mask), _all_masks(same_mask)),
    )


def _all_masks(mask_at: Callable[[int], Tensor]) -> Tensor:
    masks = torch.empty((N_MASKS, SIDE, SIDE))
    for number in range(N_MASKS):
        masks[number] = mask_at(number)
    return masks


def _last_mask(mask_at: Callable[[int], Tensor]) -> Tensor:
    for number in range(N_MASKS - 1):
        mask_at(number)
    return mask_at(N_MASKS - 1)


def _make_lite0() -> nn.Module:
    return efficientnet_lite0().module
