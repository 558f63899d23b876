"""Vertices of dynamic graphs get the parallelism that the adaptive batch scheduler starts from."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.arrow_walks import positions, topologies_of
from penstock.plans.frames.counts import smallest_in_component
from penstock.plans.frames.spark_frames import join_groups, join_local, rename
from penstock.plans.frames.spark_walks import Part, nothing_found, walk_topologies
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED, OVERRIDE_NUMBER, OVERRIDES_KEY
from penstock.plans.tables.column_types import INT, LONG, TOPOLOGY

FORWARD_GROUPS = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("vertex", INT, False),
        pa.field("forward_group", INT, False),
    ]
)


def find_forward_groups(
    chain_vertices: DataFrame, typed_edges: DataFrame, job_settings: DataFrame
) -> DataFrame:
    """One row per vertex of a dynamic graph: the smallest vertex connected to it by forward edges.

    In: chain_vertices (see create_vertices), typed_edges (see choose_result_partition_types), job_settings.
    Out (key topology_id, vertex): forward_group.

    Source: ForwardGroupComputeUtil.computeForwardGroups.

    Example: tests/passes/fixtures/forward_groups.txt.
    """
    dynamic = job_settings.filter("dynamic").select(TOPOLOGY)
    if dynamic.isEmpty():
        return nothing_found(dynamic, FORWARD_GROUPS)
    nodes = chain_vertices.select(TOPOLOGY, "vertex")
    edges = typed_edges.filter("forward").select(TOPOLOGY, F.col("source_vertex").alias("vertex"), "target")
    parts = [Part(join_local(rows, dynamic, {}, "left_semi"), "vertex") for rows in (nodes, edges)]
    return walk_topologies(parts, connect_by_forward_edges, FORWARD_GROUPS)


def connect_by_forward_edges(nodes: pa.Table, edges: pa.Table) -> Iterator[pa.RecordBatch]:
    """Forward groups of vertices and forward edges, sorted by topology."""
    topologies, vertices = topologies_of(nodes), nodes.column("vertex").to_numpy()
    position = positions(topologies, vertices)
    edge_topologies = topologies_of(edges)
    sources = position(edge_topologies, edges.column("vertex").to_numpy())
    targets = position(edge_topologies, edges.column("target").to_numpy())
    groups = smallest_in_component(vertices, sources, targets)
    yield pa.RecordBatch.from_arrays(
        [pa.array(topologies), pa.array(vertices), pa.array(groups, pa.int32())], names=FORWARD_GROUPS.names
    )


def set_dynamic_parallelism(
    chain_vertices: DataFrame, forward_groups: DataFrame, job_settings: DataFrame
) -> DataFrame:
    """The vertices with their final parallelism.

    In: chain_vertices, forward_groups, job_settings. Out: the rows of chain_vertices, and too_small_max (the
    parallelism of the vertex's forward group is above the group's max parallelism: Flink refuses the job). In
    dynamic graphs a vertex without configured parallelism gets -1, unless its forward group has one, and all
    vertices of a forward group get its smallest max parallelism.

    Source: StreamingJobGraphGenerator.setVertexParallelismsForDynamicGraphIfNecessary, JobVertexForwardGroup.

    Example: tests/passes/fixtures/vertices.txt.
    """
    settings = job_settings.select(
        TOPOLOGY, (F.col("dynamic") & F.col("auto_parallelism_enabled")).alias("resets")
    )
    undecided = F.col("resets") & ~F.col("parallelism_configured")
    reset = join_local(
        join_local(chain_vertices, forward_groups, {"vertex": "vertex"}, "left"), settings, {}
    ).select(
        *(name for name in chain_vertices.columns if name != "parallelism"),
        # A vertex is a group of its own if there are none: null would send all of them to one partition.
        F.coalesce("forward_group", "vertex").alias("in_group"),
        "forward_group",
        F.when(undecided, NOT_DECIDED).otherwise(F.col("parallelism")).alias("parallelism"),
    )
    of_groups = (
        reset.filter(F.col("forward_group").isNotNull())
        .groupBy(TOPOLOGY, "forward_group")
        .agg(
            F.max(F.when(F.col("parallelism") > 0, F.col("parallelism"))).alias("group_parallelism"),
            F.min(F.when(F.col("max_parallelism") > 0, F.col("max_parallelism"))).alias(
                "group_max_parallelism"
            ),
            F.count(F.lit(1)).alias("size"),
        )
        .filter("size > 1")
    )
    groups = rename(
        of_groups,
        forward_group="forward_group",
        group_parallelism="group_parallelism",
        group_max="group_max_parallelism",
    )
    decided = {
        "parallelism": F.coalesce("group_parallelism", "parallelism"),
        "max_parallelism": F.coalesce("group_max", "max_parallelism"),
        "parallelism_configured": F.col("parallelism_configured") | F.col("group_parallelism").isNotNull(),
    }
    at_most = forward_groups.select(TOPOLOGY, "forward_group").distinct()
    return join_groups(reset, groups, {"in_group": "forward_group"}, "left", at_most=at_most).select(
        *(decided[name].alias(name) if name in decided else F.col(name) for name in chain_vertices.columns),
        F.coalesce(F.col("group_parallelism") > F.col("group_max"), F.lit(False)).alias("too_small_max"),
    )


def parallelism_overrides(job_settings: DataFrame) -> DataFrame | None:
    """The parallelism that configurations give vertices by id; None if none does.

    Out (key topology_id, overridden_id): given, the text; number, null if Flink cannot read one; override,
    the number if it can be a parallelism.

    Source: PipelineOptions.PARALLELISM_OVERRIDES.
    """
    text = F.col("config")[OVERRIDES_KEY]
    texts = job_settings.filter(text.isNotNull()).select(TOPOLOGY, text.alias("text"))
    if texts.isEmpty():
        return None
    entries = texts.select(
        TOPOLOGY, F.explode(F.from_json("text", "map<string,string>")).alias("overridden_id", "given")
    )
    number = F.when(F.col("given").rlike(OVERRIDE_NUMBER), F.expr("try_cast(given AS int)"))
    override = F.when((number >= 1) | (number == NOT_DECIDED), number)
    return entries.select("*", number.alias("number"), override.alias("override"))


def override_parallelism(vertices: DataFrame, job_settings: DataFrame) -> DataFrame:
    """The vertices with the parallelism that they have on the cluster.

    In: vertices (with vertex_id), job_settings. The Dispatcher changes the finished JobGraph: chains, data
    sets and ids follow from the parallelism before, tasks and slots from the one after.

    Source: Dispatcher.applyParallelismOverrides.
    """
    overrides = parallelism_overrides(job_settings)
    if overrides is None:
        return vertices
    joined = join_local(vertices, overrides.drop("given", "number"), {"vertex_id": "overridden_id"}, "left")
    override = F.coalesce("override", "parallelism").alias("parallelism")
    return joined.select(*(override if name == "parallelism" else name for name in vertices.columns))
