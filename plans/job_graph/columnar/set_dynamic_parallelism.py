"""Vertices of dynamic graphs get the parallelism that the adaptive batch scheduler starts from."""

import json

import polars as pl

from penstock.plans.frames.counts import smallest_in_component
from penstock.plans.frames.polars_frames import join_topology
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED, OVERRIDE_NUMBER, OVERRIDES_KEY
from penstock.plans.tables.column_types import TOPOLOGY

_OVERRIDES = {
    TOPOLOGY: pl.Int64,
    "overridden_id": pl.String,
    "given": pl.String,
    "number": pl.Int32,
    "override": pl.Int32,
}
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


def parallelism_overrides(job_settings: pl.DataFrame) -> pl.DataFrame:
    """The parallelism that configurations give vertices by id.

    Columns and source: see joins.set_dynamic_parallelism.
    """
    texts = job_settings.select(TOPOLOGY, text=pl.col("config").map.get(OVERRIDES_KEY)).drop_nulls()
    if texts.is_empty():
        return pl.DataFrame(schema=_OVERRIDES)
    entries = [
        {"text": text, "overridden_id": vertex, "given": given}
        for text in texts["text"].unique()
        for vertex, given in json.loads(text).items()
    ]
    known = pl.DataFrame(entries, {"text": pl.String, "overridden_id": pl.String, "given": pl.String})
    text = pl.when(pl.col("given").str.contains(OVERRIDE_NUMBER)).then("given")
    number = text.cast(pl.Int32, strict=False)
    numbered = texts.join(known, on="text").select(TOPOLOGY, "overridden_id", "given", number=number)
    is_right = (pl.col("number") >= 1) | (pl.col("number") == NOT_DECIDED)
    return numbered.with_columns(override=pl.when(is_right).then("number"))


def override_parallelism(vertices: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """The vertices with the parallelism that they have on the cluster. As joins.set_dynamic_parallelism."""
    overrides = parallelism_overrides(job_settings).select(TOPOLOGY, "overridden_id", "override")
    if overrides.is_empty():
        return vertices
    joined = vertices.select(TOPOLOGY, "vertex_id", "parallelism").join(
        overrides,
        left_on=[TOPOLOGY, "vertex_id"],
        right_on=[TOPOLOGY, "overridden_id"],
        how="left",
        maintain_order="left",
    )
    return vertices.with_columns(joined.select(parallelism=pl.coalesce("override", "parallelism")))
