"""The manual in a real browser: `make test-browser`."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from tests.browser.browser import browser, complaints

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
SHOTS = Path("build/screenshots")
RESULTS = """
const links = [];
const find = (root) => root.querySelectorAll("*").forEach((one) => {
  if (one.shadowRoot) find(one.shadowRoot);
  if (one.href && one.href.includes("?h=")) links.push(one.href);
});
find(document);
return links;
"""

pytestmark = pytest.mark.browser


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the manual, built anew."""
    build = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    SHOTS.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=SITE))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1500])
def test_every_page_fits_and_loads_nothing_from_elsewhere(site, width, dark):
    wrong = []
    with browser(width, 900, dark=dark) as driver:
        for page in sorted(path.stem for path in SITE.glob("*.html")):
            driver.get(f"{site}/{page}.html")
            driver.save_screenshot(str(SHOTS / f"site-{page}-{width}-{'dark' if dark else 'light'}.png"))
            fits = driver.execute_script("return document.documentElement.scrollWidth") <= width
            broken = driver.execute_script(
                "return [...document.images].filter((one) => !one.naturalWidth).map((one) => one.src)"
            )
            scheme = driver.execute_script("return document.body.getAttribute('data-md-color-scheme')")
            said = complaints(driver)
            if not fits or broken or said or (scheme == "slate") != dark:
                wrong.append((page, fits, broken, said, scheme))
    assert wrong == []


@pytest.mark.parametrize(
    ("query", "page"),
    [("custom planner", "custom-planners"), ("PENSTOCK_JARS", "configuration"), ("savepoint", "savepoints")],
)
def test_the_search_finds_the_page_first(site, query, page):
    with browser() as driver:
        driver.get(f"{site}/index.html")
        body = driver.switch_to.active_element
        body.send_keys(Keys.CONTROL, "k")
        WebDriverWait(driver, 20).until(lambda one: one.switch_to.active_element != body)
        driver.switch_to.active_element.send_keys(query)
        links = WebDriverWait(driver, 20).until(lambda one: one.execute_script(RESULTS))
        assert links[0].startswith(f"{site}/{page}.html")
