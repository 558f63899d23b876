"""Plans generated topologies and prints what each pass costs.

    python benchmarks/bench_planning.py [--operators N] [--topologies N] [--repeat N] [--only NAME]

Each workload is generated into Delta tables first; that, starting Spark and writing a store are not part of
the figures. Operators are physical operators. Peak memory is the largest sum over this process, its JVM and
its Python workers, sampled twice a second.
"""

import argparse
import json
import platform
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event, Thread

from rich.console import Console
from rich.table import Table

from engine.plan_topologies import plan_tables
from engine.session import get_session
from plans.generate.shapes import SHAPES
from plans.generate.spec import Spec
from plans.topology.read_topology_tables import read_topology_folder
from plans.vocabulary import Layer

PAGE_BYTES = resource.getpagesize()


def main() -> None:
    """Run the workloads and print one table for each, and one JSON line a workload."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--operators", type=int, default=1_000_000, help="of a single topology")
    arguments.add_argument("--topologies", type=int, default=100_000, help="of the random fleet")
    arguments.add_argument("--repeat", type=int, default=1)
    arguments.add_argument("--only", help="fleet, layered, layered-uids or chain")
    chosen = arguments.parse_args()
    single = chosen.operators
    workloads = {
        "fleet": ("random", Spec(operators=12, topologies=chosen.topologies, seed=1, parallelism=4)),
        "layered": ("layered", Spec(operators=single, topologies=1, seed=1, parallelism=4)),
        "layered-uids": (
            "layered",
            Spec(operators=single, topologies=1, seed=1, parallelism=4, share_of_uids=1.0),
        ),
        "chain": ("chain", Spec(operators=single, topologies=1, seed=1, parallelism=4)),
    }
    for name, (shape, spec) in workloads.items():
        if chosen.only in (None, name):
            _run(name, shape, spec, chosen.repeat)


def _run(name: str, shape: str, spec: Spec, repeat: int) -> None:
    spark = get_session(app_name=f"bench {name}")
    shapes = {entry.name: entry for entry in SHAPES}
    with tempfile.TemporaryDirectory() as folder:
        topologies, transformations = shapes[shape].generate(spark, spec)
        topologies.write.format("delta").save(f"{folder}/topologies")
        transformations.write.format("delta").save(f"{folder}/transformations")
        runs = []
        for _ in range(repeat):
            with peak_memory() as peak:
                started = time.monotonic()
                given = read_topology_folder(spark, folder)
                read = time.monotonic() - started
                planned = plan_tables(spark, given, Layer.JOB_GRAPH, lambda stage: None)
                total = time.monotonic() - started
            operators = planned.tables["stream_nodes"].count()
            runs.append((total, {"read_and_validate": read, **planned.seconds}, peak[0]))
            planned.release()
    _print(name, operators, runs)


def _print(name: str, operators: int, runs: list[tuple[float, dict[str, float], int]]) -> None:
    total = median(run[0] for run in runs)
    memory = max(run[2] for run in runs)
    table = Table(title=f"{name}: {operators:,} operators, {total:.1f} s, peak {memory / 2**30:.1f} GiB")
    for column in ("pass", "seconds", "operators/s"):
        table.add_column(column, justify="left" if column == "pass" else "right")
    seconds = {step: median(run[1][step] for run in runs) for step in runs[0][1]}
    for step, spent in seconds.items():
        table.add_row(step, f"{spent:.2f}", f"{operators / spent:,.0f}" if spent else "")
    Console().print(table)
    figures = {
        "workload": name,
        "operators": operators,
        "repetitions": len(runs),
        "seconds": round(total, 2),
        "operators_per_second": round(operators / total),
        "peak_memory_bytes": memory,
        "passes": {step: round(spent, 3) for step, spent in seconds.items()},
        "machine": platform.platform(),
    }
    print(json.dumps(figures), flush=True)


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """A list whose one entry grows to the largest resident memory of the process tree, in bytes."""
    peak, stop = [0], Event()

    def sample() -> None:
        while not stop.wait(0.5):
            peak[0] = max(peak[0], _resident_bytes())

    thread = Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def _resident_bytes() -> int:
    """Of this process and all below it; pages that forked workers share count several times."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    tree = {int(Path("/proc/self").resolve().name)}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        grown = bool(more)
        tree |= more
    return sum(_resident_set_bytes(pid) for pid in tree)


def _resident_set_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * PAGE_BYTES


if __name__ == "__main__":
    main()
