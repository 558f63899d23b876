"""Job edges and intermediate data sets, numbered in the order in which Flink connects vertices."""

import numpy as np
import polars as pl

from plans.columnar.frames import TOPOLOGY, join_topology
from plans.columnar.groups import groups, ints, number_groups, number_within
from plans.columnar.job_graph.assign_operators_to_vertices import hex_id
from plans.job_graph.connect_vertices import CONNECTED
from plans.schema import INTERMEDIATE_DATA_SETS, JOB_EDGES
from plans.vocabulary import DistributionPattern


def connect_vertices(shared_edges: pl.DataFrame) -> pl.DataFrame:
    """The job edges with the columns of their data sets. As plans.job_graph.connect_vertices."""
    order = np.lexsort([ints(shared_edges, column) for column in reversed(CONNECTED)])
    connected = np.empty_like(order)
    connected[order] = np.arange(len(order))
    input_index, _ = number_within(groups(shared_edges, "target"), connected)
    of_data_sets = groups(shared_edges, "source_vertex", "id_lower", "id_upper")
    consumer_index, first = number_within(of_data_sets, connected)
    of_producers = groups(shared_edges, "source_vertex")
    output_index = number_groups(of_producers, consumer_index, first, connected)
    pattern = (
        pl.when("pointwise")
        .then(pl.lit(DistributionPattern.POINTWISE.value))
        .otherwise(pl.lit(DistributionPattern.ALL_TO_ALL.value))
    )
    values: dict[str, pl.Expr | pl.Series] = {
        "target_vertex": pl.col("target"),
        "input_index": pl.Series(values=input_index, dtype=pl.Int32),
        "data_set_id": hex_id(shared_edges["id_lower"], shared_edges["id_upper"]),
        "consumer_index": pl.Series(values=consumer_index, dtype=pl.Int32),
        "source_node": pl.col("source"),
        "target_node": pl.col("target"),
        "distribution": pattern,
        "ship_strategy": pl.col("partitioner"),
    }
    return shared_edges.select(
        *(values.get(name, pl.col(name)).alias(name) for name in JOB_EDGES.names),
        shared_edges["result_partition_type"][first],
        pl.Series("output_index", output_index, dtype=pl.Int32),
        "buffer_timeout",
        "exchange_mode",
        "output_tag",
        "unique_id",
        *CONNECTED,
    )


def create_data_sets(connected_edges: pl.DataFrame) -> pl.DataFrame:
    """One row a data set, from its first job edge. As plans.job_graph.connect_vertices."""
    data_sets = connected_edges.rename({"source_vertex": "vertex"})
    later = data_sets.filter(pl.col("consumer_index") > 0)
    further = later.group_by(TOPOLOGY, "vertex", "output_index").agg(pl.len().cast(pl.Int32).alias("further"))
    first = data_sets.filter(pl.col("consumer_index") == 0)
    on = {"vertex": "vertex", "output_index": "output_index"}
    return (
        join_topology(first, further, on, "left")
        .with_columns((pl.col("further").fill_null(0) + 1).alias("consumers"))
        .select(INTERMEDIATE_DATA_SETS.names)
    )
