"""Chapters become notebooks with their parameters, tidy and strict."""

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from heatcheck.publish.errors import PublishError
from heatcheck.publish.notebook import (
    INJECTED,
    read_chapter,
    read_facts,
    stored_errors,
    tidy,
    with_parameters,
    write_notebook,
)

Write = Callable[..., Path]
VALUES = {"preset": "smoke", "n_images": 8, "methods": ["a'b"], "rate": 0.1, "weights": None}


def test_all_values_are_set_in_one_folded_cell_after_the_declarations(write: Write) -> None:
    node = with_parameters(read_chapter(write("print(n_images)")), VALUES)
    assert [cell.id for cell in node.cells] == ["cell-001", "cell-002", INJECTED, "cell-003"]
    cell = node.cells[2]
    assert "hide-input" in cell.metadata.tags
    assert cell.metadata.mystnb.code_prompt_show == "Parameters of this build (preset: smoke)"
    found: dict[str, object] = {}
    exec(cell.source, found)
    assert {name: found[name] for name in VALUES} == VALUES


def test_the_chapter_itself_is_not_changed(write: Write) -> None:
    chapter = read_chapter(write("1"))
    with_parameters(chapter, VALUES)
    assert len(chapter.node.cells) == 3


def test_nothing_that_differs_between_runs_stays(write: Write, tmp_path: Path) -> None:
    paths = []
    for time in ("2020", "2021"):
        node = with_parameters(read_chapter(write("1")), VALUES)
        node.metadata["papermill"] = {"start_time": time}
        for cell in node.cells:
            cell.metadata["papermill"] = {"start_time": time}
            cell.metadata["execution"] = {"iopub.execute_input": time}
        paths.append(tmp_path / f"{time}.ipynb")
        write_notebook(tidy(node, {"key": "abc"}), paths[-1])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert read_facts(paths[0]) == {"key": "abc"}
    nbformat.validate(nbformat.read(paths[0], as_version=4))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_output_that_is_no_json_is_refused_with_its_cell(tmp_path: Path, number: float) -> None:
    output = nbformat.v4.new_output("display_data", data={"application/json": {"score": number}})
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", id="cell-001", outputs=[output])])
    with pytest.raises(PublishError, match=r"cell-001.*NaN"):
        write_notebook(node, tmp_path / "x.ipynb")
    assert not (tmp_path / "x.ipynb").exists()


def test_a_stored_exception_is_found(tmp_path: Path) -> None:
    output = nbformat.v4.new_output("error", ename="ValueError", evalue="bad", traceback=[])
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", id="cell-001", outputs=[output])])
    write_notebook(node, tmp_path / "x.ipynb")
    assert stored_errors(tmp_path / "x.ipynb") == ["x.ipynb, cell-001: ValueError: bad"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"metadata": {}}', '{"metadata": {"heatcheck": 3}}'])
def test_a_notebook_of_unknown_origin_has_no_facts(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.ipynb").write_text(content)
    assert read_facts(tmp_path / "x.ipynb") == {}


def test_a_chapter_without_parameters_or_with_bad_python_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("# %%\n1\n")
    with pytest.raises(ValueError, match='0 cells tagged "parameters"'):
        read_chapter(path)
    path.write_text("# %%\n1 +\n")
    with pytest.raises(ValueError, match=r"nbs/x.py:2: invalid syntax"):
        read_chapter(path)


def test_prose_in_raw_strings_keeps_its_backslashes(write: Write, tmp_path: Path) -> None:
    write_notebook(tidy(read_chapter(write("1")).node, {}), tmp_path / "x.ipynb")
    cells = json.loads((tmp_path / "x.ipynb").read_text())["cells"]
    assert cells[0]["cell_type"] == "markdown"
    assert "$\\alpha$" in "".join(cells[0]["source"])
