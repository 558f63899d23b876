"""Rates and loads of plans whose tables are in Spark: one walk over compact columns of whole topologies."""

from collections.abc import Iterator
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.packed_blocks import partitioned
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.frames.spark_walks import Part, walk_topologies
from penstock.plans.metrics.operator_costs import ASSUMED, LEVEL
from penstock.plans.metrics.plan_arrays import NO_VERTEX, edges_of, kinds_of_slots, operators_of
from penstock.plans.metrics.plan_metrics import OBJECT_REUSE
from penstock.plans.metrics.rates_and_loads import ModelCluster, rates_and_loads
from penstock.plans.tables.column_types import DOUBLE, INT, LONG, TOPOLOGY

COST_COLUMNS = (*ASSUMED, LEVEL)


class RateRow(IntEnum):
    """The subject of a row of RATES."""

    EDGE = 0
    VERTEX = 1
    PLAN = 2


KIND = "kind"
_INTS = ("source", "target", "in_index", "vertex")
_LONGS = ("operators", "critical_path", "needed_tasks")
_DOUBLES = (
    *("records_per_second", "cpu_load", "utilisation", "exchange_cpu_load"),
    *("exchanged_bytes_per_second", "shuffled_bytes_per_second", "remote_bytes_per_second"),
    *("slot_utilisation", "network_utilisation"),
    *("delivered_records_per_second", "sustained_records_per_second"),
)
RATES = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field(KIND, INT, False),
        *(pa.field(name, INT) for name in _INTS),
        *(pa.field(name, LONG) for name in _LONGS),
        *(pa.field(name, DOUBLE) for name in _DOUBLES),
    ]
)
"""Rows of edges (their key, records_per_second), of vertices (`needed_tasks`: the parallelism that it needs)
and of plans (`vertex`: the bottleneck, `records_per_second`: of all sources)."""


def walk_rates(
    stream_nodes: DataFrame,
    stream_edges: DataFrame,
    chained_operators: DataFrame,
    execution_job_vertices: DataFrame,
    topologies: DataFrame,
    execution_slot_sharing_groups: DataFrame,
    costs: DataFrame,
    cluster: ModelCluster,
    partitions: int,
) -> DataFrame:
    """RATES of all topologies, in that many partitions. In: tables of a plan, costs_and_levels.

    Spark has to have the settings that planning relies on. Only numbers and flags go through the walk.
    """
    reuses = F.coalesce(F.col("config")[OBJECT_REUSE] == "true", F.lit(False)).alias("reuses")
    nodes, chains, operator_costs, tasks, jobs, slots, edges = (
        partitioned(rows, partitions)
        for rows in (
            stream_nodes.select(TOPOLOGY, "id", "parallelism"),
            chained_operators.select(TOPOLOGY, "node", F.col("vertex").alias("in_vertex")),
            costs.select(TOPOLOGY, "id", *COST_COLUMNS),
            execution_job_vertices.select(TOPOLOGY, "vertex", F.col("parallelism").alias("of_vertex")),
            topologies.select(TOPOLOGY, reuses),
            execution_slot_sharing_groups.select(
                TOPOLOGY, "vertex", "subtask", "execution_slot_sharing_group"
            ),
            stream_edges,
        )
    )
    nodes = join_local(nodes, chains, {"id": "node"}, "left")
    nodes = join_local(nodes, operator_costs, {"id": "id"})
    nodes = join_local(nodes, tasks, {"id": "vertex"}, "left")
    shared = F.coalesce("of_vertex", F.lit(1)).alias("tasks")
    vertex = F.coalesce("in_vertex", F.lit(NO_VERTEX)).alias("vertex")
    compact = nodes.select(TOPOLOGY, "id", vertex, "parallelism", shared, *COST_COLUMNS)
    tag = F.when(F.col("output_tag").isNull(), F.lit(0)).otherwise(F.xxhash64("output_tag")).alias("tag")
    edges = join_local(edges, jobs, {}).select(
        TOPOLOGY,
        "source",
        "target",
        "in_index",
        tag,
        "broadcast",
        "reuses",
        (F.col("chainable") | F.col("chained_source")).alias("chained"),
        F.coalesce(F.col("partitioner") == "FORWARD", F.lit(False)).alias("forward"),
        F.coalesce(F.col("partitioner") == "GLOBAL", F.lit(False)).alias("alone"),
    )
    parts = [Part(compact, "id"), Part(edges, "source"), Part(slots, "vertex", "subtask")]
    return walk_topologies(parts, partial(rates_of_topologies, cluster), RATES)


def rates_of_topologies(
    cluster: ModelCluster, nodes: pa.Table, edges: pa.Table, tasks: pa.Table
) -> Iterator[pa.RecordBatch]:
    """RATES of whole topologies."""
    edge_arrays = edges_of(lambda name: np.asarray(edges.column(name)))
    steady_state = rates_and_loads(
        operators_of(lambda name: np.asarray(nodes.column(name))),
        edge_arrays,
        kinds_of_slots(from_arrow(tasks), edge_arrays.topologies[edge_arrays.alone]),
        cluster,
    )
    keys = {name: np.asarray(edges.column(name)) for name in (TOPOLOGY, "source", "target", "in_index")}
    vertices, plans = steady_state.vertices, steady_state.plans
    yield _batch(RateRow.EDGE, {**keys, "records_per_second": steady_state.along})
    yield _batch(
        RateRow.VERTEX,
        {
            TOPOLOGY: vertices.topologies,
            "vertex": vertices.vertices,
            "records_per_second": vertices.records_per_second,
            "cpu_load": vertices.cpu_load,
            "utilisation": vertices.utilisation,
            "needed_tasks": vertices.needed_parallelism,
        },
    )
    columns = plans._asdict()
    yield _batch(
        RateRow.PLAN,
        {
            TOPOLOGY: columns.pop("topologies"),
            "vertex": columns.pop("bottleneck"),
            "records_per_second": columns.pop("source_records_per_second"),
            **columns,
        },
    )


def _batch(kind: RateRow, columns: dict[str, npt.NDArray[Any]]) -> pa.RecordBatch:
    count = len(columns[TOPOLOGY])
    every = {KIND: np.full(count, kind.value), **columns}
    arrays = [
        pa.array(every[field.name]).cast(field.type) if field.name in every else pa.nulls(count, field.type)
        for field in RATES
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RATES)
