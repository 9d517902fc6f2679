"""The whole run: what it computes, what it shares, and what it does not compute twice."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from scipy import stats
from torch import Tensor

from heatcheck.attribution.registry import attribute
from heatcheck.benchmarks import heatmaps, idsds, idsds_maps, idsds_settings, patch_table, shared_passes
from heatcheck.benchmarks.idsds import Results, Subject, SumsKey
from heatcheck.benchmarks.idsds_methods import method_request
from heatcheck.benchmarks.idsds_scores import single_score
from heatcheck.metrics.patch_responses import patch_responses
from heatcheck.metrics.patches import patch_sums
from heatcheck.runtime.store import ResultsStore


@pytest.fixture
def calls() -> Iterator[list[str]]:
    """Names of the computations that were made, in their order."""
    made: list[str] = []

    def note(name: str, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            return function(*arguments, **options)

        return call

    with (
        mock.patch.object(patch_table, "patch_responses", note("deletions", patch_responses)),
        mock.patch.object(idsds_maps, "pass_heatmaps", note("maps", shared_passes.pass_heatmaps)),
    ):
        yield made


def plain_loop(subject: Subject, maps: Tensor, transform: str) -> list[float]:
    """Scores as the published protocol has them: image by image, patch by patch, with SciPy."""
    model, images = subject.studied.explained.classifier.module, subject.studied.explained.images
    scores = []
    for image, target, map_ in zip(images, subject.studied.explained.data.targets, maps, strict=True):
        pixels = map_.sum(0).double()
        pixels = pixels.abs() if transform == "abs" else pixels
        sums, drops = [], []
        with torch.no_grad():
            intact = model(image[None])[0, target]
            for row in range(0, 64, 16):
                for column in range(0, 64, 16):
                    copy = image.clone()
                    copy[:, row : row + 16, column : column + 16] = 0
                    drops.append(float(intact - model(copy[None])[0, target]))
                    sums.append(float(pixels[row : row + 16, column : column + 16].sum()))
        scores.append(float(stats.spearmanr(sums, drops).statistic))
    return scores


@pytest.mark.parametrize("stage", ["original", "tuned"])
@pytest.mark.parametrize("transform", ["raw", "abs"])
def test_scores_are_those_of_the_published_loop(results: Results, stage: str, transform: str) -> None:
    subject = results.find("toy-patches", stage)  # type: ignore[arg-type]
    assert subject is not None
    explained = subject.studied.explained
    found = single_score(subject, results.headline)
    for name in ("input-x-gradient", "integrated-gradients"):
        request = method_request(name, "reference", results.settings.options.get(name))
        maps = attribute(
            request.name,
            explained.classifier.module,
            explained.images,
            explained.data.targets,
            **request.options,
        )
        assert found.values[name, transform].tolist() == pytest.approx(
            plain_loop(subject, maps, transform), abs=1e-6
        )


def test_a_finished_run_is_not_computed_again(
    results: Results, settings: idsds.Settings, store: ResultsStore, calls: list[str]
) -> None:
    again = idsds.run(settings, store)
    assert calls == []
    for before, after in zip(results.subjects, again.subjects, strict=True):
        for name, sums in before.sums.items():
            torch.testing.assert_close(after.sums[name], sums, rtol=0, atol=0, equal_nan=True)
        for key, table in before.tables.items():
            assert torch.equal(after.tables[key].responses.logits, table.responses.logits)


def test_another_method_asks_for_no_deletion(
    results: Results, settings: idsds.Settings, store: ResultsStore, calls: list[str]
) -> None:
    more = settings.model_copy(update={"methods": [*settings.methods, "sobel"]})
    found = idsds.run(more, store)
    assert calls == ["maps", "maps"]  # one per classifier
    assert all(SumsKey("sobel", "logit", 4, "raw") in subject.sums for subject in found.subjects)


def test_other_transforms_of_a_map_cost_no_further_map(
    registered: None, settings: idsds.Settings, tmp_path: Any, calls: list[str]
) -> None:
    small = settings.model_copy(
        update={
            "methods": ["ig-smoothgrad", "ig-smoothgrad-squared", "ig-vargrad"],
            "variants": {},
            "tuned": {},
            "incremental": [],
            "updated": [],
            "softmax": False,
            "n_train": 0,
            "set_sizes": [],
            "fills": [],
            "grids": [],
            "profile": "corrected",
        }
    )
    found = idsds.run(small, ResultsStore(tmp_path))
    assert calls == ["deletions", "maps"]
    sums = found.subjects[0].sums
    assert {(key.method, key.transform) for key in sums} == {
        (method, transform) for method in small.methods for transform in ("raw", "abs", "relu")
    }
    squared, variance, mean = (
        sums[SumsKey(name, "logit", 4, "raw")]
        for name in ("ig-smoothgrad-squared", "ig-vargrad", "ig-smoothgrad")
    )
    assert bool((squared >= variance).all())
    assert not torch.equal(mean, squared)


def test_results_do_not_depend_on_shards_workers_or_memory(
    results: Results, settings: idsds.Settings, tmp_path: Any
) -> None:
    few = {"methods": ["input-x-gradient", "random"], "incremental": ["random"], "updated": [], "grids": []}
    fewer = {"variants": {}, "softmax": False, "fills": ["random"], "directions": ["ascending"]}
    changed = settings.model_copy(update={**few, **fewer, "memory": "1MB"})
    with mock.patch.object(heatmaps, "SHARD", 5):
        found = idsds.run(changed, ResultsStore(tmp_path))
    for before, after in zip(results.subjects, found.subjects, strict=True):
        for key, sums in after.sums.items():
            torch.testing.assert_close(sums, before.sums[key], rtol=1e-5, atol=1e-5)
        for name, table in after.tables.items():
            expected = before.tables[name].responses.logits
            torch.testing.assert_close(table.responses.logits, expected, rtol=0, atol=1e-5)
    random = found.subjects[0].incremental
    expected_rows = results.subjects[0].incremental
    chosen = (expected_rows["method"] == "random") & (expected_rows["direction"] == "ascending")
    expected_rows = expected_rows[chosen].reset_index(drop=True)
    order = ["direction", "transform", "image"]
    ours, theirs = (table.sort_values(order)["value"].to_numpy() for table in (random, expected_rows))
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_both_classifiers_see_the_same_images(results: Results) -> None:
    original, tuned = results.subjects
    assert (original.studied.stage, tuned.studied.stage) == ("original", "tuned")
    assert original.ids == tuned.ids
    assert len(original.ids) == 12


def test_images_that_the_model_gets_wrong_are_scored(results: Results) -> None:
    table = results.subjects[0].tables[results.headline]
    assert int((~table.correct[:, 0]).sum()) > 0
    assert len(single_score(results.subjects[0], results.headline).values) == len(table.ids)


def test_patch_sums_on_every_grid_are_those_of_the_map(results: Results) -> None:
    subject = results.subjects[0]
    explained = subject.studied.explained
    maps = attribute("grad-cam", explained.classifier.module, explained.images, explained.data.targets)
    for grid in (2, 4, 8):
        torch.testing.assert_close(
            subject.sums[SumsKey("grad-cam", "logit", grid, "raw")],
            patch_sums(maps, grid),
            rtol=1e-6,
            atol=1e-6,
        )


def test_a_variant_is_its_method_with_other_options(results: Results) -> None:
    subject = results.subjects[0]
    explained = subject.studied.explained
    options: dict[str, Any] = {"quadrature": "gauss-legendre", "n_steps": 2}
    maps = attribute(
        "integrated-gradients",
        explained.classifier.module,
        explained.images,
        explained.data.targets,
        **options,
    )
    found = subject.sums[SumsKey("ig, 2 steps", "logit", 4, "raw")]
    torch.testing.assert_close(found, patch_sums(maps, 4), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variants": {"random": idsds_settings.Variant(method="centre")}}, "name of a method"),
        ({"variants": {"own": idsds_settings.Variant(method="no-such-method")}}, "unknown method"),
        ({"methods": ["no-such-method"]}, "unknown method"),
        ({"methods": ["random", "random"]}, "different names"),
        ({"options": {"grad-cam": {"stride": 3}}}, "stride"),
        ({"models": ["no-such-model"], "tuned": {}}, "unknown model"),
        ({"tuned": {"other": "toy-patches-tuned"}}, "tuned names other"),
        ({"detailed": ["other"]}, "detailed names other"),
        ({"fills": ["no-such-fill"]}, "unknown fill"),
        ({"fills": ["torchscript"]}, "plug-in"),
        ({"data": "no-such-data"}, "unknown data set"),
        ({"incremental": ["sobel"]}, "incremental names sobel"),
        ({"updated": ["grad-cam", "random", "sobel"]}, "updated names sobel"),
        ({"set_sizes": [17]}, "at most 16"),
        ({"grid": 5}, "do not tile"),
        ({"device": "abacus"}, "not available"),
        ({"memory": "much"}, "no size"),
    ],
)
def test_a_run_that_cannot_be_is_refused(
    registered: None, settings: idsds.Settings, tmp_path: Any, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        idsds.run(settings.model_copy(update=change), ResultsStore(tmp_path))
