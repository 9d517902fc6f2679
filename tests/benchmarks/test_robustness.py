"""The robustness experiment: what is varied, that it is paired, and what its tables say."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from heatcheck.attribution.registry import METHODS
from heatcheck.benchmarks import heatmaps, robustness, robustness_scores
from heatcheck.benchmarks.deletion_settings import Settings
from heatcheck.benchmarks.robustness_tables import robustness_findings, robustness_table, spread_table
from heatcheck.benchmarks.sweeps import NOISE, SEED, SWEEPS, get_sweep, sweep_options
from heatcheck.metrics.similarity import SIMILARITIES, compare_heatmaps
from heatcheck.runtime.store import ResultsStore

SETTINGS = Settings(preset="test", methods=["sliding-patch"], n_images=4, n_heldout=0, device="cpu")
PLAN = robustness.Plan(
    sweeps=["patch-size", "mp-seed", "blur-radius"],
    n_images=3,
    options={"sliding-patch": {"stride": 16}, "meaningful-perturbation": {"n_iterations": 3}},
    values={"patch-size": [70, 56, 84], "mp-seed": [0, 1], "blur-radius": [10.0, 30.0]},
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("robustness")


@pytest.fixture(scope="module")
def robust(path: Path) -> robustness.Robustness:
    return robustness.run_robustness(SETTINGS, PLAN, ResultsStore(path))


def rows(table: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table


def test_every_sweep_is_of_known_methods_and_options_with_its_reference_among_the_values() -> None:
    for sweep in SWEEPS.values():
        assert sweep.reference in sweep.values
        for method in filter(None, (sweep.method, sweep.generative)):
            fields = METHODS[method].options.model_fields
            assert sweep.hyperparameter in (NOISE, SEED) or sweep.hyperparameter in fields
        assert sweep.generative is None or METHODS[sweep.generative].variant_of == sweep.method


@pytest.mark.parametrize(
    ("name", "side", "values", "reference"),
    [
        ("patch-size", 224, (5, 17, 29, 41, 53), 29),
        ("patch-size", 64, (1, 5, 8, 12, 15), 8),
        ("mask-size", 64, (4, 8, 16), 8),
        ("superpixels", 64, (50, 150), 50),
        ("blur-radius", 64, (5.0, 10.0, 30.0), 10.0),
    ],
)
def test_lengths_scale_with_the_image_and_counts_do_not(
    name: str, side: int, values: tuple[float, ...], reference: float
) -> None:
    sweep = get_sweep(name, side)
    assert (sweep.values, sweep.reference) == (values, reference)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("patch", None, "unknown sweep 'patch'; known: patch-size"),
        ("small-patch-size", None, r"\[5, 6, 7\], which are \[1, 2, 2\] for images of 64 pixels"),
        ("mp-seed", [0], "two or more different settings"),
        ("mp-seed", [], "has no values"),
    ],
)
def test_a_sweep_without_different_settings_is_refused(name: str, values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_sweep(name, 64, values)


def test_the_varied_option_wins_and_options_of_the_method_hold_for_its_variant() -> None:
    sweep = get_sweep("patch-size", 64)
    options: dict[str, dict[str, Any]] = {
        "sliding-patch": {"stride": 4, "patch": 9},
        "sliding-patch-g": {"fill": "telea"},
    }
    base = sweep_options(sweep, options, generative=False, value=5)
    variant = sweep_options(sweep, options, generative=True, value=5)
    assert base == {"stride": 4, "patch": 5}
    assert variant == {"stride": 4, "patch": 5, "fill": "telea"}


def test_all_images_settings_and_measures_are_there_for_both_variants(robust: robustness.Robustness) -> None:
    n_images = robust.accuracy["image"].nunique()
    assert n_images == 3
    patch = rows(robust.similarities, sweep="patch-size")
    assert len(patch) == 2 * 2 * n_images * len(SIMILARITIES)
    assert set(patch["value"]) == {"16", "24"}
    scores = rows(robust.accuracy, sweep="patch-size", metric="deletion")
    assert set(scores["value"]) == {"16", "20", "24"}
    assert set(rows(robust.similarities, sweep="blur-radius")["variant"]) == {"base"}
    columns = {"preset", "data", "model", "method", "variant", "sweep", "value", "image", "flag"}
    assert columns | {"measure", "similarity"} == set(robust.similarities)
    assert columns | {"metric", "score"} == set(robust.accuracy)


def test_similarities_are_those_of_the_metric_between_maps_of_two_settings(
    robust: robustness.Robustness,
) -> None:
    images = robustness._counted(SETTINGS, PLAN, torch.device("cpu"))
    maps = [
        METHODS["sliding-patch"].function(
            images.classifier.module, images.images, images.data.targets, patch=patch, stride=16
        )[:, 0]
        for patch in (20, 24)
    ]
    expected = compare_heatmaps(maps[1], maps[0]).spearman
    wanted = {"sweep": "patch-size", "variant": "base", "value": "24", "measure": "spearman"}
    found = rows(robust.similarities, **wanted).set_index("image")["similarity"]
    assert np.allclose(found.loc[list(images.data.ids)], expected.numpy(), atol=1e-5)


def test_maps_without_contrast_are_counted_as_undefined_and_decide_nothing(tmp_path: Path) -> None:
    plan = robustness.Plan(
        sweeps=["lime-seed"], n_images=2, options={"lime": {"n_samples": 1}}, values={"lime-seed": [0, 1]}
    )
    found = robustness.run_robustness(SETTINGS, plan, ResultsStore(tmp_path))
    # One sample keeps everything: all coefficients are zero, whatever the seed, and nothing is defined.
    assert set(found.similarities["flag"]) == {"constant"}
    assert found.similarities["similarity"].isna().all()
    table = robustness_table(found)
    assert (table["base_undefined"] == 2).all()
    assert table["difference"].isna().all()
    assert robustness_findings(found)[0].answer == "undecided"
    assert (spread_table(found)["base_mean"] == 0).all()


def test_equal_maps_are_perfectly_similar(path: Path, robust: robustness.Robustness) -> None:
    images = robustness._counted(SETTINGS, PLAN, torch.device("cpu"))
    sweep = get_sweep("patch-size", 64, [70, 84])
    (one, *_) = robustness._settings(sweep, images, SETTINGS, PLAN)
    table = robustness_scores._compare(one, one, ResultsStore(path))
    assert np.allclose(table["similarity"], 1)


def test_a_second_run_computes_nothing(
    path: Path, robust: robustness.Robustness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heatmaps, "compute_heatmaps", None)
    monkeypatch.setattr(robustness_scores, "deletion_curves", None)
    monkeypatch.setattr(robustness_scores, "compare_heatmaps", None)
    again = robustness.run_robustness(SETTINGS, PLAN, ResultsStore(path))
    pd.testing.assert_frame_equal(again.similarities, robust.similarities)
    pd.testing.assert_frame_equal(again.accuracy, robust.accuracy)


def test_a_longer_sweep_computes_only_its_new_settings(
    path: Path, robust: robustness.Robustness, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[object] = []
    compute = heatmaps.compute_heatmaps

    def watch(*args: Any) -> pd.DataFrame:
        computed.append(args[1].options["patch"])
        return compute(*args)

    monkeypatch.setattr(heatmaps, "compute_heatmaps", watch)
    longer = PLAN.model_copy(update={"sweeps": ["patch-size"], "values": {"patch-size": [70, 56, 84, 98]}})
    found = robustness.run_robustness(SETTINGS, longer, ResultsStore(path)).similarities
    assert computed == [28, 28]
    before = rows(robust.similarities, sweep="patch-size", value="24").reset_index(drop=True)
    pd.testing.assert_frame_equal(rows(found, value="24").reset_index(drop=True), before)


def test_a_method_and_its_variant_are_paired_in_images_seeds_and_random_numbers() -> None:
    images = robustness._counted(SETTINGS, PLAN, torch.device("cpu"))
    for name in ("mp-seed", "mp-noise", "patch-size"):
        listed = robustness._settings(get_sweep(name, 64), images, SETTINGS, PLAN)
        cells = {(one.variant, one.value): one.cell for one in listed}
        for (variant, value), cell in cells.items():
            other = cells["base", value]
            same = ("seed", "images", "targets", "rows")
            assert [cell[key] for key in same] == [other[key] for key in same], variant
            assert cell.get("random_ids") == other.get("random_ids")


def test_seeds_of_a_sweep_count_from_the_seed_of_the_run() -> None:
    images = robustness._counted(SETTINGS, PLAN, torch.device("cpu"))
    settings = SETTINGS.model_copy(update={"seed": 7})
    listed = robustness._settings(get_sweep("mp-seed", 64, [0, 2]), images, settings, PLAN)
    assert [one.cell["seed"] for one in listed] == [7, 7, 9, 9]


def test_noise_changes_the_images_but_not_the_random_numbers_a_method_draws() -> None:
    clean = robustness._counted(SETTINGS, PLAN, torch.device("cpu"))
    noisy, again = (robustness.with_noise(clean, 0.1, seed=0) for _ in range(2))
    assert torch.equal(noisy.images, again.images)
    assert not torch.equal(noisy.images, robustness.with_noise(clean, 0.1, seed=1).images)
    assert 0 <= noisy.data.images.min() < noisy.data.images.max() <= 1
    inside = (clean.data.images > 0.45) & (clean.data.images < 0.55)
    # Clipping at half a width of about 1.6 standard deviations leaves most of the variance.
    spread = (noisy.data.images - clean.data.images)[inside].std()
    assert 0.2 < spread < 0.1**0.5
    # With no iteration the map is one minus the initial mask, which is random.
    request = heatmaps.MethodRequest("meaningful-perturbation", {"n_iterations": 0})
    maps = []
    for explained in (clean, noisy):
        (cell,) = heatmaps.heatmap_cells(explained, request, seed=0)
        maps.append(heatmaps.load_heatmaps(heatmaps.compute_heatmaps(explained, request, cell)))
    assert torch.equal(*maps)
    first, *_ = noisy.shards()
    assert first.random_ids == noisy.random_ids


def test_tables_have_a_row_per_sweep_and_the_differences_of_the_means(robust: robustness.Robustness) -> None:
    table, spread = robustness_table(robust), spread_table(robust)
    assert len(table) == 3 * len(SIMILARITIES)
    assert len(spread) == 3 * 2
    for found in (table, spread):
        paired = found[found["generative"].notna()]
        assert np.allclose(paired["difference"], paired["g_mean"] - paired["base_mean"])
        assert (paired["difference_low"] <= paired["difference"]).all()
        assert (paired["difference"] <= paired["difference_high"]).all()
        alone = found[found["generative"].isna()]
        assert set(alone["sweep"]) == {"blur-radius"}
        assert alone[["g_mean", "difference"]].isna().all(axis=None)
        assert alone["base_mean"].notna().all()
    patch = rows(table, sweep="patch-size", measure="spearman").iloc[0]
    assert patch["values"] == "20 → 16, 24"
    assert patch["n"] == 3


def test_the_spread_is_the_deviation_of_an_image_s_scores_over_all_settings(
    robust: robustness.Robustness,
) -> None:
    wanted = {"sweep": "patch-size", "metric": "deletion"}
    scores = rows(robust.accuracy, **wanted, variant="base").groupby("image")["score"]
    row = rows(spread_table(robust), **wanted).iloc[0]
    assert row["base_mean"] == pytest.approx(scores.std(ddof=0).mean())


@pytest.mark.parametrize(("shift", "answer"), [(0.2, "yes"), (-0.2, "no"), (0.0, "undecided")])
def test_a_finding_says_yes_where_the_variant_s_maps_change_less(shift: float, answer: str) -> None:
    sweep = get_sweep("patch-size", 64, [29, 17, 41])
    noise = np.random.default_rng(0)
    table = pd.DataFrame(
        [
            (variant, "patch-size", value, image, "spearman", 0.5 + added + noise.normal(scale=0.02))
            for variant, added in (("base", 0.0), ("generative", shift))
            for value in ("5", "12")
            for image in map(str, range(12))
        ],
        columns=["variant", "sweep", "value", "image", "measure", "similarity"],
    )
    (found,) = robustness_findings(robustness.Robustness((sweep,), table, pd.DataFrame()))
    assert found.answer == answer
    assert found.source == "agarwal2020explaining"
    assert found.n == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sweeps": ["mp-seed", "mp-seed"]}, "different names"),
        ({"sweeps": ["seed"]}, "unknown sweep 'seed'"),
        ({"options": {"patch": {}}}, "unknown method 'patch'"),
        ({"options": {"lime": {"samples": 2}}}, "options of method 'lime'"),
        ({"values": {"strides": [1, 2]}}, "unknown sweep 'strides'"),
        ({"alphas": {"lime-h": 0.2}}, "unknown method 'lime-h'"),
        ({"options": {"sliding-patch": {"step": 2}}}, "options of method 'sliding-patch'"),
    ],
)
def test_a_plan_that_cannot_run_is_refused_before_anything_is_computed(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        robustness.run_robustness(SETTINGS, PLAN.model_copy(update=change), ResultsStore(tmp_path))
    assert not list(tmp_path.glob("*.parquet"))


def test_a_threshold_outside_the_range_is_refused() -> None:
    with pytest.raises(ValueError, match="alphas"):
        robustness.Plan(sweeps=["stride"], alphas={"lime": -0.5})


def test_only_multiples_of_the_mean_may_be_larger_than_one(tmp_path: Path) -> None:
    plan = robustness.Plan(
        sweeps=["stride"],
        n_images=2,
        options={"sliding-patch": {"patch": 32}},
        values={"stride": [112, 56]},
        alphas={"sliding-patch": 1.5},
    )
    with pytest.raises(ValueError, match=r"alphas must be in \[0, 1\] for threshold 'max'"):
        robustness.run_robustness(SETTINGS, plan, ResultsStore(tmp_path))
    changed = SETTINGS.model_copy(update={"threshold": "mean"})
    found = robustness.run_robustness(changed, plan, ResultsStore(tmp_path)).accuracy
    assert found[found["metric"] == "iou"]["score"].notna().all()


def test_a_variant_may_have_a_threshold_of_its_own() -> None:
    images = robustness._counted(SETTINGS, PLAN, torch.device("cpu"))
    listed = robustness._settings(get_sweep("patch-size", 64, [70, 84]), images, SETTINGS, PLAN)
    plan = PLAN.model_copy(update={"alphas": {"sliding-patch": 0.3, "sliding-patch-g": 0.6}})
    found = {one.variant: robustness._alpha(plan, one, SETTINGS) for one in listed}
    assert found == {"base": 0.3, "generative": 0.6}
    assert {robustness._alpha(PLAN, one, SETTINGS) for one in listed} == {0.15}


def test_scores_follow_the_fill_seed_and_threshold_of_the_settings(tmp_path: Path) -> None:
    images = robustness._counted(SETTINGS, PLAN, torch.device("cpu"))
    (one, *_) = robustness._settings(get_sweep("patch-size", 64, [70, 84]), images, SETTINGS, PLAN)
    changes: list[dict[str, object]] = [{}, {"threshold": "energy"}, {"seed": 5}]
    found = [
        robustness_scores.score_task(
            one, SETTINGS.model_copy(update={"fills": ["noise"], **change}), 0.3
        ).compute(ResultsStore(tmp_path))
        for change in changes
    ]
    scores = [table.set_index(["metric", "image"])["score"] for table in found]
    assert not np.allclose(scores[0]["iou"], scores[1]["iou"])
    assert np.allclose(scores[0]["deletion"], scores[1]["deletion"])
    assert not np.allclose(scores[0]["deletion"], scores[2]["deletion"])


def test_a_negative_variance_is_refused() -> None:
    images = robustness._counted(SETTINGS, PLAN, torch.device("cpu"))
    with pytest.raises(ValueError, match="variance of input noise must be 0 or more"):
        robustness.with_noise(images, -0.1, seed=0)


def test_a_sweep_counts_once_and_a_setting_only_where_both_are_defined() -> None:
    sweeps = (get_sweep("patch-size", 64, [29, 17, 41]), get_sweep("stride", 64, [112, 56]))
    gains = {("patch-size", "5"): -0.1, ("patch-size", "12"): -0.1, ("stride", "16"): 0.3}
    listed = [
        (variant, sweep, value, str(image), "spearman", 0.5 + gain * (variant == "generative"))
        for (sweep, value), gain in gains.items()
        for variant in ("base", "generative")
        for image in range(12)
    ]
    columns = ["variant", "sweep", "value", "image", "measure", "similarity"]
    table = pd.DataFrame(listed, columns=columns)
    first = (table["value"] == "12") & (table["image"] == "0")
    table.loc[first & (table["variant"] == "base"), "similarity"] = np.nan
    table.loc[first & (table["variant"] == "generative"), "similarity"] = 0.9
    (found,) = robustness_findings(robustness.Robustness(sweeps, table, pd.DataFrame()))
    assert found.estimate == pytest.approx(0.1)
