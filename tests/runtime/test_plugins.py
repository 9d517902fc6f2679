import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from heatcheck.attribution.registry import METHODS, attribute
from heatcheck.models.registry import MODELS
from heatcheck.runtime import plugins
from heatcheck.runtime.plugins import PluginError, load_entry_points, load_plugins, loaded_plugins

METHOD = '''
from heatcheck.attribution.registry import register

@register("{name}", family="own")
def brightness(model, images, targets, *, forward_args=(), generator=None, power: float = 1.0):
    """Brightness of every pixel."""
    return images.abs().mean(dim=1, keepdim=True) ** power
'''


@pytest.fixture(autouse=True)
def _registries_as_before() -> Iterator[None]:
    before = dict(METHODS), dict(MODELS), dict(plugins._LOADED), set(plugins._LOADED_POINTS), set(sys.modules)
    yield
    for registry, content in zip((METHODS, MODELS, plugins._LOADED), before[:3], strict=True):
        registry.clear()  # type: ignore[attr-defined]
        registry.update(content)  # type: ignore[attr-defined]
    plugins._LOADED_POINTS.intersection_update(before[3])
    for name in set(sys.modules) - before[4]:
        if name.startswith("heatcheck_plugin_"):
            del sys.modules[name]


def write(folder: Path, text: str, name: str = "my_method.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_ten_lines_in_a_file_are_a_method_like_any_other(tmp_path: Path) -> None:
    load_plugins([write(tmp_path, METHOD.format(name="brightness"))])
    images = torch.full((2, 3, 4, 4), -2.0)
    found = attribute("brightness", nn.Identity(), images, torch.tensor([0, 1]), power=3.0)
    assert torch.equal(found, torch.full((2, 1, 4, 4), 8.0))
    assert METHODS["brightness"].summary == "Brightness of every pixel."
    with pytest.raises(ValueError, match="powr"):
        attribute("brightness", nn.Identity(), images, torch.tensor([0, 1]), powr=3.0)


def test_a_model_factory_is_registered_the_same_way(tmp_path: Path) -> None:
    lines = [
        "from heatcheck.models.registry import register_model",
        "@register_model('mine')",
        "def make():",
        "    raise OSError",
    ]
    load_plugins([str(write(tmp_path, "\n".join(lines)))])
    assert "mine" in MODELS


def test_loading_a_file_twice_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, METHOD.format(name="brightness"))
    load_plugins([path])
    entry = METHODS["brightness"]
    monkeypatch.chdir(tmp_path)
    load_plugins([path, "my_method.py"])
    assert METHODS["brightness"] is entry
    assert path.resolve() in loaded_plugins()


def test_two_files_of_the_same_name_are_two_plugins(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    load_plugins([write(tmp_path / name, METHOD.format(name=name)) for name in ("one", "two")])
    assert {"one", "two"} <= set(METHODS)


def test_a_file_that_has_changed_is_refused_and_its_hash_is_of_what_was_loaded(tmp_path: Path) -> None:
    path = write(tmp_path, METHOD.format(name="brightness"))
    load_plugins([path])
    before = loaded_plugins()
    write(tmp_path, METHOD.format(name="brightness") + "\n# changed\n")
    with pytest.raises(PluginError, match=r"my_method\.py has changed"):
        load_plugins([path])
    assert loaded_plugins() == before


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x = 1\n\nraise OSError('no luck')\n", "line 3: OSError: no luck"),
        ("x = 1\ny = (\n", "line 2: SyntaxError"),
        ("import a_module_that_is_missing\n", "line 1: ModuleNotFoundError"),
        ("def f():\n    return 1 / 0\n\nf()\n", "line 2: ZeroDivisionError"),
    ],
)
def test_a_failing_file_is_named_with_its_line(text: str, part: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(PluginError) as caught:
        load_plugins([path])
    assert str(path) in str(caught.value)
    assert part in str(caught.value)


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    load_plugins([write(tmp_path, METHOD.format(name="brightness"))])
    with pytest.raises(PluginError, match="'brightness' is registered already"):
        load_plugins([write(tmp_path, METHOD.format(name="brightness"), "other.py")], [METHODS])


def test_a_file_that_fails_half_way_can_be_mended_and_loaded_again(tmp_path: Path) -> None:
    path = write(tmp_path, METHOD.format(name="brightness") + "\nraise ValueError('later')\n")
    with pytest.raises(PluginError, match="later"):
        load_plugins([path], [METHODS, MODELS])
    assert "brightness" not in METHODS
    write(tmp_path, METHOD.format(name="brightness"))
    load_plugins([path], [METHODS, MODELS])
    assert "brightness" in METHODS


@pytest.mark.parametrize("name", ["missing.py", "notes.txt", "."])
def test_what_is_no_python_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    with pytest.raises(PluginError, match="no Python file"):
        load_plugins([tmp_path / name])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("return images[:, :, :2]", "returned shape"),
        ("return 3", "returned int"),
        ("raise OSError('broken')", "'broken-method' failed: OSError: broken"),
    ],
)
def test_a_method_that_misbehaves_is_named_when_it_runs(text: str, part: str, tmp_path: Path) -> None:
    source = METHOD.format(name="broken-method").replace(
        "return images.abs().mean(dim=1, keepdim=True) ** power", text
    )
    load_plugins([write(tmp_path, source)])
    with pytest.raises((ValueError, RuntimeError), match=part) as caught:
        attribute("broken-method", nn.Identity(), torch.zeros(1, 3, 4, 4), torch.tensor([0]))
    assert "broken-method" in str(caught.value)


class Points:
    """Stands for the entry points of the installed packages."""

    def __init__(self, folder: Path, fails: bool) -> None:
        write(
            folder,
            "raise OSError('gone')\n" if fails else METHOD.format(name="packaged"),
            "a_package_of_methods.py",
        )

    def __call__(self, group: str) -> list[Any]:
        point = importlib.metadata.EntryPoint("packaged", "a_package_of_methods", group)
        return [point] if group == "heatcheck.methods" else []


@pytest.mark.parametrize("fails", [False, True])
def test_installed_packages_offer_methods_by_entry_point(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", Points(tmp_path, fails))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "a_package_of_methods", raising=False)
    if fails:
        with pytest.raises(
            PluginError, match=r"entry point 'packaged' \(a_package_of_methods\).*OSError: gone"
        ):
            load_entry_points([METHODS])
        return
    load_entry_points([METHODS])
    load_entry_points([METHODS])
    assert "packaged" in METHODS
    sys.modules.pop("a_package_of_methods")


def test_keys_name_plug_ins_only_where_one_of_them_has_computed(tmp_path: Path) -> None:
    path = write(tmp_path, METHOD.format(name="brightness"))
    load_plugins([path], (METHODS, MODELS))
    own, built_in = METHODS["brightness"], METHODS["gradient"]
    assert plugins.plugins_behind(built_in, None) == []
    assert plugins.plugins_behind(built_in, own) == plugins.plugins_in_force() != []
    assert plugins.added_by(path) == [own]


def test_a_plug_in_is_known_by_what_it_registers_wherever_the_function_comes_from(tmp_path: Path) -> None:
    text = (
        "from heatcheck.attribution.registry import METHODS, register\n"
        "register('borrowed', family='own')(METHODS['gradient'].function)\n"
    )
    path = write(tmp_path, text)
    load_plugins([path], (METHODS, MODELS))
    assert METHODS["borrowed"].function is METHODS["gradient"].function
    assert plugins.plugins_behind(METHODS["borrowed"]) == plugins.plugins_in_force()
    assert plugins.plugins_behind(METHODS["gradient"]) == []


def test_a_package_with_entry_points_counts_as_a_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def register_one() -> None:
        METHODS["of-a-package"] = METHODS["gradient"].__class__(**vars(METHODS["gradient"]))

    point = SimpleNamespace(name="own", value="own:method", load=register_one)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    monkeypatch.setattr(plugins, "entry_point_packages", lambda: ["own==1.0"])
    load_entry_points((METHODS, MODELS))
    assert plugins.plugins_behind(METHODS["of-a-package"]) == plugins.plugins_in_force()
    assert plugins.plugins_behind(METHODS["gradient"]) == []
