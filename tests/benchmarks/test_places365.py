"""Places365 from a tiny archive, laid out as the real one, through the whole chapter: no boxes, no masks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from heatcheck.benchmarks import (
    deletion,
    deletion_boxes,
    deletion_findings,
    deletion_pairs,
    deletion_summary,
    deletion_tables,
    plausibility,
    robustness,
    robustness_tables,
)
from heatcheck.benchmarks.sources import predict
from heatcheck.data.places365 import CATEGORIES, LABELS, read_places365
from heatcheck.models.catalog import get_classifier
from heatcheck.models.registry import MODELS, Classifier, Normalization, register_model
from heatcheck.runtime.store import ResultsStore

N_CLASSES = 365
METHODS = ["gradient", "sliding-patch", "sliding-patch-g", "random"]


def toy_places() -> Classifier:
    """As many classes as Places365, and next to no computation."""
    module = nn.Sequential(nn.Conv2d(3, 6, 8, stride=8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    module.append(nn.Linear(24, N_CLASSES))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) / 4)
    return Classifier("toy-places", module.eval(), 64, Normalization((0.5,) * 3, (0.5,) * 3), ("x",) * 365)


def write_labels(root: Path, names: list[str], labels: list[int]) -> None:
    lines = [f"{name} {label}" for name, label in zip(names, labels, strict=True)]
    (root / LABELS).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def archive(registered: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Nine photographs, of which the network gets all right but the last."""
    models, root = dict(MODELS), tmp_path_factory.mktemp("places")
    register_model("toy-places")(toy_places)
    categories = [f"/{chr(97 + number % 26)}/scene_{number} {number}" for number in range(N_CLASSES)]
    (root / CATEGORIES).write_text("\n".join(categories) + "\n", encoding="utf-8")
    (root / "val_256").mkdir()
    names = [f"Places365_val_{number:08d}.jpg" for number in range(1, 10)]
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (4, 4, 3), dtype=np.uint8)
        picture = Image.fromarray(pixels).resize((80, 70), Image.Resampling.BICUBIC)
        picture.save(root / "val_256" / name)
    write_labels(root, names, [0] * 9)
    model = get_classifier("toy-places")
    images = read_places365(root).load(range(9), model.preprocessing, model.size).images
    found = predict(model, images, torch.device("cpu")).tolist()
    write_labels(root, names, [*found[:-1], (found[-1] + 1) % N_CLASSES])
    yield root
    MODELS.clear()
    MODELS.update(models)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def places(
    archive: Path, settings: deletion.Settings, path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[deletion.Results]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATCHECK_PLACES365", str(archive))
        patch.setenv("HEATCHECK_CACHE", str(tmp_path_factory.mktemp("cache")))
        changed = settings.model_copy(
            update={
                "counted": "places365",
                "counted_model": "toy-places",
                "methods": METHODS,
                "options": {name: {"patch": 16, "stride": 16} for name in METHODS[1:3]},
                "n_images": 5,
                "n_heldout": 3,
            }
        )
        yield deletion.run(changed, ResultsStore(path))


def test_images_are_drawn_from_those_the_network_gets_right(places: deletion.Results) -> None:
    assert len(places.counted.data) == 5
    assert places.held is not None
    assert len(places.held.data) == 3
    assert not set(places.counted.data.ids) & set(places.held.data.ids)
    assert "Places365_val_00000009" not in {*places.counted.data.ids, *places.held.data.ids}
    assert places.n_wrong == 1
    assert places.counted.data.boxes is None


def test_scores_that_need_no_boxes_are_there_for_every_method(places: deletion.Results) -> None:
    scores = deletion_tables.all_scores(places)
    metrics = {score.metric.partition("/")[0] for score in scores}
    assert metrics == {"deletion", "insertion", "saliency-metric"}
    for score in scores:
        assert score.values.shape == (5, len(METHODS))
        assert score.values.notna().all().all()
    # The saliency metric needs no box, so its threshold is still chosen on the held-out images.
    saliency = deletion_tables.find_score(scores, "places365", "saliency-metric")
    assert set(saliency.settings) == set(METHODS)


def test_what_needs_boxes_says_so_and_nothing_fails(places: deletion.Results, path: Path) -> None:
    scores = deletion_tables.all_scores(places)
    assert deletion_tables.alpha_table(places).empty
    rules = deletion_boxes.rule_table(places, ResultsStore(path))
    assert rules.empty
    assert "not measured" in deletion_boxes.wide_rules(rules)["method"][0]
    assert "not measured" in deletion_summary.quotable(places, scores)["best"]["localization error"]
    assert set(deletion_tables.chosen_alphas(places, "places365").values()) == {deletion.DEFAULT_ALPHA}
    keys = {finding.key for finding in deletion_findings.deletion_findings(scores, "places365")}
    assert not [key for key in keys if "localiz" in key]
    variants = {finding.key for finding in deletion_pairs.variant_findings(scores, "places365")}
    assert variants == {"variant_sliding_patch_deletion", "variant_sliding_patch_saliency_metric"}
    table = plausibility.plausibility_table(places.counted, ["zero"])
    assert (table["n"] == 5).all()


def test_robustness_is_measured_without_the_overlap_with_boxes(
    places: deletion.Results, archive: Path, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEATCHECK_PLACES365", str(archive))
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path))
    values: dict[str, list[Any]] = {"patch-size": [56, 70]}
    plan = robustness.Plan(
        sweeps=["patch-size"], n_images=3, values=values, options={"sliding-patch": {"stride": 16}}
    )
    robust = robustness.run_robustness(places.settings, plan, ResultsStore(path))
    assert set(robust.similarities["image"]) == set(places.counted.data.ids[:3])
    assert set(robust.accuracy["metric"]) == {"deletion"}
    assert robustness_tables.robustness_table(robust)["base_mean"].notna().all()
    assert set(robustness_tables.spread_table(robust)["metric"]) == {"deletion"}
    assert len(robustness_tables.robustness_findings(robust)) == 1
