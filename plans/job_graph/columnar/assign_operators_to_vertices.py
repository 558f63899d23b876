"""Every stream node belongs to the job vertex of its chain."""

import polars as pl

from plans.job_graph.columnar.hex_id import hex_id
from plans.job_graph.create_vertices import NODE_COLUMNS
from plans.tables.column_types import TOPOLOGY

_OF_WALK = (
    "vertex",
    "vertex_place",
    "chain_index",
    "chained_source_index",
    "operator_order",
    "operator_place",
    "preorder",
    "branch",
    "closings",
)


def assign_operators_to_vertices(stream_nodes: pl.DataFrame, walked: pl.DataFrame) -> pl.DataFrame:
    """The operators of all vertices, with what vertices are made of.

    As in joins.assign_operators_to_vertices, with vertex_place (see walk_stream_graph), operator_id
    and operator_order.

    Example: tests/passes/fixtures/operators.txt.
    """
    nodes = stream_nodes.select(TOPOLOGY, pl.col("id").alias("node"), *NODE_COLUMNS)
    operators = nodes.hstack(walked.select(_OF_WALK)).with_columns(
        hex_id(walked["id_lower"], walked["id_upper"]).alias("operator_id")
    )
    # An operator that no source leads to (its only input was a sink) is in no vertex.
    in_vertex = operators["vertex_place"] >= 0
    return operators if in_vertex.all() else operators.filter(in_vertex)
