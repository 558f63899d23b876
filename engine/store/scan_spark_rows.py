"""Rows that Spark reads, as a lazy frame of polars, which reads the columns it needs when it is collected."""

from collections.abc import Iterator
from functools import cache

import polars as pl
from polars.io.plugins import register_io_source
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.engine.store.scan_stored_table import BY_NAME
from penstock.plans.columnar.frames import empty, from_arrow
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.topology_id import topology_id


def scan_spark_rows(rows: DataFrame, table: str, topology: str | None) -> pl.LazyFrame:
    """`rows` of a table; only those of `topology` if one is named."""
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
