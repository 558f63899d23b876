"""The pictures of docs/gallery.md: `python -m tests.browser.gallery docs`, a part of `make docs`.

Pages are pictured in Chromium; where that or selenium is missing, their pictures stay as they are.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.views.ui.serve import RunPageServer, serve_run_page
from tests.engine.views.ui import made_up_runs

CUSTOM = "cautious:chain"
GRID = f"""
topologies:
  shape: random
  topologies: 40
  operators: [6, 12, 24, 48]
  seed: 1
planners: [flink, "{CUSTOM}"]
costs: drawn
"""
ROOT = Path(__file__).parents[2]


def make_gallery(docs: Path) -> None:
    """Write the pictures into `docs`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "grid.yaml").write_text(GRID, encoding="utf-8")
        shutil.copy(ROOT / "engine/examples/chain_equal_costs.py", folder / "cautious.py")
        _penstock(folder, "sweep", "grid.yaml", "--out", "sweep")
        figure = docs.resolve() / "gallery-sweep.png"
        axes = ("-x", "drawn_operators", "-y", "tasks")
        _penstock(folder, "sweep", "plot", "sweep", *axes, "--to", str(figure))
        if not find_spec("selenium") or not Path("/usr/bin/chromedriver").exists():
            print("pictures of pages are left as they are: `make test-browser` installs what they need")
            return
        of = ("--topology", "fraud-detection", "--to", "plan.html")
        _penstock(folder, "draw", str(ROOT / "engine/examples/examples.jsonl"), *of)
        quick = ("--suite", "fleet", "--sizes", "1000,3000,10000", "--repeat", "3")
        _penstock(folder, "bench", "--planner", f"columnar,{CUSTOM}", *quick, "--out", "bench")
        with _run_page(folder) as link:
            _picture(docs, "plan", (folder / "plan.html").as_uri(), (1200, 640), _click_a_vertex)
            _picture(docs, "bench", (folder / "bench" / "index.html").as_uri(), (1000, 900))
            _picture(docs, "run", link, (1280, 860), _open_the_job)


def _penstock(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "penstock", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _run_page(folder: Path) -> Iterator[str]:
    """The link of a run page with a running and a finished job, whose states are made up."""
    os.environ[STATE_DIR] = str(folder / "state")
    made_up_runs.BEGUN = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=40)
    example, submit = made_up_runs.example, made_up_runs.submit
    submit(example("events-etl"), 6, "FINISHED", dict.fromkeys((1, 2, 3, 7, 8, 10, 12), "FINISHED"))
    submit(
        example("fraud-detection"), 7, of_vertices={1: "RUNNING", 2: "FINISHED", 6: "RUNNING", 8: "RUNNING"}
    )
    server = RunPageServer(0, None)
    thread = threading.Thread(target=serve_run_page, args=(server,))
    thread.start()
    try:
        yield server.link
    finally:
        server.shutdown()
        thread.join()


def _picture(
    docs: Path, name: str, link: str, size: tuple[int, int], prepare: Callable[[Any], None] | None = None
) -> None:
    """Picture a page in light and in dark colours."""
    from tests.browser.browser import browser

    for dark in (False, True):
        with browser(*size, dark=dark) as driver:
            driver.get(link)
            if prepare:
                prepare(driver)
            driver.save_screenshot(str(docs / f"gallery-{name}-{'dark' if dark else 'light'}.png"))


def _click_a_vertex(driver: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    driver.switch_to.active_element.send_keys("/")
    driver.switch_to.active_element.send_keys("Score", Keys.ENTER)


def _open_the_job(driver: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    driver.find_element(By.LINK_TEXT, "fraud-detection").click()
    WebDriverWait(driver, 20).until(lambda one: one.find_element(By.ID, "live").text == "live")


if __name__ == "__main__":
    make_gallery(Path(sys.argv[1]))
