"""The two sequential walks over a StreamGraph."""

import polars as pl

from plans.columnar.frames import TOPOLOGY, walk
from plans.job_graph.walk_stream_graph import SOURCE_TASKS, WALKED, walk_graphs


def walk_stream_graph(stream_nodes: pl.DataFrame, stream_edges: pl.DataFrame) -> pl.DataFrame:
    """What only a walk in Flink's order can tell of nodes and edges.

    As plans.job_graph.walk_stream_graph.
    """
    no_string, no_int, no_flag = pl.lit(None, pl.String), pl.lit(None, pl.Int32), pl.lit(None, pl.Boolean)
    nodes = stream_nodes.select(
        TOPOLOGY,
        "id",
        no_int.alias("target"),
        pl.lit(-1, pl.Int32).alias("out_index"),
        no_int.alias("in_index"),
        no_flag.alias("chainable"),
        no_flag.alias("chained_source"),
        pl.col("no_output_until_end_of_input").alias("no_output"),
        pl.col("invokable").is_in(SOURCE_TASKS).alias("source"),
        "uid",
        no_string.alias("edge_id"),
    )
    unchained = ~pl.col("chainable") & ~pl.col("chained_source")
    edges = stream_edges.select(
        TOPOLOGY,
        pl.col("source").alias("id"),
        "target",
        "out_index",
        "in_index",
        "chainable",
        "chained_source",
        no_flag.alias("no_output"),
        no_flag.alias("source"),
        no_string.alias("uid"),
        pl.when(unchained).then("edge_id").alias("edge_id"),
    )
    return walk(pl.concat([nodes, edges]), ["id", "out_index"], walk_graphs, WALKED)
