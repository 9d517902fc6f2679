"""Inputs are checked before a model runs, and the caller's model is left as it was."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from heatcheck.runtime.classes import check_targets, count_classes


def check_inputs(model: nn.Module, images: Tensor, targets: Tensor) -> None:
    """Refuse images and targets a method cannot work on, before any forward pass.

    Raises:
        ValueError: Images are not ``(N, C, H, W)`` floating or not finite, or targets are not ``(N,)`` int64
            classes of the model.
    """
    if images.ndim != 4 or not images.is_floating_point():
        raise ValueError(f"images must be (N, C, H, W) floating, got {tuple(images.shape)} {images.dtype}")
    if not torch.isfinite(images).all():
        raise ValueError("images hold NaN or infinity; every pixel must be finite")
    check_targets(targets, len(images), count_classes(model))


@contextmanager
def untouched(model: nn.Module) -> Iterator[nn.Module]:
    """Evaluation mode with frozen weights inside the block; afterwards flags and gradients are as before.

    Training flags, ``requires_grad`` flags and gradients of all parameters come back after success and
    after an exception. Evaluation mode updates no buffers; a method that writes weights, buffers or hooks
    by itself must undo that itself.
    """
    modes = [(module, module.training) for module in model.modules()]
    weights = [(weight, weight.requires_grad, weight.grad) for weight in model.parameters()]
    try:
        model.eval()
        for weight, _, _ in weights:
            weight.requires_grad_(False)
        with torch.enable_grad():
            yield model
    finally:
        for module, training in modes:
            module.training = training
        for weight, requires_grad, gradient in weights:
            weight.requires_grad_(requires_grad)
            weight.grad = gradient
