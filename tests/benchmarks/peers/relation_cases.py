"""The Relation Network's first layer of ``g``: factored against the plain concatenation of all pairs.

Answers are compared in double precision. In single precision a rounding can carry a value across a ReLU's
kink, and one gradient then differs by more than rounding.
"""

import copy
from functools import partial

import torch
from tests.benchmarks.peers.case import Case, Sides
from torch import Tensor

from heatcheck.data.clevr.vocabulary import N_TOKENS
from heatcheck.models.relation_network import RelationNetwork

PLAIN = "plain form, all pairs concatenated"
WORDS = 11


def relation_cases() -> list[Case]:
    """All cases, at the three sizes the network takes."""
    return [
        Case(
            f"Relation Network, {n} questions of {size}², {what}",
            PLAIN,
            partial(_sides, size, n, backward=backward),
            1e-9,
        )
        for size, n in ((128, 8), (96, 16), (64, 32))
        for what, backward in (("logits", False), ("logits and gradients of the images", True))
    ]


def _sides(size: int, n: int, *, backward: bool) -> Sides:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(n, 3, size, size, generator=generator)
    tokens = torch.randint(2, N_TOKENS, (n, WORDS), generator=generator)
    lengths = torch.randint(3, WORDS + 1, (n,), generator=generator)
    factored = RelationNetwork(size).eval().requires_grad_(False)
    plain = RelationNetwork(size, factored=False).eval().requires_grad_(False)
    plain.load_state_dict(factored.state_dict())

    def answer(network: RelationNetwork, dtype: torch.dtype = torch.float32) -> Tensor:
        inputs = images.to(dtype, copy=True).requires_grad_(backward)
        logits = network(inputs, tokens, lengths)
        return torch.autograd.grad(logits[:, 0].sum(), inputs)[0] if backward else logits

    def check() -> tuple[Tensor, Tensor]:
        ours, theirs = (
            answer(copy.deepcopy(network).double(), torch.float64) for network in (factored, plain)
        )
        return ours, theirs

    return Sides(partial(answer, factored), partial(answer, plain), check)
