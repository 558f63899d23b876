"""The manifest of a store without Spark: which writes are complete, under which version number."""

import os
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql.pandas.types import to_arrow_schema

from engine.machine_error import machine_error_in_text
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
    given_up,
    not_a_store,
    versions_of,
)
from engine.store.without_spark.delta_tables import (
    STRICT,
    create_table,
    open_table,
    retry_conflicts,
    to_table,
)
from engine.store.without_spark.write_file import add_action, make_log_durable, write_file
from plans.errors import PenstockError, StoreError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def list_versions(store: str) -> list[PlanVersion]:
    """The versions that can be read, oldest first. Raises StoreError where there is no store, or no whole
    manifest."""
    table = _open(store)
    if table is None:
        raise not_a_store(store)
    versions = require_whole(store, _read(store, table))
    return [v for v in versions if v.state == State.COMPLETE]


def find_version(store: str, version: int | None) -> PlanVersion:
    """That version, or the newest. Raises StoreError naming the versions there are."""
    return choose_version(store, list_versions(store), version)


def is_store(store: str) -> bool:
    """Whether a plan was ever written to this path. Raises StoreError if its manifest cannot be read."""
    return _open(store) is not None


def is_published(store: str, write_id: str) -> bool:
    """Whether the manifest has a version of this write. Raises StoreError if it cannot be read."""
    table = _open(store)
    return table is not None and any(
        v.write_id == write_id and v.version is not None for v in _read(store, table)
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
        known = _all_versions(table)
        own = next((v for v in known if v.write_id == candidate.write_id), None)
        if own is not None and (own.version is None or own.state == State.ABANDONED):
            raise given_up(store, candidate.write_id)
        if own is not None and own.version is not None:
            return own.version
        number = newest_version(store, known) + 1
        _add_missing_columns(table)
        _append(store, table, _row(candidate, number))
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
        return _all_versions(table)
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise _damaged_manifest(store, error) from error


def _damaged_manifest(store: str, error: Exception) -> PenstockError:
    doing = f"reading table {MANIFEST} of {store}"
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return machine_error_in_text(error, doing) or StoreError(
        f"{store} is damaged: table {MANIFEST}, which lists its versions, cannot be read: {said}",
        "restore that table from a backup, or plan into another store",
    )


def _all_versions(table: DeltaTable) -> list[PlanVersion]:
    known = [field.name for field in table.schema().fields if field.name in SCHEMA.names]
    rows = to_table(table.scan(known))
    # Not to_pylist: where there are timestamps, it imports pandas.
    written = [_EPOCH + timedelta(microseconds=t) for t in rows["published_at"].cast(pa.int64()).to_pylist()]
    others = rows.drop_columns(["published_at"]).to_pylist()
    return versions_of({**row, "published_at": at} for row, at in zip(others, written, strict=True))


def _row(candidate: PlanVersion, number: int) -> pa.Table:
    row = {
        "version": number,
        "write_id": candidate.write_id,
        "state": candidate.state,
        "published_at": datetime.now(UTC),
        "planner_version": candidate.planner_version,
        "options": list(candidate.options.items()),
        "tables": list(candidate.tables),
        "topologies": candidate.topologies,
        "rejected": candidate.rejected,
        "files": None if candidate.files is None else [file._asdict() for file in candidate.files],
    }
    return pa.Table.from_pylist([row], to_arrow_schema(SCHEMA, timezone="UTC"))
