"""DataFrames with a topology in each row as the tables of the topology layer."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.topology.joins.topologies_of_lines import topologies_of_lines
from plans.topology.joins.topology_tables import TopologyTables


def read_topology_rows(rows: DataFrame) -> TopologyTables:
    """Columns are the keys of a topology line; null is a key that is not set. As read_topology_objects."""
    lines = rows.select(
        F.to_json(F.struct("*")).cast("binary").alias("value"),
        F.lit(None).cast("string").alias("source_file"),
        F.lit(0).cast("long").alias("block_start"),
        F.monotonically_increasing_id().alias("ordinal"),
        F.lit(None).cast("string").alias("problem"),
        F.lit(None).cast("long").alias("line"),
        F.lit(None).cast("long").alias("too_long_bytes"),
    )
    return topologies_of_lines(lines, _run)


def _run(job: Callable[[], None]) -> None:
    job()
