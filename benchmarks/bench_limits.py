"""How far the columnar planner is from its limit: its input read and its tables written, nothing planned.

    python -m benchmarks.bench_limits INPUT [--repeat N]

Plans INPUT (a folder of tables or topology lines) in one process and prints, for reading and every layer, the
seconds it takes, the bytes of the tables that it reads and writes, and the seconds of copying these once, in
as many threads as the planner has. Reading copies what it gives; a layer copies the tables of the layer
before it and its own. Medians of N runs behind one that is not counted, planning and copying in turn. Then
each step, the slowest first.
"""

import argparse
import gc
import time
from collections.abc import Iterable
from statistics import median

import pyarrow as pa
from rich.console import Console
from rich.table import Column, Table

from engine.plan_on_driver import PlannedTables, plan_on_driver
from plans.columnar.plan_columnar import steps
from plans.columnar.side_by_side import side_by_side
from plans.passes import LAYER_TABLES, Choices
from plans.vocabulary import Layer

ROWS_AT_ONCE = 150_000


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("input")
    arguments.add_argument("--repeat", type=int, default=3)
    chosen = arguments.parse_args()
    plan_on_driver(chosen.input)
    planning: dict[str, list[float]] = {}
    copying: dict[str, list[float]] = {}
    volume: dict[str, int] = {}
    for _ in range(chosen.repeat):
        gc.collect()
        planned = plan_on_driver(chosen.input)
        for stage, spent in planned.seconds.items():
            planning.setdefault(stage, []).append(spent)
        for layer in Layer:
            tables = tables_of(planned, layer)
            volume[layer] = sum(table.nbytes for table in tables)
            copying.setdefault(layer, []).append(seconds_to_copy(tables))
        operators = planned.tables["stream_nodes"].num_rows
        del planned, tables
    console = Console()
    console.print(by_layer({s: median(v) for s, v in planning.items()}, copying, volume, operators))
    console.print(by_step({s: median(v) for s, v in planning.items()}, operators))


def tables_of(planned: PlannedTables, layer: Layer) -> list[pa.Table]:
    """What a layer reads, the tables of the layer before it, and what it writes."""
    before = list(Layer)[max(0, list(Layer).index(layer) - 1)]
    names = dict.fromkeys([*LAYER_TABLES[before], *LAYER_TABLES[layer]])
    return [planned.tables[name] for name in names]


def seconds_to_copy(tables: Iterable[pa.Table]) -> float:
    """Every value into new memory."""
    batches = [batch for table in tables for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE)]
    started = time.monotonic()
    copies = side_by_side(_copied, batches)
    seconds = time.monotonic() - started
    del copies
    return seconds


def _copied(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def by_layer(
    planning: dict[str, float], copying: dict[str, list[float]], volume: dict[str, int], operators: int
) -> Table:
    """Seconds, what is copied, and the distance; the first layer is reading."""
    shown = Table("layer", *_numbers("seconds", "µs an operator", "MB copied", "copying s", "distance"))
    for layer in Layer:
        names = [step.produces for step in steps(Choices()).get(layer, ())] or ["read_and_validate"]
        seconds = sum(planning.get(name, 0.0) for name in names)
        limit = median(copying[layer])
        shown.add_row(
            layer,
            f"{seconds:.2f}",
            f"{1e6 * seconds / operators:.2f}",
            f"{volume[layer] / 1e6:,.0f}",
            f"{limit:.2f}",
            f"{seconds / limit:.1f} x",
        )
    return shown


def by_step(planning: dict[str, float], operators: int) -> Table:
    """Every stage with more than a hundredth of all time."""
    total = sum(planning.values())
    shown = Table("step", *_numbers("seconds", "µs an operator", "of all"))
    for stage, seconds in sorted(planning.items(), key=lambda item: -item[1]):
        if seconds > total / 100:
            share = f"{100 * seconds / total:.0f}%"
            shown.add_row(stage, f"{seconds:.2f}", f"{1e6 * seconds / operators:.2f}", share)
    return shown


def _numbers(*headers: str) -> list[Column]:
    return [Column(header, justify="right") for header in headers]


if __name__ == "__main__":
    main()
