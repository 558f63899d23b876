"""Print the cost per operator of each layer of a plan by joins: core time, bytes exchanged and stored.

    penstock plan DIR --out STORE --planner joins \\
        --conf spark.eventLog.enabled=true --conf spark.eventLog.dir=LOG
    python -m benchmarks.cost_of_layers LOG STORE

A core-second is a second of a task, Java and its Python worker together. A layer has the jobs of its steps,
and of storing its tables while later layers are planned. The work before the first step (reading, validating
and partitioning the input) and after the last one (storing the rest) has its own lines. Walks are tasks of
half a second or more that are alone in their stage; the core-seconds include them. STORE holds one version;
the bytes are the sizes of its Parquet files.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.event_log import Stage, events, stages_of
from benchmarks.simulate_cores import is_walk
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.planners.joins_passes import produced
from penstock.plans.planners.run_joins import JOBS_OF
from penstock.plans.vocabulary import Layer

READING, STORING = "reading", "storing the rest"


class Cost(NamedTuple):
    """Core-seconds, the part of them in walks, and bytes written for exchanges."""

    seconds: float
    walk_seconds: float
    shuffled_bytes: int


def main() -> None:
    """Print a line for each layer, and the sums."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path)
    parser.add_argument("store", type=Path)
    arguments = parser.parse_args()
    costs = costs_of_layers(stages_of(events(arguments.log)))
    operators, stored = _rows(arguments.store / "stream_nodes"), _stored_bytes(arguments.store)
    lines = Table(
        "layer",
        "core-µs",
        "of them walks",
        "bytes exchanged",
        "bytes stored",
        title=f"per operator, of {operators:,}",
    )
    for name, cost in costs.items():
        lines.add_row(name, *_per_operator(cost, stored.get(name, 0), operators))
    total = Cost(*(sum(amounts) for amounts in zip(*costs.values(), strict=True)))
    lines.add_row("all", *_per_operator(total, sum(stored.values()), operators))
    Console().print(lines)


def costs_of_layers(stages: Sequence[Stage]) -> dict[str, Cost]:
    """Return the cost of each layer, READING or STORING, in this order."""
    layers = layers_of_steps()
    first = min((stage.submitted for stage in stages if stage.step), default=float("inf"))
    costs = {name: Cost(0, 0, 0) for name in (READING, *layers.values(), STORING)}
    for stage in stages:
        name = layers.get(stage.step) or (READING if stage.submitted < first else STORING)
        seconds, walk_seconds, shuffled = costs[name]
        spent = sum(stage.tasks)
        costs[name] = Cost(
            seconds + spent, walk_seconds + spent * is_walk(stage), shuffled + stage.shuffled_bytes
        )
    return costs


def layers_of_steps() -> dict[str, str]:
    """Return the layer of each step, by the description of the step's jobs."""
    return {
        f"{JOBS_OF}{step}": str(layer)
        for layer, steps in produced().items()
        for step in (*steps, f"{layer}_tables")
    }


def _stored_bytes(store: Path) -> Mapping[str, int]:
    sizes = {
        layer: sum(file.stat().st_size for table in tables for file in (store / table).glob("**/*.parquet"))
        for layer, tables in LAYER_TABLES.items()
    }
    return {READING if layer is Layer.TOPOLOGY else str(layer): size for layer, size in sizes.items()}


def _rows(table: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in table.glob("**/*.parquet"))


def _per_operator(cost: Cost, stored: int, operators: int) -> list[str]:
    seconds, walk_seconds, shuffled = cost
    return [
        f"{1e6 * seconds / operators:.1f}",
        f"{1e6 * walk_seconds / operators:.2f}",
        f"{shuffled / operators:.0f}",
        f"{stored / operators:.0f}",
    ]


if __name__ == "__main__":
    main()
