"""The tables of the topology layer as frames, whichever way topologies came in."""

from typing import NamedTuple

import polars as pl


class TopologyTables(NamedTuple):
    """Frames with the schemas of the same names in `plans.tables`.

    As joins.topology_tables.TopologyTables: inputs = topologies + rejected. Nothing is kept besides.
    """

    topologies: pl.DataFrame
    transformations: pl.DataFrame
    stream_nodes: pl.DataFrame
    stream_edges: pl.DataFrame
    job_settings: pl.DataFrame
    rejected: pl.DataFrame
    inputs: int
