"""Class probabilities of images, asked of a model without changing it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heatcheck.runtime.classes import check_targets, count_classes
from heatcheck.runtime.memory import chunk_size, map_chunks, model_chunk

Scorer = Callable[[Tensor], Tensor]
# Bytes a function of unknown insides is assumed to need, as a multiple of its input.
_UNKNOWN_INSIDES = 64


@dataclass(frozen=True)
class Probabilities:
    """Softmax of a classifier's logits, always in evaluation mode.

    Attributes:
        module: Normalized images ``(B, C, H, W)`` to logits ``(B, K)``.
    """

    module: nn.Module

    def __call__(self, images: Tensor) -> Tensor:
        """Probabilities ``(B, K)`` of images ``(B, C, H, W)``, float32 or wider."""
        with evaluating(self.module):
            logits: Tensor = self.module(images)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(1)


def softmax_of(module: nn.Module) -> Probabilities:
    """Probabilities of a classifier that returns logits; its training flags are restored after each call."""
    return Probabilities(module)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; afterwards every training flag is as it was."""
    training = [part for part in module.modules() if part.training]
    try:
        for part in training:
            part.training = False
        yield
    finally:
        for part in training:
            part.training = True


def images_per_call(probabilities: Scorer, images: Tensor) -> int:
    """How many of ``images`` ``(N, ...)`` go through ``probabilities`` at once within the memory budget."""
    module = probabilities.module if isinstance(probabilities, Probabilities) else probabilities
    if isinstance(module, nn.Module) and len(images):
        return model_chunk(module, images)
    size = images[:1].nbytes
    return chunk_size(_UNKNOWN_INSIDES * size, images.device, input_bytes=size)


def ask(probabilities: Scorer, images: Tensor) -> Tensor:
    """Probabilities ``(B, K)`` float64 of images ``(B, C, H, W)``, without gradients.

    Raises:
        ValueError: The result is no ``(B, K)`` tensor of values in [0, 1]; NaN is let through.
    """
    with torch.no_grad():
        if isinstance(probabilities, nn.Module):
            with evaluating(probabilities):
                found = probabilities(images)
        else:
            found = probabilities(images)
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(images):
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"probabilities must return a tensor ({len(images)}, K), got {shape}")
    found = found.detach().double()
    if bool(((found < -1e-6) | (found > 1 + 1e-6)).any()):
        raise ValueError(
            "probabilities outside [0, 1]; for a model that returns logits give softmax_of(model)"
        )
    return found


def ask_all(probabilities: Scorer, images: Tensor) -> Tensor:
    """Probabilities ``(N, K)`` float64 of all images, in chunks of the memory budget.

    Raises:
        ValueError: There is no image, or as in ``ask``.
    """
    if not len(images):
        raise ValueError("there are no images to ask the model about")
    size = images_per_call(probabilities, images)
    return torch.cat(
        [found for _, found in map_chunks(lambda part: ask(probabilities, images[part]), len(images), size)]
    )


def explained_classes(found: Tensor, targets: Tensor | None) -> Tensor:
    """Explained class ``(N,)`` int64 of each image: the given one, else the most probable one.

    Args:
        found: Probabilities ``(N, K)`` of the unmodified images.
        targets: ``(N,)`` int64, or None.

    Raises:
        ValueError: A target is no class.
    """
    if targets is None:
        return found.argmax(1)
    check_targets(targets, len(found), found.shape[1])
    return targets.to(found.device)


def check_explained(probabilities: Scorer, targets: Tensor | None, n_images: int) -> None:
    """Refuse targets that cannot be classes, before any forward pass, as far as the model tells its classes.

    Raises:
        ValueError: They are not ``(n_images,)`` int64 classes.
    """
    if targets is not None:
        module = probabilities.module if isinstance(probabilities, Probabilities) else probabilities
        check_targets(targets, n_images, count_classes(module))
