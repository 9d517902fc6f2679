"""Attention rollout: which patches the class token looks at, through all blocks of a vision transformer."""

from typing import Annotated

import pydantic
import torch
from torch import Tensor, nn

from heatcheck.attribution.passes import Query, class_scores, forward_size, in_chunks, wide
from heatcheck.attribution.registry import register
from heatcheck.attribution.transformers import (
    Transformer,
    add_identity,
    find_transformer,
    token_map,
    watch_attention,
)
from heatcheck.runtime.seeds import CounterGenerator

Layer = Annotated[int, pydantic.Field(ge=0)]


@register("attention-rollout", family="attention", cites="abnar2020quantifying")
def attention_rollout(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    start_layer: Layer = 1,
) -> Tensor:
    """Attention of the class token to each patch through all blocks, ``(N, 1, H, W)``; no class is asked.

    The product of ``rollout_step`` over the blocks, later ones on the left; row of the class token, columns
    of the patches (Abnar and Zuidema 2020, eq. 1), each a block of pixels.

    Args:
        model: Vision transformer; see ``find_transformer``.
        images: ``(N, C, H, W)``.
        targets: Not used but checked.
        forward_args: Further inputs of the model.
        generator: Not used.
        start_layer: First block of the product. 1 leaves the first block out, as published results do; 0 is
            the paper's.

    Raises:
        ValueError: The model is no plain vision transformer with a class token, or has fewer blocks.
    """
    query = Query(model, images, targets, forward_args)
    transformer = find_transformer(model, start_layer)
    if not len(images):
        return wide(images[:, :1])

    def run(part: Query) -> Tensor:
        return wide(rolled_out(part, transformer, start_layer)[:, 0, transformer.n_prefix :])

    height, width = images.shape[-2:]
    return token_map(in_chunks(run, query, forward_size(query)), (height, width))


def rolled_out(query: Query, transformer: Transformer, start_layer: int) -> Tensor:
    """Product of all blocks' ``rollout_step``, ``(N, T, T)``, from one forward pass."""
    product: list[Tensor] = []

    def see(number: int, weights: Tensor) -> None:
        if number < start_layer:
            return
        step = rollout_step(weights)
        product[:] = [step @ product[0]] if product else [step]

    with torch.no_grad(), watch_attention(transformer, see):
        class_scores(query)
    return product[0]


def rollout_step(weights: Tensor) -> Tensor:
    """Where the tokens after a block come from, ``(N, T, T)`` with rows that sum to 1.

    The mean over heads of attention ``(N, heads, T, T)`` plus the identity, each row divided by its sum.
    """
    mixed = add_identity(weights.mean(dim=1))
    return mixed / mixed.sum(dim=-1, keepdim=True)
