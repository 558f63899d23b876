"""Create the tables of tasks, of the partitions they produce, and of the partitions they read."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.plans.frames.polars_frames import repeated_rows
from penstock.plans.tables import EXECUTION_EDGES, INTERMEDIATE_RESULT_PARTITIONS
from penstock.plans.tables.column_types import TOPOLOGY

# Division of the partitions of a POINTWISE edge's producers among its consumers.
#
# All passes that need it call these functions. Partition `i` belongs to producing subtask `i`. Arguments are
# arrays or single numbers; 32 bits suffice for all products, as no parallelism exceeds MAX_PARALLELISM.
#
# Source: VertexInputInfoComputationUtils.computeVertexInputInfoForPointwise, EdgeManagerBuildUtil.


Subtasks = TypeVar("Subtasks", bound=npt.NDArray[np.signedinteger[Any]])


def partitions_of_subtask(
    subtask: Subtasks, producers: Subtasks, consumers: Subtasks
) -> tuple[Subtasks, Subtasks]:
    """Return the first of the partitions that a consuming subtask reads, and the one after the last."""
    first: Any = subtask * producers // consumers
    return first, np.maximum(first + 1, (subtask + 1) * producers // consumers)


def subtasks_of_partition(
    partition: Subtasks, producers: Subtasks, consumers: Subtasks
) -> tuple[Subtasks, Subtasks]:
    """Return the first of the consuming subtasks that read a partition, and the one after the last."""
    end: Any = _rounded_up((partition + 1) * consumers, producers)
    # With more producers than consumers, a partition has one reader: the last whose range starts before it.
    return np.minimum(_rounded_up(partition * consumers, producers), end - 1), end


def most_subtasks_of_partition(producers: Any, consumers: Any) -> Any:
    """Return the most consuming subtasks that read one partition; for arrays or expressions."""
    return _rounded_up(consumers, producers)


def _rounded_up(dividend: Any, divisor: Any) -> Any:
    return (dividend + divisor - 1) // divisor


def intermediate_results(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per intermediate data set (key topology_id, vertex, output_index): intermediate_results.

    In: placed_edges (see place_job_edges).

    Source: IntermediateResult; EdgeManagerBuildUtil.computeMaxEdgesToTargetExecutionVertex.

    Example: tests/passes/fixtures/intermediate_results.txt.
    """
    producers, consumers = pl.col("producers"), pl.col("consumers")
    most = pl.when("all_to_all").then(consumers).otherwise(most_subtasks_of_partition(producers, consumers))
    return _data_sets(placed_edges).select(
        TOPOLOGY,
        "vertex",
        "output_index",
        producers.alias("partitions"),
        most.alias("most_subpartitions"),
    )


def intermediate_result_partitions(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per result partition (key topology_id, vertex, output_index, partition).

    In: placed_edges (see place_job_edges). Out: intermediate_result_partitions.

    Source: IntermediateResultPartition.getNumberOfSubpartitions, EdgeManagerBuildUtil.connectPointwise.

    Example: tests/passes/fixtures/intermediate_result_partitions.txt.
    """
    data_sets = _data_sets(placed_edges)
    producers, consumers = (data_sets[end].to_numpy() for end in ("producers", "consumers"))
    all_to_all = data_sets["all_to_all"].to_numpy()
    original, partition = rows = repeated_rows(data_sets["producers"])
    first = np.where(all_to_all[original], 0, partition)
    count = np.where(all_to_all, consumers, 1)[original]
    uneven = np.flatnonzero((~all_to_all & (producers != consumers))[original])
    first[uneven], end = subtasks_of_partition(
        partition[uneven], producers[original[uneven]], consumers[original[uneven]]
    )
    count[uneven] = end - first[uneven]
    return pl.DataFrame(
        {
            **rows.taken(data_sets.select(TOPOLOGY, "vertex", "output_index")),
            "partition": partition,
            "first_consumer": first,
            "subpartitions": count,
        }
    ).select(INTERMEDIATE_RESULT_PARTITIONS.names)


def _data_sets(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """Return data sets by their first edges; all consumers of a data set have the same parallelism."""
    return placed_edges.filter(pl.col("consumer_index") == 0).select(
        TOPOLOGY,
        pl.col("source_vertex").alias("vertex"),
        "output_index",
        "all_to_all",
        "producers",
        "consumers",
    )


def execution_edges(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per consuming subtask and gate (key topology_id, target_vertex, input_index, subtask).

    In: placed_edges (see place_job_edges). Out: execution_edges: an edge of 10,000 to 10,000 subtasks has
    10,000 rows.

    Source: VertexInputInfoComputationUtils.computeVertexInputInfoForPointwise and ForAllToAll for a graph
    that is not dynamic, EdgeManagerBuildUtil.

    Example: tests/passes/fixtures/execution_edges.txt.
    """
    producers, consumers = (placed_edges[end].to_numpy() for end in ("producers", "consumers"))
    all_to_all = placed_edges["all_to_all"].to_numpy()
    original, subtask = rows = repeated_rows(placed_edges["consumers"])
    reads_all = all_to_all[original]
    first, last = np.where(reads_all, 0, subtask), np.where(reads_all, producers[original] - 1, subtask)
    subpartition = np.where(reads_all, subtask, 0)
    uneven = np.flatnonzero((~all_to_all & (producers != consumers))[original])
    shape = producers[original[uneven]], consumers[original[uneven]]
    first[uneven], end = partitions_of_subtask(subtask[uneven], *shape)
    last[uneven] = end - 1
    first_reader, end_reader = subtasks_of_partition(first[uneven], *shape)
    subpartition[uneven] = subtask[uneven] % (end_reader - first_reader)
    return pl.DataFrame(
        {
            **rows.taken(placed_edges.select(TOPOLOGY, "target_vertex", "input_index")),
            "subtask": subtask,
            "first_partition": first,
            "last_partition": last,
            "first_subpartition": subpartition,
            "last_subpartition": subpartition,
        }
    ).select(EXECUTION_EDGES.names)


def expand_execution_edges(execution_edges: pl.DataFrame, *also: str) -> pl.DataFrame:
    """Return one row per ExecutionEdge, a partition that a subtask reads.

    In: execution_edges, all or the rows of chosen job edges; columns `also` are carried over. Out (key
    topology_id, target_vertex, input_index, subtask, partition): those columns and first_subpartition,
    last_subpartition. An all-to-all edge has as many rows as the product of both parallelisms: an edge of
    10,000 to 10,000 subtasks takes 3 GB, so choose edges or subtasks first.
    """
    partitions = pl.int_ranges("first_partition", pl.col("last_partition") + 1, dtype=pl.Int32)
    return execution_edges.select(
        TOPOLOGY,
        "target_vertex",
        "input_index",
        "subtask",
        partitions.alias("partition"),
        "first_subpartition",
        "last_subpartition",
        *also,
    ).explode("partition")


def execution_vertices(task_regions: pl.DataFrame) -> pl.DataFrame:
    """Return execution_vertices, one row per subtask (key topology_id, vertex, subtask).

    In: task_regions (see find_pipelined_regions).

    Source: ExecutionJobVertex, ExecutionVertex.

    Example: tests/passes/fixtures/execution_vertices.txt.
    """
    return explode_subtasks(task_regions, "regions", "pipelined_region")


def explode_subtasks(tasks: pl.DataFrame, numbers: str, number: str) -> pl.DataFrame:
    """Return one row per subtask, with the list column `numbers` as `subtask` (from 0) and `number`, the last
    columns.
    """
    others = [name for name in tasks.columns if name != numbers]
    subtasks = pl.int_ranges(0, pl.col(numbers).list.len(), dtype=pl.Int32).alias("subtask")
    return tasks.select(*others, subtasks, pl.col(numbers).alias(number)).explode("subtask", number)
