"""The table plan_metrics of tables in Spark: a walk for rates and loads, aggregates for all else."""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.spark_schemas import cut_lineage
from penstock.plans.metrics.exchange_costs import CONSTANTS, Constants
from penstock.plans.metrics.joins.walk_rates import KIND, RateRow, walk_rates
from penstock.plans.metrics.plan_metrics import MAY_LACK, METRICS, SUSTAINED
from penstock.plans.metrics.rates_and_loads import ModelCluster
from penstock.plans.resources.network_options import NetworkOptions
from penstock.plans.resources.task_manager import TaskManager
from penstock.plans.tables.column_types import TOPOLOGY

Tables = Mapping[str, DataFrame]


class Metrics(NamedTuple):
    """As of plans.metrics.plan_metrics. All of it is derived from `kept`, the rows of the walk, which the
    caller frees."""

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
    """The rows of plans.metrics.plan_metrics. In: NEEDED tables, costs_and_levels, the cluster.

    The walk has run when this returns, in that many partitions, with the settings that planning relies on.
    What is counted for each topology is counted in partitions first; only counts are shuffled.
    """
    rates = cut_lineage(
        walk_rates(
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
    edges = rates.filter(F.col(KIND) == RateRow.EDGE.value)
    return Metrics(
        plans.select(TOPOLOGY, "name", *chosen),
        _vertices(tables, rates),
        edges.select(TOPOLOGY, "source", "target", "in_index", "records_per_second"),
        (rates,),
    )


def _vertices(tables: Tables, rates: DataFrame) -> DataFrame:
    vertex_rates = rates.filter(F.col(KIND) == RateRow.VERTEX.value).select(
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
    plans = rates.filter(F.col(KIND) == RateRow.PLAN.value).select(
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
    """Every task as the one of its vertex that has most channels: an upper bound."""
    key = [TOPOLOGY, "vertex"]
    tasks = tables["execution_job_vertices"].select(*key, "parallelism")
    held = tables["network_buffers"].select(*key, F.coalesce("announced", "required").alias("held"))
    buffers = F.sum(F.col("held").cast("long") * F.col("parallelism")).alias("network_buffers")
    counted = held.join(tasks, key).groupBy(TOPOLOGY).agg(buffers)
    return counted.withColumn("network_bytes", F.col("network_buffers") * network.segment_size_bytes)
