"""Transformer attribution: relevance of attention times its gradient, rolled out (Chefer et al. 2021)."""

import copy
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.attribution.attention import Layer
from heatcheck.attribution.passes import Query, backward_size, class_scores, in_chunks, wide
from heatcheck.attribution.registry import register
from heatcheck.attribution.transformers import (
    Heads,
    Transformer,
    add_identity,
    attention_weights,
    check_same,
    find_transformer,
    merge_heads,
    split_heads,
    token_map,
)
from heatcheck.runtime.seeds import CounterGenerator

_GUARD = 1e-9


class Trace(NamedTuple):
    """What a block computed of its ``tokens`` ``(N, T, D)``, in the order it did."""

    tokens: Tensor
    normed: Tensor
    heads: Heads
    weights: Tensor
    mixed: Tensor
    attended: Tensor
    middle: Tensor
    normed_middle: Tensor
    active: Tensor
    added: Tensor
    result: Tensor


@register("chefer-relevance", family="attention", cites="chefer2021transformer")
def chefer_relevance(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    start_layer: Layer = 1,
    double: bool = True,
) -> Tensor:
    """Attention that is relevant for the class and raises its logit, rolled out, ``(N, 1, H, W)``.

    Per block ``C = mean over heads of max(0, gradient * relevance)`` of the attention; then the product of
    ``1 + C`` over the blocks, later ones on the left; row of the class token, columns of the patches (Chefer,
    Gur, Wolf 2021, eq. 13 and 14).

    Args:
        model: Vision transformer that reads the class from its class token; see ``find_transformer``.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Not used.
        start_layer: First block of the product. 1 leaves the first block out, as published results do; 0 is
            the paper's.
        double: Compute in double precision, with a copy of the model. Relevance is divided by sums that may
            be near zero: in single precision the maps of some images are off by a hundredth and more.

    Raises:
        ValueError: The model is no plain vision transformer with a class token, or has fewer blocks.
    """
    find_transformer(model, start_layer)
    if not len(images):
        return wide(images[:, :1])
    query = Query(model, images, targets, forward_args)
    if double and images.dtype != torch.float64:
        query = query._replace(model=copy.deepcopy(model).double(), images=images.double())
    transformer = find_transformer(query.model, start_layer)

    def run(part: Query) -> Tensor:
        return class_token_row(part, transformer, start_layer)[:, transformer.n_prefix :]

    height, width = images.shape[-2:]
    maps = token_map(in_chunks(run, query, backward_size(query)), (height, width))
    return maps.to(wide(images).dtype)


def class_token_row(query: Query, transformer: Transformer, start_layer: int) -> Tensor:
    """Row of the class token in the rolled-out product, ``(N, T)``.

    One block is taken apart at a time, from the last to the first, so that memory does not grow with depth.
    """
    tokens = block_tokens(query, transformer)
    relevance, gradients = head_relevance(transformer, tokens[-1], query.targets)
    row = torch.zeros_like(tokens[-1][..., 0])
    row[:, 0] = 1
    for number in reversed(range(start_layer, len(transformer.blocks))):
        block = transformer.blocks[number]
        trace = take_apart(block, tokens[number].requires_grad_(True))
        check_same(trace.result.detach(), tokens[number + 1].detach(), f"block {number}")
        gradients, of_weights = torch.autograd.grad(trace.result, (trace.tokens, trace.weights), gradients)
        with torch.no_grad():
            relevance, relevant = block_relevance(block, trace, relevance)
            row = (row[:, None] @ add_identity((of_weights * relevant).clamp(min=0).mean(dim=1)))[:, 0]
        del trace
    return row


def block_tokens(query: Query, transformer: Transformer) -> list[Tensor]:
    """Tokens before each block and after the last, ``(N, T, D)`` each, from one forward pass."""
    tokens: list[Tensor] = []

    def enter(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        tokens.append(inputs[0].detach().clone())

    def leave(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        tokens.append(output.detach().clone())

    handles = [block.register_forward_pre_hook(enter) for block in transformer.blocks]
    handles.append(transformer.blocks[-1].register_forward_hook(leave))
    try:
        with torch.no_grad():
            logits = class_scores(query)
    finally:
        for handle in handles:
            handle.remove()
    head, norm = getattr(transformer.module, "head", None), getattr(transformer.module, "norm", None)
    if not isinstance(head, nn.Linear) or norm is None:
        raise ValueError("the transformer has no linear head behind a norm, where relevance starts")
    with torch.no_grad():
        check_same(head(norm(tokens[-1])[:, 0]), logits, "what the model does with the class token")
    return tokens


def head_relevance(transformer: Transformer, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance and gradient of each target's logit at the last block's ``tokens``, ``(N, T, D)`` each.

    Relevance starts as 1 at the target. Norms pass it, and all of it goes to the class token.
    """
    module: Any = transformer.module
    leaf = tokens.detach().clone().requires_grad_(True)
    token = module.norm(leaf)[:, 0]
    logits = module.head(token)
    start = F.one_hot(targets.to(logits.device), logits.shape[1]).to(logits)
    (gradients,) = torch.autograd.grad(logits, leaf, start)
    relevance = torch.zeros_like(tokens)
    relevance[:, 0] = share_linear(module.head, token.detach(), start)
    return relevance, gradients


def take_apart(block: Any, tokens: Tensor) -> Trace:
    """What ``block`` computes of ``tokens``, step by step and with a graph."""
    normed = block.norm1(tokens)
    heads = split_heads(block.attn, block.attn.qkv(normed))
    weights = attention_weights(block.attn, heads)
    mixed = merge_heads(weights @ heads.values)
    attended = block.attn.proj(mixed)
    middle = tokens + attended
    normed_middle = block.norm2(middle)
    active = block.mlp.act(block.mlp.fc1(normed_middle))
    added = block.mlp.fc2(active)
    result = middle + added
    return Trace(
        tokens, normed, heads, weights, mixed, attended, middle, normed_middle, active, added, result
    )


def block_relevance(block: Any, trace: Trace, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance of a block's tokens ``(N, T, D)`` and of its attention ``(N, heads, T, T)``.

    Norms, the softmax and the activation pass relevance; the product of queries and keys is shared before it
    is scaled.
    """
    middle, part = share_sum(trace.middle, trace.added, relevance)
    part = share_linear(block.mlp.fc1, trace.normed_middle, share_linear(block.mlp.fc2, trace.active, part))
    tokens, part = share_sum(trace.tokens, trace.attended, middle + part)
    part = share_linear(block.attn.proj, trace.mixed, part)
    weights, values = share_product(trace.weights, trace.heads.values, _like_heads(part, trace.heads))
    queries, keys = share_product(trace.heads.queries, trace.heads.keys.transpose(-2, -1), weights)
    parts = [merge_heads(each) for each in (queries, keys.transpose(-2, -1), values)]
    return tokens + share_linear(block.attn.qkv, trace.normed, torch.cat(parts, dim=-1)), weights


def guarded(relevance: Tensor, sums: Tensor) -> Tensor:
    """``relevance / sums``, the divisor moved away from 0 by 1e-9; 0 where it is 0."""
    moved = sums.clamp(min=_GUARD) + sums.clamp(max=_GUARD)
    return torch.where(sums == 0, 0.0, relevance / torch.where(moved == 0, 1.0, moved))


def share_linear(layer: nn.Linear, inputs: Tensor, relevance: Tensor) -> Tensor:
    """Relevance of ``inputs`` in proportion to ``x+ W+ + x- W-``, without the bias."""
    plus, minus = layer.weight.clamp(min=0), layer.weight.clamp(max=0)
    above, below = inputs.clamp(min=0), inputs.clamp(max=0)
    per_unit = guarded(relevance, above @ plus.T + below @ minus.T)
    return above * (per_unit @ plus) + below * (per_unit @ minus)


def share_product(left: Tensor, right: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance of both factors of ``left @ right``, half of it each."""
    per_unit = guarded(relevance, left @ right) / 2
    return left * (per_unit @ right.transpose(-2, -1)), right * (left.transpose(-2, -1) @ per_unit)


def share_sum(first: Tensor, second: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance of both addends ``(N, T, D)``, rescaled so that neither outweighs the total.

    Each image's parts ``a`` and ``b`` are in proportion to the addends first; then the sum of ``a`` becomes
    ``|sum a| / (|sum a| + |sum b|)`` of the total, and that of ``b`` the rest.
    """
    per_unit = guarded(relevance, first + second)
    parts = first * per_unit, second * per_unit
    sums = [part.sum(dim=(1, 2), keepdim=True) for part in parts]
    whole = relevance.sum(dim=(1, 2), keepdim=True)
    size = sums[0].abs() + sums[1].abs()
    shares = [
        part * guarded(guarded(of.abs(), size) * whole, of) for part, of in zip(parts, sums, strict=True)
    ]
    return shares[0], shares[1]


def _like_heads(values: Tensor, heads: Heads) -> Tensor:
    n_images, n_heads, n_tokens, width = heads.values.shape
    return values.view(n_images, n_tokens, n_heads, width).transpose(1, 2)
