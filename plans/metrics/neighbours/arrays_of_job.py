"""A job's arrays, from its plan with every operator in a vertex of its own."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.job_graph.reuse_data_sets import REUSABLE
from penstock.plans.metrics.exchange_costs import Constants, cost_handing_on
from penstock.plans.metrics.fill_progressively import offered_arrays, room_arrays
from penstock.plans.metrics.flow_arrays import FlowGraph
from penstock.plans.metrics.neighbours.neighbour_arrays import (
    NUMBERS,
    WHOLE,
    Counted,
    Figures,
    JobArrays,
    Memory,
)
from penstock.plans.metrics.operator_costs import selectivity_of_levels
from penstock.plans.metrics.plan_metrics import edges_of_tables, operators_of_tables, slots_of_tables
from penstock.plans.metrics.rates_and_loads import (
    ModelCluster,
    Sorted,
    copies_read,
    count_task_managers,
    graph_of_flows,
    remote_shares,
    shares_of_outputs,
    sort_by_input,
)
from penstock.plans.resources.network_options import NetworkOptions
from penstock.plans.resources.task_manager import TaskManager
from penstock.plans.vocabulary import BufferSide

Tables = Mapping[str, pl.DataFrame]


def places_follow_groups(tables: Tables) -> bool:
    """Whether subtask i of every vertex is in slot i of its group, and edges have data sets of their own.

    `tables`: the plan of one job. This holds for jobs of static streaming graphs without co-location, chained
    sources, and pointwise edges between unequal parallelism. In any such job, what an edge adds to channels
    and buffers does not depend on others.
    """
    (settings,) = tables["job_settings"].select(
        "dynamic", "all_vertices_in_same_slot_sharing_group", "vertex_name_include_index_prefix"
    ).rows(named=True)  # fmt: skip
    if (
        settings["dynamic"]
        or not settings["all_vertices_in_same_slot_sharing_group"]
        or settings["vertex_name_include_index_prefix"]
    ):
        return False
    nodes, edges = tables["stream_nodes"], tables["stream_edges"]
    vertices, data_sets = tables["job_vertices"], tables["intermediate_data_sets"]
    if (
        edges["chained_source"].any()
        or (nodes["yielding"].any() and nodes["legacy_source"].any())
        or vertices["co_location_group"].is_not_null().any()
        or vertices.is_empty()
        or data_sets["result_partition_type"].is_in([kind.value for kind in REUSABLE]).any()
        or (data_sets["consumers"] > 1).any()
    ):
        return False
    parallelism = dict(nodes.select("id", "parallelism").iter_rows())
    return all(
        parallelism[source] == parallelism[target]
        for source, target in edges.filter("pointwise").select("source", "target").iter_rows()
    )


def arrays_of_job(
    apart: Tables,
    costs: pl.DataFrame,
    task_manager: TaskManager,
    network: NetworkOptions,
    constants: Constants,
) -> tuple[JobArrays, Memory, Sorted] | None:
    """The arrays, what an evaluation writes, and nodes and edges in the order of the arrays.

    `apart`: the plan in which no edge is chained, for which places_follow_groups. None if it has a cycle.
    """
    cluster = ModelCluster(constants, task_manager.slots, network.segment_size_bytes)
    order = sort_by_input(
        operators_of_tables(apart, costs), edges_of_tables(apart["stream_edges"], apart["topologies"])
    )
    nodes, edges = order.nodes, order.edges
    turns = _producers_first(order)
    if len(turns) < len(nodes.ids):
        return None
    shares, copies = shares_of_outputs(order), copies_read(order)
    selectivity = selectivity_of_levels(
        nodes.selectivity, nodes.levels, order.source, order.target, copies * shares
    )
    reads = np.bincount(order.target, minlength=len(nodes.ids)) > 0
    slots = slots_of_tables(apart)
    remote = remote_shares(order, slots, count_task_managers(order, slots, cluster.slots))
    handing_on = cost_handing_on(constants, cluster.buffer_bytes, nodes.record_bytes[order.source], edges)
    graph = graph_of_flows(
        order, slots, handing_on, np.where(reads, selectivity, 1.0), shares, copies, remote
    )
    by_name = {name: number for number, name in enumerate(_groups(apart, order).unique().sort())}
    counts = _count_per_edge(apart, order, network)
    job = JobArrays(
        order=turns,
        in_vertex=order.heads >= 0,
        group=np.array([by_name[name] for name in _groups(apart, order)], np.int64),
        levels=np.unique(nodes.tasks),
        nanoseconds=nodes.cpu_nanoseconds_per_record,
        bytes=nodes.record_bytes,
        **handing_on._asdict(),
        forward=edges.forward,
        execution_edges=counts["execution_edges"].to_numpy(),
        channels=counts["channels"].to_numpy(),
        buffers=counts["buffers"].to_numpy(),
        options=np.array([task_manager.slots, int(edges.alone.any())]),
    )
    return job, _memory(job, graph), order


def _producers_first(order: Sorted) -> Ints:
    """Places of nodes; those on and after a cycle are left out."""
    waiting = np.bincount(order.target, minlength=len(order.nodes.ids)).tolist()
    readers: list[list[int]] = [[] for _ in waiting]
    for source, target in zip(order.source.tolist(), order.target.tolist(), strict=True):
        readers[source].append(target)
    turns = [node for node, count in enumerate(waiting) if count == 0]
    for node in turns:
        for reader in readers[node]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                turns.append(reader)
    return np.array(turns, np.int64)


def _groups(apart: Tables, order: Sorted) -> pl.Series:
    names = dict(apart["stream_nodes"].select("id", "slot_sharing_group").iter_rows())
    return pl.Series([names[node] for node in order.nodes.ids.tolist()], dtype=pl.String)


def _count_per_edge(apart: Tables, order: Sorted, network: NetworkOptions) -> pl.DataFrame:
    """Execution edges, channels and network buffers of each edge, 0 if it connects no vertices."""
    tasks = apart["execution_job_vertices"].select("vertex", "parallelism")
    held = apart["network_buffers"].join(tasks, on="vertex").select(
        "vertex", "side", "index",
        buffers=pl.coalesce("announced", "required").cast(pl.Int64) * pl.col("parallelism"),
    )  # fmt: skip
    gates, partitions = (held.filter(pl.col("side") == side.value).drop("side") for side in BufferSide)
    read = pl.col("last_partition").cast(pl.Int64) - pl.col("first_partition") + 1
    parts = pl.col("last_subpartition").cast(pl.Int64) - pl.col("first_subpartition") + 1
    connected = (
        apart["execution_edges"]
        .group_by("target_vertex", "input_index")
        .agg(execution_edges=read.sum(), channels=(read * parts).sum())
    )
    edges = (
        apart["job_edges"]
        .join(connected, on=["target_vertex", "input_index"])
        .join(apart["intermediate_data_sets"].select("data_set_id", "output_index"), on="data_set_id")
        .join(gates, left_on=["target_vertex", "input_index"], right_on=["vertex", "index"])
        .join(
            partitions.rename({"buffers": "sent"}),
            left_on=["source_vertex", "output_index"],
            right_on=["vertex", "index"],
        )
        .select(
            *(pl.col(name).cast(pl.Int64) for name in ("target_node", "in_index")),
            "execution_edges",
            "channels",
            buffers=pl.col("buffers") + pl.col("sent"),
        )
    )
    keys = pl.DataFrame({"target_node": order.edges.targets, "in_index": order.edges.in_indexes})
    edge_counts = keys.join(edges, on=["target_node", "in_index"], how="left", maintain_order="left")
    return edge_counts.select(pl.col("execution_edges", "channels", "buffers").fill_null(0).cast(pl.Int64))


def _memory(job: JobArrays, graph: FlowGraph) -> Memory:
    nodes, edges = len(job.order), len(job.size)
    most = nodes * (len(job.levels) + 1)
    graph = graph._replace(
        first_kind=np.zeros(2, np.int64),
        first_member=np.zeros(most + 1, np.int64),
        members=np.zeros(most, np.int64),
        is_first=np.zeros(most, np.int64),
        **{
            name: getattr(graph, name).copy()
            for name in (
                *("heads", "seconds", "background", "sent", "leaves", "stays"),
                *("edge_seconds", "edge_background"),
            )
        },
    )
    return Memory(
        graph,
        Counted(
            by_group=np.zeros(nodes, np.int64),
            first_of_group=np.zeros(2 * nodes + 1, np.int64),
            largest=np.zeros(2 * nodes, np.int64),
            length=np.zeros(nodes, np.int64),
            task_managers=np.ones(1),
        ),
        offered_arrays(nodes, edges, 1),
        room_arrays(nodes, edges, most),
        Figures(np.zeros(len(WHOLE), np.int64), np.zeros(len(NUMBERS))),
    )
