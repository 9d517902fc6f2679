from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heatcheck.attribution.registry import METHODS
from heatcheck.benchmarks import (
    clevr_xai,
    clevr_xai_tables,
    comparison,
    deletion,
    deletion_tables,
    idsds,
    idsds_scores,
    roar,
    roar_tables,
)
from heatcheck.benchmarks.comparison_columns import METRICS, Column, find_column, main_columns
from heatcheck.benchmarks.comparison_fit import fit
from heatcheck.benchmarks.comparison_settings import (
    check,
    clevr_settings,
    deletion_settings,
    idsds_settings,
    options_of,
    roar_settings,
)
from heatcheck.benchmarks.idsds_settings import request_of
from heatcheck.metrics.map_facts import concentration
from heatcheck.metrics.resampling import defined_means
from heatcheck.models.registry import MODELS
from heatcheck.runtime import plugins
from heatcheck.runtime.store import ResultsStore

METHODS_RUN = ["gradient", "grad-cam", "smoothgrad", "sobel", "constant"]
RESNET, VGG = "small/resnet8", "small/vgg8-bn"
MAIN = {
    "clevr_xai": {"n_simple": 4, "n_asked": 12},
    "deletion": {"n_images": 5, "n_heldout": 4, "fills": ["zero"]},
    "idsds": {"n_images": 5, "n_incremental": 3, "n_steps": 4},
    "roar": {
        "data": "digits", "n_train": 60, "n_test": 30, "epochs": 1.0, "percents": [50, 90], "n_runs": 2,
    },
}  # fmt: skip
OWN = """
from heatcheck.attribution.registry import register

@register("own-brightness", family="own")
def brightness(model, images, targets, *, forward_args=(), generator=None):
    return images.abs().mean(1, keepdim=True)

@register("own-choosy", family="own")
def choosy(model, images, targets, *, forward_args=(), generator=None):
    if forward_args:
        raise ValueError("takes no questions")
    return images.mean(1, keepdim=True)
"""


def make_settings(**own: Any) -> comparison.Settings:
    usual: dict[str, Any] = {
        "methods": METHODS_RUN,
        "options": {"smoothgrad": {"n_samples": 2}},
        "classifiers": [RESNET, VGG],
        "tuned": {RESNET: f"{RESNET}-tuned"},
        **MAIN,
    }
    return comparison.Settings(**{**usual, **own})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultsStore:
    return ResultsStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def results(store: ResultsStore) -> comparison.Results:
    return comparison.run(make_settings(seeds=[0, 7]), store)


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "own.py"
    path.write_text(OWN, encoding="utf-8")
    before, loaded = dict(METHODS), dict(plugins._LOADED)
    yield str(path)
    METHODS.clear()
    METHODS.update(before)
    plugins._LOADED.clear()
    plugins._LOADED.update(loaded)


def files(store: ResultsStore) -> set[Path]:
    return {path for path in store.root.rglob("*") if path.is_file()}


def column(results: comparison.Results, key: str, classifier: str | None = None) -> Column:
    return find_column(results.columns, key, classifier)


def test_every_metric_has_a_column_of_all_methods_and_random_is_among_them(
    results: comparison.Results,
) -> None:
    assert {one.key for one in results.columns} == set(METRICS)
    assert all(one.methods == (*METHODS_RUN, "random") for one in results.columns)
    kinds = {(one.key, one.classifier, one.seed) for one in results.columns}
    assert len(kinds) == len(results.columns)
    # Both classifiers and seeds where heatmaps of a classifier are scored; VGG has no tuned twin here.
    assert {(c, s) for key, c, s in kinds if key == "deletion"} == {
        (c, s) for c in (RESNET, VGG) for s in (0, 7)
    }
    assert {(c, s) for key, c, s in kinds if key == "idsds"} == {(RESNET, 0), (RESNET, 7)}
    assert [s for key, _, s in kinds if key == "roar"] == [0]
    assert results.columns[0].seed == 0


def test_seeds_change_stochastic_methods_and_no_others(results: comparison.Results) -> None:
    first, second = (
        next(
            one
            for one in results.columns
            if (one.key, one.classifier, one.seed) == ("deletion", RESNET, seed)
        )
        for seed in (0, 7)
    )
    same = {
        name: bool(np.isclose(first.take([name]).values, second.take([name]).values, equal_nan=True).all())
        for name in first.methods
    }
    assert same == {
        "gradient": True, "grad-cam": True, "smoothgrad": False, "sobel": True, "constant": True,
        "random": False,
    }  # fmt: skip


def test_scores_of_deletion_are_those_of_its_chapter(
    results: comparison.Results, store: ResultsStore
) -> None:
    own = deletion_settings(results.settings, RESNET, list(results.settings.methods), seed=0)
    scores = deletion_tables.all_scores(deletion.run(own, store))
    names = {"deletion": "deletion", "insertion": "insertion", "localization-error": "localization error"}
    for key, metric in {**names, "saliency-metric": "saliency-metric"}.items():
        means = deletion_tables.find_score(scores, "metal-color", metric).means()
        mine = column(results, key, RESNET)
        np.testing.assert_allclose(mine.means(), means.loc[list(mine.methods)].to_numpy(), atol=1e-12)


def test_scores_of_questions_are_those_of_their_chapter(
    results: comparison.Results, store: ResultsStore
) -> None:
    own = clevr_settings(results.settings, list(results.settings.methods), seed=0)
    table = clevr_xai_tables.accuracy_table(clevr_xai.run(own, store))
    for key, metric in {"mass": "relevance-mass", "rank": "relevance-rank"}.items():
        rows = table[(table["metric"] == metric) & (table["ground_truth"] == table["ground_truth"].iloc[0])]
        mine = column(results, key)
        means = rows.set_index("method")["mean"].loc[list(mine.methods)]
        np.testing.assert_allclose(mine.means(), means.to_numpy(dtype=float), atol=1e-12)


def test_scores_of_single_deletion_are_those_of_its_chapter(
    results: comparison.Results, store: ResultsStore
) -> None:
    found = idsds.run(idsds_settings(results.settings, RESNET, list(results.settings.methods), seed=0), store)
    for key, stage in (("idsds", "tuned"), ("sds", "original")):
        score = idsds_scores.headline_score(found, RESNET, stage)  # type: ignore[arg-type]
        mine = column(results, key, RESNET)
        raw = np.stack([score.values[method, "raw"].to_numpy() for method in mine.methods], 1)
        np.testing.assert_allclose(mine.means(), defined_means(raw), atol=1e-12)
        twin = next(one for one in results.unsigned if (one.key, one.classifier) == (f"{key}-abs", RESNET))
        absolute = np.stack([score.values[method, "abs"].to_numpy() for method in mine.methods], 1)
        np.testing.assert_allclose(twin.means(), defined_means(absolute), atol=1e-12)
    assert np.isnan(column(results, "idsds").means()[METHODS_RUN.index("constant")])
    assert column(results, "idsds").why["constant"] == "no image gives it a score"


def test_areas_of_retraining_are_those_of_its_chapter(
    results: comparison.Results, store: ResultsStore
) -> None:
    found = roar.run(roar_settings(results.settings, list(results.settings.methods)), store)
    table = roar_tables.summary_table(found)
    for key, quantity in (("roar", "ABC ROAR"), ("kar", "ABC KAR")):
        areas = table[table["quantity"] == quantity].set_index("estimator")["estimate"]
        mine = column(results, key)
        known = dict(zip(mine.methods, mine.means(), strict=True))
        assert known.pop("random") == 0
        np.testing.assert_allclose([known[name] for name in areas.index], areas.to_numpy(), atol=1e-12)
        assert mine.n_runs == 2


def test_the_first_classifier_and_seed_are_the_main_ones(results: comparison.Results) -> None:
    main = main_columns(results.columns)
    assert [one.key for one in main] == list(METRICS)
    assert {one.classifier for one in main if one.metric.benchmark in ("deletion", "idsds")} == {RESNET}
    assert {one.seed for one in main} == {0}
    assert results.pictures is not None
    assert results.pictures.settings.counted_model == RESNET


def test_facts_are_of_maps_pooled_as_deletion_pools_them(results: comparison.Results) -> None:
    assert results.pictures is not None
    (image,) = results.pictures.shown.data.ids
    for name, maps in results.pictures.heatmaps.items():
        rows = results.maps[(results.maps["method"] == name) & (results.maps["image"] == image)]
        assert rows["concentration"].tolist() == pytest.approx(concentration(maps).tolist(), abs=1e-6)


def test_the_first_fill_counts(store: ResultsStore) -> None:
    fills = ["blur", "zero"]
    own = {"n_images": 5, "n_heldout": 0, "fills": fills}
    settings = make_settings(benchmarks=["deletion"], classifiers=[RESNET], deletion=own, methods=["sobel"])
    found = comparison.run(settings, store)
    assert found.pictures is not None
    scores = deletion_tables.all_scores(found.pictures)
    means = [deletion_tables.find_score(scores, "metal-color", "deletion", fill).means() for fill in fills]
    sobel = column(found, "deletion").take(["sobel"]).means()[0]
    assert sobel == pytest.approx(means[0]["sobel"], abs=1e-12)
    assert abs(sobel - means[1]["sobel"]) > 1e-3


def test_what_one_classifier_refuses_another_may_take(store: ResultsStore) -> None:
    own = "small/bcos-resnet8"
    found = comparison.run(
        make_settings(benchmarks=["deletion"], classifiers=[RESNET, own], methods=["gradient", "b-cos"]),
        store,
    )
    assert list(found.refused["deletion"]) == ["b-cos"]
    first, second = (column(found, "deletion", name) for name in (RESNET, own))
    assert np.isnan(first.take(["b-cos"]).values).all()
    assert "B-cos networks only" in first.why["b-cos"]
    assert not np.isnan(second.take(["b-cos"]).values).any()
    assert "b-cos" not in second.why


def test_single_deletion_runs_the_method_that_the_name_says() -> None:
    settings = check(make_settings(methods=["grad-cam++", "ig-uniform", "gradient"]))
    own = idsds.check(idsds_settings(settings, RESNET, list(settings.methods), seed=0))
    assert request_of(own, "grad-cam++") == ("grad-cam++", options_of(settings, "grad-cam++"))
    uniform = request_of(own, "ig-uniform")
    assert (uniform.name, uniform.options) == ("integrated-gradients", options_of(settings, "ig-uniform"))


def test_a_second_comparison_computes_nothing(results: comparison.Results, store: ResultsStore) -> None:
    before = files(store)
    again = comparison.run(results.settings, store)
    assert files(store) == before
    for first, second in zip(results.columns, again.columns, strict=True):
        np.testing.assert_array_equal(first.values, second.values)


def test_an_own_method_adds_its_own_cells_alone(
    results: comparison.Results, store: ResultsStore, plugin: str
) -> None:
    before = files(store)
    again = comparison.run(make_settings(plugins=[plugin]), store)
    assert again.settings.methods == [*METHODS_RUN, "random", "own-brightness", "own-choosy"]
    assert again.refused["clevr_xai"] == {"own-choosy": "takes no questions"}
    assert column(again, "mass").why["own-choosy"] == "takes no questions"
    assert np.isnan(column(again, "mass").means()[-1])
    assert not np.isnan(column(again, "deletion").means()[-2:]).any()
    for one in results.columns:
        if one.seed == 0:
            same = column(again, one.key, one.classifier).take(one.methods)
            np.testing.assert_array_equal(one.values, same.values)
    # Heatmaps and scores of two methods, four trainings for each of ROAR and KAR, and the lists of ranks.
    added = len(files(store) - before)
    assert 0 < added < len(before) / 2


def test_facts_are_known_of_every_heatmap(results: comparison.Results) -> None:
    counts = results.maps.groupby("method")["image"].nunique()
    assert set(counts.index) == {*METHODS_RUN, "random"}
    assert counts.nunique() == 1
    facts = results.maps.groupby("method")[["roughness", "concentration"]].mean()
    assert facts["roughness"].idxmax() == "random"
    assert facts.loc["constant", "concentration"] == 0


def test_a_method_is_asked_before_anything_is_computed() -> None:
    settings = check(make_settings(methods=["gradient", "b-cos"]))
    found = fit(settings, "roar", RESNET)
    assert found.methods == ["gradient", "random"]
    assert "B-cos networks only" in found.refused["b-cos"]


def test_a_method_that_fits_nowhere_is_refused_with_all_reasons(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'b-cos' fits none of the benchmarks \(deletion: .*; roar: "):
        comparison.run(
            make_settings(methods=["b-cos"], benchmarks=["deletion", "roar"], classifiers=[RESNET]),
            ResultsStore(tmp_path),
        )
    assert not list(tmp_path.rglob("*.parquet"))


def test_all_benchmarks_are_given_the_same_options_in_full() -> None:
    settings = check(make_settings())
    methods = list(settings.methods)
    wanted = {name: options_of(settings, name) for name in methods}
    assert wanted["smoothgrad"]["n_samples"] == 2
    own: list[Any] = [
        clevr_settings(settings, methods, seed=0),
        deletion_settings(settings, RESNET, methods, seed=0),
        idsds_settings(settings, RESNET, methods, seed=0),
        roar_settings(settings, methods),
    ]
    for one in own:
        # Rankings of retraining's own controls have no options.
        assert {name: one.options.get(name, wanted[name]) for name in methods} == wanted
        assert one.options["smoothgrad"] == wanted["smoothgrad"]


@pytest.mark.parametrize("name", ["grad", "ig-smoothgrad", "oracle"])
def test_own_methods_must_not_be_called_like_something_else(tmp_path: Path, plugin: str, name: str) -> None:
    path = tmp_path / "other.py"
    path.write_text(OWN.replace("own-brightness", name).replace("own-choosy", f"{name}-2"), encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{name}: .* register the method under another name"):
        check(make_settings(plugins=[str(path)]))


def test_a_file_of_a_method_and_a_model_is_refused_where_the_method_does_not_fit(
    tmp_path: Path, plugin: str
) -> None:
    path = tmp_path / "both.py"
    model = "from heatcheck.models.registry import register_model\nregister_model('own-model')(print)\n"
    path.write_text(OWN + model, encoding="utf-8")
    settings = check(make_settings(plugins=[str(path)]))
    try:
        assert clevr_settings(settings, [*METHODS_RUN, "own-choosy"], seed=0).plugins == [str(path)]
        with pytest.raises(ValueError, match="put methods and models in files of their own"):
            clevr_settings(settings, METHODS_RUN, seed=0)
    finally:
        MODELS.pop("own-model", None)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"deletion": {"methods": ["gradient"]}}, "deletion sets methods, which the comparison decides"),
        ({"roar": {"estimators": ["grad"]}}, "roar sets estimators, which the comparison decides"),
        ({"idsds": {"n_imges": 3}}, "idsds sets n_imges; allowed: .*n_images"),
        ({"methods": ["gradient", "gradient"]}, "methods must be one or more different names"),
        ({"seeds": [1, 1]}, "seeds must be one or more different names"),
        ({"methods": ["ig-smoothgrad"]}, "unknown method 'ig-smoothgrad'"),
        ({"options": {"gradient": {"n": 1}}}, "gradient"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(own: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(make_settings(**own))
