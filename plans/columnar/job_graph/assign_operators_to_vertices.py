"""Every stream node belongs to the job vertex of its chain."""

import numpy as np
import polars as pl
import pyarrow as pa

from plans.columnar.frames import TOPOLOGY, join_topology, rename
from plans.job_graph.assign_operators_to_vertices import NODE_COLUMNS

_HEX_DIGITS = 32
_OF_WALK = ("id_lower", "id_upper", "preorder", "postorder", "branch", "closings")


def hex_id(lower: pl.Series, upper: pl.Series) -> pl.Series:
    """Flink's AbstractID.toString of ids held as two longs."""
    longs = np.empty((len(lower), 2), dtype=">i8")
    longs[:, 0], longs[:, 1] = lower.to_numpy(), upper.to_numpy()
    ends = np.arange(len(lower) + 1, dtype=np.int64) * _HEX_DIGITS
    digits = longs.tobytes().hex().encode("ascii")
    strings = pa.LargeStringArray.from_buffers(len(lower), pa.py_buffer(ends), pa.py_buffer(digits))
    return pl.Series(values=strings, dtype=pl.String)


def assign_operators_to_vertices(
    stream_nodes: pl.DataFrame, stream_edges: pl.DataFrame, chain_heads: pl.DataFrame, walked: pl.DataFrame
) -> pl.DataFrame:
    """The operators of all vertices, with what vertices are made of.

    As plans.job_graph.assign_operators_to_vertices.
    """
    walked_nodes = (
        walked.lazy()
        .filter(pl.col("node").is_not_null() & pl.col("out_index").is_null())
        .select(TOPOLOGY, "node", *_OF_WALK)
        .collect()
    )
    chained_sources = rename(
        stream_edges.select(TOPOLOGY, "source", "target", "in_index", "chained_source").filter(
            "chained_source"
        ),
        id="source",
        runs_in="target",
        chained_source_index="in_index",
    )
    heads = chain_heads.select(TOPOLOGY, "node", "head", "distance")
    with_heads = join_topology(walked_nodes, heads, {"node": "node"}, "left")
    placed = join_topology(with_heads, chained_sources, {"node": "id"}, "left")
    # An operator that no source leads to (its only input was a sink) is in no vertex.
    reached = placed.filter((pl.col("postorder") >= 0) | pl.col("runs_in").is_not_null())
    in_head = pl.col("runs_in").is_not_null()
    places = reached.select(
        TOPOLOGY,
        "node",
        pl.coalesce("runs_in", "head", "node").alias("vertex"),
        pl.when(in_head).then(0).otherwise(pl.col("distance").fill_null(0) + 1).alias("chain_index"),
        "chained_source_index",
        *_OF_WALK,
    )
    # Rows are looked up by their numbers: joining wide rows would copy them twice.
    numbered = stream_nodes.select(TOPOLOGY, "id").with_row_index("row")
    found = join_topology(places, numbered, {"node": "id"})
    nodes = stream_nodes.select(NODE_COLUMNS)[found["row"]]
    return found.hstack(nodes).select(
        TOPOLOGY, "vertex", "node", "chain_index", "chained_source_index", *NODE_COLUMNS, *_OF_WALK
    )
