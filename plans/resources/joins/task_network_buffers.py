"""How many network buffers a task needs in all, and a slot."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.joins.frames import join_local
from plans.resources.network_options import FLINK_2_3, NetworkOptions
from plans.resources.task_network_buffers import FIGURES
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import BufferSide


def task_network_buffers(
    network_buffers: DataFrame, named_vertices: DataFrame, *, options: NetworkOptions = FLINK_2_3
) -> DataFrame:
    """The buffers of all gates and result partitions of a task, those of the vertex's largest.

    In: network_buffers (see count_network_buffers), counted with the same `options`; named_vertices (vertex,
    slot_sharing_group). Out (key topology_id, vertex): slot_sharing_group, gates, result_partitions, and
    `required`, `target`, `announced` in buffers and, with the suffix _bytes, in bytes. A vertex without edges
    has zeros. Null, where one of them is not bounded.

    `announced_bytes` is what Flink adds to the resource profile of the vertex's slot sharing group, if the
    author gave the group one (fine-grained resource management); otherwise buffers come out of the
    TaskManager's pool as tasks ask for them, between required and target.

    Source: NettyShuffleUtils.computeNetworkBuffersForAnnouncing, NettyShuffleMaster.
    """
    is_gate = F.col("side") == BufferSide.GATE.value
    sums = network_buffers.groupBy(TOPOLOGY, F.col("vertex").alias("of_vertex")).agg(
        F.count_if(is_gate).alias("of_gates"),
        F.count_if(~is_gate).alias("of_partitions"),
        *(_sum_if_bounded(figure).alias(f"sum_{figure}") for figure in FIGURES),
    )
    vertices = named_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group")
    has_none = F.col("of_gates").isNull()
    return join_local(vertices, sums, {"vertex": "of_vertex"}, "left").select(
        TOPOLOGY,
        "vertex",
        "slot_sharing_group",
        F.coalesce("of_gates", F.lit(0)).cast("int").alias("gates"),
        F.coalesce("of_partitions", F.lit(0)).cast("int").alias("result_partitions"),
        *_in_buffers_and_bytes(
            {f: F.when(has_none, F.lit(0)).otherwise(F.col(f"sum_{f}")) for f in FIGURES}, options
        ),
    )


def slot_network_buffers(
    task_network_buffers: DataFrame, *, options: NetworkOptions = FLINK_2_3
) -> DataFrame:
    """The buffers of a slot that holds a task of every vertex of its slot sharing group: no slot needs more.

    In: task_network_buffers, of the same `options`. Out (key topology_id, slot_sharing_group): vertices, and
    the figures as in task_network_buffers.

    Source: SsgNetworkMemoryCalculationUtils.enrichNetworkMemory.
    """
    sums = task_network_buffers.groupBy(TOPOLOGY, "slot_sharing_group").agg(
        F.count("*").cast("int").alias("vertices"),
        *(_sum_if_bounded(figure).alias(f"sum_{figure}") for figure in FIGURES),
    )
    return sums.select(
        TOPOLOGY,
        "slot_sharing_group",
        "vertices",
        *_in_buffers_and_bytes({f: F.col(f"sum_{f}") for f in FIGURES}, options),
    )


def _sum_if_bounded(figure: str) -> Column:
    return F.when(F.every(F.col(figure).isNotNull()), F.sum(figure))


def _in_buffers_and_bytes(figures: dict[str, Column], options: NetworkOptions) -> list[Column]:
    in_bytes = {f"{name}_bytes": value * F.lit(options.segment_size_bytes) for name, value in figures.items()}
    return [value.cast("bigint").alias(name) for name, value in (figures | in_bytes).items()]
