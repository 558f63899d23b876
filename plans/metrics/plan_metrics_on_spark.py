"""Derive the table plan_metrics in Spark, with a walk for rates and loads and aggregates for
everything else.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.packed_blocks import partitioned
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.frames.spark_schemas import cut_lineage
from penstock.plans.frames.spark_walks import Part, walk_topologies
from penstock.plans.metrics.operator_costs import ASSUMED, LEVEL
from penstock.plans.metrics.plan_arrays import NO_VERTEX, edges_of, kinds_of_slots, operators_of
from penstock.plans.metrics.plan_metrics import MAY_LACK, METRICS, OBJECT_REUSE, SUSTAINED
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants, ModelCluster, rates_and_loads
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.resources.memory_and_buffers import NetworkOptions
from penstock.plans.tables.column_types import DOUBLE, INT, LONG, TOPOLOGY

# Rates and loads of plans whose tables are in Spark: one walk over compact columns of whole topologies.


COST_COLUMNS = (*ASSUMED, LEVEL)


class RateRow(IntEnum):
    """The subject of a row of RATES."""

    EDGE = 0
    VERTEX = 1
    PLAN = 2


_KIND = "kind"
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
        pa.field(_KIND, INT, False),
        *(pa.field(name, INT) for name in _INTS),
        *(pa.field(name, LONG) for name in _LONGS),
        *(pa.field(name, DOUBLE) for name in _DOUBLES),
    ]
)
"""Rows of edges (their key, records_per_second), of vertices (`needed_tasks`: the needed parallelism) and of
plans (`vertex`: the bottleneck, `records_per_second`: of all sources)."""


def _walk_rates(
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
    """Return RATES of all topologies, in `partitions` partitions. In: tables of a plan, costs_and_levels.

    The session must have the settings that planning relies on. Only numbers and flags go through the walk.
    """
    reuses = F.coalesce(F.col("config")[OBJECT_REUSE] == "true", F.lit(False)).alias("reuses")
    nodes, chains, operator_costs, tasks, jobs, slots, edges = (
        partitioned(rows, partitions)
        for rows in (
            stream_nodes.select(TOPOLOGY, "id", "parallelism"),
            chained_operators.select(TOPOLOGY, "node", F.col("vertex").alias("in_vertex")),
            costs.select(TOPOLOGY, "id", *COST_COLUMNS),
            execution_job_vertices.select(TOPOLOGY, "vertex", F.col("parallelism").alias("vertex_tasks")),
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
    shared = F.coalesce("vertex_tasks", F.lit(1)).alias("tasks")
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
    """Yield RATES of whole topologies."""
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
    every = {_KIND: np.full(count, kind.value), **columns}
    arrays = [
        pa.array(every[field.name]).cast(field.type) if field.name in every else pa.nulls(count, field.type)
        for field in RATES
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RATES)


Tables = Mapping[str, DataFrame]


class Metrics(NamedTuple):
    """As plans.metrics.plan_metrics.Metrics. All tables are derived from `kept`, the rows of the walk, which
    the caller frees.
    """

    plans: DataFrame
    vertices: DataFrame
    edges: DataFrame
    kept: tuple[DataFrame, ...]


def plan_metrics(
    tables: Tables,
    costs: DataFrame,
    task_manager: TaskManager,
    network: NetworkOptions,
    partitions: int,
    constants: Constants = CONSTANTS,
) -> Metrics:
    """Return the rows of plans.metrics.plan_metrics. In: NEEDED tables, costs_and_levels, the cluster.

    The walk has run when this returns, in `partitions` partitions, with the settings that planning relies on.
    Counts per topology are computed within partitions first; only counts are shuffled.
    """
    rates = cut_lineage(
        _walk_rates(
            tables["stream_nodes"],
            tables["stream_edges"],
            tables["chained_operators"],
            tables["execution_job_vertices"],
            tables["topologies"],
            tables["execution_slot_sharing_groups"],
            costs,
            ModelCluster(constants, task_manager.slots, network.segment_size_bytes),
            partitions,
        )
    )
    plans = tables["topologies"].select(TOPOLOGY, "name")
    for part in (
        _measure_plans(tables, rates),
        _chains(tables),
        _tasks(tables),
        _connections(tables),
        _slots(tables, task_manager),
        _balance(tables),
        _managed(tables),
        _buffers(tables, network),
    ):
        plans = plans.join(part, TOPOLOGY, "left")
    counted = [name for name in METRICS if name in plans.columns and name not in MAY_LACK]
    plans = plans.fillna(0, counted)
    limited = (F.col(SUSTAINED) > 0) & (F.col(SUSTAINED) < float("inf"))
    sustained = F.when(limited, F.col(SUSTAINED))
    per_slot = F.when(F.col("slots") > 0, sustained / F.col("slots"))
    computed = {SUSTAINED: sustained, "sustained_per_slot": per_slot}
    chosen = [computed.get(name, F.col(name)).alias(name) for name in METRICS]
    edges = rates.filter(F.col(_KIND) == RateRow.EDGE.value)
    return Metrics(
        plans.select(TOPOLOGY, "name", *chosen),
        _vertices(tables, rates),
        edges.select(TOPOLOGY, "source", "target", "in_index", "records_per_second"),
        (rates,),
    )


def _vertices(tables: Tables, rates: DataFrame) -> DataFrame:
    vertex_rates = rates.filter(F.col(_KIND) == RateRow.VERTEX.value).select(
        TOPOLOGY,
        "vertex",
        "records_per_second",
        "cpu_load",
        "utilisation",
        F.col("needed_tasks").alias("needed_parallelism"),
    )
    key = [TOPOLOGY, "vertex"]
    names = tables["job_vertices"].select(*key, "name")
    vertices = tables["execution_job_vertices"].select(*key, "parallelism")
    columns = ("records_per_second", "cpu_load", "utilisation", "needed_parallelism")
    return vertices.join(names, key).join(vertex_rates, key).select(*key, "name", "parallelism", *columns)


def _measure_plans(tables: Tables, rates: DataFrame) -> DataFrame:
    names = tables["job_vertices"].select(TOPOLOGY, "vertex", F.col("name").alias("bottleneck"))
    same = (
        *("operators", "critical_path", "exchanged_bytes_per_second", "shuffled_bytes_per_second"),
        *("remote_bytes_per_second", "exchange_cpu_load", "slot_utilisation", "network_utilisation"),
        *("delivered_records_per_second", SUSTAINED),
    )
    plans = rates.filter(F.col(_KIND) == RateRow.PLAN.value).select(
        TOPOLOGY,
        "vertex",
        *same,
        "cpu_load",
        "utilisation",
        "needed_tasks",
        F.col("records_per_second").alias("source_records_per_second"),
    )
    return plans.join(names, [TOPOLOGY, "vertex"], "left").drop("vertex")


def _chains(tables: Tables) -> DataFrame:
    chains = tables["chained_operators"].groupBy(TOPOLOGY, "vertex").agg(F.count(F.lit(1)).alias("length"))
    return chains.groupBy(TOPOLOGY).agg(
        F.count(F.lit(1)).alias("vertices"),
        F.avg("length").alias("mean_chain_length"),
        F.max("length").alias("longest_chain"),
    )


def _tasks(tables: Tables) -> DataFrame:
    return tables["execution_job_vertices"].groupBy(TOPOLOGY).agg(F.sum("parallelism").alias("tasks"))


def _connections(tables: Tables) -> DataFrame:
    partitions = F.col("last_partition").cast("long") - F.col("first_partition") + 1
    subpartitions = F.col("last_subpartition").cast("long") - F.col("first_subpartition") + 1
    return (
        tables["execution_edges"]
        .groupBy(TOPOLOGY)
        .agg(
            F.sum(partitions).alias("execution_edges"),
            F.sum(partitions * subpartitions).alias("channels"),
        )
    )


def _slots(tables: Tables, task_manager: TaskManager) -> DataFrame:
    slots = tables["required_slots"].groupBy(TOPOLOGY).agg(F.sum("slots").alias("slots"))
    size = task_manager.slots
    return slots.withColumn("task_managers", F.expr(f"(slots + {size - 1}) div {size}"))


def _balance(tables: Tables) -> DataFrame:
    in_slots = (
        tables["execution_slot_sharing_groups"]
        .groupBy(TOPOLOGY, "execution_slot_sharing_group")
        .agg(F.count(F.lit(1)).alias("tasks"))
    )
    return in_slots.groupBy(TOPOLOGY).agg(
        F.max("tasks").alias("tasks_of_fullest_slot"),
        (F.max("tasks") / F.avg("tasks")).alias("slot_imbalance"),
    )


def _managed(tables: Tables) -> DataFrame:
    groups = tables["job_vertices"].select(TOPOLOGY, "vertex", "slot_sharing_group")
    managed = tables["managed_memory"].select(TOPOLOGY, "vertex", "use_case", "bytes")
    used = F.when(F.col("use_case") == "OPERATOR", F.sum("bytes")).otherwise(F.max("bytes"))
    return (
        managed.join(groups, [TOPOLOGY, "vertex"])
        .groupBy(TOPOLOGY, "slot_sharing_group", "use_case")
        .agg(used.alias("bytes"))
        .groupBy(TOPOLOGY, "slot_sharing_group")
        .agg(F.sum("bytes").alias("bytes"))
        .groupBy(TOPOLOGY)
        .agg(F.max("bytes").alias("managed_bytes_per_slot"))
    )


def _buffers(tables: Tables, network: NetworkOptions) -> DataFrame:
    """Count every task like the task of its vertex with the most channels: an upper bound."""
    key = [TOPOLOGY, "vertex"]
    tasks = tables["execution_job_vertices"].select(*key, "parallelism")
    figures = F.coalesce("announced", "required").alias("figure")
    vertex_buffers = tables["network_buffers"].select(*key, figures)
    buffers = F.sum(F.col("figure").cast("long") * F.col("parallelism")).alias("network_buffers")
    counted = vertex_buffers.join(tasks, key).groupBy(TOPOLOGY).agg(buffers)
    return counted.withColumn("network_bytes", F.col("network_buffers") * network.segment_size_bytes)
