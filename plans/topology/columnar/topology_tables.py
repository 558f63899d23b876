"""The tables of the topology layer as frames, whichever way topologies came in."""

from functools import reduce
from operator import and_
from typing import NamedTuple

import polars as pl
import xxhash

from penstock.plans.topology.operator_rules import MAX_PARALLELISM


class TopologyTables(NamedTuple):
    """Frames with the schemas of the same names in `plans.tables`.

    As joins.topology_tables.TopologyTables: inputs = topologies + rejected.
    """

    topologies: pl.DataFrame
    transformations: pl.DataFrame
    stream_nodes: pl.DataFrame
    stream_edges: pl.DataFrame
    job_settings: pl.DataFrame
    rejected: pl.DataFrame
    inputs: int


# The key of a topology without Spark.


XXHASH64_SEED = 42
"""Spark's; the hash of null is the seed itself."""


def topology_id(name: str) -> int:
    """Spark's xxhash64(name)."""
    digest = xxhash.xxh64_intdigest(name.encode(), seed=XXHASH64_SEED)
    return digest - 2**64 if digest >= 2**63 else digest


# Whether one row of a topologies table is right, as one expression.


def topology_holds() -> pl.Expr:
    """Whether a row of TOPOLOGIES is right, apart from its form; a map with a repeated key is wrong."""
    config = pl.col("config").map.entries().list
    keys, values = (config.eval(pl.element().struct.field(name)).list for name in ("key", "value"))
    rules = [
        pl.col("name") != "",
        pl.col("parallelism") >= 1,
        pl.col("max_parallelism").is_null() | pl.col("max_parallelism").is_between(1, MAX_PARALLELISM),
        keys.n_unique() == config.len(),
        ~values.contains(pl.lit(None, pl.String)),
    ]
    return reduce(and_, rules).fill_null(False)
