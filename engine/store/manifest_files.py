"""Rows of a manifest read straight from its few files: a scan by delta-rs takes ten times as long."""

import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from penstock.engine.store.delta_rs_table import to_table
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.manifest import MANIFEST, PLAN_VERSIONS, Listed
from penstock.engine.store.stored_tables import WRITE_ID, in_files

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def listed_writes(store: str, table: DeltaTable) -> list[Listed]:
    """The writes that the manifest lists, in no order."""
    paths = _paths(store, table)
    if paths is None:
        rows = to_table(table.scan(list(Listed._fields)))
        return _listed(rows)
    return [listed for path in paths for listed in _listed_in_file(path, _identity(path))]


def manifest_rows(store: str, table: DeltaTable, write_ids: Collection[str] | None = None) -> pa.Table:
    """Rows of the manifest with the columns that it has: those of some writes, or all (None)."""
    known = [field.name for field in table.schema().fields if field.name in PLAN_VERSIONS.names]
    paths = _paths(store, table)
    if paths is None:
        return to_table(table.scan(known, None if write_ids is None else _among(write_ids)))
    schema = in_files(MANIFEST, known)
    if write_ids is not None:
        paths = [
            path
            for path in paths
            if any(w.write_id in write_ids for w in _listed_in_file(path, _identity(path)))
        ]
    parts = [_read(path, schema) for path in paths]
    none = pa.Table.from_batches([], schema)  # not empty_table, which imports pandas
    rows = pa.concat_tables([none, *parts])
    if write_ids is None:
        return rows
    # Not a filter by an array: to make one of Python's values imports pandas.
    wanted = [place for place, of_write in enumerate(rows[WRITE_ID].to_pylist()) if of_write in write_ids]
    return pa.concat_tables([none, *(rows.slice(place, 1) for place in wanted)])


def whole_rows(store: str, table: DeltaTable, write_ids: Collection[str] | None) -> list[Mapping[str, Any]]:
    """As manifest_rows, as values."""
    rows = manifest_rows(store, table, write_ids)
    # Not to_pylist: where there are timestamps, it imports pandas.
    written = [_EPOCH + timedelta(microseconds=t) for t in rows["published_at"].cast(pa.int64()).to_pylist()]
    others = rows.drop_columns(["published_at"]).to_pylist()
    return [{**row, "published_at": at} for row, at in zip(others, written, strict=True)]


def rows_of_files(table: DeltaTable) -> dict[str, int | None]:
    """The files of a table's newest state, and how many rows each has, if the log says it."""
    actions = to_table(table.get_add_actions(flatten=True))
    if not len(actions):
        return {}
    return dict(zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True))


def _paths(store: str, table: DeltaTable) -> list[str] | None:
    """The files of a local manifest; None where its log says more than that (deletion vectors)."""
    if not is_local(store) or table.protocol().min_reader_version > 1:
        return None
    folder = local_folder(store, MANIFEST)
    return [os.path.join(folder, unquote(file)) for file in rows_of_files(table)]


def _read(path: str, schema: pa.Schema) -> pa.Table:
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        names = [name for name in schema.names if name in file.schema_arrow.names]
        rows = file.read(names)
    for field in schema:
        if field.name not in names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(schema.names).cast(schema)


def _identity(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=256)
def _listed_in_file(path: str, identity: tuple[int, ...]) -> list[Listed]:
    """Files never change; `identity` tells those that were damaged or replaced."""
    return _listed(_read(path, in_files(MANIFEST, Listed._fields)))


def _listed(rows: pa.Table) -> list[Listed]:
    columns = (rows[name].to_pylist() for name in Listed._fields)
    return list(map(Listed._make, zip(*columns, strict=True)))


def _among(write_ids: Collection[str]) -> str:
    quoted = ", ".join("'" + write_id.replace("'", "''") + "'" for write_id in sorted(write_ids))
    return f"{WRITE_ID} in ({quoted})"
