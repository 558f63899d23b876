"""The tables of a plan as views take them: lazy frames, wherever the rows are."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from polars.io.plugins import register_io_source

from penstock.engine.store.store_tables import DataFile, PlanVersion, StoreTables
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import topology_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BY_NAME = ("topologies", "rejected")
"""Tables in which topologies are found by name; in `rejected` the key may be null."""


class StoredVersion(NamedTuple):
    """The store that holds a version, and the version's row in the manifest, which lists its files."""

    tables: StoreTables[Any]
    row: PlanVersion


@dataclass(frozen=True)
class PlanTables:
    """A plan as views take it: its tables by name, as lazy frames of their declared columns.

    It is in a store, in memory, or its topologies were only read (`plan_rows`). A frame reads the columns it
    needs when it is collected.
    """

    label: str
    """The source, as the user called it."""
    tables: tuple[str, ...]
    scan: Callable[[str, str | None], pl.LazyFrame]
    """Returns a table, or only the rows of the topology of that name."""
    options: Mapping[str, str]
    """As a store records them."""
    planner_version: str | None
    planned: int = 0
    rejected: int = 0
    version: int | None = None
    """None for a plan of the library, and for topologies that were only read."""
    published_at: datetime | None = None
    stored: StoredVersion | None = None
    """None if no store has the tables."""
    topology: str | None = None
    """The only topology; None: all."""
    plan_rows: Callable[[dict[str, pl.DataFrame]], "PlanTables"] | None = None
    """Plans rows of `tables`, which are those of the topology layer; None for a plan."""
    job: Any = None
    """The job of a script, if that is what was planned."""

    @property
    def title(self) -> str:
        """The label with the version, if there is one."""
        return self.label if self.version is None else f"{self.label} version {self.version}"

    def has(self, *tables: str) -> bool:
        """Return whether the plan includes all of these tables."""
        return set(tables) <= set(self.tables)

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table of the plan."""
        return self.scan(name, self.topology)

    def frame(self, name: str, *columns: str) -> pl.DataFrame:
        """Return these columns of a table; without rows if the plan lacks the table."""
        frame = self.table(name) if self.has(name) else empty(name).lazy()
        return frame.select(columns).collect()

    def rows(self, name: str, *columns: str) -> list[dict[str, Any]]:
        """Return rows of these columns; none if the plan lacks the table."""
        return self.frame(name, *columns).rows(named=True)

    def of_topology(self, name: str) -> "PlanTables":
        """Return the plan of one topology, which is made now if the topologies were only read."""
        if self.plan_rows is None:
            return replace(self, topology=name)
        planned = self.plan_rows({table: self.scan(table, name).collect() for table in self.tables})
        return replace(planned, topology=name)

    def only(self, topologies: pl.DataFrame) -> "PlanTables":
        """Return the plan with the rows of these topologies (column topology_id) only."""

        def scan(table: str, topology: str | None) -> pl.LazyFrame:
            return self.scan(table, topology).join(topologies.lazy(), on=TOPOLOGY, how="semi")

        return replace(self, scan=scan, stored=None)


def plan_in_memory(
    label: str, tables: Mapping[str, Any], options: Mapping[str, str], planner_version: str | None
) -> PlanTables:
    """Return a plan in Arrow tables as PlanTables."""

    @cache
    def scan(name: str, topology: str | None) -> pl.LazyFrame:
        return rows_of_topology(from_arrow(tables[name]).lazy(), name, topology)

    planned, rejected = (len(tables[name]) if name in tables else 0 for name in BY_NAME)
    names = tuple(name for name in TABLES if name in tables)
    return PlanTables(label, names, scan, options, planner_version, planned, rejected)


# Scan a table as a lazy frame of polars, which reads the columns it needs when it is collected.


def scan_stored_table(
    folder: str, table: str, files: Sequence[DataFile], topology: str | None
) -> pl.LazyFrame:
    """Scan the declared columns of these files in a table's folder; only rows of `topology`, if given."""
    paths = [os.path.join(folder, file.path) for file in files]
    rows = _with_declared_columns(pl.scan_parquet(paths, glob=False), table) if paths else empty(table).lazy()
    return rows_of_topology(rows, table, topology)


def rows_of_topology(rows: pl.LazyFrame, table: str, topology: str | None) -> pl.LazyFrame:
    """Return the rows of a topology by its name; None: all rows."""
    if topology is None:
        return rows
    chosen = pl.col("name") == topology if table in BY_NAME else pl.col(TOPOLOGY) == topology_id(topology)
    return rows.filter(chosen)


def _with_declared_columns(rows: pl.LazyFrame, table: str) -> pl.LazyFrame:
    """Select the declared columns; those that an earlier release did not write are null."""
    known, declared = rows.collect_schema().names(), empty(table).schema
    return rows.select(
        name if name in known or not TABLES[table].field(name).nullable else pl.lit(None, kind).alias(name)
        for name, kind in declared.items()
    )


def scan_spark_rows(rows: "DataFrame", table: str, topology: str | None) -> pl.LazyFrame:
    """Scan rows of Spark as those of a table; only rows of `topology`, if given."""
    if topology is not None:
        from pyspark.sql import functions as F

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
