"""What `--version` and `--topology` of a command choose in a store."""

from difflib import get_close_matches

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.store.read_plan import read_plan
from plans.errors import StoreError

_SIMILAR = 10_000
"""Names that are looked through for a close match."""


def chosen_plan(
    spark: SparkSession, store: str, version: int | None, topology: str | None
) -> dict[str, DataFrame]:
    """The tables of the version (None: the newest), only the rows of that topology (None: of all).

    Raises StoreError: no such store, version or topology (with the closest names).
    """
    tables = read_plan(spark, store, version)
    if topology is None:
        return tables
    named = F.col("name") == topology
    if tables["topologies"].where(named).isEmpty() and tables["rejected"].where(named).isEmpty():
        raise StoreError(f"{store} has no topology {topology!r}", _closest(tables, topology))
    key = F.xxhash64(F.lit(topology))
    by_name = ("topologies", "rejected")
    return {t: df.where(named if t in by_name else F.col("topology_id") == key) for t, df in tables.items()}


def _closest(tables: dict[str, DataFrame], topology: str) -> str:
    """Names with the same beginning or, in a store that is not too large, a similar spelling."""
    both = tables["topologies"].select("name").unionByName(tables["rejected"].select("name")).distinct()
    names = [row["name"] for row in both.where("name is not null").orderBy("name").limit(_SIMILAR).collect()]
    close = get_close_matches(topology, names, n=3, cutoff=0.5) or names[:3]
    return ("close names: " if close else "it is empty") + ", ".join(close)
