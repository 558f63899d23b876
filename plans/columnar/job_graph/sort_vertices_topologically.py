"""Vertices in the order in which Flink schedules them, and their pipelined regions."""

import polars as pl

from plans.columnar.frames import TOPOLOGY, walk
from plans.job_graph.sort_vertices_topologically import MUST_BE_PIPELINED, SORTED, sort_vertices


def sort_vertices_topologically(vertices: pl.DataFrame, connected_edges: pl.DataFrame) -> pl.DataFrame:
    """One row a vertex: creation_order, topological_order, pipelined_region.

    As plans.job_graph.sort_vertices_topologically.
    """
    no_int = pl.lit(None, pl.Int32)
    nodes = vertices.select(
        TOPOLOGY,
        "vertex",
        no_int.alias("target"),
        pl.col("postorder").alias("order"),
        no_int.alias("consumer_index"),
        pl.lit(False).alias("pipelined"),
    )
    edges = connected_edges.select(
        TOPOLOGY,
        pl.col("source_vertex").alias("vertex"),
        pl.col("target_vertex").alias("target"),
        pl.col("output_index").alias("order"),
        "consumer_index",
        pl.col("result_partition_type").is_in(MUST_BE_PIPELINED).alias("pipelined"),
    )
    return walk(pl.concat([nodes, edges]), [], sort_vertices, SORTED)
