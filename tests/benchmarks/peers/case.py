"""A case: the same question, answered by us and by a peer."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from tests.benchmarks.peers.measure import Comparison, compare, extra_memory
from torch import Tensor

Answer = Callable[[], Tensor]


class Sides(NamedTuple):
    """Two calls on the same inputs.

    Attributes:
        ours: Our answer.
        theirs: The peer's answer.
        check: Our answer and the peer's to compare, where the timed calls draw their own random numbers or
            return more than the other; by default the answers themselves.
    """

    ours: Answer
    theirs: Answer
    check: Callable[[], tuple[Tensor, Tensor]] | None = None


class Case(NamedTuple):
    """What is compared.

    Attributes:
        name: What is computed.
        peer: By whom else, and how it is called.
        build: Makes the inputs and both calls.
        tolerance: Largest difference allowed, as a share of the peer's largest value.
        target: Speedup to be reached; None where none is set.
        n_images: Images per call, where cost is told per image; None where it is told per call.
    """

    name: str
    peer: str
    build: Callable[[], Sides]
    tolerance: float
    target: float | None = None
    n_images: int | None = None


class Row(NamedTuple):
    """Result of one case.

    Attributes:
        case: What was compared.
        difference: Largest difference between the answers, as a share of the peer's largest value.
        comparison: Times.
        ours_memory: Extra megabytes of our call; None where the system cannot tell.
        theirs_memory: Extra megabytes of the peer's call.
    """

    case: Case
    difference: float
    comparison: Comparison
    ours_memory: float | None
    theirs_memory: float | None

    @property
    def agrees(self) -> bool:
        """Whether the two answers are equal within the tolerance."""
        return self.difference <= self.case.tolerance

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        return None if self.case.target is None else self.comparison.speedup >= self.case.target


def run_case(case: Case, n_pairs: int) -> Row:
    """Row of ``case``: answers compared first, then memory, then times over ``n_pairs`` pairs."""
    sides = case.build()
    answers = sides.check() if sides.check else (sides.ours(), sides.theirs())
    difference = relative_difference(*answers)
    del answers
    if sides.check:  # it has not run the very calls that are measured
        sides.ours()
        sides.theirs()
    ours_memory, theirs_memory = extra_memory(sides.ours), extra_memory(sides.theirs)
    return Row(case, difference, compare(sides.ours, sides.theirs, n_pairs), ours_memory, theirs_memory)


def relative_difference(ours: Tensor, theirs: Tensor) -> float:
    """Largest absolute difference, divided by the largest absolute value of ``theirs``.

    Raises:
        ValueError: The shapes differ, a value is not finite, or ``theirs`` is 0 everywhere: then nothing
            would be compared.
    """
    if ours.shape != theirs.shape:
        raise ValueError(f"answers of shapes {tuple(ours.shape)} and {tuple(theirs.shape)}: not comparable")
    if not (torch.isfinite(ours).all() and torch.isfinite(theirs).all()):
        raise ValueError("an answer holds NaN or infinity; choose inputs on which both sides are defined")
    scale = float(theirs.double().abs().max())
    if scale == 0:
        raise ValueError("the peer's answer is 0 everywhere; choose inputs that tell a difference")
    return float((ours.double() - theirs.double()).abs().max()) / scale
