"""Plan one all-to-all edge between 10,000 and 10,000 tasks, and expand its 100 million execution edges.

    python -m benchmarks.bench_edges [--parallelism N] [--repeat N]

Planning covers all steps, from a Python object to every table, by the columnar planner in a process that has
planned before. Edges are expanded as `penstock edges` does it, some subtasks at a time. Peak memory is
sampled twice a second over this process.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import median

import polars as pl
from rich.console import Console
from rich.table import Table

from penstock.engine.measure.bench.measure_planner import peak_memory
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.execution_graph.create_intermediate_results import expand_execution_edges
from penstock.plans.frames.polars_frames import from_arrow

SUBTASKS_AT_A_TIME = 100


def main() -> None:
    """Run and print a table and a JSON line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--parallelism", type=int, default=10_000)
    arguments.add_argument("--repeat", type=int, default=3)
    chosen = arguments.parse_args()
    _plan(10)
    with peak_memory() as small_peak:
        _plan(10)
    with peak_memory() as peak:
        planning = [_seconds(lambda: _plan(chosen.parallelism)) for _ in range(chosen.repeat)]
    edges = from_arrow(plan_in_process([_topology(chosen.parallelism)]).tables["execution_edges"])
    rows = chosen.parallelism**2
    expanding = [_seconds(lambda: _expand(edges)) for _ in range(chosen.repeat)]
    figures = {
        "plan_seconds": round(median(planning), 3),
        "execution_edge_rows": len(edges),
        "peak_memory_bytes": peak[0],
        "peak_memory_bytes_of_parallelism_10": small_peak[0],
        "expanded_edges": rows,
        "expanded_edges_per_second": round(rows / median(expanding)),
    }
    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), f"{value:,}")
    Console().print(table)
    print(json.dumps(figures))


def _topology(parallelism: int) -> dict[str, object]:
    return {
        "name": f"all-to-all-{parallelism}",
        "parallelism": parallelism,
        "transformations": [
            {"id": 1, "kind": "source", "name": "source"},
            {"id": 2, "kind": "partition", "partitioner": "rebalance", "inputs": [1]},
            {"id": 3, "kind": "sink", "name": "sink", "inputs": [2]},
        ],
    }


def _plan(parallelism: int) -> None:
    plan_in_process([_topology(parallelism)])


def _expand(edges: pl.DataFrame) -> None:
    for part in edges.iter_slices(SUBTASKS_AT_A_TIME):
        expand_execution_edges(part)


def _seconds(run: Callable[[], None]) -> float:
    started = time.monotonic()
    run()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
