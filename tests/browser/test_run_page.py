"""The run page in a real browser: `make test-browser`."""

import threading
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.run.runtime.job_records import write_state
from penstock.engine.views.ui.serve import RunPageServer, serve_run_page
from tests.browser.browser import browser, complaints
from tests.engine.views.draw.pictures import hostile_topology
from tests.engine.views.ui.made_up_runs import example, state_of, submit

SHOTS = Path("build/screenshots")

pytestmark = pytest.mark.browser
RUN = f"{7:032x}"


@pytest.fixture
def link(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))
    SHOTS.mkdir(parents=True, exist_ok=True)
    server = RunPageServer(0, None)
    thread = threading.Thread(target=serve_run_page, args=(server,))
    thread.start()
    yield server.link
    server.shutdown()
    thread.join()


@pytest.mark.parametrize("dark", [False, True])
def test_a_job_is_shown_live_and_cancelled(link, dark):
    folder, plan = submit(example("fraud-detection"), 7, of_vertices={1: "FINISHED", 3: "RUNNING"})
    submit(hostile_topology(), 6, "FAILED", {1: "FAILED"}, failure="ValueError: <b>no</b>")
    shade = "dark" if dark else "light"
    with browser(dark=dark) as driver:
        driver.get(link)
        assert "token" not in driver.current_url
        driver.save_screenshot(str(SHOTS / f"runs-{shade}.png"))
        driver.find_element(By.LINK_TEXT, "fraud-detection").click()
        WebDriverWait(driver, 20).until(lambda one: one.find_element(By.ID, "live").text == "live")
        driver.save_screenshot(str(SHOTS / f"run-{shade}.png"))
        assert driver.execute_script("return document.cookie") == ""
        states = dict.fromkeys(plan["job_vertices"]["vertex"].to_pylist(), "RUNNING")
        write_state(folder, state_of(plan, RUN, "RUNNING", states))
        WebDriverWait(driver, 20).until(
            lambda one: len(one.find_elements(By.CSS_SELECTOR, "#picture0 .is-RUNNING")) == 5
        )
        driver.find_element(By.CSS_SELECTOR, "#cancel button").click()
        WebDriverWait(driver, 20).until(lambda one: (folder / "cancel").exists())
        write_state(folder, state_of(plan, RUN, "CANCELED", dict.fromkeys(states, "CANCELED")))
        WebDriverWait(driver, 20).until(lambda one: one.find_element(By.ID, "state").text == "CANCELED")
        assert not driver.find_element(By.ID, "cancel").is_displayed()
        assert complaints(driver) == []


def test_a_failed_job_with_hostile_names_stays_text(link):
    submit(hostile_topology(), 7, "FAILED", {1: "FAILED"}, failure="ValueError: <img src=x onerror=alert(1)>")
    with browser() as driver:
        driver.get(link)
        driver.get(link.partition("?")[0] + f"runs/{RUN}")
        assert "<img src=x" in driver.find_element(By.ID, "failure").text
        driver.save_screenshot(str(SHOTS / "run-failed.png"))
        assert driver.find_elements(By.TAG_NAME, "img") == []
        assert complaints(driver) == []


def test_a_phone_shows_it(link):
    submit(example("events-etl"), 7, of_vertices={1: "RUNNING"})
    with browser(400, 800) as driver:
        driver.get(link)
        driver.get(link.partition("?")[0] + f"runs/{RUN}")
        driver.save_screenshot(str(SHOTS / "run-phone.png"))
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 400
