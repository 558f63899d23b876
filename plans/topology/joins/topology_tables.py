"""The tables of the topology layer, whichever way topologies came in."""

from typing import NamedTuple

from pyspark.sql import DataFrame


class TopologyTables(NamedTuple):
    """DataFrames with the schemas of the same names in `plans.tables`, none of them computed yet.

    inputs = topologies + rejected: `inputs` counts what was read (lines that are not blank, objects, rows
    of `topologies`, and topologies that only `transformations` names). `stream_nodes` and `stream_edges`
    hold the topologies of form stream_graph, `transformations` the others. `persisted` is what reading
    keeps in Spark's storage so that no input is read twice: unpersist each when the tables are no longer
    needed.
    """

    topologies: DataFrame
    transformations: DataFrame
    stream_nodes: DataFrame
    stream_edges: DataFrame
    job_settings: DataFrame
    rejected: DataFrame
    inputs: int
    persisted: tuple[DataFrame, ...]


class GivenTables(NamedTuple):
    """DataFrames with the schemas of the same names in `plans.tables`, defaults filled in.

    Not validated yet; a function that takes them validates both tables. `folder`: where both tables are
    read from, if it is a folder of this machine.
    """

    topologies: DataFrame
    transformations: DataFrame
    folder: str | None = None
