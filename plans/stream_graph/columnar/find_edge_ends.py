"""Stream edges know the rows of the nodes at their ends."""

import numpy as np
import polars as pl

from penstock.plans.columnar.frames import places

_ENDS = ("source", "target")


def find_edge_ends(
    resolved_inputs: pl.DataFrame,
    inherited_groups: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    given_stream_edges: pl.DataFrame,
) -> pl.DataFrame:
    """One row per row of stream_edges: source_row and target_row, where its ends are among stream_nodes.

    On Spark, joins find them.
    """
    rows = inherited_groups["row"].to_numpy()
    nodes = np.empty(rows.max(initial=-1) + 1, np.int32)
    nodes[rows] = np.arange(len(rows))
    translated = pl.DataFrame(
        {f"{end}_row": nodes[resolved_inputs[f"{end}_row"].to_numpy()] for end in _ENDS}
    )
    if given_stream_edges.is_empty():
        return translated
    given = {f"{end}_row": places(given_stream_edges, stream_nodes, {end: "id"}) for end in _ENDS}
    return pl.concat([translated, pl.DataFrame(given)], rechunk=True)
