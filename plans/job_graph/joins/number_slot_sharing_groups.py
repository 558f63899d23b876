"""Job vertices in the order in which Flink schedules them, with their slot sharing and co-location groups."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.arrow_walks import positions, topologies_of
from penstock.plans.frames.counts import rows_in_order, runs
from penstock.plans.frames.spark_frames import join_groups, join_local, number_in_order, rename
from penstock.plans.frames.spark_walks import Part, walk_topologies
from penstock.plans.job_graph.joins.set_dynamic_parallelism import override_parallelism
from penstock.plans.job_graph.sort_vertices_topologically import order_and_regions
from penstock.plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.tables import JOB_VERTICES
from penstock.plans.tables.column_types import INT, LONG, TOPOLOGY
from penstock.plans.vocabulary import MUST_BE_PIPELINED_TYPES


def number_slot_sharing_groups(
    vertices: DataFrame, sorted_vertices: DataFrame, job_settings: DataFrame
) -> DataFrame:
    """The vertices with their final name, parallelism, order, region and slot_sharing_group.

    In: vertices (see create_vertices), sorted_vertices (see sort_vertices_topologically), job_settings. Out:
    the rows of vertices with those columns and slot_sharing_group, numbered by first appearance in creation
    order. Vertices of the default group share one slot sharing group, or one per pipelined region where the
    job says so. The parallelism is the one on the cluster (see override_parallelism).

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
    on_cluster = override_parallelism(keyed, job_settings)
    return _numbered(on_cluster, ["slot_sharing_group_name", "group_region"], "slot_sharing_group").drop(
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


SORTED = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("vertex", INT, False),
        pa.field("creation_order", INT, False),
        pa.field("topological_order", INT, False),
        pa.field("pipelined_region", INT, False),
    ]
)


def sort_vertices_topologically(vertices: DataFrame, connected_edges: DataFrame) -> DataFrame:
    """One row per vertex: creation_order, topological_order, pipelined_region.

    In: vertices (with postorder), connected_edges (see connect_vertices). Out (key topology_id, vertex).

    Source: JobGraph.getVerticesSortedTopologicallyFromSources and addNodesThatHaveNoNewPredecessors, without
    their recursion; LogicalPipelinedRegionComputeUtil.

    Example: tests/passes/fixtures/sorted_vertices.txt.
    """
    nodes = vertices.select(TOPOLOGY, "vertex", F.col("postorder").alias("order"))
    edges = connected_edges.select(
        TOPOLOGY,
        F.col("source_vertex").alias("vertex"),
        F.col("target_vertex").alias("target"),
        F.col("output_index").alias("order"),
        "consumer_index",
        F.col("result_partition_type").isin(*MUST_BE_PIPELINED_TYPES).alias("pipelined"),
    )
    sorted_by = ("order", "consumer_index")
    edges_in_order = Part(edges, "vertex", *sorted_by, compact=lambda rows: rows.drop_columns([*sorted_by]))
    return walk_topologies([Part(nodes, "vertex"), edges_in_order], sort_vertices, SORTED)


def sort_vertices(nodes: pa.Table, edges: pa.Table) -> Iterator[pa.RecordBatch]:
    """Orders and regions of vertices and their edges.

    Rows are sorted by topology; edges then by vertex, output and consumer_index.
    """
    topology = topologies_of(nodes)
    of_topologies = runs(topology)
    by_creation = rows_in_order(of_topologies.of_row, nodes.column("order").to_numpy())
    vertex_ids = nodes.column("vertex").to_numpy()[by_creation]
    starts = of_topologies.starts
    bounds = np.append(starts, len(vertex_ids))

    position = positions(topology, vertex_ids)
    sources = position(topologies_of(edges), edges.column("vertex").to_numpy())
    targets = position(topologies_of(edges), edges.column("target").to_numpy())
    consumed = rows_in_order(sources, runs(sources).numbers())
    pipelined = np.asarray(edges.column("pipelined"), dtype=np.bool_)
    order, regions = order_and_regions(bounds, sources[consumed], targets[consumed], pipelined[consumed])
    creation = np.arange(len(vertex_ids)) - np.repeat(starts, np.diff(bounds))
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(topology),
            pa.array(vertex_ids, pa.int32()),
            pa.array(creation, pa.int32()),
            pa.array(order, pa.int32()),
            pa.array(regions, pa.int32()),
        ],
        names=SORTED.names,
    )
