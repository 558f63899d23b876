"""Rows of the walks over tasks."""

import polars as pl

from plans.columnar.execution_graph.connect_execution_vertices import is_all_to_all
from plans.columnar.frames import TOPOLOGY, join_topology, rename
from plans.execution_graph.job_graph_arrays import MUST_BE_PIPELINED, NONE, OF_VERTICES


def job_graph_rows(
    named_vertices: pl.DataFrame, execution_job_vertices: pl.DataFrame, connected_edges: pl.DataFrame
) -> pl.DataFrame:
    """One row a vertex (target null) and one an edge (vertex is its source).

    As plans.execution_graph.job_graph_arrays.
    """
    of_vertices = named_vertices.select(
        TOPOLOGY,
        "vertex",
        pl.col("topological_order").alias("order"),
        "slot_sharing_group",
        pl.col("co_location_group").fill_null(NONE),
        "pipelined_region",
    )
    effective = rename(execution_job_vertices, vertex="vertex", parallelism="parallelism")
    no_int, no_flag = pl.lit(None, pl.Int32), pl.lit(None, pl.Boolean)
    vertices = join_topology(of_vertices, effective, {"vertex": "vertex"}).select(
        TOPOLOGY,
        "vertex",
        no_int.alias("target"),
        "order",
        *OF_VERTICES,
        no_flag.alias("all_to_all"),
        no_flag.alias("pipelined"),
    )
    edges = connected_edges.select(
        TOPOLOGY,
        pl.col("source_vertex").alias("vertex"),
        pl.col("target_vertex").alias("target"),
        pl.col("input_index").alias("order"),
        *(no_int.alias(name) for name in OF_VERTICES),
        is_all_to_all().alias("all_to_all"),
        pl.col("result_partition_type").is_in(MUST_BE_PIPELINED).alias("pipelined"),
    )
    return pl.concat([vertices, edges])
