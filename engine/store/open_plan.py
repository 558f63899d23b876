"""The tables of one version as polars frames: without Spark where the store is local, else through Spark."""

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import polars as pl

from engine.store.data_files import damaged
from engine.store.find_damage import find_damage
from engine.store.is_local import is_local, local_folder
from engine.store.listed_files import listed_files
from engine.store.plan_versions import PlanVersion
from engine.store.store_errors import store_errors
from engine.store.without_spark.plan_versions import find_version
from plans.columnar.frames import empty, from_arrow
from plans.tables import TABLES
from plans.tables.column_types import TOPOLOGY
from plans.topology.columnar.topology_id import topology_id

BY_NAME = ("topologies", "rejected")
"""Tables that know topologies by name; in `rejected` the key may be null."""


class StoredPlan(NamedTuple):
    """A version of a store, and its tables: name to a lazy frame with the columns of plans.tables.TABLES.

    A frame that is collected reads the columns it needs.
    """

    version: PlanVersion
    table: Callable[[str], pl.LazyFrame]

    def has(self, *tables: str) -> bool:
        """Whether all of these belong to the version."""
        return set(tables) <= set(self.version.tables)


def open_plan(store: str, version: int | None = None, topology: str | None = None) -> StoredPlan:
    """That version (default: the newest), with only the rows of `topology` if one is named.

    Raises StoreError: not a store, no such version. A table that is asked for is first checked: StoreError if
    it is damaged.
    """
    return (_open_files if is_local(store) else _open_on_spark)(store, version, topology)


def _open_files(store: str, version: int | None, topology: str | None) -> StoredPlan:
    found = find_version(store, version)

    @cache
    def table(name: str) -> pl.LazyFrame:
        with store_errors(store, "reading"):
            damage = find_damage(store, found, [name])
            if damage:
                raise damaged(store, found.version, damage)
            recorded = found.files_of(name)
            held = listed_files(store, name, found.write_id) if recorded is None else recorded
        files = [os.path.join(local_folder(store, name), file.path) for file in held]
        columns = TABLES[name].names
        rows = pl.scan_parquet(files, glob=False).select(columns) if files else empty(name).lazy()
        if topology is None:
            return rows
        chosen = pl.col("name") == topology if name in BY_NAME else pl.col(TOPOLOGY) == topology_id(topology)
        return rows.filter(chosen)

    return StoredPlan(found, table)


def _open_on_spark(store: str, version: int | None, topology: str | None) -> StoredPlan:
    from polars.io.plugins import register_io_source
    from pyspark.sql import functions as F

    from engine.spark.session import get_session
    from engine.store import plan_versions, read_plan

    spark = get_session(app_name="penstock")
    found = plan_versions.find_version(spark, store, version)

    @cache
    def table(name: str) -> pl.LazyFrame:
        read_plan.require_intact(spark, store, found, [name])
        rows = read_plan.rows_of(spark, store, found, name)
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
