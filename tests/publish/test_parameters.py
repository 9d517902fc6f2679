"""The parameters cell is parsed strictly; names and layers are checked."""

from pathlib import Path

import pytest

from heatcheck.publish.parameters import parse_parameters, read_assignments, resolve
from heatcheck.publish.presets import load_presets, preset_row

CELL = """\
preset: str = "quick"  # name of the row in nbs/presets.toml
n_images: int = 200  # rendered images that are explained
methods: list[str] = ["gradient", "integrated-gradients"]  # attribution methods, see `heatcheck methods`
weights: str | None = None  # file of weights
offset: float = -1e-3  # shift
"""


def test_name_type_default_and_meaning_are_read_in_order() -> None:
    declared = parse_parameters(CELL)
    assert list(declared) == ["preset", "n_images", "methods", "weights", "offset"]
    assert (declared["n_images"].type, declared["n_images"].default) == ("int", 200)
    assert declared["methods"].meaning == "attribution methods, see `heatcheck methods`"
    assert (declared["weights"].type, declared["weights"].default) == ("str | None", None)
    assert declared["offset"].default == -0.001


def test_a_line_broken_by_a_formatter_is_the_same_line() -> None:
    broken = 'methods: list[str] = [  # attribution methods\n    "gradient",\n    "rise",\n]\n'
    assert parse_parameters(broken)["methods"].default == ["gradient", "rise"]
    assert parse_parameters(broken)["methods"].meaning == "attribution methods"


BAD_CELLS = [
    ("n = 3  # count", "name: type = default"),
    ("n: int  # count", "name: type = default"),
    ("import os", "name: type = default"),
    ("x.n: int = 3  # count", "name: type = default"),
    ("n: int = 3", "has no meaning"),
    ("n: int = 3  #", "has no meaning"),
    ("n: int = 'three'  # count", "'three' is text, wanted int"),
    ("n: int = 3.0  # count", "wanted int"),
    ("n: int = None  # count", "None, wanted int"),
    ("n: list[int] = (1, 2)  # counts", "tuple"),
    ("n: tuple[int, ...] = (1, 2)  # counts", "allowed: int, float"),
    ("n: int = len('a')  # count", "no literal"),
    ("x: float = float('nan')  # rate", "no literal"),
    ("x: float = 1e999  # rate", "not finite"),
    ("n: int = 1  # a\nn: int = 2  # b", "line 2: 'n' is declared twice"),
    ("preset: int = 1  # row", "must be str"),
    ("n: int = (  # count", "line 1"),
]


@pytest.mark.parametrize(("cell", "says"), BAD_CELLS)
def test_a_line_of_another_form_is_refused(cell: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_parameters(cell)


def test_later_layers_win_and_the_rest_keeps_its_default() -> None:
    values = resolve(
        parse_parameters(CELL), ("presets", {"n_images": 8, "offset": 1}), ("-p", {"n_images": 2})
    )
    assert values["n_images"] == 2
    assert values["offset"] == 1.0
    assert values["methods"] == ["gradient", "integrated-gradients"]


BAD_ASSIGNMENTS = [
    (["nimages=8"], "unknown parameter 'nimages'; did you mean 'n_images'"),
    (["N_IMAGES=8"], "unknown parameter 'N_IMAGES'"),
    (["zzz=8"], r"declared: n_images, methods, weights, offset\)"),
    (["n_images"], "write -p name=value"),
    (["=8"], "write -p name=value"),
    (["n_images=8", "n_images=9"], "given twice"),
    (["n_images=8.5"], r"'n_images' \(rendered images that are explained\): 8.5 is float, wanted int"),
    (["preset=paper"], "choose it with --preset"),
    (["out=/tmp"], "choose it with --into"),
    (["store=/tmp"], "choose it with --store"),
]


@pytest.mark.parametrize(("assignments", "says"), BAD_ASSIGNMENTS)
def test_a_bad_assignment_is_refused_by_name(assignments: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_assignments(parse_parameters(CELL), assignments)


def test_spaces_around_an_assignment_do_not_matter() -> None:
    assert read_assignments(parse_parameters(CELL), ["n_images = 8"]) == {"n_images": 8}


def test_a_misspelt_name_in_a_preset_names_the_row() -> None:
    with pytest.raises(ValueError, match=r"\[smoke.tiny\]: unknown parameter 'n_image'"):
        resolve(parse_parameters(CELL), ("nbs/presets.toml [smoke.tiny]", {"n_image": 8}))


def _presets(folder: Path, content: str) -> Path:
    (folder / "nbs").mkdir()
    (folder / "nbs" / "presets.toml").write_text(content)
    return folder


def test_a_preset_is_a_row_and_quick_needs_none(tmp_path: Path) -> None:
    presets = load_presets(_presets(tmp_path, "[smoke.deletion]\nn = 8\n"))
    assert preset_row(presets, "smoke", "deletion") == {"n": 8}
    assert preset_row(presets, "smoke", "roar") == {}
    assert preset_row(presets, "quick", "deletion") == {}
    with pytest.raises(ValueError, match=r"unknown preset 'papr'; nbs/presets.toml has: smoke, quick"):
        preset_row(presets, "papr", "deletion")


@pytest.mark.parametrize("content", ["smoke = 3", "[smoke]\nn = 3", "[smoke.deletion\n", "n = nan2"])
def test_presets_of_another_form_are_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match=r"presets\.toml"):
        load_presets(_presets(tmp_path, content))


def test_missing_presets_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"presets.toml is missing"):
        load_presets(tmp_path)
