"""Cells measured by the workers of a Spark cluster, several at a time."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.engine.measure.bench.measure_planner import describe_failure
from penstock.engine.measure.sweep.grid import Cell
from penstock.engine.measure.sweep.measure_cell import CellMeter, CellRequest
from penstock.engine.measure.sweep.run_sweep import Answer, Measure
from penstock.engine.planning.find_custom_planners import (
    find_custom_planners,
    names_custom_planner,
    send_planners,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def measure_on_spark(spark: "SparkSession", request: CellRequest) -> Measure:
    """Measures cells as `request` says. A task takes all cells of the same topologies and options, in turn.

    Files that the spec names have to be where the workers run; modules of planners are sent there. A task
    that fails gives each of its cells that failure.
    """
    threads = max(1, spark.sparkContext.defaultParallelism)

    def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Answer]]:
        of_others = {cell.planner for cell in cells if names_custom_planner(cell.planner)}
        send_planners(
            spark, [custom_planner for name in of_others for custom_planner in find_custom_planners(name)]
        )
        grouped = [list(group) for _, group in groupby(cells, lambda c: (dict(c.source), dict(c.options)))]
        pool = ThreadPoolExecutor(threads, thread_name_prefix="penstock-sweep")
        try:
            tasks = {pool.submit(_measured, spark, request, group): group for group in grouped}
            for task in as_completed(tasks):
                group = tasks[task]
                try:
                    answers = task.result()
                except Exception as error:
                    answers = [{"failure": describe_failure(error)}] * len(group)
                yield from zip(group, answers, strict=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    return measure


def _measured(spark: "SparkSession", request: CellRequest, cells: Sequence[Cell]) -> list[Answer]:
    asked = [
        request._replace(
            source=c.source, options=c.options, costs=c.costs, planner=c.planner, constants=c.constants
        )
        for c in cells
    ]
    requests = spark.createDataFrame(
        [(json.dumps([cell_request._asdict() for cell_request in asked]),)], "requests string"
    )
    rows = requests.coalesce(1).mapInArrow(_answers, "answer string").collect()
    return [json.loads(row["answer"]) for row in rows]


def _answers(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    meter = CellMeter()
    for batch in batches:
        for text in batch.column(0).to_pylist():
            for request in json.loads(text):
                try:
                    answer: Answer = {"result": meter.measure(CellRequest(**request)), "failure": None}
                except Exception as error:
                    answer = {"result": None, "failure": describe_failure(error)}
                yield pa.record_batch({"answer": [json.dumps(answer)]})
