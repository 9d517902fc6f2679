"""The chapter's presets are settings that can run."""

from pathlib import Path

import pytest

from heatcheck.benchmarks import idsds, idsds_methods
from heatcheck.publish.notebook import read_chapter
from heatcheck.publish.parameters import resolve
from heatcheck.publish.presets import load_presets, preset_row


@pytest.mark.parametrize("preset", ["smoke", "quick", "paper"])
def test_a_preset_can_run(preset: str) -> None:
    root = Path(__file__).resolve().parents[3]
    declared = read_chapter(root / "nbs" / "idsds.py").parameters
    row = preset_row(load_presets(root), preset, "idsds")
    values = resolve(declared, ("preset", row))
    known = idsds.Settings.model_fields
    settings = idsds.Settings(**{name: value for name, value in values.items() if name in known})
    checked = idsds.check(settings)
    assert checked.extra_models == [settings.models[0]]
    assert {name for models in values["factors"].values() for name in models} <= set(settings.models)
    named = [*values["shown_methods"], *values["softmax_methods"], *values["other_methods"]]
    for name in named:
        idsds_methods.method_request(name, "corrected", settings.options.get(name))
