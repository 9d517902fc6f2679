"""The search for a mask: its loss on a batch of images, where it starts, and its steps."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.attribution.baselines import gaussian_blurred
from heatcheck.attribution.fills import Behind
from heatcheck.attribution.masks import binarized, cells_of, crops, disc, l1_term, over_image, tv_term
from heatcheck.attribution.passes import Query, class_scores
from heatcheck.removal.holes import find_holes
from heatcheck.runtime.seeds import CounterGenerator

# Radii in pixels of a side of 224, the discs' blur there, and the share of the effect that may be missing.
_RADII = range(0, 171, 5)
_DISC_SIGMA = 10.0
_SIDE = 224
_REST = 0.01
# The published inpainter works on 256 pixels for an image of 224.
_INPAINTED = 256 / 224

Kept = Literal["resampled", "exact"]


class Objective(NamedTuple):
    """What a mask is penalized for and how the model sees it.

    Attributes:
        l1: Weight of ``masks.l1_term``.
        tv: Weight of ``masks.tv_term``.
        beta: Its exponent.
        binary: The model sees zeros and ones; see ``masks.binarized``.
        sigma: Gaussian over the enlarged mask, in pixels; 0: none.
    """

    l1: float = 1e-4
    tv: float = 1e-2
    beta: float = 3.0
    binary: bool = False
    sigma: float = 0.0


class Scene(NamedTuple):
    """Images that are masked, with what stands behind.

    Attributes:
        query: Its images ``(N, C, H + jitter, W + jitter)`` have pixels around them for the jitter.
        classes: ``(N, k)`` int64, the classes whose scores are added up.
        behind: What removed pixels show, like the images, or a removal operator.
        size: ``(H, W)``, what the model sees.
        kept: What stands behind a kept pixel that a removal operator hands back as it was; see
            ``meaningful_perturbation``.
    """

    query: Query
    classes: Tensor
    behind: Behind
    size: tuple[int, int]
    kept: Kept = "resampled"


class Losses(NamedTuple):
    """Parts of the loss ``(N,)``: the score, the removed area and the roughness; the latter unweighted."""

    score: Tensor
    l1: Tensor
    tv: Tensor

    def total(self, objective: Objective) -> Tensor:
        """Weighted sum ``(N,)``, which is minimized."""
        return self.score + objective.l1 * self.l1 + objective.tv * self.tv


def mask_losses(scene: Scene, masks: Tensor, corners: Tensor, objective: Objective) -> Losses:
    """Parts of the loss of masks ``(N, 1, R, R)``; the penalties see the masks as they are.

    Args:
        scene: Images and what stands behind them.
        masks: In [0, 1], 1 keeps.
        corners: ``(N, 2)`` int64, upper left corners of the windows that the model sees.
        objective: Weights.
    """
    soft = over_image(masks, scene.size)
    if objective.sigma:
        soft = gaussian_blurred(soft, objective.sigma)
    seen = binarized(soft) if objective.binary else soft
    score = explained_scores(scene, composites(scene, seen, corners, soft))
    return Losses(score, l1_term(masks), tv_term(masks, objective.beta))


def composites(scene: Scene, keep: Tensor, corners: Tensor, soft: Tensor) -> Tensor:
    """Images ``(N, C, H, W)`` seen through masks: ``m x + (1 - m) b``.

    Args:
        scene: Images and what stands behind them.
        keep: ``(N, 1, H, W)`` masks ``m``.
        corners: ``(N, 2)`` int64.
        soft: ``(N, 1, H, W)`` masks whose holes a removal operator fills; no gradient passes through it.
    """
    images = crops(scene.query.images, corners, scene.size)
    if isinstance(scene.behind, Tensor):
        hidden = crops(scene.behind, corners, scene.size)
    else:
        with torch.no_grad():
            known = ~find_holes(soft)
            hidden = scene.behind.substrate(images, known)
            if scene.kept == "resampled":
                same = known & (hidden == images).all(1, keepdim=True)
                hidden = torch.where(same, resampled(images), hidden)
    return torch.lerp(hidden, images, keep.to(images.dtype))


def resampled(images: Tensor) -> Tensor:
    """Images ``(N, C, H, W)`` resized to 8/7 of their sides and back, as an inpainter hands them back.

    Bilinear both ways, 224 to 256 to 224 pixels (Agarwal and Nguyen 2020): fine detail is lost.
    """
    size = tuple(images.shape[2:])
    larger = [round(side * _INPAINTED) for side in size]
    return F.interpolate(F.interpolate(images, larger, mode="bilinear"), size, mode="bilinear")


def explained_scores(scene: Scene, images: Tensor) -> Tensor:
    """Summed scores ``(N,)`` of the scene's classes on ``images`` ``(N, C, H, W)``."""
    outputs = class_scores(scene.query._replace(images=images))
    return outputs.gather(1, scene.classes.to(outputs.device)).sum(dim=1)


def mask_draws(
    generator: CounterGenerator, cells: int, n_iterations: int, jitter: int
) -> tuple[Tensor, Tensor]:
    """Random masks ``(N, 1, cells, cells)`` in [0, 1) and corners ``(n_iterations, N, 2)`` below ``jitter``.

    Each image has one stream, which gives its mask first and then row and column for each iteration.
    """
    masks, corners = [], []
    for row in range(len(generator.ids)):
        numbers = generator.numpy(row)
        masks.append(numbers.random((1, cells, cells), dtype=np.float32))
        corners.append(numbers.integers(max(jitter, 1), size=(n_iterations, 2)))
    return torch.from_numpy(np.stack(masks)), torch.from_numpy(np.stack(corners, axis=1))


def circular_start(scene: Scene, cells: int, corner: int) -> Tensor:
    """Initial masks ``(N, 1, cells, cells)``: one minus a blurred disc in the middle.

    Of discs of radius 0, 5, ... 170 (at a side of 224), that of the first after which at most 1 % of the
    fall of the score between the whole image and the largest disc is left; the largest if there is none.

    Args:
        scene: Images and what stands behind them.
        cells: Cells per side.
        corner: Row and column of the images proper in their surround.
    """
    unit, n_images = min(scene.size) / _SIDE, len(scene.query.images)
    like = scene.query.images
    keeps = torch.stack([1 - disc(scene.size, radius * unit, _DISC_SIGMA * unit) for radius in _RADII])
    keeps = keeps[:, None].clamp(0, 1).to(like)
    corners = torch.full((n_images, 2), corner)
    with torch.no_grad():
        clean = explained_scores(scene, crops(like, corners, scene.size))
        left = []
        for keep in keeps:
            mask = keep.expand(n_images, 1, *scene.size)
            left.append(explained_scores(scene, composites(scene, mask, corners, mask)))
    scores = torch.stack(left)  # (discs, N)
    enough = (scores - scores[-1]) / (clean - scores[-1]) < _REST
    enough[-1] = True
    return cells_of(keeps, cells)[enough.int().argmax(dim=0).to(keeps.device)]


def search_masks(
    scene: Scene, start: Tensor, corners: Tensor, objective: Objective, learning_rate: float
) -> Iterator[Tensor]:
    """The initial masks and those after each iteration of Adam, ``(N, 1, R, R)`` in [0, 1] each.

    Losses are summed over the images and Adam works element by element, so each mask goes the way it would
    go alone.

    Args:
        scene: Images and what stands behind them.
        start: Initial masks.
        corners: ``(n_iterations, N, 2)`` int64, windows that the model sees in each iteration.
        objective: Weights.
        learning_rate: Of Adam.

    Yields:
        Masks without a gradient, a new tensor each.
    """
    masks = start.detach().clone().requires_grad_(True)
    optimizer = torch.optim.Adam([masks], lr=learning_rate)
    yield masks.detach().clone()
    for window in corners:
        total = mask_losses(scene, masks, window, objective).total(objective).sum()
        (masks.grad,) = torch.autograd.grad(total, masks)
        optimizer.step()
        with torch.no_grad():
            masks.clamp_(0, 1)
        yield masks.detach().clone()
