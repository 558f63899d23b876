"""Job edges know where their ends stand in the order of vertices, and the parallelism of both."""

import numpy as np
import polars as pl

from plans.arrow_walks import missing_node
from plans.columnar.cells import NONE, Places
from plans.columnar.look_up import places
from plans.execution_graph.place_job_edges import CARRIED
from plans.runs import runs
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import MUST_BE_PIPELINED_TYPES, DistributionPattern


def place_job_edges(connected_edges: pl.DataFrame, ordered_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row per job edge (key topology_id, target_vertex, input_index), in the order of connected_edges.

    In: connected_edges (see connect_vertices), ordered_vertices (see order_job_vertices). Out: pipelined
    (must be consumed while it is produced); all_to_all (pointwise otherwise); of both ends source_rank and
    target_rank, how many vertices of the topology stand before them in ordered_vertices, and their
    parallelism as producers and consumers. Raises ValueError for an edge without its vertices.
    """
    sources = _places(connected_edges, "source_vertex", ordered_vertices)
    targets = _places(connected_edges, "target_vertex", ordered_vertices)
    ranks = runs(ordered_vertices[TOPOLOGY].to_numpy()).numbers().astype(np.int32)
    parallelism = ordered_vertices["parallelism"].to_numpy()
    return connected_edges.select(
        TOPOLOGY,
        *CARRIED,
        pl.col("result_partition_type").is_in(MUST_BE_PIPELINED_TYPES).alias("pipelined"),
        (pl.col("distribution") == DistributionPattern.ALL_TO_ALL.value).alias("all_to_all"),
        pl.Series("source_rank", ranks[sources]),
        pl.Series("target_rank", ranks[targets]),
        pl.Series("producers", parallelism[sources]),
        pl.Series("consumers", parallelism[targets]),
    )


def _places(edges: pl.DataFrame, end: str, ordered_vertices: pl.DataFrame) -> Places:
    found = places(edges, ordered_vertices.select(TOPOLOGY, "vertex"), {end: "vertex"})
    if (found == NONE).any():
        raise missing_node()
    return found
