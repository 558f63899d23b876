"""Plan generated topologies and print the cost of each pass and each layer.

    python -m benchmarks.bench_planning [--only WORKLOAD] [--repeat N] [--scale X] [--until LAYER]

Each workload is generated into Delta tables first; that and starting Spark are not part of the figures. A
giant is planned in blocks, whose stages are not timed by layer. The tables of a layer are read to the end
into a sink that drops them: `rows of …`; writing Delta files is not part of the figures. Operators are
physical operators. Peak memory is the largest sum over this process, its JVM and its Python workers, sampled
twice a second.
"""

import argparse
import json
import platform
import tempfile
import time
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from penstock.engine.measure.bench.measure_planner import peak_memory
from penstock.engine.planning.plan_on_spark import plan_on_spark
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planners import Planner
from penstock.engine.spark.session import get_session
from penstock.plans.generate.fleet import Spec
from penstock.plans.generate.generate_on_spark import generate_on_spark
from penstock.plans.generate.layered import SHAPES
from penstock.plans.layers import LAYER_TABLES, PlanOptions, layers_until
from penstock.plans.passes import produced
from penstock.plans.vocabulary import Layer

_READING = ("partition_topologies", "read_and_validate", "read_blocks")
WORKLOADS = {
    "fleet": ("random", Spec(operators=12, topologies=100_000, seed=1, parallelism=4)),
    "layered": ("layered", Spec(operators=1_000_000, topologies=1, seed=1, parallelism=4)),
    "layered-uids": (
        "layered",
        Spec(operators=1_000_000, topologies=1, seed=1, parallelism=4, share_of_uids=1.0),
    ),
    "layered-8": ("layered", Spec(operators=200_000, topologies=1, seed=1, parallelism=8)),
    "chain": ("chain", Spec(operators=1_000_000, topologies=1, seed=1, parallelism=4)),
}


class Run(NamedTuple):
    """Total seconds, and seconds by step and by layer; the steps of a layer are its passes and its rows."""

    total: float
    steps: dict[str, float]
    layers: dict[str, float]
    peak_bytes: int


def main() -> None:
    """Run the workloads and print two tables and one JSON line for each."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--only", choices=list(WORKLOADS))
    arguments.add_argument("--repeat", type=int, default=1)
    arguments.add_argument(
        "--scale", type=float, default=1.0, help="of the number of topologies or operators"
    )
    arguments.add_argument("--until", type=Layer, choices=list(Layer)[1:], default=Layer.SLOTS)
    chosen = arguments.parse_args()
    for name, (shape, spec) in WORKLOADS.items():
        if chosen.only in (None, name):
            sized = "topologies" if spec.topologies > 1 else "operators"
            scaled = replace(spec, **{sized: max(1, round(getattr(spec, sized) * chosen.scale))})
            _run(name, shape, scaled, chosen.repeat, chosen.until)


def _run(name: str, shape: str, spec: Spec, repeat: int, until: Layer) -> None:
    spark = get_session(app_name=f"bench {name}")
    shapes = {entry.name: entry for entry in SHAPES}
    with tempfile.TemporaryDirectory() as folder:
        topologies, transformations = generate_on_spark(spark, shapes[shape].fleet(spec))
        topologies.write.format("delta").save(f"{folder}/topologies")
        transformations.write.format("delta").save(f"{folder}/transformations")
        runs = []
        for _ in range(repeat):
            with peak_memory() as peak:
                started = time.monotonic()
                planned = plan_on_spark(folder, PlanOptions(until), spark=spark, planner=Planner.BLOCKS)
                rows = _read_rows(planned, until)
                total = time.monotonic() - started
            operators = planned.tables["stream_nodes"].count()
            steps = {**planned.seconds, **rows}
            runs.append(Run(total, steps, _by_layer(steps, until), peak[0]))
            planned.release()
    _print(name, operators, runs)


def _read_rows(planned: PlanResult, until: Layer) -> dict[str, float]:
    seconds = {}
    for layer in layers_until(until)[1:]:
        started = time.monotonic()
        for table in LAYER_TABLES[layer]:
            planned.tables[table].write.format("noop").mode("overwrite").save()
        seconds[f"rows of {layer}"] = time.monotonic() - started
    return seconds


def _by_layer(steps: dict[str, float], until: Layer) -> dict[str, float]:
    layers = {"topology": sum(steps.get(step, 0) for step in _READING)}
    for layer, names in produced().items():
        if layer in layers_until(until):
            layers[layer] = steps[f"rows of {layer}"] + sum(steps.get(name, 0) for name in names)
    return layers


def _print(name: str, operators: int, runs: list[Run]) -> None:
    total = median(run.total for run in runs)
    memory = max(run.peak_bytes for run in runs)
    steps = {step: median(run.steps[step] for run in runs) for step in runs[0].steps}
    layers = {layer: median(run.layers[layer] for run in runs) for layer in runs[0].layers}
    title = f"{name}: {operators:,} operators, {total:.1f} s, peak {memory / 2**30:.1f} GiB"
    for heading, seconds in (("pass", steps), ("layer", layers)):
        table = Table(title=title)
        for column in (heading, "seconds", "operators/s"):
            table.add_column(column, justify="left" if column == heading else "right")
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
        "layers": {layer: round(spent, 3) for layer, spent in layers.items()},
        "passes": {step: round(spent, 3) for step, spent in steps.items()},
        "machine": platform.platform(),
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
