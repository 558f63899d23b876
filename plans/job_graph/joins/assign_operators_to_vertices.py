"""Every stream node belongs to the job vertex of its chain."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.job_graph.chain_index import CHAINED_SOURCE, HEAD
from plans.job_graph.create_vertices import NODE_COLUMNS
from plans.joins.blocks import by_number
from plans.joins.frames import join_local, rename
from plans.tables.column_types import TOPOLOGY

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
    """The operators of all vertices, with what vertices are made of.

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
