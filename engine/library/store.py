"""A store of plans, as the library names it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from penstock.engine.library.check_arguments import path
from penstock.engine.output.html_table import html_table
from penstock.plans.literals import TableName
from penstock.plans.printable import MOST_OF_A_NAME, limited, printable


class Version(NamedTuple):
    """One version of a store: its number, when it was written by which Penstock, and what it holds."""

    number: int
    published_at: datetime
    planner_version: str | None
    topologies: int
    rejected: int
    tables: tuple[TableName, ...]
    options: Mapping[str, str]


class Store(NamedTuple):
    """A store of plans: where it is, and its versions, oldest first, as they were when it was opened."""

    path: str
    versions: tuple[Version, ...]

    def __repr__(self) -> str:
        newest = self.versions[-1]
        return (
            f"<penstock.Store {shown_path(self.path)}: {len(self.versions):,} versions; the newest, "
            f"{newest.number}: {newest.topologies:,} planned, {newest.rejected:,} rejected topologies>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (f"{v.number:,}", f"{v.published_at:%Y-%m-%d %H:%M:%S}", f"{v.topologies:,}", f"{v.rejected:,}")
            for v in reversed(self.versions)
        ]
        columns = ("version", "published (UTC)", "planned", "rejected")
        return html_table(f"Penstock store {shown_path(self.path)}", columns, rows)


def path_of_store(store: Any) -> str:
    """The path of a store that is given by it, or as what open_store gave. Raises ConfigurationError."""
    return store.path if isinstance(store, Store) else path("store", store)


def shown_path(path: str) -> str:
    """A path as a repr shows it."""
    return limited(printable(path), MOST_OF_A_NAME)
