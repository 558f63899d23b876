"""Vertices know their slot sharing and co-location groups by number."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.joins.frames import join_groups, join_local, rename
from plans.joins.number_in_order import number_in_order
from plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP
from plans.tables import JOB_VERTICES
from plans.tables.column_types import TOPOLOGY


def number_slot_sharing_groups(
    vertices: DataFrame, sorted_vertices: DataFrame, job_settings: DataFrame
) -> DataFrame:
    """The vertices with their final name, order, region and slot_sharing_group.

    In: vertices (see create_vertices), sorted_vertices (see sort_vertices_topologically), job_settings. Out:
    the rows of vertices with those columns and slot_sharing_group, numbered by first appearance in creation
    order. Vertices of the default group share one slot sharing group, or one per pipelined region where the
    job says so.

    Source: StreamingJobGraphGenerator.setSlotSharing, buildVertexRegionSlotSharingGroups,
    addVertexIndexPrefixInVertexName.

    Example: tests/passes/fixtures/grouped_vertices.txt.
    """
    settings = job_settings.select(
        TOPOLOGY, "all_vertices_in_same_slot_sharing_group", "vertex_name_include_index_prefix"
    )
    ordered = join_local(vertices, sorted_vertices, {"vertex": "vertex"})
    by_region = ~F.col("all_vertices_in_same_slot_sharing_group") & (
        F.col("slot_sharing_group_name") == DEFAULT_SLOT_SHARING_GROUP
    )
    prefix = F.when(
        F.col("vertex_name_include_index_prefix"),
        F.concat(F.lit("[vertex-"), "topological_order", F.lit("]")),
    ).otherwise(F.lit(""))
    keyed = join_local(ordered, settings, {}).select(
        *(name for name in ordered.columns if name != "name"),
        F.concat(prefix, "name").alias("name"),
        F.when(by_region, F.col("pipelined_region")).otherwise(-1).alias("group_region"),
    )
    return _numbered(keyed, ["slot_sharing_group_name", "group_region"], "slot_sharing_group").drop(
        "group_region"
    )


def number_co_location_groups(grouped_vertices: DataFrame) -> DataFrame:
    """The finished job vertices.

    In: grouped_vertices (see number_slot_sharing_groups). Out: job_vertices, and slot_sharing_group_name and
    co_location_group_name.

    Source: StreamingJobGraphGenerator.setCoLocation.

    Example: tests/passes/fixtures/job_vertices.txt.
    """
    numbered = _numbered(
        grouped_vertices.filter(F.col("co_location_group_name").isNotNull()),
        ["co_location_group_name"],
        "co_location_group",
    ).select(TOPOLOGY, "vertex", "co_location_group")
    return join_local(grouped_vertices, numbered, {"vertex": "vertex"}, "left").select(
        *JOB_VERTICES.names, "slot_sharing_group_name", "co_location_group_name"
    )


def _numbered(vertices: DataFrame, keys: list[str], number: str) -> DataFrame:
    """`vertices` with groups of equal `keys` numbered within a topology by their first vertex created."""
    groups = (
        vertices.select(TOPOLOGY, *keys, "creation_order")
        .groupBy(TOPOLOGY, *keys)
        .agg(F.min("creation_order").alias("first_created"))
    )
    numbered = number_in_order(groups, "first_created", number).drop("first_created")
    of_groups = rename(numbered, **{f"group_{key}": key for key in keys}, **{number: number})
    on = {key: f"group_{key}" for key in keys}
    return join_groups(vertices, of_groups, on, at_most=groups)


def slot_sharing_groups(job_vertices: DataFrame) -> DataFrame:
    """In: job_vertices (see number_co_location_groups). Out: slot_sharing_groups.

    Example: tests/passes/fixtures/slot_sharing_groups.txt.
    """
    return job_vertices.groupBy(
        TOPOLOGY, "slot_sharing_group", F.col("slot_sharing_group_name").alias("name")
    ).agg(
        F.count(F.lit(1)).cast("int").alias("vertices"),
        F.max("parallelism").alias("max_vertex_parallelism"),
    )


def co_location_groups(job_vertices: DataFrame) -> DataFrame:
    """In: job_vertices (see number_co_location_groups). Out: co_location_groups.

    Example: tests/passes/fixtures/co_location_groups.txt.
    """
    return (
        job_vertices.filter(F.col("co_location_group").isNotNull())
        .groupBy(TOPOLOGY, "co_location_group", F.col("co_location_group_name").alias("name"))
        .agg(
            F.min("slot_sharing_group").alias("slot_sharing_group"),
            F.count(F.lit(1)).cast("int").alias("vertices"),
        )
    )
