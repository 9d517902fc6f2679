"""Directions of metrics, quoted counts, words of tables, and what keys say of plug-ins."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import METHODS
from heatcheck.benchmarks import (
    comparison,
    comparison_conflicts,
    comparison_decisions,
    comparison_published,
    comparison_summary,
    comparison_tables,
    comparison_text,
    deletion_tables,
)
from heatcheck.benchmarks.comparison_columns import METRICS, Column
from heatcheck.benchmarks.comparison_scores import _DELETION, _SINGLE
from heatcheck.benchmarks.heatmaps import MethodRequest, heatmap_cells, prepare
from heatcheck.benchmarks.patch_table import TableKey, table_cell
from heatcheck.data.batch import LabelledImages
from heatcheck.metrics.chance import kendall_band
from heatcheck.models.registry import MODELS, Classifier, Normalization
from heatcheck.removal.registry import FILLS
from heatcheck.runtime import plugins
from heatcheck.runtime.plugins import load_plugins, plugins_in_force

NAN = float("nan")
NAMES = ("gradient", "rise", "lrp", "grad-cam", "smoothgrad", "vargrad")
UP = dict(zip(NAMES, (1.0, 2, 3, 4, 5, 6), strict=True))
DOWN = dict(zip(NAMES, (6.0, 5, 4, 3, 2, 1), strict=True))
MIXED = dict(zip(NAMES, (4.0, 6, 2, 1, 5, 3), strict=True))
PLUGIN = """
from heatcheck.attribution.registry import register
from heatcheck.models.registry import register_model
from heatcheck.removal.registry import register_fill

@register("own-map", family="own")
def own_map(model, images, targets, **_):
    return images

@register_model("own-model")
def own_model():
    raise NotImplementedError

@register_fill("own-fill", uses_mask=False)
def own_fill(images, keep_mask):
    return images * 0
"""


def quoted(columns: list[Column]) -> dict[str, Any]:
    results = comparison.Results(
        comparison.Settings(methods=list(columns[0].methods)), tuple(columns), (), {}, pd.DataFrame(), None
    )
    return comparison_summary.quotable(
        results,
        comparison_tables.agreement_table(columns),
        comparison_tables.concordance_table(columns),
        comparison_conflicts.benchmark_contradictions(columns),
    )


def test_better_is_where_each_chapter_says_it_is() -> None:
    for key, name in _DELETION.items():
        assert METRICS[key].better == deletion_tables.BETTER[name]
    # The least relevant pixels go first, so that confidence should stay.
    assert _SINGLE["ids"] == "IDS ascending"
    # Accuracies on the object, rank correlations, and areas that are positive where a method beats random.
    upward = {"mass", "rank", "idsds", "sds", "ids", "roar", "kar"}
    assert {key for key, metric in METRICS.items() if metric.better == "higher"} - {"insertion"} == upward


def test_pairs_of_metrics_are_counted_on_the_side_of_chance_on_which_they_lie(make_column: Any) -> None:
    goodness = {"mass": UP, "rank": UP, "deletion": UP, "idsds": DOWN, "roar": MIXED}
    found = quoted([make_column(key, values) for key, values in goodness.items()])
    assert kendall_band(len(NAMES))[1] < 1
    # Mass and rank with deletion; each of the three with IDSDS; ROAR with all.
    assert (found["n_agreeing"], found["n_opposed"], found["n_like_random"]) == (2, 3, 4)


def test_places_that_prose_quotes_are_those_of_the_table(make_column: Any) -> None:
    second = UP | {"vargrad": 1.5, "smoothgrad": 9.0}
    columns = [make_column("mass", UP), make_column("deletion", UP), make_column("roar", second, runs=3)]
    found = quoted(columns)
    assert (found["best"], found["best_rank"], found["best_worst_rank"]) == ("smoothgrad", 5 / 3, 2)
    assert (found["widest"], found["widest_best"], found["widest_worst"]) == ("vargrad", 1, 5)
    assert (found["n_always_top"], found["n_runs"]) == (0, 3)
    assert quoted([make_column("mass", UP), make_column("deletion", UP)])["n_always_top"] == 1


def test_a_method_that_no_metric_scores_has_no_place_in_the_prose(make_column: Any) -> None:
    columns = [make_column(key, UP | {"rise": NAN}) for key in ("mass", "deletion")]
    found = quoted(columns)
    assert found["widest"] != "rise"
    assert np.isfinite([found[name] for name in ("best_rank", "widest_best", "widest_worst")]).all()


def test_random_concordance_is_not_the_concordance(make_column: Any) -> None:
    table = comparison_tables.concordance_table([make_column("mass", UP), make_column("roar", MIXED)])
    text = comparison_text.concordance_text(table)
    assert text["random up to"].tolist() == [f"{value:.2f}" for value in table["chance"]]
    assert (table["chance"] - table["w"]).abs().min() > 0.01


def test_what_is_not_known_is_a_dash_on_the_page(make_column: Any) -> None:
    columns = [make_column("mass", {"rise": 1.0, "lrp": NAN}), make_column("roar", {"rise": NAN, "lrp": NAN})]
    dash = "\N{EN DASH}"
    pair = comparison_text.agreement_text(comparison_tables.agreement_table(columns)).iloc[0]
    assert pair.tolist() == ["mass and ROAR", dash, dash, dash, 0]
    assert comparison_text.glance_text(columns)["mean rank"].tolist() == ["1.0", dash]


def test_the_nearest_metric_is_quoted_with_its_own_support() -> None:
    clusters = pd.DataFrame(
        {
            "label": ["mass", "ROAR"],
            "benchmark": ["clevr_xai", "roar"],
            "cluster": [1, 2],
            "nearest_label": ["ROAR", "mass"],
            "tau": [0.5, -0.25],
            "support": [0.75, 0.5],
            "cluster_support": [0.1, NAN],
        }
    )
    assert comparison_text.cluster_text(clusters).to_dict("records")[1] == {
        "metric": "ROAR",
        "benchmark": "Remove and retrain",
        "group": 2,
        "most like": "mass",
        "tau": "-0.25",
        "in resamples": "50%",
    }


def test_kinds_of_agreement_are_averaged_and_what_was_not_compared_is_a_dash() -> None:
    table = pd.DataFrame(
        {
            "label": ["mass", "mass", "ROAR"],
            "kind": ["other images", "other images", "other benchmark"],
            "kendall": [0.5, 0.9, -0.2],
        }
    )
    text = comparison_text.stability_text(table)
    assert list(text.columns) == ["metric", "other images", "other benchmark"]
    dash = "\N{EN DASH}"
    assert text.to_numpy().tolist() == [["mass", "+0.70", dash], ["ROAR", dash, "-0.20"]]


def test_evidence_has_the_scores_of_the_metric_in_its_own_direction(make_column: Any) -> None:
    # Goodness -0.2 is a deletion score of 0.2.
    column = make_column("deletion", {"gradient": -0.2, "rise": -0.4, "random": -0.6}, noise=0.001)
    row = comparison_decisions.decision_table([column], pd.DataFrame()).iloc[0]
    assert row["answer"] == "gradient"
    assert row["evidence"].startswith("deletion 0.200 [0.")
    assert "best control: random, 0.600 [0." in row["evidence"]


def test_a_shaky_best_method_does_not_hide_one_that_beats_the_control(make_column: Any) -> None:
    column = make_column("mass", {"gradient": 1.0, "rise": 0.9, "random": 0.0}, noise=0.01)
    column.values[0, :, 0] += np.where(np.arange(24) % 2, 20.0, -20.0)
    answer = comparison_decisions.decision_table([column], pd.DataFrame())["answer"].iloc[0]
    assert answer == "gradient; not told apart from it: rise; surely better than random: rise"


def test_the_metric_that_smoothness_explains_least_may_be_opposed_to_none(make_column: Any) -> None:
    columns = [make_column(key, values) for key, values in (("mass", DOWN), ("idsds", MIXED), ("roar", UP))]
    rows = [(name, image, -value, 0.5, 0.25) for name, value in UP.items() for image in ("a", "b")]
    maps = pd.DataFrame(rows, columns=["method", "image", "roughness", "concentration", "centrality"])
    table = comparison_decisions.decision_table(columns, maps).set_index("question")
    row = table.loc["Which metric is explained least by how smooth heatmaps are?"]
    assert row["answer"] == "IDSDS"
    assert row["evidence"].endswith("beyond chance: mass, ROAR")


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[None]:
    """A loaded file with a method, a model and a fill."""
    load_catalog()
    registries: list[dict[Any, Any]] = [METHODS, MODELS, FILLS, plugins._LOADED, plugins._SOURCES]
    before = [dict(registry) for registry in registries]
    path = tmp_path / "own.py"
    path.write_text(PLUGIN, encoding="utf-8")
    load_plugins([path], registries[:3])
    yield
    for registry, content in zip(registries, before, strict=True):
        registry.clear()
        registry.update(content)


def classifier(name: str) -> Classifier:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 2)).eval()
    return Classifier(name, module, 8, Normalization((0.1,) * 3, (0.5,) * 3), ("x", "y"))


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("method", "options", "model", "named"),
    [
        ("gradient", {}, "small", False),
        ("sliding-patch", {"fill": "blur"}, "small", False),
        ("own-map", {}, "small", True),
        ("gradient", {}, "own-model", True),
        ("sliding-patch", {"fill": "own-fill"}, "small", True),
    ],
)
def test_keys_of_heatmaps_name_plug_ins_where_one_has_a_part_in_them(
    method: str, options: dict[str, Any], model: str, named: bool
) -> None:
    images = torch.rand((2, 3, 8, 8), generator=torch.Generator().manual_seed(0))
    data = LabelledImages("images", ("a", "b"), images, torch.tensor([0, 1]))
    explained = prepare(data, classifier(model), torch.device("cpu"))
    (cell,) = heatmap_cells(explained, MethodRequest(method, options), seed=0)
    assert plugins_in_force()
    assert cell["plugins"] == (plugins_in_force() if named else [])


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("fill", "model", "named"),
    [("zero", "small", False), ("own-fill", "small", True), ("zero", "own-model", True)],
)
def test_keys_of_answers_name_plug_ins_where_fill_or_model_is_from_one(
    fill: str, model: str, named: bool
) -> None:
    images = torch.rand((2, 3, 8, 8), generator=torch.Generator().manual_seed(0))
    data = LabelledImages("images", ("a", "b"), images, torch.tensor([0, 1]))
    explained = prepare(data, classifier(model), torch.device("cpu"))
    cell = table_cell(explained, TableKey(4, fill), 0)
    assert cell["plugins"] == (plugins_in_force() if named else [])


def test_resamples_are_drawn_once_for_all_who_ask_and_cannot_be_changed(make_column: Any) -> None:
    column = make_column("mass", {"first": 1.0, "second": 2.0}, noise=1.0)
    draws = column.draws(seed=3)
    assert column.draws(seed=3) is draws
    assert not np.array_equal(column.draws(seed=4), draws)
    assert len(column.draws(n_resamples=7, seed=3)) == 7
    with pytest.raises(ValueError, match="read-only"):
        draws[0] = 0


def test_a_pair_of_published_tables_is_outside_chance_only_by_every_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [("a", "b", 0.9), ("a", "b", 0.1), ("a", "c", 0.9), ("a", "c", -0.9)]
    real = comparison_published.published_pairs()
    template = real[~real["same_benchmark"] & real["kendall"].notna()].iloc[0]
    invented = [
        template.to_dict() | {"first": first, "second": second, "kendall": tau, "chance_high": 0.5}
        for first, second, tau in rows
    ]
    pairs = pd.concat([pd.DataFrame(invented), real[real["same_benchmark"]]], ignore_index=True)
    monkeypatch.setattr(comparison_published, "published_pairs", lambda: pairs)
    numbers = comparison_published.published_numbers()
    assert (numbers["n_between"], numbers["n_outside"]) == (2, 1)
