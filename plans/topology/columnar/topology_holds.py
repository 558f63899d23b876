"""Whether one row of a topologies table is right, as one expression."""

from functools import reduce
from operator import and_

import polars as pl

from penstock.plans.topology.operator_rules import MAX_PARALLELISM


def topology_holds() -> pl.Expr:
    """A row of TOPOLOGIES is right, whatever its form; a map with a key that comes twice is not."""
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
