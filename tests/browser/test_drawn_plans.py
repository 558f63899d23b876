"""Drawn pages in a real browser: `make test-browser`."""

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

import penstock
from penstock.engine.views.draw.graph_of_layer import DrawnLayer, graph_of_layer
from penstock.engine.views.draw.to_dot import to_html
from penstock.plans.printable import printable
from tests.browser.browser import browser, complaints
from tests.engine.views.draw.pictures import ATTACKS, hostile_topology, planned

EXAMPLES = "engine/examples/examples.jsonl"
SHOTS = Path("build/screenshots")

pytestmark = pytest.mark.browser


def page(tmp_path: Path, drawing: penstock.Drawing) -> str:
    file = tmp_path / "plan.html"
    drawing.write(file)
    return file.as_uri()


def long_topology(vertices: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [{"id": 1, "kind": "source", "name": "s"}]
    rows += [
        {
            "id": one,
            "kind": "one_input",
            "name": f"operator {one}",
            "inputs": [max(1, one - 1 - one % 7)],
            "parallelism": 1 + one % 3,
        }
        for one in range(2, vertices + 1)
    ]
    return {"name": f"{vertices} operators", "transformations": rows}


def panel(driver: Any) -> str:
    return str(driver.find_element(By.ID, "panel").text)


def boxes(driver: Any) -> list[Any]:
    return list(driver.find_elements(By.CSS_SELECTOR, "#picture0 .node"))


def overlaps(driver: Any) -> int:
    """How many pairs of boxes overlap that are not inside of each other."""
    return int(
        driver.execute_script(
            """
            const all = [...document.querySelectorAll("#picture0 .node:not(.open)")]
              .map((n) => n.querySelector(".box").getBoundingClientRect());
            let count = 0;
            all.forEach((a, i) => all.slice(i + 1).forEach((b) => {
              const across = a.left < b.right - 1 && b.left < a.right - 1;
              if (across && a.top < b.bottom - 1 && b.top < a.bottom - 1) count++;
            }));
            return count;"""
        )
    )


@pytest.mark.parametrize("dark", [False, True])
def test_an_example_is_drawn_and_explained(tmp_path, dark):
    SHOTS.mkdir(parents=True, exist_ok=True)
    with browser(dark=dark) as driver:
        driver.get(page(tmp_path, penstock.draw(EXAMPLES, "fraud-detection")))
        assert len(boxes(driver)) == 5
        driver.save_screenshot(str(SHOTS / f"fraud-detection-{'dark' if dark else 'light'}.png"))
        boxes(driver)[2].click()
        assert "buffers of its input gates" in panel(driver)
        driver.find_element(By.CSS_SELECTOR, "#panel .edges button").click()
        assert "not chained because" in panel(driver)
        background = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(20, 24, 29)") is dark
        assert complaints(driver) == []


def test_keys_do_what_pointers_do(tmp_path):
    with browser() as driver:
        driver.get(page(tmp_path, penstock.draw(EXAMPLES, "fraud-detection")))
        body = driver.find_element(By.TAG_NAME, "body")
        body.send_keys(Keys.ARROW_RIGHT)
        first = panel(driver)
        body.send_keys(Keys.ARROW_RIGHT)
        assert panel(driver) != first
        body.send_keys(Keys.ESCAPE)
        assert panel(driver) == ""
        before = driver.find_element(By.CSS_SELECTOR, "#picture0 .scene").get_attribute("transform")
        body.send_keys("+")
        assert driver.find_element(By.CSS_SELECTOR, "#picture0 .scene").get_attribute("transform") != before
        body.send_keys("/")
        search = driver.switch_to.active_element
        search.send_keys("audit", Keys.ENTER)
        assert driver.find_element(By.ID, "counted").text == "1 found"
        assert "Sink: Audit log" in panel(driver)


def test_names_stay_names(tmp_path):
    file = tmp_path / "hostile.html"
    layers = (DrawnLayer.JOB_GRAPH, DrawnLayer.STREAM_GRAPH)
    plan = planned(hostile_topology())
    file.write_text(to_html([graph_of_layer(plan, one) for one in layers]), encoding="utf-8")
    with browser() as driver:
        driver.get(file.as_uri())
        assert driver.title == printable(ATTACKS[0])
        for place in range(len(boxes(driver))):
            driver.execute_script(
                "document.querySelectorAll('#picture0 .node')[arguments[0]]"
                ".dispatchEvent(new MouseEvent('click', {bubbles: true}))",
                place,
            )
            assert panel(driver)
        assert driver.find_elements(By.TAG_NAME, "img") == []
        assert complaints(driver) == []


@pytest.mark.parametrize("vertices", [200, 5000])
def test_many_vertices_are_found_and_unfolded(tmp_path, vertices):
    with browser() as driver:
        driver.get(page(tmp_path, penstock.draw(long_topology(vertices))))
        driver.save_screenshot(str(SHOTS / f"{vertices}.png"))
        assert len(boxes(driver)) < 1600
        driver.find_element(By.ID, "search").send_keys("operator 177", Keys.ENTER)
        WebDriverWait(driver, 20).until(lambda one: "operator 177" in panel(one))
        driver.save_screenshot(str(SHOTS / f"{vertices}-found.png"))
        assert overlaps(driver) == 0
        assert complaints(driver) == []


def test_a_phone_shows_it(tmp_path):
    with browser(400, 800) as driver:
        driver.get(page(tmp_path, penstock.draw(EXAMPLES, "events-etl")))
        boxes(driver)[0].click()
        driver.save_screenshot(str(SHOTS / "phone.png"))
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 400
