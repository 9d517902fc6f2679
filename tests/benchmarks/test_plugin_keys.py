"""Every cell names the plug-ins of the entry that computes it, and no others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import METHODS
from heatcheck.benchmarks import clevr_xai, clevr_xai_shards, deletion, roar
from heatcheck.benchmarks.deletion_scores import Choices
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest, heatmap_cells, prepare
from heatcheck.benchmarks.idsds_maps import Conditions, Steps, incremental_tasks
from heatcheck.benchmarks.patch_table import TableKey, table_cell
from heatcheck.benchmarks.roar_conditions import Condition
from heatcheck.benchmarks.roar_maps import map_code
from heatcheck.benchmarks.roar_networks import network_cell
from heatcheck.benchmarks.roar_training import condition_cell
from heatcheck.data.batch import LabelledImages
from heatcheck.models.catalog import get_classifier
from heatcheck.models.networks import NETWORKS
from heatcheck.models.registry import MODELS
from heatcheck.removal.fills import FILLS
from heatcheck.runtime import plugins
from heatcheck.runtime.store import cell_key

MODEL = "small/resnet8"
PLUG_IN = ["hash of a file"]
Cell = dict[str, Any]


@pytest.fixture(scope="module")
def explained() -> Explained:
    load_catalog()
    images = torch.rand((2, 3, 64, 64), generator=torch.Generator().manual_seed(0))
    data = LabelledImages("two", ("a", "b"), images, torch.tensor([0, 1]))
    return prepare(data, get_classifier(MODEL), torch.device("cpu"))


def from_plug_in(monkeypatch: pytest.MonkeyPatch, entry: object) -> None:
    """Count ``entry`` as registered by a plug-in from now on."""
    monkeypatch.setattr(plugins, "_ADDED", {"own.py": [entry]})
    monkeypatch.setattr(plugins, "_LOADED", {Path("own.py"): PLUG_IN[0]})
    monkeypatch.setattr(plugins, "entry_point_packages", list)


def heatmaps(explained: Explained, name: str = "gradient", **options: object) -> Cell:
    return heatmap_cells(explained, MethodRequest(name, options), seed=0)[0]


def smoothing(explained: Explained) -> Cell:
    return heatmaps(explained, "smoothgrad", base="gradient")


def occlusion(explained: Explained) -> Cell:
    return heatmaps(explained, "sliding-patch", fill="blur")


def patches(explained: Explained) -> Cell:
    return table_cell(explained, TableKey(4, "zero"), 0)


def steps(explained: Explained) -> Cell:
    request, way = MethodRequest("gradient", {}), Steps(4, "ascending", "zero", False)
    return dict(incremental_tasks(explained, request, way, Conditions(("raw",), 0, None))[0].cell)


def deletions(explained: Explained) -> Cell:
    choices = Choices(
        "sum", ("zero",), "blur", "stable", None, "uniform", 1.0, 0, (0.1,), "max", "tight", "best"
    )
    job = deletion.Job(explained, MethodRequest("gradient", {}), choices, False, None)
    return dict(deletion._task(job, deletion.Settings(methods=["gradient"])).cell)


def retraining(**own: object) -> roar.Settings:
    usual = {"estimators": ["random", "gradient"], "data": "digits", "n_train": 20, "n_test": 10}
    return roar.Settings(**{**usual, **own})  # type: ignore[arg-type]


def network(_: Explained) -> Cell:
    return network_cell(retraining(), 0)


def condition(_: Explained) -> Cell:
    return condition_cell(retraining(), {}, Condition("intact", "roar", 0, "mean", "scratch", 0, 0))


CASES: list[tuple[str, Callable[[Explained], Cell], Callable[[], object], str]] = [
    ("heatmaps, method", heatmaps, lambda: METHODS["gradient"], "plugins"),
    ("heatmaps, model", heatmaps, lambda: MODELS[MODEL], "plugins"),
    ("smoothing, base", smoothing, lambda: METHODS["gradient"], "plugins"),
    ("occlusion, fill", occlusion, lambda: FILLS["blur"], "plugins"),
    ("deletion, fill", deletions, lambda: FILLS["zero"], "plugins"),
    ("insertion, fill", deletions, lambda: FILLS["blur"], "plugins"),
    ("patches, fill", patches, lambda: FILLS["zero"], "plugins"),
    ("patches, model", patches, lambda: MODELS[MODEL], "plugins"),
    ("steps, fill", steps, lambda: FILLS["zero"], "fill plugins"),
    ("steps, method", steps, lambda: METHODS["gradient"], "plugins"),
    ("explained network", network, lambda: NETWORKS["resnet8-digits"], "plugins"),
    ("retrained network", condition, lambda: NETWORKS["resnet8-digits"], "plugins"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "entry", "field"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_cell_names_the_plug_in_that_computes_it(
    monkeypatch: pytest.MonkeyPatch,
    explained: Explained,
    make: Callable[[Explained], Cell],
    entry: Callable[[], object],
    field: str,
) -> None:
    plain = make(explained)
    assert plain[field] == []
    from_plug_in(monkeypatch, object())
    assert cell_key(make(explained)) == cell_key(plain)
    from_plug_in(monkeypatch, entry())
    assert make(explained)[field] == PLUG_IN
    assert cell_key(make(explained)) != cell_key(plain)


@pytest.mark.parametrize(
    ("name", "options", "entry"),
    [
        ("gradient", {}, lambda: METHODS["gradient"]),
        ("smoothgrad", {"base": "gradient"}, lambda: METHODS["gradient"]),
        ("sliding-patch", {"fill": "blur"}, lambda: FILLS["blur"]),
    ],
)
def test_ranks_name_the_plug_in_of_a_method_and_of_what_its_options_name(
    monkeypatch: pytest.MonkeyPatch, name: str, options: Cell, entry: Callable[[], object]
) -> None:
    load_catalog()
    settings = retraining(estimators=["random", name], options={name: options})
    assert "plugins" not in map_code(settings, name)
    from_plug_in(monkeypatch, entry())
    assert map_code(settings, name)["plugins"] == PLUG_IN
    assert "plugins" not in map_code(settings, "grad")


class Noting:
    """A store that notes what is asked of it and has everything."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []

    def get(self, cell: Cell) -> pd.DataFrame:
        self.cells.append(cell)
        return pd.DataFrame({"question": ["one"]})


def test_answers_to_questions_name_the_plug_in_of_their_model(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = clevr_xai.Settings(methods=["gradient"], n_simple=1, n_complex=0, n_asked=1)
    context = clevr_xai._context(settings, "simple")
    store: Any = Noting()
    here = clevr_xai_shards.Run(settings, {"simple": context}, store)
    clevr_xai_shards.ask("simple", here)
    from_plug_in(monkeypatch, MODELS["relation-network"])
    clevr_xai_shards.ask("simple", here)
    first, second = store.cells
    assert (first["plugins"], second["plugins"]) == ([], PLUG_IN)
    assert {**first, "plugins": PLUG_IN} == second
