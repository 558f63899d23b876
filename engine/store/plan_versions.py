"""The manifest of a store: which writes are complete, under which version number."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from xxhash import xxh3_128_hexdigest

from engine.store.data_files import DataFile
from engine.store.delta_tables import create_table, retry_conflicts, table_path
from engine.store.store_errors import store_errors
from plans.errors import StoreError

MANIFEST = "plan_versions"


class State(StrEnum):
    """What became of a write."""

    COMPLETE = "complete"  #: readable
    DROPPED = "dropped"  #: was readable; its row stays, so that no number is used twice
    ABANDONED = "abandoned"  #: given up by `remove_unfinished`; can never be published


_FILE = StructType(
    [
        StructField("table", StringType()),
        StructField("path", StringType()),
        StructField("rows", LongType()),
        StructField("bytes", LongType()),
        StructField("checksum", StringType()),
    ]
)
SCHEMA = StructType(
    [
        StructField("version", IntegerType(), True, {"comment": "1, 2, …; null if never published"}),
        StructField("write_id", StringType(), False, {"comment": "the rows of this version carry it"}),
        StructField("state", StringType(), False, {"comment": "complete, dropped or abandoned"}),
        StructField("published_at", TimestampType(), False, {"comment": "when the row was written"}),
        StructField("planner_version", StringType(), True, {"comment": "version of Penstock"}),
        StructField("options", MapType(StringType(), StringType()), True, {"comment": "plan options"}),
        StructField(
            "tables", ArrayType(StringType()), True, {"comment": "tables that belong to the version"}
        ),
        StructField("topologies", LongType(), True, {"comment": "rows of table topologies"}),
        StructField("rejected", LongType(), True, {"comment": "rows of table rejected"}),
        StructField(
            "files",
            ArrayType(_FILE),
            True,
            {"comment": "Parquet files of the version; null if written before they were recorded"},
        ),
        StructField("checksum", StringType(), True, {"comment": "of this row, see row_checksum"}),
    ]
)

# Only with Serializable does Delta let two inserts of the same number collide.
MANIFEST_PROPERTIES = {"delta.isolationLevel": "Serializable"}


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
        """Those of one table; None if they are not recorded."""
        return None if self.files is None else [file for file in self.files if file.table == table]

    def rows_of(self, table: str) -> int | None:
        """How many rows a table has; None if that is not recorded."""
        files = self.files_of(table)
        if files is None:
            return {"topologies": self.topologies, "rejected": self.rejected}.get(table)
        return None if any(f.rows is None for f in files) else sum(f.rows or 0 for f in files)


def list_versions(spark: SparkSession, store: str) -> list[PlanVersion]:
    """The versions that can be read, oldest first. Raises StoreError where there is no store, or no whole
    manifest."""
    from engine.store.newest_version import require_whole

    return complete(require_whole(store, all_writes(spark, store)))


def find_version(spark: SparkSession, store: str, version: int | None) -> PlanVersion:
    """That version, or the newest. Raises StoreError naming the versions there are."""
    from engine.store.newest_version import require_whole

    known = all_writes(spark, store)
    return choose_version(store, known if version is not None else require_whole(store, known), version)


def choose_version(store: str, rows: list[PlanVersion], version: int | None) -> PlanVersion:
    """That version of those that can be read, or the newest; StoreError if it is not among them."""
    known = complete(rows)
    if version is None and known:
        return known[-1]
    found = next((v for v in known if v.version == version), None)
    if found is None:
        numbers = ", ".join(str(v.version) for v in known[-20:]) or "none"
        asked = "any version" if version is None else f"version {version}"
        raise StoreError(
            f"{store} does not have {asked}; found {numbers}", "versions are listed oldest first"
        )
    return found


def is_store(spark: SparkSession, store: str) -> bool:
    """Whether a plan was ever written to this path."""
    return DeltaTable.isDeltaTable(spark, table_path(store, MANIFEST))


def is_published(spark: SparkSession, store: str, write_id: str) -> bool:
    """Whether the manifest has a version of this write."""
    return is_store(spark, store) and any(
        v.write_id == write_id and v.version is not None for v in _manifest(spark, store)
    )


def publish(spark: SparkSession, store: str, candidate: PlanVersion) -> int:
    """Make a finished write readable under the next free version number, which is returned.

    Raises StoreError if `remove_unfinished` has given the write up.
    """
    from engine.store.listed_files import log_version
    from engine.store.newest_version import newest_version
    from engine.store.without_spark.plan_versions import note_published

    path = table_path(store, MANIFEST)
    create_table(spark, path, SCHEMA, None, MANIFEST_PROPERTIES)
    since = log_version(store, MANIFEST)

    def insert_under_next_number() -> int | None:
        _add_missing_columns(spark, path)
        number = newest_version(store, _manifest(spark, store)) + 1
        return insert(spark, store, candidate, number, "m.write_id = s.write_id or m.version = s.version")

    published = None
    while published is None:  # ends: every round lost is a version that another writer has published
        published = retry_conflicts(insert_under_next_number, f"publishing in {store}")
    note_published(store, published, since)
    return published


def _add_missing_columns(spark: SparkSession, path: str) -> None:
    """Manifests of older versions of Penstock get the columns that they lack."""
    known = DeltaTable.forPath(spark, path).toDF().columns
    for field in SCHEMA.fields:
        if field.name not in known:
            kind, comment = field.dataType.simpleString(), field.metadata["comment"]
            table = "delta.`" + path.replace("`", "``") + "`"
            spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({field.name} {kind} COMMENT '{comment}')")


def insert(
    spark: SparkSession, store: str, candidate: PlanVersion, number: int | None, unless: str
) -> int | None:
    """Insert the candidate's row with `number` unless a row of the manifest (m) matches it (s).

    Returns its number if it is complete, None if that was taken. Raises StoreError if abandoned.
    """
    candidate = replace(candidate, version=number, published_at=datetime.now(UTC))
    row = (
        number,
        candidate.write_id,
        candidate.state,
        candidate.published_at,
        candidate.planner_version,
        dict(candidate.options),
        list(candidate.tables),
        candidate.topologies,
        candidate.rejected,
        None if candidate.files is None else list(candidate.files),
        row_checksum(candidate),
    )
    source = spark.createDataFrame([row], SCHEMA)
    target = DeltaTable.forPath(spark, table_path(store, MANIFEST))
    target.alias("m").merge(source.alias("s"), unless).whenNotMatchedInsertAll().execute()
    found = next((v for v in _manifest(spark, store) if v.write_id == candidate.write_id), None)
    if found is None:
        return None
    if found.state == State.ABANDONED and candidate.state == State.COMPLETE:
        raise given_up(store, candidate.write_id)
    return found.version


def mark_dropped(spark: SparkSession, store: str, version: PlanVersion) -> None:
    """No reader that starts now sees the version."""
    target = DeltaTable.forPath(spark, table_path(store, MANIFEST))
    retry_conflicts(
        lambda: target.update(F.col("write_id") == version.write_id, {"state": F.lit(str(State.DROPPED))}),
        f"dropping version {version.version} of {store}",
    )


def all_writes(spark: SparkSession, store: str) -> list[PlanVersion]:
    """Every row of the manifest, whether it has lost some or not, by version.

    Raises StoreError where there is no store, or its manifest cannot be read.
    """
    with store_errors(store, "reading"):
        return _manifest(spark, store)


def complete(versions: Iterable[PlanVersion]) -> list[PlanVersion]:
    """Those that can be read."""
    return [v for v in versions if v.state == State.COMPLETE]


def _manifest(spark: SparkSession, store: str) -> list[PlanVersion]:
    if not is_store(spark, store):
        raise not_a_store(store)
    rows: DataFrame = DeltaTable.forPath(spark, table_path(store, MANIFEST)).toDF()
    known = [name for name in SCHEMA.names if name in rows.columns]
    return versions_of(store, [row.asDict() for row in rows.select(known).collect()])


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
                "was written",
                "restore that table from a backup, or plan into another store",
            )
    return sorted(versions, key=lambda v: (v.version or 0, v.write_id))


def _files(rows: Iterable[Mapping[str, Any]] | None) -> tuple[DataFile, ...] | None:
    return (
        None if rows is None else tuple(DataFile(*(row[name] for name in DataFile._fields)) for row in rows)
    )


def not_a_store(store: str) -> StoreError:
    """No plan was ever written to this path."""
    return StoreError(f"{store} is not a plan store: it has no table {MANIFEST}", "penstock plan makes one")


def given_up(store: str, write_id: str) -> StoreError:
    """`remove_unfinished` took a write that was still running for dead."""
    return StoreError(
        f"write {write_id} to {store} was removed as unfinished while it ran; nothing was published",
        "plan again; remove_unfinished takes the age from which a write counts as dead",
    )
