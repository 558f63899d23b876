"""Every stream node belongs to the job vertex of its chain; one job vertex per chain."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.plans.frames.arrays import positions, smallest_in_component, topologies_of
from penstock.plans.frames.packed_blocks import by_number
from penstock.plans.frames.spark_frames import join_groups, join_local, rename
from penstock.plans.frames.spark_walks import Part, nothing_found, walk_topologies
from penstock.plans.job_graph.columnar.create_vertices import (
    CHAINED_SOURCE,
    HEAD,
    NODE_COLUMNS,
    RESOURCE_FIELDS,
    VERTEX_RULES,
    FromChain,
)
from penstock.plans.job_graph.order_depth_first import FIRST_BRANCH, LATER_BRANCH, ONLY_BRANCH
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED, OVERRIDE_NUMBER, OVERRIDES_KEY
from penstock.plans.tables import JOB_EDGES
from penstock.plans.tables.column_types import INT, LONG, TOPOLOGY
from penstock.plans.vocabulary import DistributionPattern

# Vertices of dynamic graphs get the parallelism that the adaptive batch scheduler starts from.


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


def hex_id(lower: str, upper: str) -> Column:
    """Flink's AbstractID.toString of an id held as two longs."""
    return F.lower(F.concat(_digits(lower), _digits(upper)))


def _digits(half: str) -> Column:
    # Most longs have all of their digits, which lpad would all check.
    digits = F.hex(half)
    return F.when(F.shiftrightunsigned(half, 60) != 0, digits).otherwise(F.lpad(digits, 16, "0"))


def create_vertices(operators: DataFrame) -> DataFrame:
    """Vertices before groups and order.

    In: operators (see assign_operators_to_vertices). Out (key topology_id, vertex): vertex_id, name,
    parallelism, max_parallelism, parallelism_configured, invokable, format_vertex, slot_sharing_group_name,
    co_location_group_name, supports_concurrent_execution_attempts, min_resources, preferred_resources,
    postorder.

    Source: StreamingJobGraphGenerator.createJobVertex, createChainedName, createChainedMinResources,
    markSupportingConcurrentExecutionAttempts.

    Example: tests/passes/fixtures/chain_vertices.txt.
    """
    members = operators.filter(F.col("chain_index") != HEAD)
    in_chain = F.col("chain_index") >= HEAD
    of_chain = members.groupBy(TOPOLOGY, F.col("vertex").alias("chain"))
    sums = of_chain.agg(
        F.count_if(~in_chain).cast("int").alias("sources_inside"),
        F.bool_or((F.col("input_format") | F.col("output_format")) & in_chain).alias("any_format"),
        *_aggregate_members(in_chain),
    )
    # Separate, because a list among its values makes Spark initialise an aggregation anew for each group.
    # Chained sources are first; a lambda that told them from others would not be compiled.
    texts = members.groupBy(TOPOLOGY, F.col("vertex").alias("named_chain")).agg(
        F.sort_array(F.collect_list(_name_piece(in_chain)))["text"].alias("texts")
    )
    heads = join_local(operators.filter(F.col("chain_index") == HEAD), sums, {"vertex": "chain"}, "left")
    heads = join_local(heads, texts, {"vertex": "named_chain"}, "left").select(
        "*",
        F.slice("texts", 1, F.col("sources_inside")).alias("sources"),
        F.slice("texts", F.col("sources_inside") + 1, F.size("texts")).alias("pieces"),
    )
    suffix = F.when(
        F.size("sources") > 0, F.concat(F.lit(" ["), F.array_join("sources", ", "), F.lit("]"))
    ).otherwise(F.lit(""))
    return heads.select(
        TOPOLOGY,
        "vertex",
        hex_id("id_lower", "id_upper").alias("vertex_id"),
        F.concat("name", suffix, F.coalesce(F.array_join("pieces", ""), F.lit(""))).alias("name"),
        (F.col("input_format") | F.col("output_format") | F.coalesce("any_format", F.lit(False))).alias(
            "format_vertex"
        ),
        *_combine_with_head(),
        "postorder",
    )


def _aggregate_members(in_chain: Column) -> Iterator[Column]:
    """Aggregates over the operators below a chain's head, as the rules of columns need them."""
    for name, (of_chain, column) in VERTEX_RULES.items():
        match of_chain:
            case FromChain.ANY:
                yield F.bool_or(column).alias(f"{name}_below")
            case FromChain.ALL:
                yield F.bool_and(column).alias(f"{name}_below")
            case FromChain.SUM:
                yield _sum_of_resources(column, in_chain).alias(f"{name}_below")


def _combine_with_head() -> Iterator[Column]:
    """The columns that have a rule; what is below a head alone is null."""
    for name, (of_chain, column) in VERTEX_RULES.items():
        head, below = F.col(column), F.col(f"{name}_below")
        match of_chain:
            case FromChain.HEAD:
                yield head.alias(name)
            case FromChain.ANY:
                yield (head | F.coalesce(below, F.lit(False))).alias(name)
            case FromChain.ALL:
                yield (head & F.coalesce(below, F.lit(True))).alias(name)
            case FromChain.SUM:
                yield _with_members(column, below).alias(name)


def _name_piece(in_chain: Column) -> Column:
    """The part of the vertex's name from an operator below the head, or a source inside it, and its place."""
    opening = (
        F.when(F.col("branch") == ONLY_BRANCH, F.lit(" -> "))
        .when(F.col("branch") == FIRST_BRANCH, F.lit(" -> ("))
        .when(F.col("branch") == LATER_BRANCH, F.lit(", "))
    )
    piece = F.concat(opening, F.col("name"), F.repeat(F.lit(")"), F.col("closings")))
    return F.struct(
        in_chain.alias("in_chain"),
        F.when(in_chain, F.col("preorder")).otherwise(F.col("chained_source_index")).alias("at"),
        F.when(in_chain, piece).otherwise(F.col("name")).alias("text"),
    )


def _sum_of_resources(column: str, in_chain: Column) -> Column:
    """Sum over the operators below the head; null as soon as one operator's is, as in ResourceSpec.merge.

    Without such operators (only chained sources) the sum is zero.
    """
    specified = F.bool_and(F.col(column).isNotNull() | ~in_chain)
    total = F.struct(
        *(
            F.coalesce(F.sum(F.when(in_chain, F.col(f"{column}.{field}"))), F.lit(0)).alias(field)
            for field in RESOURCE_FIELDS
        )
    )
    return F.when(specified, total)


def _with_members(column: str, below: Column) -> Column:
    """The head's resources plus those below it; the head's alone where it has no members."""
    total = F.struct(*((F.col(f"{column}.{field}") + below[field]).alias(field) for field in RESOURCE_FIELDS))
    unspecified = F.col(column).isNull() | (F.col("pieces").isNotNull() & below.isNull())
    return F.when(unspecified, None).when(below.isNull(), F.col(column)).otherwise(total)


WALK_COLUMNS = (
    "id_lower",
    "id_upper",
    "preorder",
    "postorder",
    "vertex_postorder",
    "branch",
    "closings",
)


def assign_operators_to_vertices(
    stream_nodes: DataFrame, stream_edges: DataFrame, chain_heads: DataFrame, walked: DataFrame
) -> DataFrame:
    """The operators of all vertices, with the columns from which vertices are derived.

    In: stream_nodes, stream_edges, chain_heads (see find_chain_heads), walked (see walk_stream_graph). Out
    (key topology_id, node): vertex, chain_index (0: source chained into the head), and the walk's and the
    node's columns.

    Source: StreamingJobGraphGenerator.createChain, createSourceChainInfo.

    Example: tests/passes/fixtures/operators.txt.
    """
    walked_nodes = walked.filter(F.col("node").isNotNull() & F.col("out_index").isNull()).select(
        TOPOLOGY, "node", *WALK_COLUMNS
    )
    chained_sources = rename(
        stream_edges.filter("chained_source"), id="source", runs_in="target", chained_source_index="in_index"
    )
    heads = chain_heads.select(TOPOLOGY, "node", "head", "distance")
    with_walk = join_local(stream_nodes.select(TOPOLOGY, "id", *NODE_COLUMNS), walked_nodes, {"id": "node"})
    with_heads = join_local(with_walk, heads, {"id": "node"}, "left")
    placed = join_local(with_heads, chained_sources, {"id": "id"}, "left")
    # An operator that no source leads to (its only input was a sink) is in no vertex.
    reached = placed.filter((F.col("postorder") >= 0) | F.col("runs_in").isNotNull())
    # Two steps read operators by vertex, none by node.
    operators = reached.select(
        TOPOLOGY,
        F.coalesce("runs_in", "head", "id").alias("vertex"),
        F.col("id").alias("node"),
        F.when(F.col("runs_in").isNotNull(), CHAINED_SOURCE)
        .otherwise(F.coalesce("distance", F.lit(0)) + HEAD)
        .alias("chain_index"),
        "chained_source_index",
        *NODE_COLUMNS,
        *WALK_COLUMNS,
    )
    return by_number(operators, "vertex")


# Job edges and intermediate data sets, numbered in the order in which Flink connects vertices.


CONNECTED = ("vertex_postorder", "postorder", "out_index")


def connect_vertices(shared_edges: DataFrame) -> DataFrame:
    """The job edges with the columns of their data sets.

    In: shared_edges (see reuse_data_sets). Out (key topology_id, target_vertex, input_index): job_edges and
    result_partition_type, output_index (of the data set among its producer's), buffer_timeout.

    Source: StreamingJobGraphGenerator.connect, JobVertex.connectNewDataSetAsInput.

    Example: tests/passes/fixtures/connected_edges.txt.
    """
    of_target = Window.partitionBy(TOPOLOGY, "target").orderBy(*CONNECTED)
    of_data_set = Window.partitionBy(TOPOLOGY, "source_vertex", "id_lower", "id_upper").orderBy(*CONNECTED)
    first_connection = F.first(F.struct("postorder", "out_index")).over(of_data_set)
    with_index = shared_edges.select("*", (F.row_number().over(of_target) - 1).alias("input_index"))
    numbered = by_number(with_index, "source_vertex").select(
        "*",
        (F.row_number().over(of_data_set) - 1).alias("consumer_index"),
        F.first("result_partition_type").over(of_data_set).alias("data_set_type"),
        first_connection.alias("first_connection"),
    )
    of_producer = Window.partitionBy(TOPOLOGY, "source_vertex").orderBy("first_connection")
    values = {
        "target_vertex": F.col("target"),
        "data_set_id": hex_id("id_lower", "id_upper"),
        "source_node": F.col("source"),
        "target_node": F.col("target"),
        "distribution": F.when(F.col("pointwise"), F.lit(DistributionPattern.POINTWISE.value)).otherwise(
            F.lit(DistributionPattern.ALL_TO_ALL.value)
        ),
        "ship_strategy": F.col("partitioner"),
    }
    return numbered.select(
        *(values[name].alias(name) if name in values else F.col(name) for name in JOB_EDGES.names),
        F.col("data_set_type").alias("result_partition_type"),
        (F.dense_rank().over(of_producer) - 1).alias("output_index"),
        "buffer_timeout",
        "exchange_mode",
        "output_tag",
        "unique_id",
        *CONNECTED,
    )


def create_data_sets(connected_edges: DataFrame) -> DataFrame:
    """One row per data set, from its first job edge.

    In: connected_edges (see connect_vertices). Out: intermediate_data_sets.

    Example: tests/passes/fixtures/intermediate_data_sets.txt.
    """
    return (
        connected_edges.groupBy(TOPOLOGY, F.col("source_vertex").alias("vertex"), "output_index")
        .agg(
            F.min(
                F.struct(
                    "consumer_index",
                    "data_set_id",
                    "result_partition_type",
                    "distribution",
                    "forward",
                    "broadcast",
                )
            ).alias("first"),
            F.count(F.lit(1)).cast("int").alias("consumers"),
        )
        .select(
            TOPOLOGY,
            "vertex",
            "output_index",
            "first.data_set_id",
            "first.result_partition_type",
            "first.distribution",
            "first.forward",
            "first.broadcast",
            "consumers",
        )
    )
