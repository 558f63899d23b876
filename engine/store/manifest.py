"""The manifest of a store, table `plan_versions`: one row for each write that was published or given up."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa
from xxhash import xxh3_128_hexdigest

from penstock.engine.store.data_files import DataFile
from penstock.plans.errors import StoreError
from penstock.plans.tables.column_types import INT, LONG, STR, STRINGS, TIMESTAMP, list_of, map_of, table

MANIFEST = "plan_versions"

_FILE = pa.schema([("table", STR), ("path", STR), ("rows", LONG), ("bytes", LONG), ("checksum", STR)])

PLAN_VERSIONS = table(
    ("version", INT, "1, 2, …; null if never published", True),
    ("write_id", STR, "the rows of this version carry it"),
    ("state", STR, "complete, dropped or abandoned"),
    ("published_at", TIMESTAMP, "when the row was written"),
    ("planner_version", STR, "version of Penstock", True),
    ("options", map_of(STR, STR), "plan options", True),
    ("tables", STRINGS, "tables that belong to the version", True),
    ("topologies", LONG, "rows of table topologies", True),
    ("rejected", LONG, "rows of table rejected", True),
    (
        "files",
        list_of(_FILE),
        "Parquet files of the version; null if written before they were recorded",
        True,
    ),
    ("checksum", STR, "of this row, see row_checksum", True),
)
"""The columns of the manifest. A manifest written by an older Penstock may lack the last ones."""


class VersionState(StrEnum):
    """States of a write."""

    COMPLETE = "complete"  #: readable
    DROPPED = "dropped"  #: was readable; its row stays, so that no number is used twice
    ABANDONED = "abandoned"  #: given up by `remove_unfinished`; can never be published


class Listed(NamedTuple):
    """What the manifest has to say of every write before a version is chosen."""

    version: int | None
    write_id: str
    state: str


@dataclass(frozen=True, slots=True)
class PlanVersion:
    """One row of the manifest; `version` is None only where the state is abandoned."""

    version: int | None
    write_id: str
    state: str
    published_at: datetime
    planner_version: str | None
    options: Mapping[str, str]
    tables: tuple[str, ...]
    topologies: int
    rejected: int
    files: tuple[DataFile, ...] | None = None
    """None: written by a Penstock that did not record them."""

    def files_of(self, table: str) -> list[DataFile] | None:
        """The files of one table; None if they are not recorded."""
        return None if self.files is None else [file for file in self.files if file.table == table]

    def rows_of(self, table: str) -> int | None:
        """How many rows a table has; None if that is not recorded."""
        files = self.files_of(table)
        if files is None:
            return {"topologies": self.topologies, "rejected": self.rejected}.get(table)
        return None if any(f.rows is None for f in files) else sum(f.rows or 0 for f in files)


def row_checksum(version: PlanVersion) -> str:
    """XXH3-128 of what a row of the manifest says, in hex digits; not of its state, which changes."""
    said = [
        version.version,
        version.write_id,
        round(version.published_at.astimezone(UTC).timestamp() * 1_000_000),
        version.planner_version,
        sorted(version.options.items()),
        version.tables,
        version.topologies,
        version.rejected,
        version.files,
    ]
    return xxh3_128_hexdigest(json.dumps(said).encode())


def manifest_row(version: PlanVersion) -> dict[str, Any]:
    """The version as a row of PLAN_VERSIONS; the map is a dict, each file a dict."""
    return {
        "version": version.version,
        "write_id": version.write_id,
        "state": str(version.state),
        "published_at": version.published_at,
        "planner_version": version.planner_version,
        "options": dict(version.options),
        "tables": list(version.tables),
        "topologies": version.topologies,
        "rejected": version.rejected,
        "files": None if version.files is None else [file._asdict() for file in version.files],
        "checksum": row_checksum(version),
    }


def versions_of(store: str, rows: Sequence[Mapping[str, Any]]) -> list[PlanVersion]:
    """Rows of the manifest as values, oldest version first. StoreError if one is not as it was written."""
    versions = [
        PlanVersion(
            version=r["version"],
            write_id=r["write_id"],
            state=r["state"],
            published_at=r["published_at"],
            planner_version=r["planner_version"],
            options=dict(r["options"] or {}),
            tables=tuple(r["tables"] or ()),
            topologies=r["topologies"] or 0,
            rejected=r["rejected"] or 0,
            files=_files(r.get("files")),
        )
        for r in rows
    ]
    for row, version in zip(rows, versions, strict=True):
        if row.get("checksum") not in (None, row_checksum(version)):
            raise StoreError(
                f"{store} is damaged: the row of version {version.version} in table {MANIFEST} is not as it "
                "was written"
            )
    return sorted(versions, key=lambda v: (v.version or 0, v.write_id))


def _files(rows: Iterable[Mapping[str, Any]] | None) -> tuple[DataFile, ...] | None:
    return (
        None if rows is None else tuple(DataFile(*(row[name] for name in DataFile._fields)) for row in rows)
    )


def not_a_store(store: str, *, has_tables: bool = False) -> StoreError:
    """No plan was ever written to this path, or, if it has tables of plans, what lists them is lost."""
    if has_tables:
        return StoreError(
            f"{store} is damaged: it holds plans, but table {MANIFEST}, which lists its versions, is lost",
            "restore that table from a backup, or plan into another store",
        )
    return StoreError(f"{store} is not a plan store: it has no table {MANIFEST}", "penstock plan makes one")


def given_up(store: str, write_id: str) -> StoreError:
    """`remove_unfinished` took a write that was still running for dead."""
    return StoreError(
        f"write {write_id} to {store} was removed as unfinished while it ran; nothing was published",
        "plan again; remove_unfinished takes the age from which a write counts as dead",
    )
