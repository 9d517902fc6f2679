"""The deletion benchmark: from settings to tidy scores."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from heatcheck.attribution.registry import attribute
from heatcheck.benchmarks import deletion, heatmaps, sources
from heatcheck.benchmarks.deletion_scores import COLUMNS
from heatcheck.benchmarks.deletion_tables import all_scores, score_table
from heatcheck.metrics.curves import deletion as deletion_curves
from heatcheck.metrics.pooling import pool
from heatcheck.metrics.scoring import softmax_of
from heatcheck.models.catalog import get_classifier
from heatcheck.runtime.plugins import PluginError
from heatcheck.runtime.store import ResultsStore


def rows(results: deletion.Results, **wanted: object) -> pd.DataFrame:
    table = results.scores
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table


def test_every_method_has_every_score_of_every_image(results: deletion.Results) -> None:
    counted = rows(results, data="metal-color", metric="deletion", fill="zero")
    per_method = counted.groupby("method")["image"].nunique()
    assert set(per_method.index) == set(results.settings.methods)
    assert per_method.nunique() == 1
    assert per_method.iloc[0] == 12 - results.n_wrong
    assert {"benchmark", "preset", "data", "model", "method", "options", *COLUMNS} <= set(results.scores)


def test_scores_are_those_of_the_metric_on_the_method_s_heatmaps(results: deletion.Results) -> None:
    cpu = torch.device("cpu")
    classifier = get_classifier("resnet8-metal-color")
    loaded = sources.load_images("metal-color", classifier, sources.Sizes(12, 0), cpu)
    counted = heatmaps.prepare(loaded.test, classifier, cpu)
    maps = attribute("grad-cam", classifier.module, counted.images, counted.data.targets)
    curves = deletion_curves(
        softmax_of(classifier.module), counted.images, pool(maps, "sum"), targets=counted.data.targets
    )
    found = rows(results, metric="deletion", method="grad-cam", fill="zero").set_index("image")
    assert np.allclose(found["value"].loc[list(counted.data.ids)], curves.auc.numpy(), atol=1e-5)


def test_shown_images_have_heatmaps_and_no_scores(results: deletion.Results) -> None:
    assert set(results.heatmaps) == set(results.settings.methods)
    assert all(maps.shape == (2, 64, 64) for maps in results.heatmaps.values())
    assert set(results.scores["data"]) == {"metal-color"}


def test_maps_that_are_not_finite_are_flagged_and_spoil_no_other_row(results: deletion.Results) -> None:
    table = rows(results, data="metal-color", metric="deletion", fill="zero", method="broken")
    flagged = table["flag"] == "nonfinite"
    assert 0 < flagged.sum() < len(table)
    assert table["value"].isna().equals(flagged)


def test_a_second_run_computes_nothing(
    results: deletion.Results, settings: deletion.Settings, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a finished cell was computed again")

    monkeypatch.setattr(heatmaps, "compute_heatmaps", refuse)
    monkeypatch.setattr(deletion, "compute_heatmaps", refuse)
    monkeypatch.setattr(deletion, "score_heatmaps", refuse)
    again = deletion.run(settings, ResultsStore(store_path))
    pd.testing.assert_frame_equal(again.scores, results.scores)


def test_another_fill_computes_no_heatmap_again(
    results: deletion.Results, settings: deletion.Settings, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heatmaps, "compute_heatmaps", None)
    other = settings.model_copy(update={"fills": ["noise"], "methods": ["random"], "options": {}})
    assert set(deletion.run(other, ResultsStore(store_path)).scores["fill"].dropna()) == {"noise", "blur"}


def test_a_method_s_scores_do_not_depend_on_the_other_methods(
    results: deletion.Results, settings: deletion.Settings, tmp_path: Path
) -> None:
    alone = settings.model_copy(update={"methods": ["grad-cam"], "options": {}, "n_heldout": 0})
    found = deletion.run(alone, ResultsStore(tmp_path)).scores
    expected = results.scores[results.scores["method"] == "grad-cam"].reset_index(drop=True)
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["gradeint"]}, "unknown method 'gradeint'"),
        ({"methods": []}, "one or more different names"),
        ({"methods": ["gradient", "gradient"]}, "one or more different names"),
        ({"options": {"gradient": {"steps": 3}}}, "options of method 'gradient'"),
        ({"options": {"rize": {}}}, "unknown method 'rize'"),
        ({"options": {"rise": {"masks": 3}}}, "options of method 'rise'"),
        ({"poolings": {"gradient": "mean"}}, "unknown pooling 'mean'"),
        ({"fills": ["black"]}, "unknown fill 'black'"),
        ({"fills": ["torchscript"]}, "fill 'torchscript' needs path"),
        ({"insertion_fill": "black"}, "unknown fill 'black'"),
        ({"memory": "lots"}, "memory budget 'lots' is no size"),
        ({"n_shown": 60, "shown_model": "efficientnet-lite0"}, "there are 6 photographs, 60 were asked for"),
        ({"counted": "metal"}, "unknown data set 'metal'"),
        ({"counted_model": "resnet9"}, "unknown model 'resnet9'"),
        ({"device": "cuda:77"}, "'cuda:77' is not available"),
        ({"on": "cluster"}, "on='cluster' is no place to compute"),
    ],
)
def test_settings_that_cannot_run_are_refused_by_name(
    registered: None, settings: deletion.Settings, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    changed = settings.model_copy(update={"options": {}, **change})
    with pytest.raises(ValueError, match=message):
        deletion.run(changed, ResultsStore(tmp_path))
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize(
    ("field", "value"), [("ties", "meen"), ("threshold", "median"), ("max_fraction", 0), ("n_image", 3)]
)
def test_a_setting_that_is_unknown_or_out_of_range_is_refused_at_once(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        deletion.Settings(**{"methods": ["gradient"], field: value})  # type: ignore[arg-type]


def test_options_of_methods_that_are_not_run_are_left_aside(settings: deletion.Settings) -> None:
    preset = settings.model_copy(update={"methods": ["gradient"], "options": {"rise": {"n_masks": 3}}})
    assert deletion.check(preset).methods == ["gradient"]


def plugin_file(path: Path, name: str, result: str) -> str:
    path.write_text(
        "from heatcheck.attribution.registry import register\n"
        f"@register('{name}', family='own')\n"
        f"def {name}(model, images, targets, **_):\n"
        f"    return {result}\n"
    )
    return str(path)


def test_methods_of_a_plug_in_are_run_with_the_others(
    registered: None, settings: deletion.Settings, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "own.py", "luma", "images.mean(1, keepdim=True)")
    changed = settings.model_copy(update={"plugins": [plugin], "methods": ["random"], "options": {}})
    assert deletion.check(changed).methods == ["random", "luma"]
    assert deletion.check(deletion.check(changed)).methods == ["random", "luma"]


def test_a_method_of_nothing_but_nan_is_flagged_in_every_table(
    registered: None, settings: deletion.Settings, tmp_path: Path
) -> None:
    plugin = plugin_file(tmp_path / "own.py", "nothing", "images * float('nan')")
    changed = settings.model_copy(
        update={"plugins": [plugin], "methods": ["random", "random-blocks"], "options": {}}
    )
    results = deletion.run(changed, ResultsStore(tmp_path / "store"))
    table = score_table(all_scores(results)).query("method == 'nothing'")
    assert (table["n"] == 0).all()
    assert (table["n_nonfinite"] == 12 - results.n_wrong).all()
    assert table["mean"].isna().all()


def test_a_plug_in_that_raises_is_named_and_finished_cells_stay(
    registered: None, settings: deletion.Settings, tmp_path: Path
) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text("raise RuntimeError('half written')\n")
    with pytest.raises(PluginError, match=r"mine\.py.*line 1.*half written"):
        deletion.run(settings.model_copy(update={"plugins": [str(plugin)]}), ResultsStore(tmp_path / "store"))


def test_a_method_that_fails_later_keeps_what_was_finished(
    registered: None, settings: deletion.Settings, tmp_path: Path
) -> None:
    plugin = tmp_path / "late.py"
    plugin.write_text(
        "from heatcheck.attribution.registry import register\n"
        "@register('late', family='own')\n"
        "def late(model, images, targets, **_):\n"
        "    '''Fails.'''\n"
        "    raise KeyError('no such layer')\n"
    )
    changed = settings.model_copy(
        update={"plugins": [str(plugin)], "methods": ["random", "late"], "options": {}, "n_heldout": 0}
    )
    with pytest.raises(RuntimeError, match=r"method 'late' failed: KeyError: 'no such layer'"):
        deletion.run(changed, ResultsStore(tmp_path / "store"))
    assert list((tmp_path / "store").glob("*.parquet"))


def test_a_model_that_does_not_know_a_photograph_s_class_is_refused(
    registered: None, settings: deletion.Settings, tmp_path: Path
) -> None:
    wrong = settings.model_copy(update={"shown_model": "resnet8-metal-color", "options": {}})
    with pytest.raises(ValueError, match="model 'resnet8-metal-color' knows no class 'espresso'"):
        deletion.run(wrong, ResultsStore(tmp_path))


def test_the_hash_of_weights_follows_every_value() -> None:
    module = get_classifier("resnet8-metal-color").module
    before = heatmaps.weights_hash(module)
    with torch.no_grad():
        next(module.parameters()).view(-1)[0] += 1e-3
    assert heatmaps.weights_hash(module) != before
