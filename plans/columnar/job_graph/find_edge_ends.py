"""Stream edges know the rows of the nodes at their ends."""

import polars as pl

from plans.columnar.look_up import places


def find_edge_ends(stream_edges: pl.DataFrame, stream_nodes: pl.DataFrame) -> pl.DataFrame:
    """One row a row of stream_edges: source_row and target_row, where its ends are among stream_nodes.

    No pass of plans.job_graph: there, joins find them.
    """
    return pl.DataFrame(
        {f"{end}_row": places(stream_edges, stream_nodes, {end: "id"}) for end in ("source", "target")}
    )
