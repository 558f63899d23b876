"""Derive the table plan_metrics, with the resources that each plan needs and the load that it sustains under
a cost model.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import polars as pl

from penstock.plans.frames.polars_frames import look_up
from penstock.plans.job_graph.choose_result_partition_types import IS_CHAINED
from penstock.plans.metrics.operator_costs import ASSUMED, LEVEL
from penstock.plans.metrics.plan_arrays import (
    NO_VERTEX,
    Edges,
    Operators,
    Plans,
    Slots,
    Vertices,
    edges_of,
    kinds_of_slots,
    operators_of,
)
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants, ModelCluster, rates_and_loads
from penstock.plans.planners.plan_in_parts import side_by_side
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.resources.memory_and_buffers import NetworkOptions
from penstock.plans.tables.column_types import TOPOLOGY

Tables = Mapping[str, pl.DataFrame]

OBJECT_REUSE = "pipeline.object-reuse"

NEEDED = (
    *("topologies", "stream_nodes", "stream_edges", "job_vertices", "chained_operators"),
    *("execution_edges", "execution_job_vertices", "execution_slot_sharing_groups"),
    *("required_slots", "network_buffers", "managed_memory"),
)
"""Tables of a plan from which metrics are derived."""

METRICS: dict[str, tuple[str, str]] = {
    "operators": ("", "operators"),
    "vertices": ("less", "job vertices"),
    "mean_chain_length": ("more", "operators per vertex"),
    "longest_chain": ("", "operators of the longest chain"),
    "tasks": ("less", "execution vertices"),
    "execution_edges": ("less", "pairs of a task and a result partition that it reads"),
    "channels": ("less", "input channels of all tasks: subpartitions that they read"),
    "slots": ("less", "slots"),
    "task_managers": ("less", "TaskManagers of the configured size"),
    "network_buffers": ("less", "buffers that tasks announce, or require if that is not bounded"),
    "network_bytes": ("less", "memory of these buffers"),
    "managed_bytes_per_slot": ("less", "managed memory that operators of the fullest slot use"),
    "tasks_of_fullest_slot": ("less", "tasks in the fullest slot"),
    "slot_imbalance": ("less", "tasks in the fullest slot, divided by the mean over slots"),
    "critical_path": ("less", "exchanges on the longest path from a source"),
    "exchanged_bytes_per_second": ("less", "bytes/s between tasks; broadcast counts for each reader"),
    "shuffled_bytes_per_second": (
        "less",
        "bytes/s of edges that are not forward, which may cross the network",
    ),
    "remote_bytes_per_second": ("less", "bytes/s expected to go to another TaskManager"),
    "cpu_load": ("", "processor seconds per second, of all tasks"),
    "exchange_cpu_load": (
        "less",
        "share of cpu_load for handing records on: calls, copies, serialisation, exchange",
    ),
    "utilisation": (
        "less",
        "share of its time that a task of the bottleneck works; above 1: overloaded",
    ),
    "slot_utilisation": ("less", "share of its slot's cores that the tasks of the fullest slot use"),
    "network_utilisation": ("less", "share of the TaskManagers' network that is used"),
    "bottleneck": ("", "the vertex with the busiest task"),
    "source_records_per_second": ("", "records/s offered by sources"),
    "delivered_records_per_second": ("more", "records/s emitted by sources under backpressure"),
    "sustained_records_per_second": (
        "more",
        "records/s emitted by sources that offer ever more in these proportions",
    ),
    "sustained_per_slot": ("more", "sustained_records_per_second divided by slots"),
    "needed_tasks": ("less", "tasks if each vertex had the parallelism that it needs"),
}
"""Columns of plan_metrics besides topology_id and name: which values are better, and the meaning."""


SUSTAINED = "sustained_records_per_second"

ESTIMATED = ("delivered_records_per_second", SUSTAINED, "sustained_per_slot")
"""Metrics that the cost model estimates with an error."""

MODEL_ERROR = 0.13
"""Rates of two plans of a job that differ by a smaller share count as equal: see docs/cost-model.md."""

MAY_LACK = ("bottleneck", SUSTAINED)
"""Null without a vertex, or if nothing limits a source."""


class Metrics(NamedTuple):
    """`plans`: one row per topology (see METRICS). `vertices`: one row per job vertex. `edges`: the rate of
    each stream edge.
    """

    plans: pl.DataFrame
    vertices: pl.DataFrame
    edges: pl.DataFrame


def plan_metrics(
    tables: Tables,
    costs: pl.DataFrame,
    task_manager: TaskManager,
    network: NetworkOptions,
    constants: Constants = CONSTANTS,
) -> Metrics:
    """Return the metrics of all topologies. In: NEEDED tables, operator_costs (see operator_costs), the
    cluster.

    A task spends `cpu_nanoseconds_per_record` on each record that arrives at each operator of its chain, and
    the costs in `constants` on handing it on: a call within a chain; serialisation, deserialisation and a
    share of a buffer's transfer between tasks. Tasks of a slot share its cores, and TaskManagers have a
    network. Records are spread evenly over subtasks, except on GLOBAL edges: the first subtask reads them
    alone, and also the resulting records along chains and forward edges. Under backpressure, sources get
    max-min fair rates (see offered_and_levels). The parallelism that a vertex needs is defined as in DS2: the
    rate of its input, divided by the true processing rate of one of its tasks, rounded up (Kalavri,
    Liagouris, Hoffmann, Dimitrova, Forshaw, Roscoe: Three steps is all you need: fast, accurate, automatic
    scaling decisions for distributed streaming dataflows. OSDI 2018).
    """
    edges = tables["stream_edges"]
    cluster = ModelCluster(constants, task_manager.slots, network.segment_size_bytes)
    parts: list[Callable[[], Any]] = [
        lambda: rates_and_loads(
            operators_of_tables(tables, costs),
            edges_of_tables(edges, tables["topologies"]),
            slots_of_tables(tables),
            cluster,
        ),
        lambda: _slots(tables, task_manager),
        lambda: _chains(tables),
        lambda: _connections(tables),
        lambda: _buffers(tables, network),
    ]
    steady_state, *counted = side_by_side(lambda part: part(), parts)
    rates = edges.select(
        TOPOLOGY, "source", "target", "in_index", records_per_second=pl.Series(steady_state.along)
    )
    plans = tables["topologies"].select(TOPOLOGY, "name")
    for part in (_measure_plans(tables, steady_state.plans), *counted):
        plans = look_up(plans, part, {})
    sustained = pl.col(SUSTAINED)
    plans = plans.with_columns(pl.when(sustained.is_finite() & (sustained > 0)).then(sustained))
    plans = plans.with_columns(
        pl.col(name).fill_null(0) for name in METRICS if name in plans.columns and name not in MAY_LACK
    )
    per_slot = pl.when(pl.col("slots") > 0).then(sustained / pl.col("slots"))
    plans = plans.with_columns(sustained_per_slot=per_slot)
    return Metrics(plans.select(TOPOLOGY, "name", *METRICS), _vertices(tables, steady_state.vertices), rates)


def operators_of_tables(tables: Tables, costs: pl.DataFrame) -> Operators:
    """Return the stream nodes of a plan with their costs."""
    tasks = tables["execution_job_vertices"].select(TOPOLOGY, "vertex", tasks="parallelism")
    nodes = tables["stream_nodes"].select(TOPOLOGY, "id", "parallelism")
    nodes = look_up(nodes, tables["chained_operators"].select(TOPOLOGY, "node", "vertex"), {"id": "node"})
    nodes = look_up(nodes, costs.select(TOPOLOGY, "id", *ASSUMED), {"id": "id"})
    nodes = look_up(nodes, tasks, {"vertex": "vertex"})
    nodes = nodes.with_columns(
        pl.col("vertex").fill_null(NO_VERTEX), pl.col("tasks").fill_null(1), pl.lit(1.0).alias(LEVEL)
    )
    return operators_of(lambda name: nodes[name].to_numpy())


def edges_of_tables(stream_edges: pl.DataFrame, topologies: pl.DataFrame) -> Edges:
    """Return the stream edges of a plan."""
    reuses = topologies.select(TOPOLOGY, reuses=pl.col("config").map.get(OBJECT_REUSE) == "true")
    edges = look_up(stream_edges, reuses, {}).select(
        TOPOLOGY,
        "source",
        "target",
        "in_index",
        "broadcast",
        tag=pl.col("output_tag").hash(1).reinterpret(signed=True) * pl.col("output_tag").is_not_null(),
        chained=IS_CHAINED,
        forward=pl.col("partitioner") == "FORWARD",
        alone=pl.col("partitioner") == "GLOBAL",
        reuses=pl.col("reuses").fill_null(False),
    )
    return edges_of(lambda name: edges[name].to_numpy())


def slots_of_tables(tables: Tables) -> Slots:
    """Return the slots of a plan."""
    alone = tables["stream_edges"].filter(pl.col("partitioner") == "GLOBAL")[TOPOLOGY].to_numpy()
    return kinds_of_slots(tables["execution_slot_sharing_groups"], alone)


def _vertices(tables: Tables, arrays: Vertices) -> pl.DataFrame:
    """Return one row per job vertex with its load, its tasks, the utilisation of its busiest task, and the
    parallelism it needs.
    """
    vertices = tables["execution_job_vertices"].select(TOPOLOGY, "vertex", "parallelism")
    names = tables["job_vertices"].select(TOPOLOGY, "vertex", "name")
    loads = _frame(arrays, {TOPOLOGY: "topologies", "vertex": "vertices"})
    for part in (names, loads):
        vertices = look_up(vertices, part, {"vertex": "vertex"})
    return vertices.select(
        TOPOLOGY,
        "vertex",
        "name",
        "parallelism",
        "records_per_second",
        "cpu_load",
        "utilisation",
        "needed_parallelism",
    )


def _measure_plans(tables: Tables, arrays: Plans) -> pl.DataFrame:
    """Return the metrics that follow from rates, with the name of the bottleneck."""
    plans = _frame(arrays, {TOPOLOGY: "topologies", "vertex": "bottleneck"})
    names = tables["job_vertices"].select(TOPOLOGY, "vertex", bottleneck="name")
    return look_up(plans, names, {"vertex": "vertex"}).drop("vertex")


def _frame(arrays: Vertices | Plans, names: Mapping[str, str]) -> pl.DataFrame:
    """Return arrays as columns; `names` maps some fields to other column names."""
    columns = arrays._asdict()
    renamed = {new: columns.pop(old) for new, old in names.items()}
    return pl.DataFrame({**renamed, **columns}).with_columns(
        pl.col(name).cast(pl.Int32) for name in names if name != TOPOLOGY
    )


def _chains(tables: Tables) -> pl.DataFrame:
    chains = tables["chained_operators"].group_by(TOPOLOGY, "vertex").agg(length=pl.len())
    tasks = tables["execution_job_vertices"].group_by(TOPOLOGY).agg(tasks=pl.col("parallelism").sum())
    chain_figures = chains.group_by(TOPOLOGY).agg(
        vertices=pl.len(), mean_chain_length=pl.col("length").mean(), longest_chain=pl.col("length").max()
    )
    return look_up(tasks, chain_figures, {})


def _connections(tables: Tables) -> pl.DataFrame:
    partitions = pl.col("last_partition").cast(pl.Int64) - pl.col("first_partition") + 1
    subpartitions = pl.col("last_subpartition").cast(pl.Int64) - pl.col("first_subpartition") + 1
    return (
        tables["execution_edges"]
        .group_by(TOPOLOGY)
        .agg(execution_edges=partitions.sum(), channels=(partitions * subpartitions).sum())
    )


def _slots(tables: Tables, task_manager: TaskManager) -> pl.DataFrame:
    slots = tables["required_slots"].group_by(TOPOLOGY).agg(pl.col("slots").sum())
    number = "execution_slot_sharing_group"
    in_slots = tables["execution_slot_sharing_groups"].group_by(TOPOLOGY, number).agg(tasks=pl.len())
    balance = in_slots.group_by(TOPOLOGY).agg(
        tasks_of_fullest_slot=pl.col("tasks").max(),
        slot_imbalance=pl.col("tasks").max() / pl.col("tasks").mean(),
    )
    managed = tables["managed_memory"]
    groups = tables["job_vertices"].select(TOPOLOGY, "vertex", "slot_sharing_group")
    shared = pl.when(pl.col("use_case").first() == "OPERATOR").then(pl.col("bytes").sum()).otherwise(
        pl.col("bytes").max()
    )  # fmt: skip
    group = [TOPOLOGY, "slot_sharing_group"]
    used = (
        look_up(managed.select(TOPOLOGY, "vertex", "use_case", "bytes"), groups, {"vertex": "vertex"})
        .group_by(*group, "use_case")
        .agg(shared.alias("bytes"))
        .group_by(group)
        .agg(pl.col("bytes").sum())
        .group_by(TOPOLOGY)
        .agg(managed_bytes_per_slot=pl.col("bytes").max())
    )
    slots = slots.with_columns(task_managers=(pl.col("slots") + task_manager.slots - 1) // task_manager.slots)
    return look_up(look_up(slots, balance, {}), used, {})


def _buffers(tables: Tables, network: NetworkOptions) -> pl.DataFrame:
    """Count every task like the task of its vertex with the most channels: an upper bound."""
    tasks = tables["execution_job_vertices"].select(TOPOLOGY, "vertex", "parallelism")
    figures = pl.coalesce("announced", "required")
    buffers = tables["network_buffers"].select(TOPOLOGY, "vertex", buffers=figures)
    counted = (
        look_up(buffers, tasks, {"vertex": "vertex"})
        .group_by(TOPOLOGY)
        .agg(network_buffers=(pl.col("buffers").cast(pl.Int64) * pl.col("parallelism")).sum())
    )
    return counted.with_columns(network_bytes=pl.col("network_buffers") * network.segment_size_bytes)


def fleet_metrics(plans: pl.DataFrame) -> pl.DataFrame:
    """Return the sum, mean, quartiles and extremes over all topologies, one row per numeric metric."""
    numbers = [name for name in METRICS if plans.schema[name].is_numeric()]
    rows = [
        {
            "metric": name,
            "sum": values.sum(),
            "mean": values.mean(),
            "smallest": values.min(),
            "median": values.median(),
            "p95": values.quantile(0.95),
            "largest": values.max(),
        }
        for name in numbers
        for values in [plans[name].cast(pl.Float64)]
    ]
    return pl.DataFrame(rows)
