"""Plans one all-to-all edge between 10,000 and 10,000 tasks, and expands its 100 million execution edges.

    python -m benchmarks.bench_edges [--parallelism N] [--repeat N]

Planning is the whole of it, from a Python object to every table, by the columnar planner in a process that
has planned before. Expansion goes to a sink that drops rows, in turn with a Spark range of as many rows.
Peak memory is sampled twice a second over this process, its JVM and its Python workers.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import median

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

from engine.bench.peak_memory import peak_memory
from engine.planning.plan_in_process import plan_in_process
from engine.planning.plan_topologies import plan
from engine.spark.session import get_session
from plans.execution_graph.joins.expand_execution_edges import expand_execution_edges


def main() -> None:
    """Run and print a table and a JSON line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--parallelism", type=int, default=10_000)
    arguments.add_argument("--repeat", type=int, default=3)
    chosen = arguments.parse_args()
    spark = get_session(app_name="bench edges")
    _plan(10)
    with peak_memory() as small_peak:
        _plan(10)
    with peak_memory() as peak:
        planning = [_seconds(lambda: _plan(chosen.parallelism)) for _ in range(chosen.repeat)]
    planned = plan([_topology(chosen.parallelism)], spark=spark)
    edges = planned.tables["execution_edges"].repartition(spark.sparkContext.defaultParallelism)
    edges = edges.localCheckpoint()
    rows = chosen.parallelism**2
    expanding, ranging = [], []
    for _ in range(chosen.repeat):
        expanding.append(_seconds(lambda: _drop(expand_execution_edges(edges))))
        ranging.append(_seconds(lambda: _drop(spark.range(rows))))
    planned.release()
    figures = {
        "plan_seconds": round(median(planning), 3),
        "execution_edge_rows": edges.count(),
        "peak_memory_bytes": peak[0],
        "peak_memory_bytes_of_parallelism_10": small_peak[0],
        "expanded_edges": rows,
        "expanded_edges_per_second": round(rows / median(expanding)),
        "range_rows_per_second": round(rows / median(ranging)),
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


def _drop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _seconds(run: Callable[[], None]) -> float:
    started = time.monotonic()
    run()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
