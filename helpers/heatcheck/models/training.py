"""Training of small classifiers: one loop, one recipe per network."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatcheck.runtime.progress import progress

Augmentation = Callable[[Tensor, torch.Generator], Tensor]
Loss = Literal["cross-entropy", "binary"]


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Attributes:
        epochs: Passes over the training images.
        batch_size: Images per step; the last step of an epoch may have fewer.
        learning_rate: Largest learning rate, reached after the warm-up.
        weight_decay: Of AdamW, on weights of more than one dimension only.
        warmup: Share of all steps during which the learning rate rises; then it follows a cosine to 0.
        label_smoothing: Of the cross-entropy.
        seed: Decides the order of the images and the augmentation.
        loss: See ``classification_loss``.
    """

    epochs: int
    batch_size: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 0.05
    warmup: float = 0.1
    label_smoothing: float = 0.0
    seed: int = 0
    loss: Loss = "cross-entropy"


# ResNet-8 on the rendered localization set: about two minutes on one CPU core.
METAL_COLOR_RECIPE = Recipe(epochs=12)


def train(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    recipe: Recipe,
    *,
    augment: Augmentation | None = None,
    label: str = "train",
) -> nn.Module:
    """``model`` after training on ``images``, in evaluation mode.

    Args:
        model: Logits ``(N, K)`` of images; it is changed. It and the images may lie on any one device.
        images: ``(N, C, H, W)`` normalized images.
        targets: ``(N,)`` int64 classes.
        recipe: How to train; the same recipe gives the same weights on the same machine.
        augment: Changes a batch at random, with the generator it is given.
        label: What the progress bar calls the work.

    Raises:
        ValueError: There are no images, or as many targets as images are missing.
        FloatingPointError: The loss is no longer finite.
    """
    if not len(images) or len(images) != len(targets):
        raise ValueError(
            f"need as many targets as images and at least one, got {len(images)} and {len(targets)}"
        )
    optimizer = torch.optim.AdamW(_groups(model, recipe.weight_decay), lr=recipe.learning_rate)
    generator = torch.Generator().manual_seed(recipe.seed)
    steps = recipe.epochs * math.ceil(len(images) / recipe.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate_factor(step, steps, recipe.warmup)
    )
    model.train()
    for _ in progress(range(recipe.epochs), label=label):
        order = torch.randperm(len(images), generator=generator).to(images.device)
        for rows in torch.split(order, recipe.batch_size):
            batch = images[rows] if augment is None else augment(images[rows], generator)
            loss = classification_loss(model(batch), targets[rows], recipe.loss, recipe.label_smoothing)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"the loss became {loss.item()}; lower the learning rate {recipe.learning_rate}"
            )
    return model.eval()


def classification_loss(
    logits: Tensor, targets: Tensor, kind: Loss = "cross-entropy", label_smoothing: float = 0.0
) -> Tensor:
    """Mean loss of ``logits`` ``(N, K)`` for the classes ``targets`` ``(N,)``.

    Args:
        logits: Scores of all classes.
        targets: int64 classes.
        kind: ``cross-entropy``, or ``binary``: binary cross-entropy with each class's 0 or 1, the mean over
            classes, as for B-cos networks.
        label_smoothing: Of the cross-entropy; the binary one has none.
    """
    if kind == "cross-entropy":
        return F.cross_entropy(logits, targets, label_smoothing=label_smoothing)
    goal = F.one_hot(targets, logits.shape[1]).to(logits.dtype)
    return F.binary_cross_entropy_with_logits(logits, goal)


def rate_factor(step: int, steps: int, warmup: float) -> float:
    """Share of the largest learning rate at ``step`` of ``steps``: a linear rise, then a cosine to 0."""
    rise = warmup * steps
    if step < rise:
        return (step + 1) / (rise + 1)
    return (1 + math.cos(math.pi * min(1.0, (step - rise) / max(1.0, steps - rise)))) / 2


def flip_horizontally(images: Tensor, generator: torch.Generator) -> Tensor:
    """``images`` ``(N, C, H, W)``, each mirrored left to right with probability one half."""
    mirrored = torch.rand(len(images), generator=generator).to(images.device) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, targets: Tensor, *, chunk: int = 64) -> float:
    """Share of normalized ``images`` ``(N, C, H, W)`` whose largest logit is at ``targets`` ``(N,)``."""
    hits = [
        model(part).argmax(dim=1) == goal
        for part, goal in zip(torch.split(images, chunk), torch.split(targets, chunk), strict=True)
    ]
    return torch.cat(hits).double().mean().item()


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Parameters with and without weight decay; biases and normalization layers are not decayed."""
    decayed = [weight for weight in model.parameters() if weight.ndim > 1]
    free = [weight for weight in model.parameters() if weight.ndim <= 1]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]
