"""Vertices in the order in which Flink schedules them, and their pipelined regions."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.arrow_walks import positions, topologies_of
from plans.job_graph.sort_vertices_topologically import order_and_regions
from plans.joins.arrow_walks import Part, walk_topologies
from plans.rows_in_order import rows_in_order
from plans.runs import runs
from plans.tables.column_types import INT, LONG, TOPOLOGY
from plans.vocabulary import MUST_BE_PIPELINED_TYPES

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
