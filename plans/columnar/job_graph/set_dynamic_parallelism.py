"""Vertices of dynamic graphs get the parallelism that the adaptive batch scheduler starts from."""

import polars as pl

from plans.columnar.frames import TOPOLOGY, join_topology, walk
from plans.job_graph.set_dynamic_parallelism import FORWARD_GROUPS, NOT_DECIDED, connect_by_forward_edges


def find_forward_groups(
    chain_vertices: pl.DataFrame, typed_edges: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """One row a vertex of a dynamic graph: the smallest vertex that forward edges connect it with.

    As plans.job_graph.set_dynamic_parallelism.
    """
    dynamic = job_settings.filter("dynamic").select(TOPOLOGY)
    vertices = join_topology(chain_vertices.select(TOPOLOGY, "vertex"), dynamic, {}, "semi")
    edges = join_topology(typed_edges.filter("forward"), dynamic, {}, "semi")
    rows = pl.concat(
        [
            vertices.with_columns(pl.lit(None, pl.Int32).alias("target")),
            edges.select(TOPOLOGY, pl.col("source_vertex").alias("vertex"), "target"),
        ]
    )
    return walk(rows, [], connect_by_forward_edges, FORWARD_GROUPS)


def set_dynamic_parallelism(
    chain_vertices: pl.DataFrame, forward_groups: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The vertices with their final parallelism. As plans.job_graph.set_dynamic_parallelism."""
    if forward_groups.is_empty():
        return chain_vertices.with_columns(pl.lit(False).alias("too_small_max"))
    settings = job_settings.select(
        TOPOLOGY, (pl.col("dynamic") & pl.col("auto_parallelism_enabled")).alias("resets")
    )
    of_vertices = chain_vertices.select(
        TOPOLOGY, "vertex", "parallelism", "max_parallelism", "parallelism_configured"
    )
    placed = join_topology(
        join_topology(of_vertices, forward_groups, {"vertex": "vertex"}, "left"), settings, {}, "left"
    )
    undecided = pl.col("resets") & ~pl.col("parallelism_configured")
    reset = placed.with_columns(
        pl.when(undecided).then(NOT_DECIDED).otherwise("parallelism").alias("parallelism")
    )
    of_groups = (
        reset.filter(pl.col("forward_group").is_not_null())
        .group_by(TOPOLOGY, "forward_group")
        .agg(_above_zero("parallelism").max(), _above_zero("max_parallelism").min(), pl.len().alias("size"))
        .filter(pl.col("size") > 1)
        .select(
            TOPOLOGY,
            "forward_group",
            pl.col("parallelism").alias("group_parallelism"),
            pl.col("max_parallelism").alias("group_max"),
        )
    )
    grouped = join_topology(reset, of_groups, {"forward_group": "forward_group"}, "left")
    decided = grouped.select(
        pl.coalesce("group_parallelism", "parallelism").alias("parallelism"),
        pl.coalesce("group_max", "max_parallelism").alias("max_parallelism"),
        pl.col("parallelism_configured") | pl.col("group_parallelism").is_not_null(),
        (pl.col("group_parallelism") > pl.col("group_max")).fill_null(False).alias("too_small_max"),
    )
    return chain_vertices.with_columns(decided.get_columns())


def _above_zero(column: str) -> pl.Expr:
    return pl.when(pl.col(column) > 0).then(column).alias(column)
