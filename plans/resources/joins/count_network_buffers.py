"""How many network buffers the gates and result partitions of a task need."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.execution_graph.joins.connect_execution_vertices import is_all_to_all, with_both_parallelisms
from plans.resources.count_network_buffers import (
    BLOCKING,
    BOUNDED,
    HYBRID,
    MAX_REQUIRED_BUFFERS_PER_GATE_FOR_BATCH,
    PIPELINED,
)
from plans.resources.network_options import FLINK_2_3, NetworkOptions
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import BufferSide
from plans.vocabulary import ResultPartitionType as Type


def count_network_buffers(
    connected_edges: DataFrame, execution_job_vertices: DataFrame, *, options: NetworkOptions = FLINK_2_3
) -> DataFrame:
    """The buffers of every gate and result partition, of the task of each vertex that has most channels.

    In: connected_edges (see connect_vertices), execution_job_vertices; nothing is read of the data sets that
    their first edges do not say. Out (key topology_id, vertex, side, index): network_buffers.

    The figures are those that Flink announces for a graph that is not dynamic: a data set has a subpartition
    for each subtask of its consumer, and a gate has a channel for each partition it reads. They differ from
    the running task where
    - a producer runs on the same TaskManager: its local channel takes no buffers of its own;
    - the cluster's execution.batch-shuffle-mode is one of hybrid shuffle, which uses tiered storage: BLOCKING
      becomes HYBRID_FULL, a gate of hybrid data requires 1000 buffers at most, and a partition of n
      subpartitions that is not sort-shuffled requires min(n + 1, guaranteed), where the memory tier
      guarantees 100 buffers and the disk and remote tiers 1 each;
    - the graph is dynamic: a partition then has as many subpartitions as its consumer may get subtasks (one,
      if it is broadcast or forward), and a channel may read a range of them.

    `target` and `announced` are null where Flink sets no bound; for PIPELINED and hybrid result partitions,
    Flink refuses to announce (fine-grained resource management then fails with IllegalArgumentException).

    Source: InputGateSpecUtils.createGateBuffersSpec,
    NettyShuffleUtils.getMinMaxNetworkBuffersPerResultPartition, getNumBuffersToAnnounceForResultPartition;
    SsgNetworkMemoryCalculationUtils, EdgeManagerBuildUtil.computeMaxEdgesToTargetExecutionVertex;
    ResultPartitionFactory.isOverdraftBufferNeeded.

    Example: a gate needs a buffer for each channel, a partition one for each subpartition
    (tests/passes/fixtures/network_buffers.txt).

        connected_edges
        source_vertex  target_vertex  result_partition_type
        1              3              PIPELINED_BOUNDED

        execution_job_vertices
        vertex  parallelism
        1       2
        3       5

        -> network_buffers
        vertex  side              channels  required  target  announced  overdraft
        1       RESULT_PARTITION  5         6         18      18         20
        3       GATE              2         5         12      12         0
    """
    gate = _end(BufferSide.GATE, "target_vertex", "input_index", _most_edges("producers", "consumers"))
    partition = _end(
        BufferSide.RESULT_PARTITION, "source_vertex", "output_index", _most_edges("consumers", "producers")
    )
    ends = F.when(F.col("consumer_index") == 0, F.array(gate, partition)).otherwise(F.array(gate))
    is_gate = F.col("side") == BufferSide.GATE.value
    of_gates, of_partitions = _of_gate(options), _of_result_partition(options)
    return (
        with_both_parallelisms(connected_edges, execution_job_vertices)
        .select(TOPOLOGY, "result_partition_type", F.inline(ends))
        .select(
            TOPOLOGY,
            "vertex",
            "side",
            "index",
            "channels",
            *(F.when(is_gate, of_gates[f]).otherwise(of_partitions[f]).alias(f) for f in of_gates),
        )
    )


def _end(side: BufferSide, vertex: str, index: str, channels: Column) -> Column:
    return F.struct(
        F.lit(side.value).alias("side"),
        F.col(vertex).alias("vertex"),
        F.col(index).alias("index"),
        channels.alias("channels"),
    )


def _most_edges(of_far_end: str, of_near_end: str) -> Column:
    """The most tasks of the far end that one task of the near end is connected with."""
    pointwise = F.ceil(F.col(of_far_end) / F.col(of_near_end)).cast("int")
    return F.when(is_all_to_all(), F.col(of_far_end)).otherwise(pointwise)


def _of_gate(options: NetworkOptions) -> dict[str, Column]:
    channels = F.col("channels")
    exclusive = channels * options.buffers_per_channel
    wanted = exclusive + 1
    if options.max_required_buffers_per_gate is not None:
        required = F.least(wanted, F.lit(options.max_required_buffers_per_gate))
    else:
        of_batch = F.least(wanted, F.lit(MAX_REQUIRED_BUFFERS_PER_GATE_FOR_BATCH))
        required = F.when(_is(*PIPELINED, *HYBRID), wanted).otherwise(of_batch)
    target = exclusive + options.floating_buffers_per_gate
    # One buffer is left to float: a local channel needs it to recover.
    of_channel = F.floor((required - 1) / channels).cast("int")
    return {
        "exclusive_per_channel": F.least(F.lit(options.buffers_per_channel), of_channel),
        "required": required,
        "target": target,
        "announced": target,
        "overdraft": F.lit(0),
    }


def _of_result_partition(options: NetworkOptions) -> dict[str, Column]:
    subpartitions = F.col("channels")
    is_sort_shuffle = _is(*BLOCKING) & (subpartitions >= options.sort_shuffle_min_parallelism)
    required = F.when(is_sort_shuffle, F.lit(options.sort_shuffle_min_buffers)).otherwise(subpartitions + 1)
    bound = subpartitions * options.buffers_per_channel + options.floating_buffers_per_gate
    target = F.when(_is(*BOUNDED), F.greatest(required, bound)).when(
        is_sort_shuffle, F.greatest(required, subpartitions * 4)
    )
    overdraft = F.lit(options.max_overdraft_buffers_per_gate)
    return {
        "exclusive_per_channel": F.lit(0),
        "required": required,
        "target": target,
        "announced": F.when(_is(*BLOCKING), required).otherwise(target),
        "overdraft": F.when(_is(*PIPELINED), overdraft).otherwise(F.lit(0)),
    }


def _is(*types: Type) -> Column:
    return F.col("result_partition_type").isin(*(t.value for t in types))
