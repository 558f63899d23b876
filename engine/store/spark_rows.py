"""Use DataFrames as the rows of a store."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.store.scan_stored_table import BY_NAME
from penstock.engine.store.store_tables import Result
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import topology_id


class SparkRows:
    """The operations of StoreTables on rows that are DataFrames of `spark`."""

    spark: SparkSession

    def in_thread(self, action: Callable[..., Result]) -> Callable[..., Result]:
        """Return `action` for another thread, with this thread's job group and local properties."""
        inherit: Any = inheritable_thread_target(self.spark)
        inherited: Callable[..., Result] = inherit(action)
        return inherited

    def count(self, rows: DataFrame) -> int:
        """Return the number of rows."""
        return rows.count()

    def among(self, rows: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
        """Return the part of `rows` whose key occurs in `others`."""
        return rows.join(others.select(*key), list(key), "left_semi")

    def same(self, rows: DataFrame, others: DataFrame, columns: Sequence[str]) -> bool:
        """Return whether both have the same values in these columns, each equally often."""
        chosen, other = rows.select(*columns), others.select(*columns)
        return chosen.exceptAll(other).isEmpty() and other.exceptAll(chosen).isEmpty()


def files_for(spark: SparkSession, rows: int) -> int:
    """Return the number of files for that many rows, a multiple of the cores if it exceeds them."""
    files, cores = -(-rows // ROWS_PER_FILE) or 1, spark.sparkContext.defaultParallelism
    return files if files <= cores else -(-files // cores) * cores


ROWS_PER_FILE = 250_000


# Scan rows of Spark as a lazy frame of polars, which reads the columns it needs when it is collected.


def scan_spark_rows(rows: DataFrame, table: str, topology: str | None) -> pl.LazyFrame:
    """Scan `rows` of a table; only rows of `topology`, if given."""
    if topology is not None:
        by_name = F.col("name") == topology
        rows = rows.where(by_name if table in BY_NAME else F.col(TOPOLOGY) == topology_id(topology))

    @cache
    def fetched(*columns: str) -> pl.DataFrame:
        return from_arrow(rows.select(*columns).toArrow())

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        frame = fetched(*(rows.columns if columns is None else columns))
        yield (frame if predicate is None else frame.filter(predicate)).head(
            frame.height if most is None else most
        )

    return register_io_source(source, schema=empty(table).schema)
