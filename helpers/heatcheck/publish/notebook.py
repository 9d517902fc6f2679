"""Chapters as notebooks: read from Python, given their parameters, tidied and written."""

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jupytext
import nbformat
from nbformat import NotebookNode

from heatcheck.figures.results import write_file
from heatcheck.publish.errors import PublishError
from heatcheck.publish.parameters import Parameter, parse_parameters

INJECTED = "parameters-of-this-build"
METADATA = "heatcheck"
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


class Chapter(NamedTuple):
    """A chapter as it is written: its file, text, notebook and declared parameters."""

    name: str
    path: Path
    text: str
    node: NotebookNode
    parameters: dict[str, Parameter]


def read_chapter(path: Path) -> Chapter:
    """The chapter in the py:percent file ``path``, its cells numbered from 1.

    Raises:
        ValueError: The file is no Python, has not exactly one cell tagged ``parameters``, or declares a
            parameter wrongly.
    """
    text = path.read_text(encoding="utf-8")
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise ValueError(f"nbs/{path.name}:{error.lineno}: {error.msg}") from error
    node = jupytext.reads(text, fmt="py:percent")
    for number, cell in enumerate(node.cells, start=1):
        cell["id"] = f"cell-{number:03d}"
    tagged = [cell for cell in node.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise ValueError(
            f'{path} has {len(tagged)} cells tagged "parameters"; it needs exactly one, '
            'which starts with # %% tags=["parameters"]'
        )
    where = f"nbs/{path.name}, parameters cell"
    return Chapter(path.stem, path, text, node, parse_parameters(tagged[0].source, where=where))


def with_parameters(chapter: Chapter, values: Mapping[str, Any]) -> NotebookNode:
    """Notebook of ``chapter`` to execute: a folded cell after the declarations sets all ``values``."""
    title = f"Parameters of this build (preset: {values['preset']})"
    lines = [f"# {title}", *(f"{name} = {value!r}" for name, value in values.items())]
    injected = nbformat.v4.new_code_cell("\n".join(lines), id=INJECTED)
    injected.metadata.update(tags=["injected-parameters", "hide-input"])
    injected.metadata["mystnb"] = {"code_prompt_show": title, "code_prompt_hide": title}
    cells: list[NotebookNode] = []
    for cell in chapter.node.cells:
        cells.append(cell)
        if "parameters" in cell.metadata.get("tags", []):
            cells.append(injected)
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": dict(_KERNEL)})


def tidy(node: NotebookNode, facts: Mapping[str, Any]) -> NotebookNode:
    """``node`` without anything that differs from run to run, and with ``facts`` about the build."""
    cells = [
        _tidy_cell(cell)
        for cell in node.cells
        if "papermill-error-cell-tag" not in cell.metadata.get("tags", [])
    ]
    metadata = {"kernelspec": dict(_KERNEL), METADATA: dict(facts)}
    if "language_info" in node.metadata:
        metadata["language_info"] = node.metadata["language_info"]
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def write_notebook(node: NotebookNode, path: Path) -> None:
    """Write ``node`` to ``path`` in one step, as strict JSON.

    Raises:
        PublishError: A cell's output holds NaN or infinity, which JSON has not.
    """
    for cell in node.cells:
        try:
            json.dumps(cell, allow_nan=False)
        except ValueError as error:
            raise PublishError(
                f"{cell.id}: its output holds NaN or infinity, which JSON cannot; display text instead"
            ) from error
    write_file(path, (nbformat.writes(node, version=nbformat.NO_CONVERT).rstrip("\n") + "\n").encode())


def read_facts(path: Path) -> dict[str, Any]:
    """What ``tidy`` noted about the build of the notebook ``path``; empty without a readable notebook."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))["metadata"][METADATA]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return facts if isinstance(facts, dict) else {}


def stored_errors(path: Path) -> list[str]:
    """One line per exception that the notebook ``path`` holds as an output."""
    return [f"{path.name}, {error}" for error in errors_in(nbformat.read(path, as_version=4))]


def errors_in(node: NotebookNode) -> list[str]:
    """One line per exception among the outputs of ``node``, with the cell it stands in."""
    return [
        f"{cell.get('id', f'cell {number}')}: {output['ename']}: {output['evalue']}"
        for number, cell in enumerate(node["cells"], start=1)
        for output in cell.get("outputs", [])
        if output["output_type"] == "error"
    ]


def _tidy_cell(cell: NotebookNode) -> NotebookNode:
    for key in ("papermill", "execution", "cell_marker", "lines_to_next_cell"):
        cell.metadata.pop(key, None)
    if not cell.metadata.get("tags"):
        cell.metadata.pop("tags", None)
    return cell
