"""Transformers, B-cos networks and BagNets through the whole benchmark, each with the methods made for it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

from heatcheck.benchmarks import idsds
from heatcheck.benchmarks.idsds_scores import all_scores
from heatcheck.models.registry import MODELS, Classifier, Normalization, register_model
from heatcheck.models.small_family import FAMILY
from heatcheck.runtime.store import ResultsStore

COMMON = ["input-x-gradient", "random"]
# Methods beside the common ones by member of the small family.
OWN = {
    "vit": ["attention-rollout", "chefer-relevance"],
    "bcos-resnet8": ["grad-cam", "b-cos"],
    "bagnet5": ["grad-cam", "bagnet", "bagnet-exact", "deep-lift"],
    "resnet8-x": ["grad-cam", "deep-lift"],
}
METHODS = [*COMMON, *dict.fromkeys(name for names in OWN.values() for name in names)]


def make_classifier(member: str) -> Classifier:
    """A member of the small family with random weights of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = FAMILY[member].build(8)
        with torch.no_grad():
            for weight in module.parameters():
                # Layers that start at zero would make every answer the same.
                weight.add_(0.1 * torch.randn_like(weight))
    mean, std = (0.0, 1.0) if FAMILY[member].binary else (0.47, 0.08)
    classes = tuple(f"class {number}" for number in range(8))
    return Classifier(
        f"untrained-{member}", module.eval(), 64, Normalization((mean,) * 3, (std,) * 3), classes
    )


@pytest.fixture(scope="module")
def untrained() -> Iterator[list[str]]:
    before = dict(MODELS)
    names = [f"untrained-{member}" for member in OWN]
    for name, member in zip(names, OWN, strict=True):
        register_model(name)(partial(make_classifier, member))
    yield names
    MODELS.clear()
    MODELS.update(before)


def run(models: list[str], methods: list[str], folder: Path, workers: int) -> idsds.Results:
    settings = idsds.Settings(
        preset="test",
        methods=methods,
        models=models,
        n_images=3,
        detailed=[],
        device="cpu",
        workers=workers,
    )
    return idsds.run(settings, ResultsStore(folder))


@pytest.mark.parametrize("member", OWN)
def test_every_kind_of_model_is_scored_by_its_own_methods(
    member: str, untrained: list[str], tmp_path: Path
) -> None:
    results = run([f"untrained-{member}"], [*COMMON, *OWN[member]], tmp_path, 1)
    (subject,) = results.subjects
    assert list(subject.studied.methods) == [*COMMON, *OWN[member]]
    (score,) = [one for one in all_scores(results) if one.condition.protocol == "SDS"]
    raw = score.values.xs("raw", axis="columns", level="transform")
    # A rectified map may be zero everywhere, which has no ranks.
    assert raw.drop(columns="grad-cam", errors="ignore").notna().to_numpy().all()


def test_methods_of_other_kinds_are_left_out(untrained: list[str], tmp_path: Path) -> None:
    found = {
        subject.studied.model.removeprefix("untrained-"): set(subject.studied.methods) - set(COMMON)
        for subject in run(untrained, METHODS, tmp_path, 1).subjects
    }
    assert found == {member: set(names) for member, names in OWN.items()}


def test_two_workers_find_what_one_finds(untrained: list[str], tmp_path: Path) -> None:
    alone, together = (
        all_scores(run(untrained, METHODS, tmp_path / str(workers), workers)) for workers in (1, 2)
    )
    assert len(alone) == len(together) > 0
    for one, other in zip(alone, together, strict=True):
        pd.testing.assert_frame_equal(one.values, other.values)
