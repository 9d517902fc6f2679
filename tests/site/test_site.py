import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = pytest.mark.site

PHONE, DESK = 390, 1360
# Made by Sphinx for servers alone, with addresses from the server's root.
SERVED_ONLY = {"404.html"}
LOCAL = ("http://127.0.0.1:", "file://", "data:", "blob:", "about:", "chrome")

SCRIPTS = Path(__file__).parent
READY, CONTRAST, WIDER = (
    (SCRIPTS / name).read_text(encoding="utf-8") for name in ("ready.js", "contrast.js", "wider.js")
)


@pytest.fixture(scope="session")
def read_pages(site: Path) -> list[str]:
    """Pages that readers come to."""
    names = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    return [name for name in names if not name.startswith("_static/") and name not in SERVED_ONLY]


@pytest.fixture(params=["served", "folder"])
def root(request: pytest.FixtureRequest, site: Path) -> str:
    """Where the book is opened: from a server, and from its folder without one."""
    served: str = request.getfixturevalue("address")
    return served if request.param == "served" else f"{site.as_uri()}/"


@pytest.fixture
def window(browser: Chrome) -> Iterator[Callable[..., None]]:
    """Sets the window's width and the reader's preferred colors, and takes them back afterwards."""

    def resize(width: int = DESK, scheme: str = "light") -> None:
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    yield resize
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def open_page(browser: Chrome, address: str) -> None:
    browser.get(address)
    WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(READY))


def log(browser: Chrome, kind: str) -> list[dict[str, Any]]:
    """Entries since the last call."""
    entries: list[dict[str, Any]] = browser.get_log(kind)  # type: ignore[no-untyped-call]
    return entries


def requests_in(entries: list[dict[str, Any]]) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in entries]
    return [
        item["params"]["request"]["url"] for item in messages if item["method"] == "Network.requestWillBeSent"
    ]


def test_no_page_asks_another_machine_or_complains_in_the_console(
    browser: Chrome, root: str, read_pages: list[str]
) -> None:
    faults = {}
    for name in read_pages:
        log(browser, "browser"), log(browser, "performance")
        open_page(browser, root + name)
        asked = [url for url in requests_in(log(browser, "performance")) if not url.startswith(LOCAL)]
        said = [
            entry["message"] for entry in log(browser, "browser") if entry["level"] in ("SEVERE", "WARNING")
        ]
        if asked or said:
            faults[name] = asked + said
    assert faults == {}


def test_every_image_is_shown(browser: Chrome, root: str, read_pages: list[str]) -> None:
    script = (
        "return Array.from(document.images).filter((i) => i.complete && !i.naturalWidth).map((i) => i.src)"
    )
    broken = {}
    for name in read_pages:
        open_page(browser, root + name)
        if images := browser.execute_script(script):
            broken[name] = images
    assert broken == {}


def test_formulas_are_set(browser: Chrome, root: str, site: Path) -> None:
    with_math = [
        page for page in site.glob("book/**/*.html") if 'class="math' in page.read_text(encoding="utf-8")
    ]
    assert with_math
    for page in with_math:
        open_page(browser, root + page.relative_to(site).as_posix())
        sources = browser.find_elements(By.CSS_SELECTOR, ".math")
        formulas = browser.find_elements(By.CSS_SELECTOR, "mjx-container")
        assert len(formulas) >= len(sources) > 0, page.name
        assert not browser.find_elements(By.CSS_SELECTOR, "mjx-merror, [data-mjx-error]"), page.name


@pytest.mark.parametrize("word", ["deletion", "glossary", "insertion"])
def test_search_finds_a_word(browser: Chrome, root: str, word: str) -> None:
    log(browser, "browser")
    browser.get(f"{root}search.html?q={word}")
    found = WebDriverWait(browser, 30).until(
        lambda driver: driver.find_elements(By.CSS_SELECTOR, "#search-results li a")
    )
    assert any("book/" in str(link.get_attribute("href")) for link in found)
    time.sleep(0.5)  # excerpts are fetched after the list is there
    assert [entry for entry in log(browser, "browser") if entry["level"] == "SEVERE"] == []


def test_search_finds_nothing_for_a_word_that_is_nowhere(browser: Chrome, root: str) -> None:
    browser.get(f"{root}search.html?q=xylophonequux")
    said = (By.CSS_SELECTOR, "#search-results .search-summary")
    WebDriverWait(browser, 30).until(lambda driver: "did not match" in driver.find_element(*said).text)
    assert not browser.find_elements(By.CSS_SELECTOR, "#search-results li a")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_page_in_both_color_schemes(
    browser: Chrome, address: str, read_pages: list[str], window: Callable[..., None], scheme: str
) -> None:
    window(DESK, scheme)
    faint = {}
    for name in [name for name in read_pages if name.startswith("book/")]:
        open_page(browser, address + name)
        *worst, (lightness, *_) = browser.execute_script(CONTRAST)
        assert lightness > 0.8 if scheme == "light" else lightness < 0.05, f"{name} is not {scheme}"
        if worst[0][0] < 4.5:
            faint[name] = worst
    assert faint == {}


def test_the_button_changes_the_color_scheme(
    browser: Chrome, address: str, window: Callable[..., None]
) -> None:
    window(DESK, "light")
    open_page(browser, f"{address}book/intro.html")
    shade = "return getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color"
    seen = set()
    for _ in range(3):
        browser.find_element(By.CSS_SELECTOR, "button.theme-switch-button").click()
        seen.add(browser.execute_script(shade))
    browser.execute_script("localStorage.clear()")
    assert len(seen) == 2


def test_no_page_is_wider_than_a_phone(
    browser: Chrome, address: str, read_pages: list[str], window: Callable[..., None]
) -> None:
    window(PHONE)
    wide = {}
    for name in read_pages:
        open_page(browser, address + name)
        if browser.execute_script("return document.documentElement.scrollWidth") > PHONE:
            wide[name] = ["the page itself"]
        if parts := browser.execute_script(WIDER):
            wide[name] = parts
    assert wide == {}


def test_a_figure_can_be_enlarged_and_closed_again(browser: Chrome, root: str, site: Path) -> None:
    drawn = [
        page for page in site.glob("book/chapters/*.html") if "<figure" in page.read_text(encoding="utf-8")
    ]
    assert drawn
    open_page(browser, root + drawn[0].relative_to(site).as_posix())
    image = browser.find_element(By.CSS_SELECTOR, "article figure img")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", image)
    image.click()
    dialog = browser.find_element(By.CSS_SELECTOR, "dialog.zoom")
    assert dialog.get_attribute("open") is not None
    assert dialog.find_element(By.TAG_NAME, "img").get_attribute("src") == image.get_attribute("src")
    dialog.click()
    assert dialog.get_attribute("open") is None
