"""Open, create and read Delta tables by delta-rs."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.log_tail import LogTail, read_log_tail
from penstock.engine.store.store_tables import delta_schema, partition_of, properties_of, stored_columns

Read = TypeVar("Read")

STRICT = CommitProperties(max_commit_retries=0)
"""Commit as the version right after the one that was read, or raise CommitFailedError."""


_shared: dict[tuple[str, str], tuple[object, Any]] = {}
"""Inside `shared_tables`: objects read, by kind and path of their table, with the state of the log."""

_scopes: list[object] = []
_lock = Lock()


@contextmanager
def shared_tables() -> Iterator[None]:
    """Inside the block, `open_table` does not read a local table again if its log has not changed.

    A write opens each table about five times, and reading a log takes longer the more versions there
    are.
    """
    with _lock:
        _scopes.append(None)
    try:
        yield
    finally:
        with _lock:
            _scopes.pop()
            if not _scopes:
                _shared.clear()


def open_table(path: str) -> DeltaTable | None:
    """Return the newest state of the table at `path`; None if there is none.

    Inside `shared_tables` the object may be shared, so no other thread may commit to the table: its state
    must not change during its use. The manifest is opened by `open_newest`.
    """
    return read_shared("table", path, lambda: open_newest(path), lambda table: table.version())


def open_log_tail(path: str) -> LogTail | None:
    """Return the log's end for the table at `path`; None if there is none, or only delta-rs can read it."""
    if not is_local(path):
        return None
    folder = local_folder(path)
    return read_shared("tail", path, lambda: read_log_tail(folder), lambda tail: tail.version)


def share_log_tail(path: str, tail: LogTail) -> None:
    """Store the result of `open_log_tail` for as long as the log does not change."""
    with _lock:
        if _scopes:
            _shared["tail", path] = (_log_state(path, tail.version), tail)


def read_shared(
    kind: str, path: str, read: Callable[[], Read | None], version_of: Callable[[Read], int | None]
) -> Read | None:
    """Return `read()` for the table at `path`, reused inside `shared_tables` until its log changes."""
    if not _scopes:
        return read()
    with _lock:
        state, shared = _shared.get((kind, path), (None, None))
    version = None if shared is None else version_of(shared)
    if version is not None and state is not None and state == _log_state(path, version):
        known: Read = shared
        return known
    new = read()
    version = None if new is None else version_of(new)
    if version is not None:
        with _lock:
            if _scopes:
                _shared[kind, path] = (_log_state(path, version), new)
    return new


def open_newest(path: str) -> DeltaTable | None:
    """Return the newest state of the table like `open_table`, but never shared."""
    if is_local(path):
        try:
            os.stat(os.path.join(local_folder(path), "_delta_log"))
        except (FileNotFoundError, NotADirectoryError):  # delta-rs would search for some milliseconds
            return None
        except OSError:
            pass
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def _log_state(path: str, version: int) -> object:
    """Return a value that changes whenever the log of a local table does; None if it cannot be determined."""
    log = os.path.join(path, "_delta_log")
    try:
        folder, newest = os.stat(log), os.stat(os.path.join(log, f"{version:020}.json"))
    except OSError:
        return None
    if os.path.lexists(os.path.join(log, f"{version + 1:020}.json")):
        return None
    return (
        version,
        *(
            (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            for status in (folder, newest)
        ),
    )


def create_table(path: str, table: str) -> DeltaTable:
    """Return the table at `path`, created empty if it does not exist; another writer may be creating it."""
    delta_table = open_table(path)
    if delta_table is not None:
        return delta_table
    try:
        return DeltaTable.create(
            path,
            delta_rs_schema(table),
            mode="error",
            partition_by=partition_of(table),
            configuration=properties_of(table),
            commit_properties=STRICT,
        )
    except DeltaError:
        delta_table = open_table(path)
        if delta_table is None:
            raise
        return delta_table


def to_table(stream: Any) -> pa.Table:
    """Convert a stream of delta-rs to a table. (pa.table would do, but it imports pandas.)"""
    return pa.RecordBatchReader.from_stream(stream).read_all()


@cache
def delta_rs_schema(table: str) -> Schema:
    """Return the schema of a new table."""
    return Schema.from_json(json.dumps(delta_schema(stored_columns(table))))
