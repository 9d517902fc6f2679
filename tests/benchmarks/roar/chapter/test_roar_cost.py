"""Costs follow from settings, and repeat the figures that the published study implies."""

import pytest

from heatcheck.attribution.estimators import ESTIMATORS
from heatcheck.benchmarks import roar_cost, roar_text
from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_conditions import conditions

ALL = list(ESTIMATORS)


@pytest.mark.parametrize(
    ("names", "shared", "expected"),
    [
        (ALL, True, 432),
        (ALL, False, 1242),
        (["grad"], True, 1),
        (["sq-grad", "grad", "random", "sobel"], True, 1),
        (["sg-sq-grad", "var-grad"], True, 15),
        (["sg-sq-grad", "var-grad"], False, 30),
        (["ig", "sg-gb"], True, 40),
    ],
)
def test_passes_per_image_are_counted(names: list[str], shared: bool, expected: int) -> None:
    assert roar_cost.passes_per_image(names, 15, 25, shared=shared) == expected


def test_bytes_of_imagenet_are_those_of_the_specification() -> None:
    table = roar_cost.storage_table(
        1_331_167, 224, n_estimators=18, percents=(10, 30, 50, 70, 90), modes=("roar", "kar")
    ).set_index("what")
    texts = [roar_text.bytes_text(size) for size in table["per_estimator"]]
    assert texts[:5] == ["802 GB", "200 GB", "100 GB", "66.8 GB", "33.4 GB"]
    assert roar_text.bytes_text(table["all"].iloc[-1]) == "36.1 TB"
    assert roar_text.bytes_text(table["all"].iloc[4]) == "601 GB"


def test_the_published_study_takes_900_trainings_per_data_set() -> None:
    table = roar_cost.published_cost().set_index("data")
    assert (table["trainings"] == 900).all()
    assert table.loc["ImageNet", "images_seen"] == 32_000 * 4096
    assert table.loc["ImageNet", "flop"] == pytest.approx(2.9e21, rel=0.01)
    assert table.loc["Food-101", "flop"] == pytest.approx(1.1e20, rel=0.05)
    # 57 days of a node with eight GPUs.
    assert table["training_hours"].astype(float)["ImageNet"] / 8 / 24 == pytest.approx(57, abs=0.5)
    assert roar_text.cost_text(table.reset_index()).loc[0, "data sets not written"] == "36.1 TB"


def test_twice_as_fast_takes_half_as_long() -> None:
    usual, fast = (roar_cost.published_cost(training_rate=rate) for rate in (3000.0, 6000.0))
    assert (usual["training_hours"] == 2 * fast["training_hours"]).all()


def test_every_condition_of_a_run_is_counted_once(invented: Results) -> None:
    table = roar_cost.training_counts(invented.settings).set_index("purpose")
    assert len(conditions(invented.settings)) == len(invented.outcomes)
    parts = table.drop(index="all")
    # Explained networks and steps of recursive removal are tested, but are no conditions.
    assert parts["tests"].sum() == len(invented.outcomes) + 1 + 6
    assert table.loc["all", "trainings"] == parts["trainings"].sum()
    assert table.loc["estimators, ROAR and KAR", "trainings"] == 10 * 3 * 2 * 2
    assert table.loc["not retrained", "trainings"] == 0
    assert table.loc["evaluator on random masks", "trainings"] == 2


def test_storage_of_a_run_counts_its_own_maps(invented: Results) -> None:
    table = roar_cost.run_storage(invented).set_index("what")
    pixels = (200 + 400) * 8 * 8
    assert table.loc["percent levels, 8 bits, pixels", "per_estimator"] == pixels
    assert table.loc["percent levels, 8 bits, pixels", "all"] == 5 * pixels
    assert roar_cost.run_passes(invented.settings) == (16, 46)
