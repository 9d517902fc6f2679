"""The built book, served or opened from its folder, and a browser that reaches nothing else."""

import functools
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

VARIABLE = "HEATCHECK_SITE"
_SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    # The browser's own calls home would look like the page's.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def site() -> Path:
    """Folder of the built pages."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(
            f"{VARIABLE} is not set; build the book and set it to the folder of its pages, or run: make site"
        )
    folder = Path(named).resolve()
    if not (folder / "index.html").is_file():
        pytest.fail(
            f"{VARIABLE}={named} holds no built book (no index.html there); build it first: heatcheck build"
        )
    return folder


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Address at which the pages are served on this machine, ending in a slash."""
    handler = functools.partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser(site: Path) -> Iterator[webdriver.Chrome]:
    """Headless Chromium that can reach this machine only."""
    options = Options()
    options.binary_location = _program("HEATCHECK_CHROMIUM", "chromium", "chromium-browser", "google-chrome")
    for switch in _SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = Service(_program("HEATCHECK_CHROMEDRIVER", "chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(60)
    try:
        yield driver
    finally:
        driver.quit()


def _program(variable: str, *names: str) -> str:
    found = os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.fail(
            f"the site tests need {names[0]}; on Debian: apt-get install chromium chromium-driver "
            f"(or set {variable} to the program)"
        )
    return found
