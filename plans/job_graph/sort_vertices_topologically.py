"""Vertices in the order in which Flink schedules them, and their pipelined regions."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from plans.arrow_walks import positions, walk_topologies
from plans.frames import TOPOLOGY
from plans.union_find import smallest_in_component
from plans.vocabulary import ResultPartitionType

MUST_BE_PIPELINED = (ResultPartitionType.PIPELINED, ResultPartitionType.PIPELINED_BOUNDED)
SORTED = StructType(
    [
        StructField(TOPOLOGY, LongType(), False),
        StructField("vertex", IntegerType(), False),
        StructField("creation_order", IntegerType(), False),
        StructField("topological_order", IntegerType(), False),
        StructField("pipelined_region", IntegerType(), False),
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
    out_bounds = np.concatenate(([0], np.cumsum(np.bincount(sources, minlength=len(vertex_ids))))).tolist()
    order = _topological_order(
        bounds.tolist(),
        out_bounds,
        targets[consumed].tolist(),
        np.bincount(targets, minlength=len(vertex_ids)).tolist(),
    )
    pipelined = np.asarray(edges.column("pipelined"))
    regions = smallest_in_component(
        order, zip(sources[pipelined].tolist(), targets[pipelined].tolist(), strict=True)
    )
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


def _topological_order(
    bounds: list[int], out_bounds: list[int], targets: list[int], open_inputs: list[int]
) -> list[int]:
    """Rank of every vertex among its topology's.

    `open_inputs` counts a vertex's input edges whose producer is not ranked yet, so that an edge is looked at
    twice in all, where Flink looks at all inputs of a vertex again for each of them.
    """
    order = [-1] * (len(out_bounds) - 1)
    for start, end in pairwise(bounds):
        ranked = [vertex for vertex in range(start, end) if open_inputs[vertex] == 0]
        for rank, vertex in enumerate(ranked):
            order[vertex] = rank
        for vertex in ranked:
            for edge in range(out_bounds[vertex], out_bounds[vertex + 1]):
                open_inputs[targets[edge]] -= 1
        expanded = 0
        while len(ranked) < end - start:
            stack = [iter(range(out_bounds[ranked[expanded]], out_bounds[ranked[expanded] + 1]))]
            expanded += 1
            while stack:
                following = next(stack[-1], None)
                if following is None:
                    stack.pop()
                    continue
                vertex = targets[following]
                if order[vertex] >= 0 or open_inputs[vertex] > 0:
                    continue
                order[vertex] = len(ranked)
                ranked.append(vertex)
                outputs = range(out_bounds[vertex], out_bounds[vertex + 1])
                for output in outputs:
                    open_inputs[targets[output]] -= 1
                stack.append(iter(outputs))
    return order
