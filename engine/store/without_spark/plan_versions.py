"""The manifest of a store without Spark: which writes are complete, under which version number."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql.pandas.types import to_arrow_schema

from engine.machine.machine_error import machine_error_in_text
from engine.store.delta_tables import table_path
from engine.store.is_local import is_local, local_folder
from engine.store.newest_version import newest_version, note_newest_version, require_whole
from engine.store.plan_versions import (
    MANIFEST,
    MANIFEST_PROPERTIES,
    SCHEMA,
    PlanVersion,
    State,
    choose_version,
    complete,
    given_up,
    not_a_store,
    row_checksum,
    versions_of,
)
from engine.store.without_spark.delta_tables import (
    STRICT,
    create_table,
    open_table,
    retry_conflicts,
    to_table,
)
from engine.store.write_file import add_action, make_log_durable, write_file
from plans.errors import PenstockError, StoreError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def list_versions(store: str) -> list[PlanVersion]:
    """The versions that can be read, oldest first. Raises StoreError where there is no store, or no whole
    manifest."""
    return complete(require_whole(store, all_writes(store)))


def all_writes(store: str) -> list[PlanVersion]:
    """Every row of the manifest, whether it has lost some or not, by version.

    Raises StoreError where there is no store, or its manifest cannot be read.
    """
    table = _open(store)
    if table is None:
        raise not_a_store(store)
    return _read(store, table)


def find_version(store: str, version: int | None) -> PlanVersion:
    """That version, or the newest. Raises StoreError naming the versions there are."""
    known = all_writes(store)
    return choose_version(store, known if version is not None else require_whole(store, known), version)


def is_store(store: str) -> bool:
    """Whether a plan was ever written to this path. Raises StoreError if its manifest cannot be read."""
    return _open(store) is not None


def is_published(store: str, write_id: str) -> bool:
    """Whether the manifest has a version of this write. Raises StoreError if it cannot be read."""
    return is_store(store) and any(
        v.write_id == write_id and v.version is not None for v in all_writes(store)
    )


def publish(store: str, candidate: PlanVersion) -> int:
    """Make a finished write readable under the next free version number, which is returned.

    The number is the next one of the manifest that was read, and the row is committed right behind that or
    not at all, so a commit in between, of Spark too, makes this read again. Raises StoreError if
    `remove_unfinished` has given the write up.
    """
    path = table_path(store, MANIFEST)
    create_table(path, SCHEMA, None, MANIFEST_PROPERTIES)

    def insert_under_next_number() -> int:
        table = DeltaTable(path)
        known = _read(store, table)
        own = next((v for v in known if v.write_id == candidate.write_id), None)
        if own is not None and (own.version is None or own.state == State.ABANDONED):
            raise given_up(store, candidate.write_id)
        if own is not None and own.version is not None:
            return own.version
        number = newest_version(store, known) + 1
        _add_missing_columns(table)
        numbered = replace(candidate, version=number, published_at=datetime.now(UTC))
        _append(store, table, _row(numbered))
        note_published(store, number, since=table.version())
        return number

    return retry_conflicts(insert_under_next_number, f"publishing in {store}")


def note_published(store: str, number: int, since: int) -> None:
    """What the manifest of a local store has got from its log's version `since` on lasts, and is noted."""
    if is_local(store):
        make_log_durable(local_folder(store, MANIFEST), since)
        note_newest_version(store, number)


def _append(store: str, table: DeltaTable, row: pa.Table) -> None:
    """One commit behind the state of `table`, with a file that is durable before."""
    if not is_local(store):
        write_deltalake(table, row, mode="append", commit_properties=STRICT)
        return
    folder = local_folder(store, MANIFEST)
    file = write_file(folder, "", iter([row]), row.schema)
    action = add_action(folder, file, len(row), {})
    try:
        table.create_write_transaction([action], "append", table.schema(), commit_properties=STRICT)
    except CommitFailedError:
        os.unlink(os.path.join(folder, file))
        raise


def _add_missing_columns(table: DeltaTable) -> None:
    """Manifests of older versions of Penstock get the columns that they lack."""
    names = {field.name for field in table.schema().fields}
    lacking = [f for f in Schema.from_json(SCHEMA.json()).fields if f.name not in names]
    if lacking:
        table.alter.add_columns(lacking, commit_properties=STRICT)


def _open(store: str) -> DeltaTable | None:
    try:
        return open_table(table_path(store, MANIFEST))
    except DeltaError as error:
        raise _damaged_manifest(store, error) from error


def _read(store: str, table: DeltaTable) -> list[PlanVersion]:
    try:
        return _all_versions(store, table)
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise _damaged_manifest(store, error) from error


def _damaged_manifest(store: str, error: Exception) -> PenstockError:
    doing = f"reading table {MANIFEST} of {store}"
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return machine_error_in_text(error, doing) or StoreError(
        f"{store} is damaged: table {MANIFEST}, which lists its versions, cannot be read: {said}",
        "restore that table from a backup, or plan into another store",
    )


def _all_versions(store: str, table: DeltaTable) -> list[PlanVersion]:
    known = [field.name for field in table.schema().fields if field.name in SCHEMA.names]
    rows = to_table(table.scan(known))
    # Not to_pylist: where there are timestamps, it imports pandas.
    written = [_EPOCH + timedelta(microseconds=t) for t in rows["published_at"].cast(pa.int64()).to_pylist()]
    others = rows.drop_columns(["published_at"]).to_pylist()
    return versions_of(store, [{**row, "published_at": at} for row, at in zip(others, written, strict=True)])


def _row(version: PlanVersion) -> pa.Table:
    row = {
        "version": version.version,
        "write_id": version.write_id,
        "state": version.state,
        "published_at": version.published_at,
        "planner_version": version.planner_version,
        "options": list(version.options.items()),
        "tables": list(version.tables),
        "topologies": version.topologies,
        "rejected": version.rejected,
        "files": None if version.files is None else [file._asdict() for file in version.files],
        "checksum": row_checksum(version),
    }
    return pa.Table.from_pylist([row], to_arrow_schema(SCHEMA, timezone="UTC"))
