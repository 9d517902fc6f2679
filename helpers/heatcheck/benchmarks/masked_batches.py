"""Batches of images with units removed, made while they are read: no modified data set is ever written.

Images and levels stay uint8, on the device where they fit, else in memory or in mapped files. Each batch goes
the way of the published pipeline: values in [0, 1], change, augmentation, normalization.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from heatcheck.benchmarks.image_changes import EVALUATION, Change, Reading
from heatcheck.data import augmentation
from heatcheck.data.parts import Part
from heatcheck.data.preprocessing import Pixels
from heatcheck.models.registry import Normalization
from heatcheck.models.retrain_draws import batch_rows, generator_of
from heatcheck.models.retrain_recipes import RetrainRecipe
from heatcheck.runtime.memory import current_limits

Item = TypeVar("Item")
Result = TypeVar("Result")
Read = Callable[[Tensor], Tensor]
Augment = Callable[[Tensor, torch.Generator], Tensor]
CHUNK = 256


class _Raw(NamedTuple):
    rows: Tensor
    pixels: Tensor
    levels: Tensor | None


@dataclass(frozen=True)
class MaskedImages:
    """One split of a data set whose images are changed when they are read; see ``masked_images``.

    Attributes:
        pixels: Rows ``(n,)`` to uint8 images ``(n, H, W, C)``.
        targets: ``(N,)`` int64 on the device.
        normalization: What changed and augmented images are normalized with.
        levels: Rows to uint8 levels ``(n, U, H, W)``, or None.
        change: What is done to images in [0, 1], or None for nothing.
        flip_safe: Whether a mirrored image is of the same class.
        ahead: Whether the next batch is read while the last one is used; for mapped files.
        goal: What is to be learned of a batch instead of its targets, such as the mask itself, or None.
    """

    pixels: Read
    targets: Tensor
    normalization: Normalization
    levels: Read | None = None
    change: Change | None = None
    flip_safe: bool = False
    ahead: bool = False
    goal: Callable[[Reading], Tensor] | None = None

    def __len__(self) -> int:
        """Number of images."""
        return len(self.targets)

    def changed(self, change: Change | None, normalization: Normalization | None = None) -> "MaskedImages":
        """The same images, read the same way, with another change, and another normalization if given."""
        return replace(self, change=change, normalization=normalization or self.normalization)

    def ranked(self, levels: Tensor | Read | None) -> "MaskedImages":
        """The same images with the levels of another ranking."""
        return replace(self, levels=_level_reader(levels, self.targets.device))

    def aiming(self, goal: Callable[[Reading], Tensor]) -> "MaskedImages":
        """The same images with other targets, ``(n, U, H, W)`` of each batch's reading, one per unit."""
        return replace(self, goal=goal)

    def training(self, steps: range, recipe: RetrainRecipe) -> Iterator[tuple[Tensor, Tensor]]:
        """Normalized images ``(batch_size, C, H, W)`` and targets of ``steps``, for ``retrain``.

        Order and augmentation follow from the recipe's seed and the step, never from levels or change.
        """
        augment = self._augmentations(recipe).training
        batches = self._raw(batch_rows(steps, len(self), recipe))
        for step, raw in zip(steps, batches, strict=True):
            generator = generator_of(recipe.seed, "augmentation", step)
            images = augment(self._changed(raw, step), generator)
            yield self._normalized(images), self._targets(raw, step)

    def evaluation(self, recipe: RetrainRecipe, *, chunk: int = CHUNK) -> Iterator[tuple[Tensor, Tensor]]:
        """All images in order, ``chunk`` at a time, with what the recipe does to images to be evaluated."""
        augment = self._augmentations(recipe).evaluation
        for raw in self._raw(torch.split(torch.arange(len(self)), chunk)):
            images = augment(self._changed(raw, EVALUATION))
            yield self._normalized(images), self._targets(raw, EVALUATION)

    def plain(self, *, chunk: int = CHUNK) -> Iterator[Tensor]:
        """All changed images in order, in [0, 1], neither augmented nor normalized, to be looked at."""
        for raw in self._raw(torch.split(torch.arange(len(self)), chunk)):
            yield self._changed(raw, EVALUATION)

    def _raw(self, rows: Iterable[Tensor]) -> Iterator[_Raw]:
        return _ahead(self._read, rows) if self.ahead else map(self._read, rows)

    def _read(self, rows: Tensor) -> _Raw:
        return _Raw(rows, self.pixels(rows), None if self.levels is None else self.levels(rows))

    def _reading(self, raw: _Raw, visit: int) -> Reading:
        device = self.targets.device
        levels = None if raw.levels is None else raw.levels.to(device, non_blocking=True)
        return Reading(raw.rows, levels, visit)

    def _changed(self, raw: _Raw, visit: int) -> Tensor:
        pixels = raw.pixels.to(self.targets.device, non_blocking=True)
        images = pixels.permute(0, 3, 1, 2).float() / 255  # (n, C, H, W), in memory still channels last
        return images if self.change is None else self.change(images, self._reading(raw, visit))

    def _normalized(self, images: Tensor) -> Tensor:
        mean, std = (images.new_tensor(part)[:, None, None] for part in self.normalization)
        return ((images - mean) / std).contiguous(memory_format=torch.channels_last)

    def _targets(self, raw: _Raw, visit: int) -> Tensor:
        if self.goal is not None:
            return self.goal(self._reading(raw, visit))
        return self.targets[raw.rows.to(self.targets.device)]

    def _augmentations(self, recipe: RetrainRecipe) -> "Augmentations":
        if self.goal is not None and recipe.augmentation != "none":
            raise ValueError(
                "targets of units do not move with augmented images; take a recipe with augmentation 'none', "
                f"not {recipe.augmentation!r}"
            )
        return augmentations(recipe.augmentation, flip_safe=self.flip_safe)


class Augmentations(NamedTuple):
    """What is done to a batch in [0, 1]: in training, with a generator, and in evaluation."""

    training: Augment
    evaluation: Callable[[Tensor], Tensor]


def augmentations(name: str, *, flip_safe: bool) -> Augmentations:
    """Augmentation called ``name``.

    Args:
        name: ``none``; ``published``, the second preprocessing of the published pipeline, which resizes
            after removal; or ``recommended``, which moves images by whole pixels and mixes none.
        flip_safe: Whether ``recommended`` may mirror.

    Raises:
        ValueError: There is no such augmentation.
    """
    if name == "none":
        return Augmentations(_unchanged, _unchanged)
    if name == "published":
        return Augmentations(augmentation.published_train, augmentation.published_eval)
    if name == "recommended":
        return Augmentations(partial(augmentation.recommended, flip=flip_safe), _unchanged)
    raise ValueError(f"augmentation {name!r} is unknown; allowed: none, published, recommended")


def masked_images(
    part: Part,
    normalization: Normalization,
    *,
    levels: Tensor | Read | None = None,
    change: Change | None = None,
    flip_safe: bool = False,
    device: torch.device | str = "cpu",
    resident: bool | None = None,
) -> MaskedImages:
    """Images of ``part`` with a change, for ``retrain`` and ``evaluate``.

    Args:
        part: One split of a data set.
        normalization: What changed and augmented images are normalized with.
        levels: ``(N, U, H, W)`` uint8, or a function of rows such as ``RankMaps.read``.
        change: See ``heatcheck.benchmarks.image_changes``; None leaves images as they are.
        flip_safe: Whether a mirrored image is of the same class.
        device: Where batches are made.
        resident: Whether all images lie on the device; by default where they fit the memory budget.

    Raises:
        ValueError: Levels are of another type, shape or number.
    """
    device, images = torch.device(device), part.images
    _check_levels(levels, images.shape[:3])
    if resident is None:
        resident = device.type != "cpu" and images.nbytes <= current_limits(device).budget
    return MaskedImages(
        _pixel_reader(images, device, resident=resident),
        part.targets.to(device),
        normalization,
        _level_reader(levels, device),
        change,
        flip_safe,
        ahead=not resident and isinstance(images, np.memmap),
    )


def _pixel_reader(images: Pixels, device: torch.device, *, resident: bool) -> Read:
    if resident and device.type != "cpu":
        everything = torch.from_numpy(np.array(images)).to(device)
        return lambda rows: everything[rows.to(device)]
    # Rows are copied out, since a mapped file must not be written through a tensor.
    return lambda rows: _pinned(torch.from_numpy(images[rows.numpy()]), device)


def _level_reader(levels: Tensor | Read | None, device: torch.device) -> Read | None:
    if levels is None:
        return None
    if isinstance(levels, Tensor):
        held = levels.to(device)
        return lambda rows: held[rows.to(device)]
    read = levels
    return lambda rows: _pinned(read(rows), device)


def _pinned(values: Tensor, device: torch.device) -> Tensor:
    """``values`` where copies to ``device`` can go on beside computation."""
    return values.pin_memory() if device.type == "cuda" and values.device.type == "cpu" else values


def _check_levels(levels: Tensor | Read | None, shape: tuple[int, ...]) -> None:
    if not isinstance(levels, Tensor):
        return
    n, height, width = shape
    fits = levels.dtype == torch.uint8 and levels.ndim == 4
    if not fits or (len(levels), *levels.shape[2:]) != tuple(shape):
        raise ValueError(
            f"levels must be uint8 ({n}, U, {height}, {width}), got {levels.dtype} {tuple(levels.shape)}"
        )


def _unchanged(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
    return images


def _ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """``function`` of each item, where the next is computed in a thread while the last is used."""
    with ThreadPoolExecutor(1) as pool:
        waiting = None
        for item in items:
            following = pool.submit(function, item)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()
