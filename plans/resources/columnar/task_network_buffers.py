"""How many network buffers a task needs in all, and a slot."""

import polars as pl

from plans.columnar.frames import join_topology
from plans.resources.network_options import FLINK_2_3, NetworkOptions
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import BufferSide

FIGURES = ("required", "target", "announced")
"""Figures of network buffers that add up over a task."""


def task_network_buffers(
    network_buffers: pl.DataFrame, job_vertices: pl.DataFrame, *, options: NetworkOptions = FLINK_2_3
) -> pl.DataFrame:
    """The buffers of all gates and result partitions of a task, those of the vertex's largest.

    In: network_buffers (see count_network_buffers), counted with the same `options`; job_vertices (vertex,
    slot_sharing_group). Out (key topology_id, vertex): slot_sharing_group, gates, result_partitions, and
    `required`, `target`, `announced` in buffers and, with the suffix _bytes, in bytes. A vertex without edges
    has zeros. A figure is null where one of its summands is not bounded.

    `announced_bytes` is what Flink adds to the resource profile of the vertex's slot sharing group, if the
    author gave the group one (fine-grained resource management); otherwise buffers come out of the
    TaskManager's pool as tasks ask for them, between required and target.

    Source: NettyShuffleUtils.computeNetworkBuffersForAnnouncing, NettyShuffleMaster.
    """
    is_gate = pl.col("side") == BufferSide.GATE.value
    sums = network_buffers.group_by(TOPOLOGY, "vertex").agg(
        is_gate.sum().alias("gates"),
        (~is_gate).sum().alias("result_partitions"),
        *(_sum_if_bounded(figure) for figure in FIGURES),
    )
    vertices = job_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group")
    joined = join_topology(vertices, sums, {"vertex": "vertex"}, "left")
    has_none = pl.col("gates").is_null()
    return joined.select(
        *vertices.columns,
        *(pl.col(name).fill_null(0).cast(pl.Int32) for name in ("gates", "result_partitions")),
        *(pl.when(has_none).then(0).otherwise(figure).cast(pl.Int64).alias(figure) for figure in FIGURES),
    ).with_columns(_bytes(options))


def slot_network_buffers(
    task_network_buffers: pl.DataFrame, *, options: NetworkOptions = FLINK_2_3
) -> pl.DataFrame:
    """The buffers of a slot that holds a task of every vertex of its slot sharing group: no slot needs more.

    In: task_network_buffers, of the same `options`. Out (key topology_id, slot_sharing_group): vertices, and
    the figures as in task_network_buffers.

    Source: SsgNetworkMemoryCalculationUtils.enrichNetworkMemory.
    """
    sums = task_network_buffers.group_by(TOPOLOGY, "slot_sharing_group").agg(
        pl.len().cast(pl.Int32).alias("vertices"), *(_sum_if_bounded(figure) for figure in FIGURES)
    )
    return sums.with_columns(_bytes(options))


def _sum_if_bounded(figure: str) -> pl.Expr:
    total = pl.col(figure).cast(pl.Int64).sum()
    return pl.when(pl.col(figure).is_not_null().all()).then(total).alias(figure)


def _bytes(options: NetworkOptions) -> list[pl.Expr]:
    return [(pl.col(figure) * options.segment_size_bytes).alias(f"{figure}_bytes") for figure in FIGURES]
