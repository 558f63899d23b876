"""The two sequential walks over a StreamGraph, in one Arrow pass over whole topologies."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.arrow_walks import Ints
from plans.job_graph.generate_operator_ids import generate_operator_ids
from plans.job_graph.java_hashes import java_string_hashes
from plans.job_graph.order_depth_first import DepthFirstOrder, order_depth_first
from plans.job_graph.stream_graph_arrays import StreamGraphArrays, arrays_of_rows
from plans.job_graph.walk_stream_graph import SOURCE_TASKS, data_set_ids
from plans.joins.arrow_walks import walk_topologies
from plans.tables.column_types import BOOL, INT, LONG, STR, TOPOLOGY

WALKED = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("node", INT, True),
        pa.field("out_index", INT, True),
        pa.field("vertex", INT, True),
        pa.field("id_lower", LONG, True),
        pa.field("id_upper", LONG, True),
        pa.field("preorder", INT, True),
        pa.field("postorder", INT, True),
        pa.field("vertex_postorder", INT, True),
        pa.field("branch", INT, True),
        pa.field("closings", INT, True),
        pa.field("no_output", BOOL, True),
        pa.field("colliding_uid", STR, True),
    ]
)


def walk_stream_graph(stream_nodes: DataFrame, stream_edges: DataFrame) -> DataFrame:
    """What only a walk in Flink's order can tell of nodes and edges.

    In: stream_nodes, stream_edges. Out, three sorts of rows keyed by topology_id:
    node rows (node; out_index null): id_lower and id_upper (the operator id as two big-endian longs),
    preorder, postorder, branch, closings, no_output (see DepthFirstOrder), vertex (head of the chain),
    vertex_postorder; edge rows (node is the source; out_index) of edges that are not chained: the
    intermediate data set id an own data set would have as id_lower and id_upper, and vertex,
    vertex_postorder, postorder, no_output of the source; one error row (node null) for a topology with a
    colliding_uid.

    Example: operators are visited depth first, chained outputs before others
    (tests/passes/fixtures/walked.txt).

        stream_edges              -> walked
        source  target  chainable    node  preorder  branch  closings
        1       2       true         1     0         0       0
        1       4       true         2     1         2       0
        2       3       true         3     2         1       0
        4       5       true         4     3         3       0
                                     5     4         1       1
    """
    no_string = F.lit(None).cast("string")
    no_int, no_flag = F.lit(None).cast("int"), F.lit(None).cast("boolean")
    nodes = stream_nodes.select(
        TOPOLOGY,
        "id",
        no_int.alias("target"),
        F.lit(-1).alias("out_index"),
        no_int.alias("in_index"),
        no_flag.alias("chainable"),
        no_flag.alias("chained_source"),
        F.col("no_output_until_end_of_input").alias("no_output"),
        F.col("invokable").isin(*SOURCE_TASKS).alias("source"),
        "uid",
        no_string.alias("edge_id"),
    )
    edges = stream_edges.select(
        TOPOLOGY,
        F.col("source").alias("id"),
        "target",
        "out_index",
        "in_index",
        "chainable",
        "chained_source",
        no_flag.alias("no_output"),
        no_flag.alias("source"),
        no_string.alias("uid"),
        F.when(~F.col("chainable") & ~F.col("chained_source"), F.col("edge_id")).alias("edge_id"),
    )
    return walk_topologies(nodes.unionByName(edges), ["id", "out_index"], walk_graphs, WALKED)


def walk_graphs(rows: pa.Table) -> pa.RecordBatch:
    """Both walks over a table of node rows (target null) and edge rows, sorted by topology, id, out_index."""
    is_node = rows.column("target").is_null()
    nodes, edges = rows.filter(is_node), rows.filter(pc.invert(is_node))
    graph = arrays_of_rows(nodes, edges)
    ids, colliding = generate_operator_ids(graph)
    order = order_depth_first(graph)
    collisions = nodes.take(pa.array(colliding))
    errors = {TOPOLOGY: collisions.column(TOPOLOGY), "colliding_uid": collisions.column("uid")}
    return _stack([_node_rows(nodes, ids, order), _edge_rows(graph, nodes, edges, ids, order), errors])


def _node_rows(nodes: pa.Table, ids: Ints, order: DepthFirstOrder) -> dict[str, pa.Array]:
    node_ids, heads = nodes.column("id").to_numpy(), order.head
    return {
        TOPOLOGY: nodes.column(TOPOLOGY),
        "node": nodes.column("id"),
        "vertex": pa.array(node_ids[heads]),
        "id_lower": pa.array(ids[:, 0]),
        "id_upper": pa.array(ids[:, 1]),
        "preorder": pa.array(order.preorder),
        "postorder": pa.array(order.postorder),
        "vertex_postorder": pa.array(order.postorder[heads]),
        "branch": pa.array(order.branch),
        "closings": pa.array(order.closings),
        "no_output": pa.array(order.no_output),
    }


def _edge_rows(
    graph: StreamGraphArrays, nodes: pa.Table, edges: pa.Table, ids: Ints, order: DepthFirstOrder
) -> dict[str, pa.Array]:
    node_ids, postorder = nodes.column("id").to_numpy(), order.postorder
    every_source = np.repeat(np.arange(len(node_ids)), np.diff(graph.out_bounds))
    # Edges of operators that no source leads to connect no vertices.
    unchained = np.asarray(edges.column("edge_id").is_valid()) & (postorder[every_source] >= 0)
    sources, kept = every_source[unchained], edges.filter(pa.array(unchained))
    heads = order.head[sources]
    hashes = java_string_hashes(kept.column("edge_id").combine_chunks())
    lower, upper = data_set_ids(ids[heads, 0], ids[heads, 1], hashes)
    return {
        TOPOLOGY: kept.column(TOPOLOGY),
        "node": kept.column("id"),
        "out_index": kept.column("out_index"),
        "vertex": pa.array(node_ids[heads]),
        "id_lower": pa.array(lower),
        "id_upper": pa.array(upper),
        "postorder": pa.array(postorder[sources]),
        "vertex_postorder": pa.array(postorder[heads]),
        "no_output": pa.array(order.no_output[sources]),
    }


def _stack(blocks: list[dict[str, pa.Array]]) -> pa.RecordBatch:
    """Concatenated blocks of rows; missing columns are null."""
    fields = [pa.field(column.name, column.type) for column in WALKED]
    tables = [
        pa.table(
            {
                field.name: block[field.name].cast(field.type)
                if field.name in block
                else pa.nulls(len(block[TOPOLOGY]), field.type)
                for field in fields
            }
        )
        for block in blocks
    ]
    (batch,) = pa.concat_tables(tables).combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], pa.schema(fields))
    ]
    return batch
