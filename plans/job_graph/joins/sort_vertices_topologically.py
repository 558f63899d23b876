"""Vertices in the order in which Flink schedules them, and their pipelined regions."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.compiled import run_loop
from plans.joins.arrow_walks import Ints, positions, walk_topologies
from plans.joins.frames import TOPOLOGY
from plans.tables.column_types import INT, LONG
from plans.union_find import smallest_in_component
from plans.vocabulary import ResultPartitionType

Flags = npt.NDArray[np.bool_]
NOT_RANKED = -1
MUST_BE_PIPELINED = (ResultPartitionType.PIPELINED, ResultPartitionType.PIPELINED_BOUNDED)
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
    """One row a vertex: creation_order, topological_order, pipelined_region.

    In: vertices (with postorder), connected_edges (see connect_vertices). Out (key topology_id, vertex).

    Source: JobGraph.getVerticesSortedTopologicallyFromSources and addNodesThatHaveNoNewPredecessors, without
    their recursion; LogicalPipelinedRegionComputeUtil.
    """
    no_int = F.lit(None).cast("int")
    nodes = vertices.select(
        TOPOLOGY,
        "vertex",
        no_int.alias("target"),
        F.col("postorder").alias("order"),
        no_int.alias("consumer_index"),
        F.lit(False).alias("pipelined"),
    )
    edges = connected_edges.select(
        TOPOLOGY,
        F.col("source_vertex").alias("vertex"),
        F.col("target_vertex").alias("target"),
        F.col("output_index").alias("order"),
        "consumer_index",
        F.col("result_partition_type").isin(*MUST_BE_PIPELINED).alias("pipelined"),
    )
    return walk_topologies(nodes.unionByName(edges), [], sort_vertices, SORTED)


def sort_vertices(rows: pa.Table) -> pa.RecordBatch:
    """Orders and regions of a table of vertex rows (target null) and edge rows, sorted by topology."""
    is_vertex = np.asarray(rows.column("target").is_null())
    topology = rows.column(TOPOLOGY).to_numpy()
    vertices, orders = rows.column("vertex").to_numpy(), rows.column("order").to_numpy()
    by_creation = np.lexsort((orders[is_vertex], topology[is_vertex]))
    vertex_topology = topology[is_vertex][by_creation]
    vertex_ids = vertices[is_vertex][by_creation]
    starts = np.flatnonzero(np.concatenate(([True], vertex_topology[1:] != vertex_topology[:-1])))
    bounds = np.append(starts, len(vertex_ids))

    edges = rows.filter(pa.array(~is_vertex))
    position = positions(vertex_topology, vertex_ids)
    sources = position(edges.column(TOPOLOGY).to_numpy(), edges.column("vertex").to_numpy())
    targets = position(edges.column(TOPOLOGY).to_numpy(), edges.column("target").to_numpy())
    consumed = np.lexsort(
        (edges.column("consumer_index").to_numpy(), edges.column("order").to_numpy(), sources)
    )
    pipelined = np.asarray(edges.column("pipelined"), dtype=np.bool_)
    order, regions = order_and_regions(bounds, sources[consumed], targets[consumed], pipelined[consumed])
    creation = np.arange(len(vertex_ids)) - np.repeat(starts, np.diff(bounds))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(vertex_topology),
            pa.array(vertex_ids, pa.int32()),
            pa.array(creation, pa.int32()),
            pa.array(order, pa.int32()),
            pa.array(regions, pa.int32()),
        ],
        names=SORTED.names,
    )


def order_and_regions(bounds: Ints, sources: Ints, targets: Ints, pipelined: Flags) -> tuple[Ints, Ints]:
    """The topological order of each vertex in its topology, and the smallest in its pipelined region.

    Vertices are numbered in the order of their creation, topology t has those from bounds[t] to
    bounds[t + 1]; edges are sorted by source, output_index and consumer_index.
    """
    count = int(bounds[-1])
    order = np.full(count, NOT_RANKED)
    out_bounds = np.concatenate(([0], np.cumsum(np.bincount(sources, minlength=count))))
    open_inputs = np.bincount(targets, minlength=count)
    scratch = (open_inputs, *(np.zeros(count, np.int64) for _ in range(3)))
    run_loop(_rank, count + len(sources), (bounds, out_bounds, targets), (order, *scratch))
    return order, smallest_in_component(order, sources[pipelined], targets[pipelined])


def _rank(
    bounds: Ints,
    out_bounds: Ints,
    targets: Ints,
    order: Ints,
    open_inputs: Ints,
    ranked: Ints,
    stack: Ints,
    next_edge: Ints,
) -> None:
    """Writes the rank of every vertex among its topology's into `order` (see run_loop).

    `open_inputs` counts a vertex's input edges whose producer is not ranked yet, so that an edge is looked at
    twice in all, where Flink looks at all inputs of a vertex again for each of them. The others are the
    walk's own: vertices by rank, the way down, and where it goes on at each vertex.
    """
    for topology in range(len(bounds) - 1):
        start, end = bounds[topology], bounds[topology + 1]
        count = start
        for vertex in range(start, end):
            if open_inputs[vertex] == 0:
                order[vertex] = count - start
                ranked[count] = vertex
                count += 1
        for rank in range(start, count):
            for edge in range(out_bounds[ranked[rank]], out_bounds[ranked[rank] + 1]):
                open_inputs[targets[edge]] -= 1
        expanded = start
        while count < end:
            stack[start] = ranked[expanded]
            next_edge[stack[start]] = out_bounds[stack[start]]
            top = start
            expanded += 1
            while top >= start:
                edge = next_edge[stack[top]]
                if edge == out_bounds[stack[top] + 1]:
                    top -= 1
                    continue
                next_edge[stack[top]] = edge + 1
                vertex = targets[edge]
                if order[vertex] != NOT_RANKED or open_inputs[vertex] > 0:
                    continue
                order[vertex] = count - start
                ranked[count] = vertex
                count += 1
                for output in range(out_bounds[vertex], out_bounds[vertex + 1]):
                    open_inputs[targets[output]] -= 1
                top += 1
                stack[top] = vertex
                next_edge[vertex] = out_bounds[vertex]
