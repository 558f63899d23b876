"""Compute metrics of plans whose tables are in Spark, at any size."""

from collections.abc import Iterator, Mapping

import polars as pl
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.planning.chosen_costs import chosen_costs
from penstock.engine.planning.planning_settings import (
    ROWS_OF_A_BLOCK,
    ROWS_PER_PARTITION,
    partitions_for,
    planning_settings,
)
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.metrics.operator_costs import COSTS, LEVEL, PREFIX
from penstock.plans.metrics.plan_metrics_on_spark import Metrics, plan_metrics
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.resources.memory_and_buffers import NetworkOptions
from penstock.plans.tables.column_types import TOPOLOGY


def metrics_on_spark(
    spark: SparkSession,
    tables: Mapping[str, DataFrame],
    costs: str | None,
    task_manager: TaskManager,
    network: NetworkOptions,
    constants: Constants = CONSTANTS,
) -> Metrics:
    """Compute plan_metrics of NEEDED tables. `costs`: see chosen_costs.

    Topologies that fit in a partition are walked many at a time. Larger ones are sorted and packed in blocks.
    No topology goes through the driver.
    """
    sizes = tables["stream_nodes"].groupBy(TOPOLOGY).agg(F.count(F.lit(1)).alias("size")).cache()
    giant = F.col("size") > ROWS_PER_PARTITION
    giants = [row[TOPOLOGY] for row in sizes.filter(giant).select(TOPOLOGY).collect()]
    large, rows = sizes.agg(F.sum(F.when(giant, F.col("size"))), F.sum("size")).collect()[0]
    sizes.unpersist()
    is_giant = F.col(TOPOLOGY).isin(giants)
    parts: list[tuple[Column, int, int | None]] = [(is_giant, large or 0, ROWS_OF_A_BLOCK)] if giants else []
    if not giants or not tables["topologies"].filter(~is_giant).isEmpty():
        parts.append((~is_giant, (rows or 0) - (large or 0), None))
    metrics: Metrics | None = None
    for chosen, count, block in parts:
        part_tables = {name: frame.filter(chosen) if giants else frame for name, frame in tables.items()}
        part_costs = costs_on_spark(costs, part_tables["topologies"], part_tables["stream_nodes"])
        partitions = partitions_for(spark, count)
        with planning_settings(spark, partitions, block):
            further = plan_metrics(
                part_tables, part_costs, task_manager, network, max(2, partitions), constants
            )
        metrics = further if metrics is None else _joined(metrics, further)
    assert metrics is not None
    return metrics


def _joined(metrics: Metrics, other: Metrics) -> Metrics:
    return Metrics(
        metrics.plans.unionByName(other.plans),
        metrics.vertices.unionByName(other.vertices),
        metrics.edges.unionByName(other.edges),
        (*metrics.kept, *other.kept),
    )


# Costs of stream nodes in Spark.


_COLUMNS = {**COSTS, LEVEL: pl.Float64()}
_SCHEMA = f"{TOPOLOGY} bigint, id int, " + ", ".join(f"{name} double" for name in list(_COLUMNS)[2:])


def costs_on_spark(costs: str | None, topologies: DataFrame, stream_nodes: DataFrame) -> DataFrame:
    """Compute costs_and_levels in Spark's workers.

    The driver collects only names of topologies and their options for costs. Raises the errors of
    chosen_costs.
    """
    has_costs = F.exists(F.map_keys("config"), lambda key: key.startswith(PREFIX))
    named = topologies.select(TOPOLOGY, "name", F.when(has_costs, F.col("config")).alias("config"))
    chosen = chosen_costs(costs, from_arrow(named.toArrow()))

    def with_costs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows_with_costs = chosen.with_levels(from_arrow(pa.Table.from_batches([batch])))
            columns = rows_with_costs.select(pl.col(name).cast(kind) for name, kind in _COLUMNS.items())
            yield from columns.to_arrow().to_batches()

    return stream_nodes.select(TOPOLOGY, "id", "source", "legacy_source").mapInArrow(with_costs, _SCHEMA)
