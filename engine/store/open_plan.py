"""The tables of one version as polars frames: without Spark where the store is local, else through Spark."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import polars as pl
from deltalake import DeltaTable

from engine.store.delta_tables import WRITE_ID, table_path
from engine.store.plan_versions import PlanVersion
from engine.store.without_spark.delta_tables import to_table
from engine.store.without_spark.plan_versions import find_version
from plans.columnar.frames import TOPOLOGY, arrow_schema, empty, from_arrow
from plans.columnar.topology.find_topology_files import local_path
from plans.columnar.topology.topology_id import topology_id
from plans.errors import InputError

BY_NAME = ("topologies", "rejected")
"""Tables that know topologies by name; in `rejected` the key may be null."""


class StoredPlan(NamedTuple):
    """A version of a store, and its tables: name to a lazy frame with the columns of plans.schema.TABLES.

    A frame that is collected reads the columns it needs.
    """

    version: PlanVersion
    table: Callable[[str], pl.LazyFrame]

    def has(self, *tables: str) -> bool:
        """Whether all of these belong to the version."""
        return set(tables) <= set(self.version.tables)


def open_plan(store: str, version: int | None = None, topology: str | None = None) -> StoredPlan:
    """That version (default: the newest), with only the rows of `topology` if one is named.

    Raises StoreError: not a store, no such version.
    """
    return (_open_files if is_local(store) else _open_on_spark)(store, version, topology)


def is_local(store: str) -> bool:
    """Whether a store is read without Spark: a path, or a file: URI."""
    try:
        local_path(store)
    except InputError:
        return False
    return True


def _open_files(store: str, version: int | None, topology: str | None) -> StoredPlan:
    found = find_version(store, version)

    @cache
    def table(name: str) -> pl.LazyFrame:
        files = _files(DeltaTable(table_path(store, name)), found.write_id)
        columns = arrow_schema(name).names
        rows = pl.scan_parquet(files, glob=False).select(columns) if files else empty(name).lazy()
        if topology is None:
            return rows
        chosen = pl.col("name") == topology if name in BY_NAME else pl.col(TOPOLOGY) == topology_id(topology)
        return rows.filter(chosen)

    return StoredPlan(found, table)


def _files(table: DeltaTable, write_id: str) -> list[str]:
    """The Parquet files of one write: its partition."""
    # Not pl.scan_delta: it does not find the files of a path with a blank or a letter that is not ASCII.
    root = unquote(urlsplit(table.table_uri).path).rstrip("/")
    files = to_table(table.get_add_actions(flatten=True)).to_pylist()
    return [f"{root}/{unquote(f['path'])}" for f in files if f[f"partition.{WRITE_ID}"] == write_id]


def _open_on_spark(store: str, version: int | None, topology: str | None) -> StoredPlan:
    from polars.io.plugins import register_io_source
    from pyspark.sql import functions as F

    from engine.session import get_session
    from engine.store import plan_versions, read_plan

    spark = get_session(app_name="penstock")
    found = plan_versions.find_version(spark, store, version)
    tables = read_plan.tables_of(spark, store, found)

    @cache
    def table(name: str) -> pl.LazyFrame:
        rows = tables[name]
        if topology is not None:
            by_name = F.col("name") == topology
            rows = rows.where(by_name if name in BY_NAME else F.col(TOPOLOGY) == topology_id(topology))

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

        return register_io_source(source, schema=empty(name).schema)

    return StoredPlan(found, table)
