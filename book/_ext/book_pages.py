"""What the book checks and adds while Sphinx builds it.

Results of the chapters become substitutions, stored failures and images without alternative text fail the
build, every executed chapter ends with where it comes from, and no page loads a script from elsewhere.
"""

import html
import importlib.util
import json
import pkgutil
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

logger = logging.getLogger(__name__)

EXPORTS = "book/results/*/latest"
DOWNLOADS = "_downloads/results"
PAGE_WIDTH = 6.9 * 72  # points; a figure of this width fills the column
SHORT = 28  # characters of a table's entry that is kept on one line
_MODULES = re.compile(r"^\{modules\} (?P<package>[\w.]+)$", re.MULTILINE)
_WIDTH = re.compile(r'<svg[^>]*\swidth="(?P<points>[\d.]+)pt"')


def quote_results(app: Sphinx, config: Config) -> None:
    """Make the numbers of every chapter quotable as ``{{ chapter.name }}``; a wrong name fails the build."""
    for path in sorted(Path(app.srcdir).glob(f"{EXPORTS}/results.json")):
        config.myst_substitutions[path.parts[-3]] = json.loads(path.read_text(encoding="utf-8"))


def report_stored_errors(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Warn of every cell of an executed notebook that raised; Sphinx itself would publish the traceback."""
    if not source[0].lstrip().startswith("{"):
        return
    cells = json.loads(source[0]).get("cells", [])
    for number, cell in enumerate(cells, start=1):
        for output in cell.get("outputs", []):
            if output.get("output_type") == "error":
                fault = f"{output.get('ename')}: {output.get('evalue')}"
                logger.warning("cell %d raised %s; run the chapter again", number, fault, location=docname)


def list_modules(_app: Sphinx, _docname: str, source: list[str]) -> None:
    """Replace each line ``{modules} PACKAGE`` by the reference of all public modules of the package."""
    source[0] = _MODULES.sub(lambda match: _module_entries(match["package"]), source[0])


def check_images(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Warn of images without alternative text, and fit figures to the column they were drawn for."""
    for image in doctree.findall(nodes.image):
        if not str(image.get("alt", "")).strip():
            logger.warning(
                "image %s has no alternative text; say what it shows", image["uri"], location=docname
            )
        path = Path(app.srcdir) / image["uri"]
        if path.suffix == ".svg" and path.is_file():
            _fit(image, path.read_text(encoding="utf-8"))


def mark_tables(_app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """Tell tables of short entries from tables of prose: numbers with their intervals must not break."""
    for table in doctree.findall(nodes.table):
        if all(
            len(entry.astext()) <= SHORT
            for body in table.findall(nodes.tbody)
            for entry in body.findall(nodes.entry)
        ):
            table["classes"].append("short-cells")


def finish_page(
    app: Sphinx, pagename: str, _template: str, context: dict[str, Any], _doctree: object
) -> None:
    """Drop the scripts that would reach for a network, and add where a chapter comes from."""
    scripts = context.get("script_files", [])
    context["script_files"] = [script for script in scripts if "thebe" not in _script_text(script).lower()]
    path = Path(app.srcdir) / f"{pagename}.ipynb"
    if "body" in context and path.is_file():
        metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"].get("heatcheck", {})
        top = "../" * pagename.count("/")
        context["body"] += provenance(path.stem, metadata, f"{top}{DOWNLOADS}/{path.stem}")


def skip_named_tuple_fields(
    _app: Sphinx, _what: str, _name: str, member: object, skip: bool, _options: object
) -> bool | None:
    """Leave out the text that Python itself gives to fields of a named tuple."""
    generated = (getattr(member, "__doc__", "") or "").startswith("Alias for field number")
    return True if generated or skip else None


def provenance(chapter: str, metadata: dict[str, Any], folder: str) -> str:
    """Foot of a chapter's page: source, preset and key it was executed with, and links to its exports.

    Args:
        chapter: Name of the chapter.
        metadata: Of the notebook: ``source``, ``preset``, ``key``, ``exports``; without it the foot is empty.
        folder: Where the exports lie, seen from the page.
    """
    if not metadata:
        return ""
    source, preset, key = (
        html.escape(str(metadata.get(name, "unknown"))) for name in ("source", "preset", "key")
    )
    stems: dict[str, list[str]] = {}
    for name in metadata.get("exports", []):
        stem, _, suffix = str(name).rpartition(".")
        link = f'<a href="{html.escape(f"{folder}/{name}")}" download>{html.escape(suffix.upper())}</a>'
        stems.setdefault(html.escape(stem), []).append(link)
    exports = "; ".join(f"<span>{stem} ({', '.join(links)})</span>" for stem, links in stems.items())
    return (
        '<aside class="provenance" aria-label="Where this page comes from">'
        f"<p>Executed from <code>{source}</code> with preset <code>{preset}</code>, key <code>{key}</code>. "
        f"Run it again: <code>heatcheck run {html.escape(chapter)}</code></p>"
        + (f'<nav aria-label="Figures and tables"><p>For your paper: {exports}</p></nav>' if exports else "")
        + "</aside>"
    )


def copy_exports(app: Sphinx, failure: Exception | None) -> None:
    """Put every chapter's exports beside its page, where the foot of the page links to them."""
    if failure is None and app.builder.format == "html":
        for path in Path(app.srcdir).glob(EXPORTS):
            shutil.copytree(path, Path(app.outdir) / DOWNLOADS / path.parts[-2], dirs_exist_ok=True)


def thin_mathjax(app: Sphinx, failure: Exception | None) -> None:
    """Drop the builds of MathJax that no page loads; they are most of the book's size."""
    if failure is None and app.builder.format == "html":
        for path in (Path(app.outdir) / "_static" / "mathjax").glob("*.js"):
            if path.name != "tex-chtml.js":
                path.unlink()


def _module_entries(package: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"book/api.md lists the modules of {package}, which is no package")
    short = package.partition(".")[2]
    public = sorted(
        info.name
        for info in pkgutil.iter_modules(spec.submodule_search_locations)
        if not info.name.startswith("_")
    )
    entries = [
        f"### {short}.{name}\n\n```{{eval-rst}}\n.. automodule:: {package}.{name}\n```\n" for name in public
    ]
    return "\n".join(entries)


def _fit(image: nodes.image, svg: str) -> None:
    """Give the share of the column's width that the figure has of a paper's page, and say what it holds."""
    match = _WIDTH.search(svg[:2000])
    if match and "width" not in image and "scale" not in image:
        image["width"] = f"{min(100, round(100 * float(match['points']) / PAGE_WIDTH))}%"
    # Line drawings may be inverted on a dark page, photographs may not.
    image["classes"] += ["photograph" if "<image" in svg else "drawing"]


def _script_text(script: Any) -> str:
    return f"{getattr(script, 'filename', script)} {getattr(script, 'attributes', {}).get('body', '')}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the hooks."""
    app.connect("config-inited", quote_results)
    app.connect("source-read", report_stored_errors)
    app.connect("source-read", list_modules)
    app.connect("doctree-resolved", check_images)
    app.connect("doctree-resolved", mark_tables)
    # After sphinx-thebe, which adds its scripts page by page.
    app.connect("html-page-context", finish_page, priority=900)
    app.connect("autodoc-skip-member", skip_named_tuple_fields)
    app.connect("build-finished", copy_exports)
    # After sphinx-mathjax-offline has copied all of it.
    app.connect("build-finished", thin_mathjax, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
