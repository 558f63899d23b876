"""Every stream node belongs to the job vertex of its chain; one job vertex per chain."""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.plans.frames.packed_blocks import by_number
from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.job_graph.columnar.create_vertices import (
    CHAINED_SOURCE,
    HEAD,
    NODE_COLUMNS,
    RESOURCE_FIELDS,
    VERTEX_RULES,
    FromChain,
)
from penstock.plans.job_graph.order_depth_first import FIRST_BRANCH, LATER_BRANCH, ONLY_BRANCH
from penstock.plans.tables import JOB_EDGES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import DistributionPattern


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
