"""How many network buffers the gates and result partitions of a task need."""

from functools import partial

from pyspark.sql import DataFrame

from plans.joins.expand_in_workers import Expansion, expand_in_workers
from plans.resources.columnar import count_network_buffers as columnar
from plans.resources.network_options import FLINK_2_3, NetworkOptions


def network_buffers(options: NetworkOptions) -> Expansion:
    """The expansion of `count_network_buffers`."""
    count = partial(columnar.count_network_buffers, options=options)
    return Expansion("network_buffers", count, lambda edges: edges["consumer_index"] * 0 + 2)


def count_network_buffers(placed_edges: DataFrame, *, options: NetworkOptions = FLINK_2_3) -> DataFrame:
    """The buffers of every gate and result partition, of the task of each vertex that has most channels.

    In: placed_edges (see place_job_edges); nothing is read of the data sets that their first edges do not
    say. Out (key topology_id, vertex, side, index): network_buffers.

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

    Example: tests/passes/fixtures/network_buffers.txt.
    """
    return expand_in_workers(placed_edges, network_buffers(options))
