"""Compare the columnar planner with its limit: its input read and its tables written, without planning.

    python -m benchmarks.bench_limits INPUT [--repeat N]

Plans INPUT (a folder of tables or topology lines) in one process and prints, for reading and every layer, its
seconds, the bytes of the tables that it reads and writes, and the seconds of copying these once, in as many
threads as the planner has. Reading copies its output; a layer copies the tables of the layer before it and
its own. Then the same for each step, the slowest first, which copies the columns that it needs and the
columns that it makes: a step that beats its copy reads only part of its columns. Figures are medians of N
runs after a warm-up run; planning and copying alternate. Making Arrow tables and leaving out topologies that
Flink refuses belong to no step.
"""

import argparse
import gc
import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import pyarrow as pa
from rich.console import Console
from rich.table import Column, Table

from benchmarks.limits_of_steps import Limit, limits_of_steps, together
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_result import PlanResult
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.passes import produced
from penstock.plans.planners.plan_in_parts import side_by_side
from penstock.plans.vocabulary import Layer

ROWS_AT_ONCE = 150_000


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("input")
    arguments.add_argument("--repeat", type=int, default=3)
    chosen = arguments.parse_args()
    limits_of_steps(chosen.input)
    planning: dict[str, list[float]] = {}
    copying: dict[str, list[float]] = {}
    volume: dict[str, int] = {}
    limits: list[dict[str, Limit]] = []
    for _ in range(chosen.repeat):
        gc.collect()
        planned = plan_in_process(chosen.input)
        for stage, spent in planned.seconds.items():
            planning.setdefault(stage, []).append(spent)
        for layer in Layer:
            tables = tables_of(planned, layer)
            volume[layer] = sum(table.nbytes for table in tables)
            copying.setdefault(layer, []).append(seconds_to_copy(tables))
        operators = planned.tables["stream_nodes"].num_rows
        del planned, tables
        limits.append(limits_of_steps(chosen.input))
    console = Console()
    console.print(by_layer({s: median(v) for s, v in planning.items()}, copying, volume, operators))
    console.print(by_step(limits, operators))


def tables_of(planned: PlanResult, layer: Layer) -> list[pa.Table]:
    """Return the tables that a layer reads, from the layer before it, and the tables that it writes."""
    before = list(Layer)[max(0, list(Layer).index(layer) - 1)]
    names = dict.fromkeys([*LAYER_TABLES[before], *LAYER_TABLES[layer]])
    return [planned.tables[name] for name in names]


def seconds_to_copy(tables: Iterable[pa.Table]) -> float:
    """Return the seconds of copying every value into new memory."""
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
    """Return a table of seconds, copied bytes and the distance; the first layer is reading."""
    table = _table("layer")
    for layer in Layer:
        names = produced().get(layer, ("read_and_validate",))
        seconds = sum(planning.get(name, 0.0) for name in names)
        limit = median(copying[layer])
        table.add_row(layer, *_as_text(Limit(seconds, limit, volume[layer]), operators))
    return table


def by_step(runs: Sequence[Mapping[str, Limit]], operators: int) -> Table:
    """Return the table of `by_layer` for steps; the last row has the distances of all steps together."""
    table = _table("step")
    medians = {
        step: Limit(*(median(values) for values in zip(*(run[step] for run in runs), strict=True)))
        for step in runs[0]
    }
    for step, limit in sorted(medians.items(), key=lambda item: -item[1].takes):
        table.add_row(step, *_as_text(limit, operators))
    table.add_section()
    table.add_row("all steps", *_as_text(together(medians.values()), operators))
    return table


def _as_text(limit: Limit, operators: int) -> list[str]:
    return [
        f"{limit.takes:.3f}",
        f"{1e6 * limit.takes / operators:.2f}",
        f"{limit.volume / 1e6:,.0f}",
        f"{limit.copying:.3f}",
        f"{limit.takes / limit.copying:.1f} x",
    ]


def _table(heading: str) -> Table:
    numbers = ("seconds", "µs/op", "MB", "copying", "times")
    return Table(Column(heading, no_wrap=True), *(Column(header, justify="right") for header in numbers))


if __name__ == "__main__":
    main()
