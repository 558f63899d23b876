"""Which partitions and subpartitions every subtask reads, as ranges."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.joins.frames import join_local, rename
from plans.tables import EXECUTION_EDGES
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import DistributionPattern


def execution_edges(connected_edges: DataFrame, execution_job_vertices: DataFrame) -> DataFrame:
    """One row per consuming subtask and gate (key topology_id, target_vertex, input_index, subtask).

    In: connected_edges (see connect_vertices), execution_job_vertices. Out: execution_edges: an edge of
    10,000 to 10,000 subtasks is 10,000 rows.

    Source: VertexInputInfoComputationUtils.computeVertexInputInfoForPointwise and ForAllToAll of a graph that
    is not dynamic, EdgeManagerBuildUtil.

    Example: a task of a pointwise edge reads some partitions, one of an all-to-all edge all of them
    (tests/passes/fixtures/execution_edges.txt).

        connected_edges
        source_vertex  target_vertex  distribution
        1              3              POINTWISE
        3              5              ALL_TO_ALL

        execution_job_vertices
        vertex  parallelism
        1       4
        3       2
        5       3

        -> execution_edges
        target_vertex  subtask  first_partition  last_partition  first_subpartition
        3              0        0                1               0
        3              1        2                3               0
        5              0        0                1               0
        5              1        0                1               1
        5              2        0                1               2
    """
    subtask, producers, consumers = F.col("subtask"), F.col("producers"), F.col("consumers")
    narrowing = producers >= consumers
    fanned_from = F.floor(subtask * producers / consumers)
    fan_out = first_consumer(fanned_from + 1, producers, consumers) - first_consumer(
        fanned_from, producers, consumers
    )
    first = F.when(is_all_to_all(), 0).otherwise(fanned_from)
    last = (
        F.when(is_all_to_all(), producers - 1)
        .when(narrowing, F.floor((subtask + 1) * producers / consumers) - 1)
        .otherwise(fanned_from)
    )
    subpartition = F.when(is_all_to_all(), subtask).when(narrowing, 0).otherwise(subtask % fan_out)
    values = {
        "first_partition": first.cast("int"),
        "last_partition": last.cast("int"),
        "first_subpartition": subpartition.cast("int"),
        "last_subpartition": subpartition.cast("int"),
    }
    return (
        with_both_parallelisms(connected_edges, execution_job_vertices)
        .select(
            TOPOLOGY,
            "target_vertex",
            "input_index",
            "distribution",
            F.col("producers").cast("bigint"),
            F.col("consumers").cast("bigint"),
            F.explode(F.sequence(F.lit(0), F.col("consumers") - 1)).alias("subtask"),
        )
        .select(*(values[name].alias(name) if name in values else name for name in EXECUTION_EDGES.names))
    )


def with_both_parallelisms(connected_edges: DataFrame, execution_job_vertices: DataFrame) -> DataFrame:
    """`connected_edges` with `producers` and `consumers`, the parallelism at both ends."""
    of_source = rename(execution_job_vertices, producer="vertex", producers="parallelism")
    of_target = rename(execution_job_vertices, consumer="vertex", consumers="parallelism")
    known = join_local(connected_edges, of_source, {"source_vertex": "producer"})
    return join_local(known, of_target, {"target_vertex": "consumer"})


def is_all_to_all() -> Column:
    """Whether a row's distribution connects every producer with every consumer."""
    return F.col("distribution") == DistributionPattern.ALL_TO_ALL.value


def first_consumer(partition: Column, producers: Column, consumers: Column) -> Column:
    """The first consuming subtask of a partition where there are fewer producers than consumers."""
    return F.floor((partition * consumers + producers - 1) / producers)
