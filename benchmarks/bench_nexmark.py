"""Run Nexmark on the real PyFlink and on Penstock: the same script over the same CSV files, in turn.

    python -m benchmarks.bench_nexmark --pyflink PYTHON [--queries q1,q5] [--scale F] [--repeat N]

PYTHON is the interpreter of an environment with apache-flink 2.3.0. A process of each side runs a query over
a thousand events and then over all of them, so that start-up is separate; the second run is compared,
including reading and writing of files. The number of events keeps PyFlink busy for one or two minutes on two
cores; `--scale` multiplies it. All kinds of events count, even if a query reads only one. The sorted results
of both sides are compared.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.write_nexmark import write_nexmark
from penstock import engine


class Input(NamedTuple):
    """The number of events, and the kinds of them that are read."""

    events: int
    kinds: tuple[str, ...]


QUERIES = {
    "q0": Input(2_000_000, ("bid",)),
    "q1": Input(2_000_000, ("bid",)),
    "q2": Input(2_000_000, ("bid",)),
    "q3": Input(2_000_000, ("person", "auction")),
    "q4": Input(50_000, ("auction", "bid")),
    "q5": Input(50_000, ("bid",)),
    "q7": Input(100_000, ("bid",)),
    "q8": Input(500_000, ("person", "auction")),
}
PARALLELISM = 2
SCRIPT = Path(engine.__file__).parent / "examples" / "nexmark.py"
TIME_SCRIPT = Path(__file__).parent / "time_script.py"


class Timing(NamedTuple):
    """Seconds of one side's two runs, the first with start-up, and the lines that the second wrote."""

    first: float
    second: float
    lines: list[str]


class Side(NamedTuple):
    """The command that runs a script, and its environment."""

    command: Sequence[str]
    environment: Mapping[str, str]


def main() -> None:
    """Run, and print a table and one JSON line per query."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pyflink", required=True, metavar="PYTHON")
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--mode", choices=("process", "thread"), default="process")
    parser.add_argument("--repeat", type=int, default=1)
    chosen = parser.parse_args()
    table = Table("query", "events", "PyFlink (s)", "Penstock (s)", "ratio", "events/s", "results")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sides = {"pyflink": pyflink(chosen.pyflink, chosen.mode, work), "penstock": penstock()}
        for query in chosen.queries.split(","):
            events = round(QUERIES[query].events * chosen.scale)
            runs: dict[str, list[Timing]] = {name: [] for name in sides}
            for _ in range(chosen.repeat):
                for name, side in sides.items():
                    runs[name].append(timed(side, query, events, work))
            seconds = {name: median(run.second for run in side_runs) for name, side_runs in runs.items()}
            first = {name: median(run.first for run in side_runs) for name, side_runs in runs.items()}
            equal = runs["pyflink"][-1].lines == runs["penstock"][-1].lines
            ratio = seconds["pyflink"] / seconds["penstock"]
            figures = {"query": query, "events": events, "mode": chosen.mode, "seconds": seconds}
            print(json.dumps({**figures, "first": first, "ratio": ratio, "equal": equal}), flush=True)
            table.add_row(
                query,
                f"{events:,}",
                f"{seconds['pyflink']:.2f}",
                f"{seconds['penstock']:.2f}",
                f"{ratio:.1f}",
                f"{events / seconds['penstock']:,.0f}",
                "equal" if equal else "differ",
            )
    Console().print(table)


def pyflink(python: str, mode: str, work: Path) -> Side:
    """Return the real PyFlink, with its own settings except the execution mode and the parallelism."""
    location = subprocess.run(
        [python, "-c", "import pyflink; print(pyflink.__path__[0])"],
        check=True,
        capture_output=True,
        text=True,
    )
    package = Path(location.stdout.strip())
    conf = work / "conf"
    shutil.copytree(package / "conf", conf)
    with (conf / "config.yaml").open("a") as config:
        config.write(f"\npython.execution-mode: {mode}\nparallelism.default: {PARALLELISM}\n")
    environment = {
        "FLINK_CONF_DIR": str(conf),
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",  # its workers are `python`
        "PYTHONPATH": str(package.parent),  # thread mode searches it
    }
    return Side([python], environment)


def penstock() -> Side:
    """Return this Penstock."""
    return Side([f"{sysconfig.get_path('scripts')}/penstock", "run", "-p", str(PARALLELISM)], {})


def timed(side: Side, query: str, events: int, work: Path) -> Timing:
    """Run a process of this side. Raises SystemExit if it fails."""
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    seconds = out / "seconds.json"
    kinds = QUERIES[query].kinds
    few = (query, folder_of(1000, kinds, work), str(out / "few"))
    all_ = (query, folder_of(events, kinds, work), str(out / "all"))
    command = [*side.command, str(TIME_SCRIPT), str(seconds), str(SCRIPT), *few, "---", *all_]
    completed = subprocess.run(
        command, check=False, env={**os.environ, **side.environment}, capture_output=True, text=True
    )
    if completed.returncode:
        sys.exit(f"{query}: {' '.join(command)} failed:\n{completed.stdout}{completed.stderr}")
    parts = [part for part in (out / "all").rglob("*") if part.is_file()]
    lines = sorted(line for part in parts for line in part.read_text().splitlines())
    first_seconds, second_seconds = json.loads(seconds.read_text())
    return Timing(first_seconds, second_seconds, lines)


def folder_of(events: int, kinds: Iterable[str], work: Path) -> str:
    """Return the folder with this many events of at least these kinds; create it on first use."""
    folder = work / f"events-{events}"
    write_nexmark(folder, events, PARALLELISM, [kind for kind in kinds if not (folder / kind).exists()])
    return str(folder)


if __name__ == "__main__":
    main()
