"""DataFrames with a topology in each row as the tables of the topology layer."""

from collections.abc import Callable

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.joins.topologies_of_lines import parsed_lines, topologies_of_lines
from penstock.plans.topology.joins.topology_tables import TopologyTables

_HASH_BITS = 0x7FFFFFFFFFF00000
"""Of a text's hash; the other bits number rows whose hash is the same."""
_BYTES_OF_A_PARTITION = 4 * 2**20


def read_topology_rows(rows: DataFrame, job_defaults: JobDefaults = NO_DEFAULTS) -> TopologyTables:
    """Columns are the keys of a topology line; null is a key that is not set. As read_topology_objects.

    Rows have no order of their own: of those with one name, the hash of their text decides which is planned.
    `rows` are computed once, by the session's own settings. How many partitions they are parsed in follows
    from their size: the caller's session may have hundreds for a few topologies, each of which calls Python.
    """
    value = F.to_json(F.struct("*")).cast("binary")
    texts = rows.select(value.alias("value"), (F.xxhash64(value).bitwiseAND(_HASH_BITS)).alias("hash"))
    texts = texts.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _read_texts(texts, job_defaults)
    finally:
        texts.unpersist()


def _read_texts(texts: DataFrame, job_defaults: JobDefaults) -> TopologyTables:
    size = texts.agg(F.sum(F.octet_length("value"))).collect()[0][0] or 0
    partitions = -(-size // _BYTES_OF_A_PARTITION)
    equals = Window.partitionBy("hash").orderBy("value")
    lines = texts.repartition(max(partitions, 2), "hash").select(
        "value",
        F.lit(None).cast("string").alias("source_file"),
        F.lit(0).cast("long").alias("block_start"),
        (F.col("hash") + F.row_number().over(equals) - 1).alias("ordinal"),
        F.lit(None).cast("string").alias("problem"),
        F.lit(None).cast("long").alias("line"),
        F.lit(None).cast("long").alias("too_long_bytes"),
    )
    return topologies_of_lines(parsed_lines(lines, job_defaults=job_defaults), _run)


def _run(job: Callable[[], None]) -> None:
    job()
