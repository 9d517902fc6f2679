"""Fine-tuning with patch deletion: afterwards an image with one patch missing is nothing new to the model.

Hesse, Schaub-Meyer, Roth 2024, "Benchmarking the Attribution Quality of Vision Models", section 3: half of
the training images lose exactly one patch of a regular grid, chosen independently of what they show.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from heatcheck.models.state_dict import own_randomness
from heatcheck.models.training import Augmentation, Loss, classification_loss
from heatcheck.runtime.progress import progress

Batches = Iterable[tuple[Tensor, Tensor]]
Measure = Callable[[nn.Module], dict[str, float]]
Value = Callable[[Tensor, torch.Generator], Tensor]


class Deletions(NamedTuple):
    """Which patch of each image is chosen, ``rows`` and ``columns`` ``(N,)``, and which are ``deleted``."""

    rows: Tensor
    columns: Tensor
    deleted: Tensor


@dataclass(frozen=True)
class FineTuning:
    """How a model is fine-tuned; the defaults are the published recipe.

    Attributes:
        epochs: Passes over the training images.
        batch_size: Images per step.
        learning_rate: Of SGD in the first epochs.
        step: Epochs after which the learning rate is multiplied by ``factor``, again and again.
        factor: See ``step``.
        momentum: Of SGD, without Nesterov's correction.
        weight_decay: On all parameters.
        n_patches: Rows and columns ``P`` of the grid.
        loss: See ``classification_loss``; ``binary`` for B-cos models.
        keep: Weights of which epoch come back: the ``last`` one's, or those of the first with the ``best``
            accuracy on intact images.
        seed: Decides order, augmentation, deletions and dropout.
    """

    epochs: int = 30
    batch_size: int = 256
    learning_rate: float = 1e-3
    step: int = 10
    factor: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    n_patches: int = 4
    loss: Loss = "cross-entropy"
    keep: Literal["best", "last"] = "best"
    seed: int = 0


class Tuned(NamedTuple):
    """What fine-tuning left behind.

    Attributes:
        module: The model of the kept epoch, in evaluation mode.
        kept_epoch: Its number, from 0.
        history: What was measured after each epoch, with ``epoch``, ``learning_rate`` and mean ``loss``.
    """

    module: nn.Module
    kept_epoch: int
    history: list[dict[str, float]]


class Alignment(NamedTuple):
    """Top-1 accuracy on intact images, and on images with one patch deleted, the mean over patches."""

    intact: float
    deleted: float


def learning_rate(epoch: int, recipe: FineTuning) -> float:
    """Learning rate in ``epoch``, counted from 0: ``learning_rate factor**(epoch // step)``."""
    return recipe.learning_rate * recipe.factor ** (epoch // recipe.step)


def draw_deletions(n_images: int, n_patches: int, generator: torch.Generator) -> Deletions:
    """One cell of the ``n_patches`` x ``n_patches`` grid per image, uniform, deleted by a fair coin."""
    rows = torch.randint(0, n_patches, (n_images,), generator=generator)
    columns = torch.randint(0, n_patches, (n_images,), generator=generator)
    intact = torch.randint(0, 2, (n_images,), generator=generator)
    return Deletions(rows, columns, intact == 0)


def delete_patches(
    images: Tensor, deletions: Deletions, n_patches: int, value: Tensor | float = 0.0
) -> Tensor:
    """``images`` ``(N, C, H, W)`` with the chosen cell replaced where ``deletions`` says so; a new tensor.

    Args:
        images: Normalized images; zero is the mean color of the model's training images.
        deletions: One cell per image.
        n_patches: Rows and columns of the grid.
        value: What is put there: a number, or images to take it from.

    Raises:
        ValueError: The grid does not divide the images.
    """
    height, width = images.shape[-2:]
    if height % n_patches or width % n_patches:
        raise ValueError(
            f"a grid of {n_patches} x {n_patches} patches does not divide images of {height} x {width} pixels"
        )
    rows, columns, deleted = (part.to(images.device) for part in deletions)
    # Comparing cell numbers pixel by pixel is the nearest-neighbor enlargement of a P x P mask.
    own_row = torch.arange(height, device=images.device) // (height // n_patches)
    own_column = torch.arange(width, device=images.device) // (width // n_patches)
    hole = (own_row == rows[:, None])[:, :, None] & (own_column == columns[:, None])[:, None, :]
    hole &= deleted[:, None, None]
    filling = torch.as_tensor(value, dtype=images.dtype, device=images.device)
    return torch.where(hole[:, None], filling, images)


def patch_deletion(n_patches: int = 4, value: Value | None = None) -> Augmentation:
    """Augmentation of a batch: with probability one half an image loses exactly one patch.

    Args:
        n_patches: Rows and columns of the grid.
        value: Images and generator to what is put in a hole, shaped as the images; zeros by default.
    """

    def augment(images: Tensor, generator: torch.Generator) -> Tensor:
        deletions = draw_deletions(len(images), n_patches, generator)
        filling = 0.0 if value is None else value(images, generator)
        return delete_patches(images, deletions, n_patches, filling)

    return augment


def uniform_value(images: Tensor, generator: torch.Generator) -> Tensor:
    """Fresh numbers uniform in [-1, 1) for every pixel and channel of ``images``, for ``patch_deletion``."""
    draws = torch.rand(images.shape, generator=generator, dtype=torch.float32)
    return (2 * draws - 1).to(images)


def fine_tune(
    model: nn.Module,
    batches: Callable[[int], Batches],
    measure: Measure,
    recipe: FineTuning,
    *,
    value: Value | None = None,
    label: str = "fine-tune",
) -> Tuned:
    """``model`` after fine-tuning with patch deletion, with the weights of the epoch to keep.

    Batches are moved to the model's device.

    Args:
        model: Logits ``(N, K)`` of normalized images; it is changed.
        batches: Epoch to its batches of normalized images and targets, for example a ``DataLoader``; what
            augments them otherwise belongs there.
        measure: Model in evaluation mode to what is noted after each epoch; it must hold ``intact``.
        recipe: How to train.
        value: What is put in the holes; see ``patch_deletion``.
        label: What the progress bar calls the work.

    Raises:
        ValueError: The grid does not divide the images, or an epoch has no batch.
        FloatingPointError: The loss is no longer finite.
    """
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=recipe.learning_rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
    )
    generator = torch.Generator().manual_seed(recipe.seed)
    augment = patch_deletion(recipe.n_patches, value)
    history: list[dict[str, float]] = []
    kept: dict[str, Tensor] = {}
    kept_epoch = 0
    with own_randomness(recipe.seed):
        for epoch in progress(range(recipe.epochs), label=label):
            rate = learning_rate(epoch, recipe)
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = _epoch(model, batches(epoch), optimizer, partial(_apply, augment, generator), recipe.loss)
            measured = measure(model.eval())
            better = not history or measured["intact"] > history[kept_epoch]["intact"]
            if better or recipe.keep == "last":
                kept_epoch, kept = epoch, copy.deepcopy(model.state_dict())
            history.append({"epoch": epoch, "learning_rate": rate, "loss": loss, **measured})
    model.load_state_dict(kept)
    return Tuned(model.eval(), kept_epoch, history)


def shuffled(
    images: Tensor, targets: Tensor, recipe: FineTuning, augment: Augmentation | None = None
) -> Callable[[int], Batches]:
    """Batches for ``fine_tune`` from ``images`` ``(N, C, H, W)`` and ``targets`` ``(N,)`` in memory.

    The order and augmentation of an epoch depend on the recipe's seed and the epoch alone.
    """

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(recipe.seed * 100_003 + epoch)
        order = torch.randperm(len(images), generator=generator).to(images.device)
        for rows in torch.split(order, recipe.batch_size):
            batch = images[rows] if augment is None else augment(images[rows], generator)
            yield batch, targets[rows]

    return batches


@torch.no_grad()
def alignment(
    model: nn.Module, images: Tensor, targets: Tensor, n_patches: int = 4, *, chunk: int = 256
) -> Alignment:
    """Accuracy of ``model`` on normalized images intact and with each single patch set to zero.

    After fine-tuning the two are closer together: deletion has become part of the domain.

    Args:
        model: In evaluation mode.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        n_patches: Rows and columns of the grid.
        chunk: Images per forward pass; without effect on the result.
    """
    intact, deleted = 0, 0
    for part, goal in zip(torch.split(images, chunk), torch.split(targets, chunk), strict=True):
        intact += int((model(part).argmax(dim=1) == goal).sum())
        everywhere = torch.ones(len(part), dtype=torch.bool)
        for cell in range(n_patches**2):
            row, column = (torch.full((len(part),), number) for number in divmod(cell, n_patches))
            holed = delete_patches(part, Deletions(row, column, everywhere), n_patches)
            deleted += int((model(holed).argmax(dim=1) == goal).sum())
    return Alignment(intact / len(images), deleted / (len(images) * n_patches**2))


def _apply(augment: Augmentation, generator: torch.Generator, images: Tensor) -> Tensor:
    return augment(images, generator)


def _epoch(
    model: nn.Module,
    batches: Batches,
    optimizer: torch.optim.Optimizer,
    augment: Callable[[Tensor], Tensor],
    loss: Loss,
) -> float:
    """Mean loss over the images of one epoch of training."""
    device = next(model.parameters()).device
    model.train()
    total, seen = 0.0, 0
    for images, targets in batches:
        goal = targets.to(device)
        value = classification_loss(model(augment(images.to(device))), goal, loss)
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total, seen = total + value.item() * len(images), seen + len(images)
    if not seen:
        raise ValueError("an epoch had no batch; give training images")
    if not torch.isfinite(torch.tensor(total)):
        raise FloatingPointError(f"the loss became {total / seen}; lower the learning rate")
    return total / seen
