"""The manifest of a store without Spark: which writes are complete, under which version number."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.pandas.types import to_arrow_schema

from engine.store.delta_tables import table_path
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

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def list_versions(store: str) -> list[PlanVersion]:
    """The versions that can be read, oldest first. Raises StoreError where there is no store."""
    table = open_table(table_path(store, MANIFEST))
    if table is None:
        raise not_a_store(store)
    return [v for v in _all_versions(table) if v.state == State.COMPLETE]


def find_version(store: str, version: int | None) -> PlanVersion:
    """That version, or the newest. Raises StoreError naming the versions there are."""
    return choose_version(store, list_versions(store), version)


def is_store(store: str) -> bool:
    """Whether a plan was ever written to this path."""
    return open_table(table_path(store, MANIFEST)) is not None


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
        number = max((v.version or 0 for v in known), default=0) + 1
        write_deltalake(table, _row(candidate, number), mode="append", commit_properties=STRICT)
        return number

    return retry_conflicts(insert_under_next_number, f"publishing in {store}")


def _all_versions(table: DeltaTable) -> list[PlanVersion]:
    rows = to_table(table.scan(SCHEMA.names))
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
    }
    return pa.Table.from_pylist([row], to_arrow_schema(SCHEMA, timezone="UTC"))
