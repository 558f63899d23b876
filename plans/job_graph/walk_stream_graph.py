"""The two sequential walks over a StreamGraph, in one Arrow pass over whole topologies."""

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from plans.arrow_walks import Ints, walk_topologies
from plans.frames import TOPOLOGY
from plans.job_graph.generate_operator_ids import generate_operator_ids
from plans.job_graph.java_hashes import java_string_hashes
from plans.job_graph.order_depth_first import DepthFirstOrder, order_depth_first
from plans.job_graph.stream_graph_arrays import StreamGraphArrays, stream_graph_arrays

SOURCE_TASKS = ("SourceStreamTask", "SourceOperatorStreamTask")
WALKED = StructType(
    [
        StructField(TOPOLOGY, LongType(), False),
        StructField("node", IntegerType(), True),
        StructField("out_index", IntegerType(), True),
        StructField("vertex", IntegerType(), True),
        StructField("id_lower", LongType(), True),
        StructField("id_upper", LongType(), True),
        StructField("preorder", IntegerType(), True),
        StructField("postorder", IntegerType(), True),
        StructField("vertex_postorder", IntegerType(), True),
        StructField("branch", IntegerType(), True),
        StructField("closings", IntegerType(), True),
        StructField("no_output", BooleanType(), True),
        StructField("colliding_uid", StringType(), True),
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
    """Both walks over a table as stream_graph_arrays wants it."""
    graph = stream_graph_arrays(rows)
    ids, collisions = generate_operator_ids(graph)
    order = order_depth_first(graph)
    longs = np.frombuffer(ids, dtype=">i8").astype(np.int64).reshape(-1, 2)
    errors = {
        TOPOLOGY: pa.array([int(graph.topologies[t]) for t in collisions], pa.int64()),
        "colliding_uid": pa.array(collisions.values(), pa.string()),
    }
    return _stack([_node_rows(graph, longs, order), _edge_rows(graph, longs, order), errors])


def _node_rows(graph: StreamGraphArrays, ids: Ints, order: DepthFirstOrder) -> dict[str, pa.Array]:
    heads = order.head
    return {
        TOPOLOGY: pa.array(graph.node_topologies),
        "node": pa.array(graph.node_ids),
        "vertex": pa.array(graph.node_ids[heads]),
        "id_lower": pa.array(ids[:, 0]),
        "id_upper": pa.array(ids[:, 1]),
        "preorder": pa.array(order.preorder),
        "postorder": pa.array(order.postorder, pa.int32()),
        "vertex_postorder": pa.array(order.postorder[heads]),
        "branch": pa.array(order.branch, pa.int32()),
        "closings": pa.array(order.closings, pa.int32()),
        "no_output": pa.array(order.no_output, pa.bool_()),
    }


def _edge_rows(graph: StreamGraphArrays, ids: Ints, order: DepthFirstOrder) -> dict[str, pa.Array]:
    postorder = order.postorder
    every_source = np.repeat(np.arange(len(graph.node_ids)), np.diff(graph.out_bounds))
    # Edges of operators that no source leads to connect no vertices.
    unchained = np.asarray(graph.edge_ids.is_valid()) & (postorder[every_source] >= 0)
    sources = every_source[unchained]
    heads = order.head[sources]
    hashes = java_string_hashes(graph.edge_ids.filter(pa.array(unchained))).astype(np.int64)
    return {
        TOPOLOGY: pa.array(graph.node_topologies[sources]),
        "node": pa.array(graph.node_ids[sources]),
        "out_index": pa.array(graph.edge_out_indexes[unchained]),
        "vertex": pa.array(graph.node_ids[heads]),
        # IntermediateDataSetID adds the hash to both halves of the vertex id and swaps them.
        "id_lower": pa.array(ids[heads, 1] + hashes),
        "id_upper": pa.array(ids[heads, 0] + hashes),
        "postorder": pa.array(postorder[sources]),
        "vertex_postorder": pa.array(postorder[heads]),
        "no_output": pa.array(order.no_output[sources], pa.bool_()),
    }


def _stack(blocks: list[dict[str, pa.Array]]) -> pa.RecordBatch:
    """Blocks of rows one below the other, absent columns null."""
    columns = []
    for field in pa.schema([(f.name, _ARROW_TYPES[type(f.dataType)]) for f in WALKED.fields]):
        parts = [
            block[field.name].cast(field.type)
            if field.name in block
            else pa.nulls(len(block[TOPOLOGY]), field.type)
            for block in blocks
        ]
        columns.append(pa.concat_arrays(parts))
    return pa.RecordBatch.from_arrays(columns, names=WALKED.names)


_ARROW_TYPES: dict[type[DataType], pa.DataType] = {
    LongType: pa.int64(),
    IntegerType: pa.int32(),
    BooleanType: pa.bool_(),
    StringType: pa.string(),
}
