"""Vertices know their slot sharing and co-location groups by number."""

import polars as pl

from plans.columnar.frames import TOPOLOGY, join_topology
from plans.columnar.groups import groups, ints, number_groups, number_within
from plans.schema import JOB_VERTICES
from plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP


def number_slot_sharing_groups(
    vertices: pl.DataFrame, sorted_vertices: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The vertices with their final name, order, region and slot_sharing_group.

    As plans.job_graph.number_slot_sharing_groups.
    """
    settings = job_settings.select(
        TOPOLOGY, "all_vertices_in_same_slot_sharing_group", "vertex_name_include_index_prefix"
    )
    ordered = join_topology(vertices, sorted_vertices, {"vertex": "vertex"})
    by_region = ~pl.col("all_vertices_in_same_slot_sharing_group") & (
        pl.col("slot_sharing_group_name") == DEFAULT_SLOT_SHARING_GROUP
    )
    prefixed = pl.concat_str(pl.lit("[vertex-"), "topological_order", pl.lit("]"), "name")
    keyed = join_topology(ordered, settings, {}, "left").select(
        *(name for name in ordered.columns if name != "name"),
        pl.when("vertex_name_include_index_prefix").then(prefixed).otherwise("name").alias("name"),
        pl.when(by_region).then("pipelined_region").otherwise(-1).alias("group_region"),
    )
    numbers = _numbered(keyed, "slot_sharing_group_name", "group_region")
    return keyed.drop("group_region").with_columns(numbers.alias("slot_sharing_group"))


def number_co_location_groups(grouped_vertices: pl.DataFrame) -> pl.DataFrame:
    """The finished job vertices. As plans.job_graph.number_slot_sharing_groups."""
    located = grouped_vertices.filter(pl.col("co_location_group_name").is_not_null()).select(
        TOPOLOGY, "vertex", "co_location_group_name", "creation_order"
    )
    numbered = located.select(
        TOPOLOGY, "vertex", _numbered(located, "co_location_group_name").alias("co_location_group")
    )
    return join_topology(grouped_vertices, numbered, {"vertex": "vertex"}, "left").select(
        *JOB_VERTICES.names, "slot_sharing_group_name", "co_location_group_name"
    )


def _numbered(vertices: pl.DataFrame, *keys: str) -> pl.Series:
    """The number of each vertex's group of equal `keys`: by the group's first vertex created."""
    created = ints(vertices, "creation_order")
    numbers, first = number_within(groups(vertices, *keys), created)
    return pl.Series(values=number_groups(groups(vertices), numbers, first, created), dtype=pl.Int32)


def slot_sharing_groups(named_vertices: pl.DataFrame) -> pl.DataFrame:
    """In: named_vertices (see number_co_location_groups). Out: slot_sharing_groups."""
    return named_vertices.group_by(TOPOLOGY, "slot_sharing_group").agg(
        pl.col("slot_sharing_group_name").first().alias("name"),
        pl.len().cast(pl.Int32).alias("vertices"),
        pl.col("parallelism").max().alias("max_vertex_parallelism"),
    )


def co_location_groups(named_vertices: pl.DataFrame) -> pl.DataFrame:
    """In: named_vertices (see number_co_location_groups). Out: co_location_groups."""
    located = named_vertices.filter(pl.col("co_location_group").is_not_null())
    return located.group_by(TOPOLOGY, "co_location_group").agg(
        pl.col("co_location_group_name").first().alias("name"),
        pl.col("slot_sharing_group").min(),
        pl.len().cast(pl.Int32).alias("vertices"),
    )
