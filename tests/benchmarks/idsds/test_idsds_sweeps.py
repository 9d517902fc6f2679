"""Runs beside the main one: what they change, what they keep, and what their tables compare."""

from pathlib import Path
from typing import Any

import pytest

from heatcheck.benchmarks import idsds
from heatcheck.benchmarks.idsds import Results, SumsKey
from heatcheck.benchmarks.idsds_scores import single_score
from heatcheck.benchmarks.idsds_sweeps import (
    OTHER_PROFILE,
    baseline_table,
    baseline_variants,
    noise_name,
    noise_table,
    noise_variants,
    output_table,
    profile_table,
    side_run,
    side_score,
)
from heatcheck.runtime.store import ResultsStore

IXG, PATH = "input-x-gradient", "integrated-gradients"


@pytest.fixture(scope="module")
def side_store(tmp_path_factory: pytest.TempPathFactory) -> ResultsStore:
    return ResultsStore(Path(tmp_path_factory.mktemp("sides")))


@pytest.fixture(scope="module")
def plain(results: Results) -> idsds.Settings:
    """Settings without the toy method that cannot be run alone, and on fewer images."""
    return results.settings.model_copy(update={"n_images": 6, "options": {PATH: {"n_steps": 3}}})


def test_a_side_run_is_of_the_tuned_model_alone(plain: idsds.Settings, side_store: ResultsStore) -> None:
    found = side_run(plain, side_store, [IXG], n_images=4)
    assert found is not None
    assert [subject.studied.methods for subject in found.subjects] == [(), (IXG,)]
    assert len(found.subjects[1].ids) == 4
    assert side_score(found).condition.protocol == "IDSDS"
    assert len(found.subjects[1].tables) == 1


def test_a_side_run_repeats_the_main_run(
    results: Results, plain: idsds.Settings, side_store: ResultsStore
) -> None:
    found = side_run(plain, side_store, [IXG], n_images=6)
    assert found is not None
    main = single_score(results.final("toy-patches"), results.headline).values[IXG, "raw"]
    ours = side_score(found).values[IXG, "raw"]
    assert ours.tolist() == pytest.approx(main.loc[ours.index].tolist(), abs=1e-9)


def test_without_methods_there_is_no_side_run(plain: idsds.Settings, side_store: ResultsStore) -> None:
    assert side_run(plain, side_store, [], n_images=4) is None
    assert noise_table(None, [1.0]).empty
    assert baseline_table(None, {}).empty
    assert output_table(None).empty
    assert profile_table(None).empty


def test_a_run_without_a_detailed_model_has_no_sides(plain: idsds.Settings, side_store: ResultsStore) -> None:
    with pytest.raises(ValueError, match="detailed names no model"):
        side_run(plain.model_copy(update={"detailed": []}), side_store, [IXG], n_images=4)


def test_noise_is_compared_with_the_unsmoothed_map(plain: idsds.Settings, side_store: ResultsStore) -> None:
    variants = {name: one for name, one in noise_variants([0.0, 2.0]).items() if "ixg" in name}
    found = side_run(plain, side_store, [IXG], n_images=5, variants=variants)
    table = noise_table(found, [0.0, 2.0])
    raw = table[table["transform"] == "raw"]
    assert list(raw["noise"]) == [0.0, 0.0, 2.0]
    # Copies without noise are the image itself.
    assert raw["mean"].iloc[0] == pytest.approx(raw["mean"].iloc[1], abs=1e-9)
    assert raw["difference"].iloc[2] == pytest.approx(raw["mean"].iloc[2] - raw["mean"].iloc[0])
    assert found is not None
    name = noise_name("ixg-smoothgrad", 2.0)
    assert raw["mean"].iloc[2] == pytest.approx(side_score(found).values[name, "raw"].mean())


def test_baselines_are_compared_with_zero(plain: idsds.Settings, side_store: ResultsStore) -> None:
    main = side_run(plain, side_store, [PATH], n_images=5, variants=baseline_variants([1.0]))
    seeds = {seed: side_run(plain, side_store, ["ig-uniform"], n_images=5, seed=seed) for seed in (0, 1)}
    table = baseline_table(main, seeds)
    raw = table[table["transform"] == "raw"].set_index("label")
    means, differences = raw["mean"].to_dict(), raw["difference"].to_dict()
    assert list(raw.index) == [
        "zero",
        "uniform ±1",
        "black",
        "white",
        "blur",
        "uniform ±1, seed 0",
        "uniform ±1, seed 1",
    ]
    assert differences["zero"] == 0
    assert means["uniform ±1, seed 0"] != means["uniform ±1, seed 1"]


def test_outputs_are_compared_with_the_logit(results: Results) -> None:
    table = output_table(results)
    own = table[(table["method"] == IXG) & (table["transform"] == "raw")].set_index("output")
    means, differences = own["mean"].to_dict(), own["difference"].to_dict()
    assert differences["probability"] == pytest.approx(means["probability"] - means["logit"])
    assert differences["logit"] == 0


def test_the_other_profile_has_a_table_of_its_own(plain: idsds.Settings, side_store: ResultsStore) -> None:
    found = side_run(plain, side_store, ["grad-cam++"], n_images=4, profile=OTHER_PROFILE[plain.profile])
    assert found is not None
    table = profile_table(found)
    assert set(table["profile"]) == {"corrected"}
    assert list(table["row"]) == ["Grad-CAM++"]
    assert SumsKey("grad-cam++", "logit", 4, "raw") in found.subjects[1].sums


@pytest.mark.parametrize(
    ("originals", "expected"),
    [("all", [True, True]), ("detailed", [False, True]), ("none", [False, True])],
)
def test_only_chosen_originals_are_explained(
    plain: idsds.Settings, side_store: ResultsStore, originals: Any, expected: list[bool]
) -> None:
    changes = {"methods": [IXG], "variants": {}, "originals": originals, "detailed": [], "softmax": False}
    more = {"incremental": [], "updated": [], "grids": [], "fills": [], "set_sizes": [], "n_train": 0}
    found = idsds.run(plain.model_copy(update={**changes, **more}), side_store)
    assert [bool(subject.studied.methods) for subject in found.subjects] == expected


def test_models_that_are_not_detailed_have_the_compared_methods(
    plain: idsds.Settings, side_store: ResultsStore
) -> None:
    changes = {"methods": [IXG, PATH], "variants": {}, "compared": [IXG], "detailed": [], "softmax": False}
    more = {"incremental": [], "updated": [], "grids": [], "fills": [], "set_sizes": [], "n_train": 0}
    found = idsds.run(plain.model_copy(update={**changes, **more}), side_store)
    assert found.final("toy-patches").studied.methods == (IXG,)
    with pytest.raises(ValueError, match="compared names sobel"):
        idsds.check(plain.model_copy(update={"compared": ["sobel"]}))
    with pytest.raises(ValueError, match="was not run"):
        found.final("no-such-model")
