"""How much the CLEVR-XAI chapter gets done per second, and in how much memory: no peer does the same."""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from tests.benchmarks.peers.measure import extra_memory
from torch import Tensor

from heatcheck.attribution.catalog import load_catalog
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest
from heatcheck.benchmarks.shared_passes import pass_heatmaps, plan_passes
from heatcheck.data.batch import LabelledImages
from heatcheck.data.clevr.vocabulary import ANSWERS
from heatcheck.data.raycaster import render
from heatcheck.data.scenes import sample_scene
from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank
from heatcheck.metrics.pooling import pool
from heatcheck.models.registry import Classifier, Normalization
from heatcheck.models.relation_network import RelationNetwork

N_QUESTIONS, N_SCENES, N_MAPS, SIDE, SHARD = 4, 40, 40_000, 128, 64
N_STEPS = 16
BUDGET_MB = 150.0
METHODS: dict[str, dict[str, object]] = {
    "lrp": {},
    "integrated-gradients": {"n_steps": N_STEPS},
    "integrated-gradients-squared": {"n_steps": N_STEPS},
    "guided-backprop": {},
    "guided-backprop-squared": {},
    "guided-grad-cam": {},
    "smoothgrad": {"n_samples": N_STEPS},
    "smoothgrad-squared": {"n_samples": N_STEPS},
    "vargrad": {"n_samples": N_STEPS},
    "gradient": {},
    "gradient-squared": {},
    "input-x-gradient": {},
    "input-x-gradient-squared": {},
    "deconvnet": {},
    "grad-cam": {},
}


class RateRow(NamedTuple):
    """What one call gets done.

    Attributes:
        name: What is done.
        unit: What is counted.
        n: How many of them a call does.
        cpu: Seconds of CPU of the call.
        memory: Extra megabytes of the call; None where the system cannot tell.
        budget: Most megabytes it may take; None where none is set.
    """

    name: str
    unit: str
    n: int
    cpu: float
    memory: float | None
    budget: float | None = None

    @property
    def per_second(self) -> float:
        """How many per second of CPU."""
        return self.n / self.cpu

    @property
    def reached(self) -> bool | None:
        """Whether memory is within the budget; None where none is set or the system cannot tell."""
        return None if self.budget is None or self.memory is None else self.memory <= self.budget


def rate_rows() -> list[RateRow]:
    """All rows: heatmaps of all methods, rendered scenes, and scores of maps that are never all there."""
    load_catalog()
    explained = _explained()
    shared = partial(_heatmaps, explained, one_by_one=False)
    alone = partial(_heatmaps, explained, one_by_one=True)
    return [
        _row(f"{len(METHODS)} methods, passes shared", "questions", N_QUESTIONS, shared),
        _row(f"{len(METHODS)} methods, each alone", "questions", N_QUESTIONS, alone),
        _row(f"scenes of {SIDE}²", "scenes", N_SCENES, _render),
        _row(f"mass and rank of {SIDE}², {SHARD} at a time", "maps", N_MAPS, _scores, budget=BUDGET_MB),
    ]


def _row(name: str, unit: str, n: int, call: Callable[[], object], *, budget: float | None = None) -> RateRow:
    if n < N_MAPS:
        call()  # what is done only once is not charged; many maps do not notice it
    times: list[float] = []

    def timed() -> None:
        started = time.process_time()
        call()
        times.append(time.process_time() - started)

    memory = extra_memory(timed)
    if not times:  # where memory is not measured
        timed()
    return RateRow(name, unit, n, min(times), memory, budget)


def _explained() -> Explained:
    generator = torch.Generator().manual_seed(2)
    images = torch.rand((N_QUESTIONS, 3, SIDE, SIDE), generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = RelationNetwork(SIDE).eval()
    classifier = Classifier("random", module, SIDE, Normalization((0.0,) * 3, (1.0,) * 3), ANSWERS)
    targets = torch.arange(N_QUESTIONS)
    data = LabelledImages("random", tuple(map(str, range(N_QUESTIONS))), images, targets)
    words = torch.randint(2, 82, (N_QUESTIONS, 8), generator=generator)
    lengths = torch.full((N_QUESTIONS,), 8)
    return Explained(data, classifier, images, torch.device("cpu"), forward_args=(words, lengths))


def _heatmaps(explained: Explained, *, one_by_one: bool) -> int:
    """Number of maps made: of all methods together, or of one method after the other."""
    requests = [MethodRequest(name, options) for name, options in METHODS.items()]
    groups = [[request] for request in requests] if one_by_one else [requests]
    passes = [work for group in groups for work in plan_passes(group)]
    return sum(len(pass_heatmaps(explained, work, seed=0)) for work in passes)


def _render() -> int:
    return sum(render(sample_scene(0, row), SIDE)[0].shape[0] for row in range(N_SCENES))


def _scores() -> Tensor:
    """Mean mass and rank of maps that are made, pooled, scored and dropped shard by shard."""
    total = torch.zeros(2, dtype=torch.float64)
    generator = torch.Generator().manual_seed(5)
    masks = torch.zeros((SHARD, SIDE, SIDE), dtype=torch.bool)
    masks[:, 40:70, 30:60] = True
    for _ in range(N_MAPS // SHARD):
        maps = pool(torch.rand((SHARD, 3, SIDE, SIDE), generator=generator), "max-norm")
        total += torch.stack(
            [relevance_mass(maps, masks).values.sum(), relevance_rank(maps, masks).values.sum()]
        )
    return total / N_MAPS
