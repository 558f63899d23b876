"""Which partitions and subpartitions every subtask reads, as ranges."""

import polars as pl

from plans.columnar.frames import TOPOLOGY, join_topology, rename
from plans.schema import EXECUTION_EDGES
from plans.vocabulary import DistributionPattern

ENDS = (TOPOLOGY, "source_vertex", "target_vertex", "distribution")
"""What with_both_parallelisms and is_all_to_all read of connected_edges."""


def execution_edges(connected_edges: pl.DataFrame, execution_job_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row a consuming subtask and gate (key topology_id, target_vertex, input_index, subtask).

    As plans.execution_graph.connect_execution_vertices. 32 bits hold all products: no parallelism is above
    UPPER_BOUND_MAX_PARALLELISM.
    """
    subtask, producers, consumers = pl.col("subtask"), pl.col("producers"), pl.col("consumers")
    narrowing = producers >= consumers
    fanned_from = subtask * producers // consumers
    fan_out = first_consumer(fanned_from + 1, producers, consumers) - first_consumer(
        fanned_from, producers, consumers
    )
    all_to_all = pl.col("all_to_all")
    last = pl.when(narrowing).then((subtask + 1) * producers // consumers - 1).otherwise(fanned_from)
    subpartition = (
        pl.when(all_to_all).then(subtask).when(narrowing).then(0).otherwise(subtask % fan_out).cast(pl.Int32)
    )
    edges = connected_edges.select(*ENDS, "input_index")
    return (
        with_both_parallelisms(edges, execution_job_vertices)
        .select(
            TOPOLOGY,
            "target_vertex",
            "input_index",
            "producers",
            "consumers",
            is_all_to_all().alias("all_to_all"),
            pl.int_ranges(0, "consumers", dtype=pl.Int32).alias("subtask"),
        )
        .explode("subtask")
        .with_columns(
            pl.when(all_to_all).then(0).otherwise(fanned_from).cast(pl.Int32).alias("first_partition"),
            pl.when(all_to_all).then(producers - 1).otherwise(last).alias("last_partition"),
            subpartition.alias("first_subpartition"),
            subpartition.alias("last_subpartition"),
        )
        .select(EXECUTION_EDGES.names)
    )


def with_both_parallelisms(
    connected_edges: pl.DataFrame, execution_job_vertices: pl.DataFrame
) -> pl.DataFrame:
    """`connected_edges` with `producers` and `consumers`, the parallelism at both ends."""
    of_source = rename(execution_job_vertices, producer="vertex", producers="parallelism")
    of_target = rename(execution_job_vertices, consumer="vertex", consumers="parallelism")
    known = join_topology(connected_edges, of_source, {"source_vertex": "producer"})
    return join_topology(known, of_target, {"target_vertex": "consumer"})


def is_all_to_all() -> pl.Expr:
    """Whether a row's distribution connects every producer with every consumer."""
    return pl.col("distribution") == DistributionPattern.ALL_TO_ALL.value


def first_consumer(partition: pl.Expr, producers: pl.Expr, consumers: pl.Expr) -> pl.Expr:
    """The first consuming subtask of a partition where there are fewer producers than consumers."""
    return (partition * consumers + producers - 1) // producers
