"""What a classifier answers when patches of an image are deleted: everything single deletion needs."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heatcheck.metrics.composites import Composer
from heatcheck.metrics.patches import patch_side
from heatcheck.metrics.scoring import evaluating
from heatcheck.removal.fills import Fill
from heatcheck.runtime.classes import check_targets, count_classes
from heatcheck.runtime.memory import map_chunks, model_chunk


class Responses(NamedTuple):
    """Answers to ``V`` variants of each of ``N`` images.

    Attributes:
        logits: ``(N, V)`` logit of the target, float32 or the model's wider type.
        normalizers: ``(N, V)`` log-sum-exp of all logits: ``logits - normalizers`` is the log-probability.
        top: ``(N, V)`` int64 most probable class.
        top_logits: ``(N, V)`` its logit.
    """

    logits: Tensor
    normalizers: Tensor
    top: Tensor
    top_logits: Tensor

    @property
    def probabilities(self) -> Tensor:
        """Probability ``(N, V)`` float64 of the target."""
        return (self.logits.double() - self.normalizers.double()).exp()

    def drops(self, output: str = "logit") -> Tensor:
        """Score of the first variant minus that of each other one, ``(N, V - 1)`` float64.

        Args:
            output: ``logit`` or ``probability`` of the target.

        Raises:
            ValueError: Another output.
        """
        if output not in ("logit", "probability"):
            raise ValueError(f"unknown output {output!r}; allowed: logit, probability")
        scores = self.logits.double() if output == "logit" else self.probabilities
        return scores[:, :1] - scores[:, 1:]


def single_deletions(n_patches: int) -> Tensor:
    """Variants ``(P * P + 1, P * P)`` bool: the first lacks nothing, number ``k + 1`` lacks patch ``k``."""
    cells = n_patches**2
    return torch.cat([torch.zeros(1, cells, dtype=torch.bool), torch.eye(cells, dtype=torch.bool)])


def patch_responses(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    n_patches: int,
    *,
    deleted: Tensor | None = None,
    fill: str | Fill | Tensor = "zero",
    channels_last: bool = False,
) -> Responses:
    """Answers of a classifier to images with patches deleted; by default each patch once, and none.

    Args:
        model: Images ``(B, C, H, W)`` to logits ``(B, K)``; evaluation mode, left as it was.
        images: ``(N, C, H, W)`` normalized.
        targets: ``(N,)`` int64 classes.
        n_patches: Patches per side ``P``.
        deleted: ``(V, P * P)`` bool, which patches each variant lacks; by default ``single_deletions``.
        fill: What replaces a patch: a fill, or the filled images ``(N, C, H, W)``.
        channels_last: Give the model images in channels-last memory; faster for convolutions on a CPU.

    Raises:
        ValueError: The grid does not tile the images, a target is no class, or variants of another shape.
    """
    images = images.detach()
    patch_side((images.shape[2], images.shape[3]), n_patches)
    check_targets(targets, len(images), count_classes(model))
    deleted = single_deletions(n_patches) if deleted is None else deleted
    if deleted.ndim != 2 or deleted.shape[1] != n_patches**2 or deleted.dtype != torch.bool:
        raise ValueError(
            f"deleted must be (V, {n_patches**2}) bool, got {tuple(deleted.shape)} {deleted.dtype}"
        )
    composer = Composer.of(images, fill, False, channels_last)
    masks = _pixel_masks(deleted, n_patches, images)
    wanted = targets.to(images.device)
    with evaluating(model):
        answer = partial(_answers, model, composer, masks, wanted)
        size = model_chunk(model, images)
        parts = [found for _, found in map_chunks(answer, len(images) * len(masks), size)]
    shape = (len(images), len(masks))
    return Responses(*(torch.cat(column).view(shape) for column in zip(*parts, strict=True)))


def _pixel_masks(deleted: Tensor, n_patches: int, images: Tensor) -> Tensor:
    """Which pixels are deleted, ``(V, 1, H, W)`` bool on the images' device."""
    side = images.shape[2] // n_patches
    grid = deleted.to(images.device).view(-1, 1, n_patches, n_patches)
    return grid.repeat_interleave(side, 2).repeat_interleave(side, 3)


def _answers(
    model: nn.Module, composer: Composer, masks: Tensor, targets: Tensor, part: slice
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Answers to the pairs (image, variant) in ``part``, variants varying fastest."""
    pairs = torch.arange(part.start, part.stop, device=masks.device)
    rows, variants = pairs // len(masks), pairs % len(masks)
    mask, images = masks[variants], composer.images[rows]
    if isinstance(composer.behind, Fill):
        filled = composer.behind(images, ~mask)
    else:
        filled = torch.where(mask, composer.behind[rows], images)
    with torch.no_grad():
        logits = model(filled.contiguous(memory_format=composer.layout))
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    highest = logits.max(1)
    target = logits.gather(1, targets[rows, None])[:, 0]
    return target, logits.logsumexp(1), highest.indices, highest.values
