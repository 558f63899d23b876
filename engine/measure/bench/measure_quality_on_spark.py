"""How good the plans of planners are, in Spark's workers: only metrics come back, one row per topology."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.measure.bench.measure_quality import (
    FLINKS_RULES,
    MeasuredQuality,
    PlannerQuality,
    compare_all,
    put_together,
)
from penstock.engine.planning.find_custom_planners import find_custom_planners, send_planners
from penstock.engine.planning.foresee_spark_memory import (
    BYTES_OF_A_PLANNED_ROW,
    require_memory_of_workers,
    rows_at_once,
)
from penstock.engine.planning.memory_of_workers import is_local, memory_of_workers
from penstock.engine.planning.nothing_lost import require_nothing_lost
from penstock.engine.planning.plan_in_workers import Size, call_in_workers, count_inputs, count_rows
from penstock.engine.planning.plan_topologies import read_topologies
from penstock.engine.planning.planning_settings import ROWS_PER_PARTITION, partitions_for, planning_settings
from penstock.plans.frames.spark_schemas import free
from penstock.plans.layers import Choices
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants
from penstock.plans.planners.plan_packed_tables import PlanPart
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.joins.topologies_of_lines import TopologyTables

if TYPE_CHECKING:
    from penstock.plans.planners.plan_in_parts import InParts

_PLANS, _SUMMARY = "plans", "summary"


def measure_quality_on_spark(
    spark: SparkSession,
    path: Path,
    planners: Sequence[str],
    costs: str | None,
    choices: Choices,
    seconds: float,
    report: Callable[[str], None] = lambda stage: None,
    job_defaults: JobDefaults = NO_DEFAULTS,
    constants: Constants = CONSTANTS,
) -> MeasuredQuality:
    """As measure_quality, with the same rows. A planner sees the topologies of a partition at a time.

    Modules of planners are sent to the workers; topologies and costs have to be where these run. Seconds are
    those of all partitions, divided by how many run at once. Raises LostTopologiesError, and
    NotEnoughMemoryError where the workers of a local Spark cannot have what they would need.
    """
    send_planners(
        spark, [p for name in planners if name not in FLINKS_RULES for p in find_custom_planners(name)]
    )
    report("read topologies")
    topologies = read_topologies(spark, path, job_defaults=job_defaults)
    rows, largest, *_ = count_rows(topologies, Size(ROWS_PER_PARTITION, 2**63 - 1))
    partitions = partitions_for(spark, rows)
    at_once = min(partitions, spark.sparkContext.defaultParallelism)
    if is_local(spark.sparkContext):  # on a cluster, memory is the executors'
        planned_rows = rows_at_once(rows, largest, partitions, at_once)
        require_memory_of_workers(
            planned_rows, planned_rows * BYTES_OF_A_PLANNED_ROW, memory_of_workers(spark)
        )
    # workers have other working folders
    named = os.path.abspath(costs) if costs is not None and os.path.exists(costs) else costs
    report("plan and measure in workers")
    with planning_settings(spark, partitions):
        measured = call_in_workers(
            topologies, partitions, _planned_and_measured(planners, named, choices, seconds, constants)
        )
        inputs = count_inputs(topologies, measured)
        before = topologies.rejected.count() if isinstance(topologies, TopologyTables) else 0
        quality = {
            name: _join_parts(measured, number, before, at_once) for number, name in enumerate(planners)
        }
    free(measured)
    for kept in topologies.persisted if isinstance(topologies, TopologyTables) else ():
        kept.unpersist()
    for of_planner in quality.values():
        planned, rejected = of_planner.summary["planned"], of_planner.summary["rejected"]
        require_nothing_lost(inputs, planned, rejected, of_planner.plans[TOPOLOGY].n_unique())
    return compare_all(inputs, quality, report)


def _planned_and_measured(
    planners: Sequence[str], costs: str | None, choices: Choices, seconds: float, constants: Constants
) -> PlanPart:
    """plan_and_measure by each planner in a worker, which imports it when it needs it."""

    def plan(frames: dict[str, pl.DataFrame]) -> "InParts":
        from penstock.engine.measure.bench.measure_quality import plan_and_measure
        from penstock.engine.planning.custom_planners import question
        from penstock.engine.planning.plan_in_process import ReadTopologies
        from penstock.plans.planners.plan_in_parts import InParts

        read = ReadTopologies(frames, len(frames["topologies"]) + len(frames["rejected"]), 0.0)
        asked = question(costs, frames["topologies"], seconds, part=True, constants=constants)
        tables: dict[str, pa.Table] = {}
        for number, name in enumerate(planners):
            measured = plan_and_measure(read, name, asked, choices)
            tables[f"{_PLANS} {number}"] = measured.plans.to_arrow()
            tables[f"{_SUMMARY} {number}"] = pa.table({_SUMMARY: [json.dumps(measured.summary)]})
        return InParts(tables, {})

    return plan


def _join_parts(measured: DataFrame, number: int, rejected_before: int, at_once: int) -> PlannerQuality:
    """The quality of one planner's plans, joined from what the partitions measured."""
    summaries = [
        json.loads(text) for table in _tables(measured, f"{_SUMMARY} {number}") for text in table[_SUMMARY]
    ]
    summed = put_together(summaries, _tables(measured, f"{_PLANS} {number}"))
    summed.summary["rejected"] += rejected_before
    for name in ("planning_seconds", "metrics_seconds"):
        summed.summary[name] /= at_once
    return summed


def _tables(measured: DataFrame, name: str) -> list[pl.DataFrame]:
    """The blocks of one of the tables that workers gave."""
    blocks = measured.where(F.col("table") == name).select("block").toArrow().column("block")
    return [pl.DataFrame(pa.ipc.open_stream(block.as_buffer()).read_all()) for block in blocks]
