"""Does the memory of integrated gradients and smoothing stay the same however many gradients there are?"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tests.benchmarks.peers.captum_cases import (
    SHAPE,
    captum_integrate,
    captum_smooth,
    integrate,
    smooth,
)
from tests.benchmarks.peers.inputs import Problem, make_problem, make_resnet8
from tests.benchmarks.peers.measure import extra_memory
from torch import Tensor

BUDGET_MB = 150.0
COUNTS = (10, 50, 200)
Call = Callable[[Problem, int], Tensor]
METHODS: dict[str, tuple[Call, Call]] = {
    "integrated gradients": (integrate, captum_integrate),
    "smoothing, three outputs (captum: one)": (smooth, captum_smooth),
}


class MemoryRow(NamedTuple):
    """Extra megabytes of one method.

    Attributes:
        method: What is computed.
        n_gradients: Steps or samples, gradients per image.
        ours: Of our call; None where the system cannot tell.
        theirs: Of captum's call with its defaults.
    """

    method: str
    n_gradients: int
    ours: float | None
    theirs: float | None

    @property
    def reached(self) -> bool | None:
        """Whether ours is within the budget; None where the system cannot tell."""
        return None if self.ours is None else self.ours <= BUDGET_MB


def memory_rows() -> list[MemoryRow]:
    """A row per method and count, on 8 images of 3 x 64 x 64 and the residual network."""
    problem = make_problem(make_resnet8, SHAPE)
    rows = []
    for method, (ours, theirs) in METHODS.items():
        # Once before, so that what is made only once is not charged to the smallest count.
        ours(problem, 2)
        theirs(problem, 2)
        for count in COUNTS:
            own, other = (extra_memory(partial(call, problem, count)) for call in (ours, theirs))
            rows.append(MemoryRow(method, count, own, other))
    return rows
