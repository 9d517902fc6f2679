"""Built pages as text, without a browser: what they load, where their links lead, what their images say."""

from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.site

_LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "embed": "src",
    "object": "data",
}


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.images: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {values[name] or "" for name in ("id", "name") if name in values}
        if tag in _LOADS and values.get(_LOADS[tag]):
            self.loads.append(values[_LOADS[tag]] or "")
        if tag == "link" and not {"next", "prev", "search", "index"} & set((values.get("rel") or "").split()):
            self.loads.append(values.get("href") or "")
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if tag == "img":
            self.images.append((values.get("src") or "", values.get("alt")))


class Page(NamedTuple):
    """One built page.

    Attributes:
        path: File below the site's folder.
        loads: What the browser fetches to show it.
        links: Where its links lead.
        anchors: Names that links may point to.
        images: Source and alternative text of every image; None where the text is missing.
    """

    path: Path
    loads: tuple[str, ...]
    links: tuple[str, ...]
    anchors: frozenset[str]
    images: tuple[tuple[str, str | None], ...]


def read_page(path: Path) -> Page:
    """The page in file ``path``."""
    parser = _Parser()
    parser.feed(path.read_text(encoding="utf-8"))
    return Page(
        path, tuple(parser.loads), tuple(parser.links), frozenset(parser.anchors), tuple(parser.images)
    )


def remote_loads(page: Page) -> list[str]:
    """What ``page`` would fetch from another machine."""
    return [address for address in page.loads if urlsplit(address).netloc]


def dead_links(page: Page, site: Path, anchors: dict[Path, frozenset[str]]) -> list[str]:
    """Links of ``page`` to files or places on pages of ``site`` that do not exist."""
    return [
        link for link in (*page.links, *page.loads) if not _leads_somewhere(link, page.path, site, anchors)
    ]


def _leads_somewhere(link: str, here: Path, site: Path, anchors: dict[Path, frozenset[str]]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    route = unquote(parts.path)
    target = here if not route else site / route.lstrip("/") if route.startswith("/") else here.parent / route
    target = target.resolve()
    if not target.is_file():
        return (target / "index.html").is_file()
    return not parts.fragment or target not in anchors or unquote(parts.fragment) in anchors[target]


@pytest.fixture(scope="session")
def pages(site: Path) -> list[Page]:
    return [read_page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]


def test_no_page_names_a_file_on_another_machine(pages: list[Page]) -> None:
    assert {page.path.name: remote_loads(page) for page in pages if remote_loads(page)} == {}


def test_no_link_or_anchor_is_dead(pages: list[Page], site: Path) -> None:
    anchors = {page.path: page.anchors for page in pages}
    dead = {str(page.path.relative_to(site)): dead_links(page, site, anchors) for page in pages}
    assert {name: links for name, links in dead.items() if links} == {}


def test_every_image_has_alternative_text(pages: list[Page]) -> None:
    silent = [
        (page.path.name, source) for page in pages for source, text in page.images if not (text or "").strip()
    ]
    assert silent == []


def test_chapters_say_where_they_come_from_and_link_their_exports(pages: list[Page], site: Path) -> None:
    chapters = [page for page in pages if page.path.parent == site / "book" / "chapters"]
    assert chapters
    for page in chapters:
        text = page.path.read_text(encoding="utf-8")
        assert 'class="provenance"' in text, page.path.name
        assert f"nbs/{page.path.stem}.py" in text, page.path.name
