"""What code made a result."""

from pathlib import Path

import pytest

from heatcheck.runtime import fingerprint


def test_the_closure_follows_imports_and_names_parents() -> None:
    closure = fingerprint.import_closure("heatcheck.runtime.grid")
    assert "heatcheck.runtime.progress" in closure
    assert "heatcheck.runtime" in closure
    assert "heatcheck.runtime.seeds" not in closure


def test_only_code_changes_the_essence(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.py" for name in "abc")
    first.write_text('"""One."""\ndef f():\n    """Doc."""\n    return 1\n')
    second.write_text('"""Two."""\n# a comment\ndef f():\n    return 1\n')
    third.write_text("def f():\n    return 2\n")
    assert fingerprint._essence(first) == fingerprint._essence(second) != fingerprint._essence(third)


def test_imports_inside_functions_count() -> None:
    source = "def f():\n    from heatcheck.runtime import seeds\n"
    assert "heatcheck.runtime.seeds" in fingerprint.imported_modules(source)


def test_an_unknown_module_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        fingerprint.import_closure("heatcheck.nowhere")


def test_versions_of_all_libraries_are_known() -> None:
    assert set(fingerprint.library_versions()) == set(fingerprint.LIBRARIES)
