"""Vision transformers as attribution sees them: blocks of attention, told by what they offer.

A model qualifies when one of its modules has ``blocks``, each with ``attn.qkv`` and ``attn.proj``, as the
vision transformers of timm have. What is computed here from a block's parts is compared with what the model
itself computed, so that an attention of another kind is refused instead of explained wrongly.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heatcheck.attribution.windows import stretch

# Fused kernels round otherwise than separate steps do.
_TOLERANCE = 1e-3
See = Callable[[int, Tensor], None]


class Transformer(NamedTuple):
    """A vision transformer inside a model.

    Attributes:
        module: What has the blocks, and ``norm`` and ``head`` behind them.
        blocks: Its blocks, each with ``attn``.
        n_prefix: Tokens before those of the patches; the first is the class token.
    """

    module: nn.Module
    blocks: tuple[Any, ...]
    n_prefix: int


class Heads(NamedTuple):
    """Queries, keys and values of a block, ``(N, heads, T, width)`` each."""

    queries: Tensor
    keys: Tensor
    values: Tensor


def find_transformer(model: nn.Module, start_layer: int) -> Transformer:
    """The vision transformer in ``model``.

    Args:
        model: Any module.
        start_layer: Number of the first block that is wanted.

    Raises:
        ValueError: There is none, it has no class token, or fewer blocks.
    """
    for module in model.modules():
        blocks = getattr(module, "blocks", None)
        if not isinstance(blocks, nn.Sequential | nn.ModuleList) or not len(blocks):
            continue
        if not all(hasattr(getattr(block, "attn", None), "qkv") for block in blocks):
            continue
        n_prefix = int(getattr(module, "num_prefix_tokens", 1))
        if n_prefix < 1:
            raise ValueError("the transformer has no class token, whose attention this method follows")
        if start_layer >= len(blocks):
            raise ValueError(
                f"start_layer is {start_layer}, but the model has the blocks 0 to {len(blocks) - 1}"
            )
        return Transformer(module, tuple(blocks), n_prefix)
    raise ValueError(
        f"{type(model).__name__} is no vision transformer: this method needs blocks with attn.qkv and "
        "attn.proj, as timm's vision transformers have"
    )


def split_heads(attention: Any, qkv: Tensor) -> Heads:
    """Heads of the output ``(N, T, 3 D)`` of ``attention.qkv``: queries, keys, values, heads side by side."""
    n_images, n_tokens, _ = qkv.shape
    parts = qkv.view(n_images, n_tokens, 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
    return Heads(*parts.unbind(0))


def merge_heads(values: Tensor) -> Tensor:
    """``(N, heads, T, width)`` to ``(N, T, heads * width)``."""
    return values.transpose(1, 2).flatten(2)


def attention_weights(attention: Any, heads: Heads) -> Tensor:
    """How much each token (row) attends to each (column), ``(N, heads, T, T)``; rows sum to 1."""
    weights: Tensor = ((heads.queries @ heads.keys.transpose(-2, -1)) * attention.scale).softmax(dim=-1)
    return weights


@contextmanager
def watch_attention(transformer: Transformer, see: See) -> Iterator[None]:
    """Within the block, ``see(number, weights)`` is called in every forward pass, block after block.

    Weights are ``(N, heads, T, T)``. The model itself may use a fused kernel that never has them.
    """
    handles = []
    try:
        for number, block in enumerate(transformer.blocks):
            handles += _watch(block.attn, number, see)
        yield
    finally:
        for handle in handles:
            handle.remove()


def _watch(attention: Any, number: int, see: See) -> list[Any]:
    kept: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        kept[:] = [output]

    def compare(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        heads = split_heads(attention, kept.pop())
        weights = attention_weights(attention, heads)
        check_same(merge_heads(weights @ heads.values), inputs[0], f"the attention of block {number}")
        see(number, weights)

    return [
        attention.qkv.register_forward_hook(keep),
        attention.proj.register_forward_pre_hook(compare),
    ]


def check_same(found: Tensor, expected: Tensor, what: str) -> None:
    """Refuse a model whose ``expected`` values are not those that its parts give, ``found``.

    Raises:
        ValueError: They differ by more than rounding; the message names ``what``.
    """
    if found.shape == expected.shape:
        if not expected.numel():
            return
        limit = _TOLERANCE * float(expected.abs().max())
        if float((found - expected).abs().max()) <= limit:
            return
    raise ValueError(
        f"{what} is not that of a plain vision transformer (Dosovitskiy et al. 2021), so its parts do not "
        "add up to what the model computes; this method explains plain ones only"
    )


def token_map(values: Tensor, size: tuple[int, int]) -> Tensor:
    """Values ``(N, T)`` of patch tokens as a map ``(N, 1, H, W)``, one block of pixels per token.

    Raises:
        ValueError: ``T`` tokens do not tile an image of this shape.
    """
    height, width = size
    n_tokens = values.shape[1]
    rows = round((n_tokens * height / width) ** 0.5)
    if rows < 1 or n_tokens % rows or rows * width != n_tokens // rows * height:
        raise ValueError(f"{n_tokens} tokens are no grid of square patches over images of {height} x {width}")
    return stretch(values.view(-1, rows, n_tokens // rows), size, "nearest")[:, None]


def add_identity(weights: Tensor) -> Tensor:
    """``(N, T, T)`` plus the identity, which stands for the residual connection."""
    return weights + torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
