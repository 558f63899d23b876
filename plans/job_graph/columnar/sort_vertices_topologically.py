"""Vertices in the order in which Flink schedules them, and their pipelined regions."""

import numpy as np
import polars as pl

from plans.job_graph.sort_vertices_topologically import order_and_regions
from plans.runs import runs
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import MUST_BE_PIPELINED_TYPES


def sort_vertices_topologically(vertices: pl.DataFrame, connected_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per row of vertices: creation_order, topological_order, pipelined_region.

    Columns and source: see joins.sort_vertices_topologically.

    Example: tests/passes/fixtures/sorted_vertices.txt.
    """
    of_topologies = runs(vertices[TOPOLOGY].to_numpy())
    sources, targets, output_index, consumer_index = (
        connected_edges[name].to_numpy().astype(np.int64)
        for name in ("source_place", "target_place", "output_index", "consumer_index")
    )
    data_sets = sources << 32 | output_index
    are_shared = consumer_index.any()
    consumed = np.lexsort((consumer_index, data_sets)) if are_shared else np.argsort(data_sets)
    pipelined = connected_edges.select(pl.col("result_partition_type").is_in(MUST_BE_PIPELINED_TYPES))
    order, regions = order_and_regions(
        np.append(of_topologies.starts, len(vertices)),
        sources[consumed],
        targets[consumed],
        pipelined.to_series().to_numpy()[consumed],
    )
    return pl.DataFrame(
        {
            "creation_order": of_topologies.numbers().astype(np.int32),
            "topological_order": order.astype(np.int32),
            "pipelined_region": regions.astype(np.int32),
        }
    )
