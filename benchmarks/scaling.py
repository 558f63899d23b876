"""CPU time of planning one giant over its size, by both planners, as a table and as a picture.

    python -m benchmarks.scaling measure FOLDER FIGURES.csv [OPERATORS…]
    python -m benchmarks.scaling draw FIGURES.csv PICTURE.svg

`measure` generates layered topologies of parallelism 4 as tables in FOLDER, and plans each of them into a
store by whole processes in turn. `draw` shows core-microseconds for each transformation.
"""

import csv
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import psutil
from deltalake import DeltaTable

from penstock.engine.output.figures import MARKERS, figure_bytes, new_figure

PLANNERS = {"process": "in one process", "blocks": "in blocks, on two cores of Spark"}
OPERATORS = (50_000, 200_000, 800_000, 2_000_000, 10_000_000)
_SECONDS_BETWEEN_LOOKS = 0.05


class Figures(NamedTuple):
    """Of one whole process and everything that it started."""

    planner: str
    transformations: int
    wall_seconds: float
    cpu_seconds: float
    peak_mebibytes: float


def run_whole(command: list[str]) -> tuple[float, float, float]:
    """Run a command; return its seconds, CPU seconds and peak MiB, over it and all processes below it."""
    started = time.monotonic()
    process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds: dict[tuple[int, float], float] = {}
    peak = 0
    while process.poll() is None:
        at_once = 0
        for each in _tree(process):
            try:
                with each.oneshot():
                    times = each.cpu_times()
                    seconds[each.pid, each.create_time()] = times.user + times.system
                    at_once += each.memory_info().rss
            except psutil.Error:
                continue
        peak = max(peak, at_once)
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
    return time.monotonic() - started, sum(seconds.values()), peak / 2**20


def _tree(process: psutil.Popen) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def measure(folder: Path, figures: Path, operators: list[int]) -> None:
    """Append a row for each planner and size to the table `figures`."""
    penstock = [sys.executable, "-m", "penstock"]
    for number in operators:
        given = folder / f"layered-{number}"
        if not given.exists():
            shape = ["generate", "layered", "--operators", str(number), "--out", str(given)]
            subprocess.run([*penstock, *shape], check=True)
        rows = len(DeltaTable(given / "transformations").to_pyarrow_table(columns=["id"]))
        for planner in PLANNERS:
            store = folder / "store"
            shutil.rmtree(store, ignore_errors=True)
            command = [*penstock, "plan", str(given), "--planner", planner, "--out", str(store)]
            row = Figures(planner, rows, *(round(value, 2) for value in run_whole(command)))
            print(*row)
            is_new = not figures.exists()
            with figures.open("a", newline="") as file:
                writer = csv.writer(file)
                writer.writerows([Figures._fields, row] if is_new else [row])


def draw(figures: Path, picture: Path) -> None:
    """Draw core-microseconds for each transformation over their number; several runs of a size: the least."""
    least: dict[str, dict[int, float]] = defaultdict(dict)
    with figures.open(newline="") as file:
        for row in csv.DictReader(file):
            rows, of_planner = int(row["transformations"]), least[row["planner"]]
            microseconds = float(row["cpu_seconds"]) / rows * 1e6
            of_planner[rows] = min(microseconds, of_planner.get(rows, microseconds))
    figure = new_figure(7, 3.6)
    axes = figure.add_subplot()
    for marker, (planner, label) in zip(MARKERS, PLANNERS.items(), strict=False):
        points = sorted(least[planner].items())
        axes.plot(*zip(*points, strict=True), marker=marker, label=label)
    axes.set(xscale="log", yscale="log", xlabel="transformations of the giant")
    axes.set_ylabel("core-microseconds for each")
    axes.grid(alpha=0.3)
    axes.legend()
    picture.write_bytes(figure_bytes(figure, picture.suffix[1:]))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", folder, table, *sizes]:
            measure(Path(folder), Path(table), [int(size) for size in sizes] or list(OPERATORS))
        case ["draw", table, target]:
            draw(Path(table), Path(target))
        case _:
            raise SystemExit(__doc__)
