"""The page of a benchmark in a real browser: `make test-browser`."""

from pathlib import Path

import pytest

from penstock.engine.measure.bench.measure_suites import render_page
from penstock.engine.measure.bench.print_results import summarise
from tests.browser.browser import browser, complaints
from tests.engine.measure.bench.made_up import hostile_results, record, results

SHOTS = Path("build/screenshots")

pytestmark = pytest.mark.browser


def some_results():
    spans = {"columnar": (0.1, 0.12, 0.11), "flink": (2.0, 2.5, 2.1)}
    found = [
        record(planner, scale * seconds, repetition=turn, size=1000 * scale)
        for scale in (1, 10, 100)
        for planner, of in spans.items()
        for turn, seconds in enumerate(of)
    ]
    return results(found, summarise(found))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["some", "hostile"])
def test_a_phone_and_a_screen_show_it_whole(tmp_path, name, width, dark):
    SHOTS.mkdir(parents=True, exist_ok=True)
    page = tmp_path / "index.html"
    page.write_text(render_page(some_results() if name == "some" else hostile_results()))
    with browser(width, 1400, dark=dark) as driver:
        driver.get(page.as_uri())
        driver.save_screenshot(str(SHOTS / f"bench-{name}-{width}-{'dark' if dark else 'light'}.png"))
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert complaints(driver) == []
