"""Vertices of dynamic graphs get the parallelism that the adaptive batch scheduler starts from."""

import polars as pl

from penstock.plans.columnar.frames import join_topology
from penstock.plans.counts import smallest_in_component
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.tables.column_types import TOPOLOGY

_FORWARD_GROUPS = {TOPOLOGY: pl.Int64, "vertex": pl.Int32, "forward_group": pl.Int32}


def find_forward_groups(
    chain_vertices: pl.DataFrame, typed_edges: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """One row per vertex of a dynamic graph: the smallest vertex connected to it by forward edges.

    Columns and source: see joins.set_dynamic_parallelism.

    Example: tests/passes/fixtures/forward_groups.txt.
    """
    dynamic = job_settings.filter("dynamic").select(TOPOLOGY)
    if dynamic.is_empty():
        return pl.DataFrame(schema=_FORWARD_GROUPS)
    vertices = chain_vertices.select(TOPOLOGY, "vertex")
    edges = join_topology(typed_edges.filter("forward"), dynamic, {}, "semi")
    groups = smallest_in_component(
        vertices["vertex"].to_numpy(), edges["source_place"].to_numpy(), edges["target_place"].to_numpy()
    )
    with_groups = vertices.with_columns(forward_group=pl.Series(groups, dtype=pl.Int32))
    return join_topology(with_groups, dynamic, {}, "semi")


def set_dynamic_parallelism(
    chain_vertices: pl.DataFrame, forward_groups: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The vertices with their final parallelism.

    Columns and source: see joins.set_dynamic_parallelism.

    Example: tests/passes/fixtures/vertices.txt.
    """
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
