"""Results of a run that nobody trained: answers are drawn so that accuracies are known beforehand."""

import zlib
from collections.abc import Callable

import numpy as np
import pytest
import torch

from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_conditions import INTACT, Condition, conditions
from heatcheck.benchmarks.roar_data import Data
from heatcheck.benchmarks.roar_settings import Settings
from heatcheck.benchmarks.roar_training import Outcome
from heatcheck.data.parts import Part, RetrainingSet
from heatcheck.models.registry import Normalization

N_TEST, N_CLASSES = 400, 4
WHOLE, CHANCE = 0.95, 0.25
# How fast accuracy falls when a ranking's top is removed: 1 as random, above 1 faster.
STRENGTH = {
    "random": 1.0,
    "sobel": 0.9,
    "grad": 0.4,
    "sq-grad": 2.2,
    "sg-grad": 0.3,
    "sg-sq-grad": 1.8,
    "var-grad": 1.75,
    "oracle": 4.0,
    "leaky": 0.0,
    "random-redrawn": 1.1,
}
# Where maps are exchanged, filtered or moved, another strength.
MADE = {"shuffle": 1.2, "shuffle-class": 0.8, "roll": 1.1, "max-filter": 2.4, "gaussian": 2.3}

Make = Callable[..., Results]


def known_accuracy(condition: Condition) -> float:
    """Accuracy that the invented answers have on average."""
    if condition.ranking == INTACT:
        return WHOLE
    strength = MADE[condition.control] if condition.control else STRENGTH[condition.estimator]
    share = condition.percent / 100 if condition.mode == "roar" else 1 - condition.percent / 100
    if condition.mode == "kar" and condition.estimator != "random":
        # What removes well keeps badly, as in the published table.
        strength = 0.5 + strength / 2
    if condition.way == "leak":
        return 0.9 if condition.estimator == "leaky" else 0.4
    if condition.way == "none":
        strength += 1.5
    left: float = max(0.0, 1 - share) ** strength
    return CHANCE + (WHOLE - CHANCE) * left


def settings_of(**changes: object) -> Settings:
    """Settings with everything in them, on two runs."""
    values: dict[str, object] = {
        "preset": "test",
        "estimators": list(STRENGTH),
        "percents": [10, 50, 90],
        "n_runs": 2,
        "extra_percents": [90],
        "matched": ["sq-grad"],
        "probes": ["sq-grad"],
        "leaks": ["leaky", "sq-grad"],
        "road": ["sq-grad", "grad"],
        "finetuned": ["grad", "sq-grad", "sg-grad", "sg-sq-grad"],
        "evaluator": True,
        "recursive": ["sq-grad"],
    }
    return Settings(**{**values, **changes})  # type: ignore[arg-type]


def _part(n: int) -> Part:
    targets = torch.arange(n) % N_CLASSES
    images = np.zeros((n, 8, 8, 3), dtype=np.uint8)
    return Part(tuple(f"image {row}" for row in range(n)), images, targets)


def _outcome(condition: Condition, hardness: np.ndarray) -> Outcome:
    """Answers whose errors are on the same hard images in all conditions, but for some luck."""
    generator = np.random.default_rng(zlib.crc32(repr(condition).encode()))
    accuracy = known_accuracy(condition)
    mixed = 0.8 * hardness + 0.2 * generator.random(N_TEST)
    correct = mixed.argsort().argsort() < round(accuracy * N_TEST)
    return Outcome(correct, np.full(N_TEST, -np.log(accuracy), dtype=np.float32), 1.0)


def invent(settings: Settings) -> Results:
    """Results of ``settings`` with ``known_accuracy``."""
    classes = tuple(f"class {number}" for number in range(N_CLASSES))
    images = RetrainingSet("invented", classes, _part(200), _part(N_TEST), True, "0")
    data = Data(images, torch.full((3,), 0.5), Normalization((0.5,) * 3, (0.2,) * 3))
    hardness = np.random.default_rng(0).permutation(N_TEST) / N_TEST
    outcomes = {condition: _outcome(condition, hardness) for condition in conditions(settings)}
    recursive = {
        (name, percent, run): _outcome(
            Condition(name, "roar", min(99, percent + 5), settings.fill, "scratch", 0, run), hardness
        )
        for name in settings.recursive
        for percent in settings.percents
        for run in range(settings.n_runs)
    }
    return Results(settings, data, outcomes, recursive, (WHOLE,) * settings.n_checkpoints)


@pytest.fixture(scope="session")
def make() -> Make:
    """Function of changed settings to invented results."""
    return lambda **changes: invent(settings_of(**changes))


@pytest.fixture(scope="session")
def invented(make: Make) -> Results:
    """Invented results with everything in them."""
    return make()
