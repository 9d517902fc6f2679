"""The book's pages, chapters and sources fit together; nothing is built here."""

import ast
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = "book/chapters/"


def entries(node: Any) -> list[str]:
    """Every page that the table of contents names."""
    if isinstance(node, dict):
        named = [node[key] for key in ("root", "file") if key in node]
        return named + [name for value in node.values() for name in entries(value)]
    return [name for item in node for name in entries(item)] if isinstance(node, list) else []


TOC = entries(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
PAGES = [name for name in TOC if not name.startswith(CHAPTERS)]
PROSE = [*sorted((ROOT / "book").glob("*.md")), *sorted((ROOT / "nbs").glob("*.py"))]
KEYS = re.findall(
    r"^@\w+\{([^,\s]+),", (ROOT / "book/references.bib").read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.fixture(scope="module")
def extension() -> ModuleType:
    spec = importlib.util.spec_from_file_location("book_pages", ROOT / "book/_ext/book_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_contents_name_every_chapter_once() -> None:
    chapters = [name.removeprefix(CHAPTERS) for name in TOC if name.startswith(CHAPTERS)]
    assert sorted(chapters) == sorted(path.stem for path in (ROOT / "nbs").glob("*.py"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_contents_exists(name: str) -> None:
    assert (ROOT / f"{name}.md").is_file()


def test_every_page_is_in_the_contents() -> None:
    assert sorted(PAGES) == sorted(f"book/{path.stem}" for path in (ROOT / "book").glob("*.md"))


def test_no_source_is_listed_twice() -> None:
    assert len(KEYS) == len(set(KEYS))


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_every_citation_has_its_source(path: Path) -> None:
    roles = re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", path.read_text(encoding="utf-8"))
    cited = {key.strip() for role in roles for key in role.split(",")}
    assert cited <= set(KEYS)


def test_every_method_cites_a_source_of_the_book() -> None:
    cited = {
        str(keyword.value.value)
        for path in (ROOT / "helpers/heatcheck").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "cites" and isinstance(keyword.value, ast.Constant) and keyword.value.value
    }
    assert cited
    assert cited <= set(KEYS)


def test_the_configuration_names_files_that_exist() -> None:
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    static = ROOT / "book/_static"
    sphinx = config["sphinx"]["config"]
    named = [ROOT / config["logo"], ROOT / config["html"]["favicon"], ROOT / config["bibtex_bibfiles"][0]]
    named += [static / name for name in (*sphinx["html_css_files"], *sphinx["html_js_files"])]
    assert [path for path in named if not path.is_file()] == []


@pytest.mark.parametrize("name", ["book.css", "zoom.js", "search.js", "logo.svg", "favicon.svg"])
def test_what_every_page_loads_names_no_other_machine(name: str) -> None:
    text = (ROOT / "book/_static" / name).read_text(encoding="utf-8")
    assert re.findall(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w.]+\.\w+|@import", text) == []


def test_a_chapters_foot_names_its_source_and_links_its_exports(extension: ModuleType) -> None:
    facts = {
        "source": "nbs/a.py",
        "preset": "quick",
        "key": "0f<3a",
        "exports": ["curves.pdf", "curves.svg", "t.csv"],
    }
    foot = extension.provenance("a", facts, "../../_downloads/results/a")
    assert "nbs/a.py" in foot
    assert "0f&lt;3a" in foot
    assert foot.count("download>") == 3
    assert 'href="../../_downloads/results/a/curves.pdf"' in foot


def test_a_notebook_without_facts_has_no_foot(extension: ModuleType) -> None:
    assert extension.provenance("a", {}, "x") == ""


def test_a_stored_error_is_reported_with_its_cell(
    extension: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(extension.logger, "warning", lambda text, *values, **_: said.append(text % values))
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no such thing"}
    cells = [{"outputs": []}, {"outputs": [{"output_type": "stream"}, error]}]
    extension.report_stored_errors(None, "book/chapters/a", [json.dumps({"cells": cells})])
    assert said == ["cell 2 raised ValueError: no such thing; run the chapter again"]


def test_prose_is_not_taken_for_a_notebook(extension: ModuleType) -> None:
    extension.report_stored_errors(None, "book/a", ["# {not json"])


def test_the_reference_lists_every_public_module(extension: ModuleType) -> None:
    source = ["before\n\n{modules} heatcheck.figures\n"]
    extension.list_modules(None, "book/api", source)
    public = {path.stem for path in (ROOT / "helpers/heatcheck/figures").glob("[!_]*.py")}
    assert set(re.findall(r"automodule:: heatcheck\.figures\.(\w+)", source[0])) == public


def test_the_reference_covers_every_package() -> None:
    listed = re.findall(
        r"^\{modules\} heatcheck\.(\w+)$", (ROOT / "book/api.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    packages = {path.parent.name for path in (ROOT / "helpers/heatcheck").glob("*/__init__.py")}
    # Publishing is for authors of the book, not a part of what it measures.
    assert set(listed) == packages - {"publish", "assets"}
