"""Open one Delta table by delta-rs, check it, or read and extend only the end of its log.

delta-rs reads the entry of every file when it opens a table, which takes 0.2 s at 10,000 versions; a write
needs only the columns and the commits since the last checkpoint. The functions for the end of a log return
None, or False, if it has anything else: then delta-rs has to read it. Source: Delta's protocol, "Delta Log
Entries", "Last Checkpoint File".
"""

import fcntl
import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from itertools import count
from threading import Lock
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.machine.replace_file import sync_descriptor
from penstock.engine.store.store_location import Location
from penstock.engine.store.store_tables import (
    ATTEMPTS,
    TRANSACTION_VERSION,
    WRITE_ID,
    DataFile,
    application_id,
    began_at,
    delta_schema,
    partition_of,
    properties_of,
    stored_columns,
)
from penstock.operators.connectors.delta_columns import WRITABLE_FEATURES, has_rules, reasons_against
from penstock.plans.errors import StoreError

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


def open_table(at: Location) -> DeltaTable | None:
    """Return the newest state of the table; None if there is none.

    Inside `shared_tables` the object may be shared, so no other thread may commit to the table: its state
    must not change during its use. The manifest is opened by `open_newest`.
    """
    return read_shared("table", at, lambda: open_newest(at), lambda table: table.version())


def open_log_tail(at: Location) -> "LogTail | None":
    """Return the end of the table's log; None if there is none, or only delta-rs can read it."""
    folder = at.folder
    if folder is None:
        return None
    return read_shared("tail", at, lambda: read_log_tail(folder), lambda tail: tail.version)


def share_log_tail(at: Location, tail: "LogTail") -> None:
    """Store the result of `open_log_tail` for as long as the log does not change."""
    with _lock:
        if _scopes:
            _shared["tail", at.path] = (_log_state(at, tail.version), tail)


def read_shared(
    kind: str, at: Location, read: Callable[[], Read | None], version_of: Callable[[Read], int | None]
) -> Read | None:
    """Return `read()` for the table, reused inside `shared_tables` until its log changes."""
    if not _scopes:
        return read()
    with _lock:
        state, shared = _shared.get((kind, at.path), (None, None))
    version = None if shared is None else version_of(shared)
    if version is not None and state is not None and state == _log_state(at, version):
        known: Read = shared
        return known
    new = read()
    version = None if new is None else version_of(new)
    if version is not None:
        with _lock:
            if _scopes:
                _shared[kind, at.path] = (_log_state(at, version), new)
    return new


def open_newest(at: Location) -> DeltaTable | None:
    """Return the newest state of the table like `open_table`, but never shared."""
    if at.folder is not None:
        try:
            os.stat(os.path.join(at.folder, "_delta_log"))
        except (FileNotFoundError, NotADirectoryError):  # delta-rs would search for some milliseconds
            return None
        except OSError:
            pass
    try:
        return DeltaTable(at.path)
    except TableNotFoundError:
        return None


def _log_state(at: Location, version: int) -> object:
    """Return a value that changes whenever the log of a local table does; None if it cannot be determined."""
    if at.folder is None:
        return None
    log = os.path.join(at.folder, "_delta_log")
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


def create_table(at: Location, table: str) -> DeltaTable:
    """Return the table, created empty if it does not exist; another writer may be creating it."""
    delta_table = open_table(at)
    if delta_table is not None:
        return delta_table
    try:
        return DeltaTable.create(
            at.path,
            delta_rs_schema(table),
            mode="error",
            partition_by=partition_of(table),
            configuration=properties_of(table),
            commit_properties=STRICT,
        )
    except DeltaError:
        delta_table = open_table(at)
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


# Check that the tables of a store have the columns that this version of Penstock writes and reads.


def require_columns_to_write(store: Location, tables: Iterable[str]) -> None:
    """Raise StoreError if an existing table has other columns, or other types, than those declared.

    Tables that cannot be opened are skipped; see set_aside_unreadable.
    """
    differing = []
    for table in tables:
        stored, declared = _stored(store.of_table(table), store), _declared(table)
        if stored is not None and stored != declared:
            differing.append(f"table {table}: {_difference(stored, declared)}")
    if differing:
        raise StoreError(
            f"cannot write to {store}: another version of Penstock has written it; {'; '.join(differing)}",
            "plan into a new folder; penstock show and penstock export still read this store",
        )


_WRITABLE_FEATURES = WRITABLE_FEATURES - {"columnMapping", "deletionVectors"}
"""Delta's writer features that tables of a store may have: its files have the columns' own names."""


def features_against_writes(table: DeltaTable) -> list[str]:
    """Return features, constraints and properties, added by others, that a write would violate."""
    return reasons_against(table, "overwrite", _WRITABLE_FEATURES)


def require_features_to_write(store: Location, tables: Iterable[str]) -> None:
    """Raise StoreError if a table has a feature, constraint or property that a write would violate.

    Tables that cannot be opened are skipped; see set_aside_unreadable.
    """
    refused = []
    for table in tables:
        at = store.of_table(table)
        tail = open_log_tail(at)
        if tail is not None and tail.takes_appends:
            continue
        try:
            opened = open_table(at)
        except (DeltaError, OSError):
            continue
        reasons = [] if opened is None else features_against_writes(opened)
        if reasons:
            refused.append(f"table {table} has {', '.join(reasons)}")
    if refused:
        raise StoreError(
            f"cannot write to {store}: {'; '.join(refused)}",
            "undo these changes (in Spark, ALTER TABLE … DROP FEATURE or UNSET TBLPROPERTIES), or plan into "
            "a new folder; penstock show and penstock export still read this store",
        )


def require_columns_to_read(store: Location, tables: Iterable[str]) -> None:
    """Raise StoreError if a table lacks declared columns, or has them with other types."""
    lacking = []
    for table in tables:
        stored, declared = _stored(store.of_table(table), store), _declared(table)
        if stored is not None and not declared.items() <= stored.items():
            lacking.append(f"table {table}: {_difference(stored, declared)}")
    if lacking:
        raise StoreError(
            f"cannot read {store}: another version of Penstock has written it; {'; '.join(lacking)}",
            "read other tables only, or plan the input again into a new folder",
        )


def _stored(at: Location, store: Location) -> dict[str, str] | None:
    tail = open_log_tail(at)
    if tail is not None:
        return tail.columns
    try:
        opened = open_table(at)
    except (DeltaError, OSError) as error:
        if refused := machine_error_in_text(error, f"reading {store}"):
            raise refused from error
        return None
    return None if opened is None else _types_of(opened.schema())


def _declared(table: str) -> dict[str, str]:
    return _types_of(delta_rs_schema(table))


def _types_of(schema: Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema.fields}


def _difference(stored: dict[str, str], declared: dict[str, str]) -> str:
    lacks = sorted(set(declared) - set(stored))
    has = sorted(set(stored) - set(declared))
    differ = sorted(name for name in set(stored) & set(declared) if stored[name] != declared[name])
    parts = (("it lacks", lacks), ("it also has", has), ("of another type", differ))
    return ", ".join(f"{relation} {', '.join(names)}" for relation, names in parts if names)


def is_table_of_store(at: Location) -> bool:
    """Return whether this is a table of a local store, perhaps an unfinished one."""
    try:
        fields = DeltaTable(at.path).schema().fields
    except DeltaError:
        return os.path.isdir(at.join()) and set(os.listdir(at.join())) <= {"_delta_log"}
    return any(field.name == WRITE_ID for field in fields)


def set_aside_unreadable(store: Location, tables: Iterable[str]) -> list[str]:
    """Rename tables of a local store that no longer open, and return their new folders.

    New tables can then be created in their place. The renamed ones contain only versions that can no longer
    be read. A table that the machine refuses to open stays.
    """
    if store.folder is None or not os.path.isdir(store.folder):
        return []
    unreadable = [at for at in map(store.of_table, tables) if _is_unreadable(at)]
    if not unreadable:
        return []
    moved = []
    with alone(store.folder):
        for at in unreadable:
            folder = at.join()
            if _is_unreadable(at):
                free = next(n for n in range(1, 10_000) if not os.path.lexists(f"{folder}.damaged-{n}"))
                os.rename(folder, f"{folder}.damaged-{free}")
                moved.append(f"{folder}.damaged-{free}")
    return moved


def _is_unreadable(at: Location) -> bool:
    if open_log_tail(at) is not None:
        return False
    try:
        with os.scandir(at.join("_delta_log")) as scan:
            entries = list(scan)
        open_table(at)
    except NotADirectoryError:
        return True
    except FileNotFoundError:
        return False
    except (DeltaError, OSError) as error:  # delta-rs raises both
        return machine_error_in_text(error, "") is None
    # For example, a folder with a commit's name would block that version of the table forever.
    return any(entry.name.endswith(".json") and not entry.is_file() for entry in entries)


@contextmanager
def alone(folder: str) -> Iterator[None]:
    """Lock `folder` for one writer at a time; the kernel releases the lock of a killed writer."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# The end of a log.


COMMITS_OF_A_CHECKPOINT = 100

_NEWEST_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}

_KINDS = {"add", "remove", "metaData", "protocol", "txn", "commitInfo"}

Action = dict[str, Any]


class LogTail(NamedTuple):
    """The state of a table, and the actions of its commits since the last checkpoint, oldest first.

    `columns`: name to type. `takes_appends`: whether an append needs no entries in the log other than files.
    `checkpointed_at`: seconds since 1970, 0 if there is no checkpoint.
    """

    version: int
    columns: dict[str, str]
    takes_appends: bool
    actions: list[Action]
    checkpointed_at: float

    def has_write(self, write_id: str) -> bool | None:
        """Return whether the table has its part of a write; None if a checkpoint may hide it."""
        application = application_id(write_id)
        if any(action.get("txn", {}).get("appId") == application for action in self.actions):
            return True
        began = began_at(write_id)
        return False if began is not None and began.timestamp() > self.checkpointed_at else None

    def files(self, table: str, write_id: str) -> list[DataFile] | None:
        """Return the files of a write; None if a checkpoint may hide some."""
        if self.has_write(write_id) is None:
            return None
        files: dict[str, DataFile] = {}
        for action in self.actions:
            if (gone := action.get("remove")) is not None:
                files.pop(gone["path"], None)
            elif (added := action.get("add")) and added["partitionValues"].get(WRITE_ID) == write_id:
                rows = orjson.loads(added.get("stats") or "{}").get("numRecords")
                files[added["path"]] = DataFile(table, unquote(added["path"]), rows, added["size"])
        return list(files.values())


def read_log_tail(folder: str) -> LogTail | None:
    """Read the end of the log of the table in `folder`."""
    log = os.path.join(folder, "_delta_log")
    try:
        checkpoint, at, state = _read_checkpoint(log)
        version, actions = _read_commits(log, checkpoint + 1)
        for action in actions:
            _require_sound(action)
            state |= {kind: action[kind] for kind in ("protocol", "metaData") if kind in action}
        columns = _columns(state["metaData"]["schemaString"])
        return LogTail(version, columns, _takes_appends(**state), actions, at)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DeltaError, pa.ArrowException):
        return None


def commit_files(
    folder: str, files: Mapping[str, int], write_id: str, tail: LogTail | None
) -> LogTail | None:
    """Add `files` (paths in `folder` to rows) of a write, unless the table has them; return the new log tail.

    `tail`: the table's, if it was read a moment ago. The commit is durable once the log's folder is synced.
    """
    for _ in range(ATTEMPTS):
        tail = tail or read_log_tail(folder)
        if tail is None or not tail.takes_appends:
            return None
        known = tail.has_write(write_id)
        if known is not False:
            return tail if known else None
        actions = _append(folder, files, write_id)
        text = b"".join(orjson.dumps(action) + b"\n" for action in actions)
        version = tail.version + 1
        try:
            if not _name_commit(os.path.join(folder, "_delta_log"), version, text):
                return None
        except FileExistsError:
            tail = None
            continue
        if (version + zlib.crc32(os.path.basename(folder).encode())) % COMMITS_OF_A_CHECKPOINT == 0:
            # Spread over writes: not all tables of a store in the same one. A checkpoint is optional.
            with suppress(DeltaError, OSError):
                DeltaTable(folder).create_checkpoint()
        return tail._replace(version=version, actions=[*tail.actions, *actions])
    return None


def _read_commits(log: str, first: int) -> tuple[int, list[Action]]:
    """Return the version of the log, and the actions from `first` on. Raises ValueError: one is missing.

    They are opened by name: a folder of 10,000 commits takes some milliseconds to list.
    """
    actions: list[Action] = []
    for version in count(first):
        try:
            actions += _read_commit(os.path.join(log, _commit_name(version)))
        except FileNotFoundError:
            further = range(version + 1, version + 1 + COMMITS_OF_A_CHECKPOINT)
            if any(os.path.lexists(os.path.join(log, _commit_name(later))) for later in further):
                raise ValueError(version) from None
            return version - 1, actions
    raise AssertionError


def _read_checkpoint(log: str) -> tuple[int, float, dict[str, Action]]:
    """Return version, time and state of the last checkpoint, or version -1. ValueError: an unknown form."""
    try:
        with open(os.path.join(log, "_last_checkpoint"), "rb") as file:
            last = orjson.loads(file.read())
    except FileNotFoundError:
        if any(".checkpoint." in name for name in os.listdir(log)):
            raise ValueError from None
        return -1, 0, {}
    version: int = last["version"]
    path = os.path.join(log, f"{version:020}.checkpoint.parquet")
    status = os.stat(path)
    identity = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return version, status.st_mtime, dict(_state_of_checkpoint(path, identity))


@lru_cache(maxsize=128)
def _state_of_checkpoint(path: str, identity: tuple[int, ...]) -> dict[str, Action]:
    """Return protocol and metadata of a checkpoint file; `identity` differs once it was replaced."""
    rows = pq.ParquetFile(path).read(["protocol", "metaData"])
    state: dict[str, Action] = {}
    for kind in ("protocol", "metaData"):
        (value,) = rows[kind].drop_null().to_pylist()
        state[kind] = value
    return state


def _read_commit(path: str) -> list[Action]:
    with open(path, "rb") as file:
        return [orjson.loads(line) for line in file.read().splitlines() if line]


def _require_sound(action: Action) -> None:
    """Raise ValueError or a built-in error unless the action has the fields Delta's protocol requires."""
    ((kind, fields),) = action.items()
    if kind not in _KINDS or not isinstance(fields, dict):
        raise ValueError(kind)
    if kind in ("add", "remove") and not isinstance(fields["path"], str):
        raise ValueError(kind)
    if kind == "txn" and not isinstance(fields["appId"], str):
        raise ValueError(kind)
    if kind == "add":
        rows = orjson.loads(fields.get("stats") or "{}").get("numRecords")
        right = isinstance(fields["size"], int) and (rows is None or isinstance(rows, int))
        if not right or not fields["partitionValues"].keys() <= {WRITE_ID}:
            raise ValueError(kind)


@lru_cache(maxsize=128)
def _columns(schema: str) -> dict[str, str]:
    return _types_of(Schema.from_json(schema))


def _takes_appends(protocol: Action, metaData: Action) -> bool:
    properties = dict(metaData.get("configuration") or {})  # a checkpoint has pairs
    versions = {key: value for key, value in protocol.items() if value is not None}
    return (
        versions.keys() <= _NEWEST_PROTOCOL.keys()
        and all(versions[key] <= newest for key, newest in _NEWEST_PROTOCOL.items())
        and metaData["partitionColumns"] == [WRITE_ID]
        and not has_rules(properties, metaData["schemaString"])
    )


def _append(folder: str, files: Mapping[str, int], write_id: str) -> list[Action]:
    now = time.time_ns() // 1_000_000
    parameters = {"mode": "Append", "partitionBy": json.dumps([WRITE_ID])}
    # Spark forgets a transaction that has no time.
    transaction = {"appId": application_id(write_id), "version": TRANSACTION_VERSION, "lastUpdated": now}
    actions: list[Action] = [
        {"commitInfo": {"timestamp": now, "operation": "WRITE", "operationParameters": parameters}},
        {"txn": transaction},
    ]
    actions += (
        {
            "add": {
                "path": quote(path, safe="/="),
                "partitionValues": {WRITE_ID: write_id},
                "size": os.path.getsize(os.path.join(folder, path)),
                "modificationTime": now,
                "dataChange": True,
                "stats": json.dumps({"numRecords": rows}),
            }
        }
        for path, rows in files.items()
    )
    return actions


def _name_commit(log: str, version: int, text: bytes) -> bool:
    """Put a whole commit into the log; False if the file system has no hard links.

    Raises FileExistsError if another writer has made this version.
    """
    unfinished = os.path.join(log, f"_commit_{uuid4()}.json.tmp")
    try:
        with open(unfinished, "xb") as file:
            file.write(text)
            file.flush()
            sync_descriptor(file.fileno(), file.name)
        try:
            os.link(unfinished, os.path.join(log, _commit_name(version)))
        except FileExistsError:
            raise
        except OSError:
            return False
        return True
    finally:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)


def _commit_name(version: int) -> str:
    return f"{version:020}.json"
