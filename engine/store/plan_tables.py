"""The tables of a plan as views take them, wherever the plan is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.store.scan_stored_table import BY_NAME, rows_of_topology
from penstock.engine.store.store_tables import StoreTables
from penstock.engine.store.version_notes import PlanVersion
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY


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
