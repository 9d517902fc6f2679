"""The book is built whole or the last one stays."""

import importlib.metadata
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from heatcheck.publish.build import build_html, zip_html
from heatcheck.publish.check import faults
from heatcheck.publish.errors import PublishError
from heatcheck.publish.export import export
from heatcheck.publish.notebook import read_chapter, tidy, write_notebook
from heatcheck.publish.places import Places
from heatcheck.publish.toc import ordered_chapters, toc_chapters

Write = Callable[..., Path]


@pytest.fixture
def executed(places: Places, write: Write) -> Places:
    write("1")
    write_notebook(tidy(read_chapter(places.source("tiny")).node, {}), places.notebook("tiny"))
    return places


def test_a_book_with_a_fault_leaves_the_last_pages(executed: Places, tmp_path: Path) -> None:
    index = build_html(executed)
    assert index == executed.html / "index.html"
    page = (executed.html / "book" / "chapters" / "tiny.html").read_text()
    assert "Tiny" in page
    _check_zip(executed, tmp_path)

    (executed.root / "book" / "intro.md").write_text("# Changed\n\n{ref}`nowhere`\n")
    with pytest.raises(PublishError, match=r"the last pages are kept.*\n.*intro.md.*nowhere"):
        build_html(executed)
    assert "Changed" not in (executed.html / "book" / "intro.html").read_text()


def _check_zip(executed: Places, folder: Path) -> None:
    first, second = zip_html(executed, folder / "a.zip"), zip_html(executed, folder / "b.zip")
    assert first.read_bytes() == second.read_bytes()
    names = zipfile.ZipFile(first).namelist()
    assert "heatcheck/index.html" in names
    assert len(names) == sum(path.is_file() for path in executed.html.rglob("*"))
    with pytest.raises(PublishError, match="cannot write"):
        zip_html(executed, folder / "missing" / "a.zip")


def test_a_missing_notebook_is_named_before_anything_is_built(places: Places) -> None:
    with pytest.raises(PublishError, match="no executed notebook of tiny; run: heatcheck run tiny"):
        build_html(places)


def test_a_stored_exception_is_never_published(executed: Places) -> None:
    node = nbformat.read(executed.notebook("tiny"), as_version=4)
    node.cells[2].outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="bad", traceback=[])]
    write_notebook(node, executed.notebook("tiny"))
    with pytest.raises(PublishError, match=r"tiny.ipynb, cell-003: ValueError: bad"):
        build_html(executed)


def test_another_jupyter_book_is_refused(executed: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setattr(importlib.metadata, "version", lambda _: "2.1.7")
        with pytest.raises(PublishError, match=r"jupyter-book 2.1.7 .* version 1; install"):
            build_html(executed)

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(PublishError, match=r"not installed; install the book extra"):
        build_html(executed)


def test_without_a_book_there_is_no_zip(places: Places, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="run: heatcheck build"):
        zip_html(places, tmp_path / "a.zip")


def test_chapters_are_found_in_every_part_of_the_toc(tmp_path: Path) -> None:
    (tmp_path / "_toc.yml").write_text(
        "root: book/intro\nparts:\n- chapters:\n  - file: book/chapters/b\n    sections:\n"
        "    - file: book/chapters/a\n  - file: book/glossary\n"
    )
    assert toc_chapters(tmp_path) == ["b", "a"]
    (tmp_path / "nbs").mkdir()
    for name in "abc":
        (tmp_path / "nbs" / f"{name}.py").touch()
    assert ordered_chapters(Places(tmp_path, tmp_path)) == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda root: (root / "nbs" / "new.py").write_text(""), "nbs/new.py is not in _toc.yml"),
        (lambda root: (root / "nbs" / "tiny.py").unlink(), "there is no nbs/tiny.py"),
        (lambda root: (root / "nbs" / "presets.toml").write_text("[a.tiny]\nm = 1"), "unknown parameter 'm'"),
        (lambda root: (root / "nbs" / "presets.toml").write_text("[a.b]\nm = 1"), r"\[a.b\]: there is no"),
        (lambda root: (root / "nbs" / "tiny.py").write_text("1"), "0 cells tagged"),
    ],
)
def test_the_check_finds_faults_without_running(
    executed: Places, break_it: Callable[[Path], object], says: str
) -> None:
    assert faults(executed) == []
    break_it(executed.root)
    with pytest.raises(AssertionError, match=says):
        assert not "\n".join(faults(executed))


def test_figures_and_tables_come_to_lie_in_one_folder(executed: Places, tmp_path: Path) -> None:
    results = executed.results("tiny")
    for name in ("a.svg", "a.pdf", "t.csv", "t.tex", "results.json", "more/b.svg"):
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text(name)
    copies = export(executed, "tiny", tmp_path / "paper")
    assert sorted(path.name for path in copies) == ["a.pdf", "a.svg", "more-b.svg", "t.csv", "t.tex"]
    assert {path.name for path in (tmp_path / "paper").iterdir()} == {path.name for path in copies}
    assert (tmp_path / "paper" / "more-b.svg").read_text() == "more/b.svg"


def test_a_chapter_without_results_has_nothing_to_export(executed: Places, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="run: heatcheck run tiny"):
        export(executed, "tiny", tmp_path)
    executed.results("tiny").mkdir(parents=True)
    (executed.results("tiny") / "a.svg").touch()
    (tmp_path / "file").touch()
    with pytest.raises(PublishError, match="cannot write"):
        export(executed, "tiny", tmp_path / "file")
