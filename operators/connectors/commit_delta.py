"""Commit the files of one write as one transaction of a Delta table, unless the table has it already.

The transaction holds the write's id as an application transaction (`txn` of the Delta transaction log
protocol), by which a repeated commit finds the first one.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args
from urllib.parse import quote

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow import fs

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.delta_columns import (
    StagedColumns,
    require_columns,
    require_writable,
    staged_schema,
)
from penstock.operators.connectors.delta_files import (
    FILE_NAME,
    DeltaFilesWriter,
    delta_schema,
    require_partitionable,
)
from penstock.operators.connectors.sink import (
    Committable,
    LostCommitError,
    LostFilesError,
    Recovery,
    Sink,
    SinkWriter,
)
from penstock.operators.files.durable_files import create_private_file, force_file, force_folder
from penstock.operators.files.filesystem import filesystem_of

_TRANSACTION_VERSION = 1
_CONFLICTS = 8  #: commits that may lose against other writers, besides deltalake's own retries
_FORCED_ENTRIES = 50  #: number of newest log entries, including the write's own
_TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
_MISREAD_BY_DELTALAKE = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f\ud800-\udfff]")
_COLOURS_AND_STACK = re.compile("\x1b\\[[0-9;]*m|\n *0: .*", re.DOTALL)
_FIRST_WAIT_SECONDS = 0.05  #: before the second commit; twice as long before each further one


@dataclass(frozen=True)
class DeltaWrite:
    """One write of a table, as `_prepare_delta` and `commit_delta` take it."""

    folder: str  #: path or URI of the table
    write_id: str
    mode: str  #: append, overwrite, error or ignore
    schema: str  #: the columns of the files, by `staged_schema`
    partition_by: tuple[str, ...] = ()
    table_id: str | None = None  #: the table's id when the job started; None if there was none
    version: int | None = None  #: the table's version when an overwrite was prepared
    storage_options: Mapping[str, str] | None = None

    @property
    def application(self) -> str:
        """Return the id of its application transaction."""
        return f"penstock-{self.write_id}"


def delta_uri(folder: str) -> str:
    """Return a folder in the form that deltalake takes.

    Raises ValueError for local paths that deltalake would read as another path.
    """
    system, path = filesystem_of(folder)
    if not isinstance(system, fs.LocalFileSystem):
        return folder
    if _MISREAD_BY_DELTALAKE.search(path) is not None:
        raise ValueError(
            "the path of a Delta table must not contain % with two hexadecimal digits, backslashes, control "
            f"characters or bytes that are not UTF-8, got {path!r}: deltalake would read another path"
        )
    return f"file://{quote(path)}"


def open_delta(
    folder: str, storage_options: Mapping[str, str] | None = None, version: int | None = None
) -> DeltaTable | None:
    """Return the table at a version, or at its newest; None if there is none.

    Raises ValueError for a damaged log.
    """
    uri = delta_uri(folder)
    try:
        return DeltaTable(
            uri, version=version, storage_options=dict(storage_options) if storage_options else None
        )
    except TableNotFoundError:
        return None
    except OSError as error:
        if error.errno is not None:
            raise
        raise OSError(f"the Delta table {folder} cannot be read: {_one_line(error)}") from error
    except BaseException as error:
        if not isinstance(error, DeltaError) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"the Delta table {folder} cannot be read: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    """Return the message of an error of deltalake on one line, without its stack and colours."""
    return " ".join(_COLOURS_AND_STACK.sub("", str(error)).split())


def _prepare_delta(write: DeltaWrite, committables: list[Committable]) -> int | None:
    """Check that the write can be committed, and force its files' names to the disk.

    Return the table's version, None if there is no table. Raises ValueError if the table has a feature that
    the sink cannot write, no longer fits the files, or the mode forbids the write; LostCommitError if the
    table was deleted or replaced since the job started, or files are missing.
    """
    table = open_delta(write.folder, write.storage_options)
    if table is not None and _is_committed(table, write, committables):
        return table.version()
    _require_fit(table, write)
    if table is None or write.mode != "ignore":
        _require_files(write, committables)
        _require_log(write.folder)
    return None if table is None else table.version()


def commit_delta(write: DeltaWrite, committables: list[Committable], *, retries: int = 0) -> None:
    """Add the files to the table in one transaction, and delete all other files that the write has left.

    Mode ignore adds nothing to an existing table. If `retries` (the number of earlier attempts) is above 0,
    an overwrite is refused if others have written the table since it was prepared. A commit that loses
    against other writers is repeated. Raises the errors of `_prepare_delta` and of deltalake.
    """
    for conflicts in range(_CONFLICTS):
        table = open_delta(write.folder, write.storage_options)
        if table is not None and _is_committed(table, write, committables):
            break
        _require_fit(table, write)
        if table is not None and write.mode == "ignore":
            delete_files(write.folder, write.write_id, keep=set())
            return
        _require_files(write, committables)
        _require_unchanged(table, write, retries)
        try:
            _commit(table, write, committables)
            break
        except CommitFailedError:
            if conflicts + 1 == _CONFLICTS:
                raise
        except DeltaError:
            # another writer created the table first
            if table is not None or open_delta(write.folder, write.storage_options) is None:
                raise
        time.sleep(_FIRST_WAIT_SECONDS * 2**conflicts)
    _force_log(write.folder)
    delete_files(write.folder, write.write_id, keep={committable.target for committable in committables})


def abort_delta(folder: str, write_id: str, storage_options: Mapping[str, str] | None = None) -> None:
    """Delete the files of a write, unless its transaction is in the table."""
    try:
        table = open_delta(folder, storage_options)
        is_committed = table is not None and has_write(table, write_id)
    except ValueError:  # others have added a feature that deltalake cannot read
        is_committed = _is_in_entries(folder, write_id)
    if not is_committed:
        delete_files(folder, write_id, keep=set())


def _is_in_entries(folder: str, write_id: str) -> bool:
    """Whether an existing entry of the log names a write."""
    system, base = filesystem_of(folder)
    entries = system.get_file_info(fs.FileSelector(posixpath.join(base, "_delta_log"), allow_not_found=True))
    wanted = json.dumps(f"penstock-{write_id}").encode()
    for entry in entries:
        if entry.extension == "json":
            with system.open_input_stream(entry.path) as stream:
                if wanted in stream.read():
                    return True
    return False


def has_write(table: DeltaTable, write_id: str) -> bool:
    """Whether the transaction of a write is in the table. Raises ValueError for a damaged log."""
    try:
        return table.transaction_version(f"penstock-{write_id}") is not None
    except DeltaError as error:
        raise ValueError(f"the Delta table {table.table_uri} cannot be read: {_one_line(error)}") from error


def delete_files(folder: str, write_id: str, keep: set[str]) -> None:
    """Delete the data files of a write except those named `keep`."""
    system, base = filesystem_of(folder)
    for entry in system.get_file_info(fs.FileSelector(base, allow_not_found=True)):
        name = posixpath.basename(entry.path)
        named = FILE_NAME.fullmatch(name)
        if named is not None and named[1] == write_id and name not in keep:
            system.delete_file(entry.path)


def _is_committed(table: DeltaTable, write: DeltaWrite, committables: list[Committable]) -> bool:
    if has_write(table, write.write_id):
        return True
    if _TRANSACTION_RETENTION not in table.metadata().configuration or not committables:
        return False
    names = {committable.target for committable in committables}
    return any(posixpath.basename(uri) in names for uri in table.file_uris())


def _require_fit(table: DeltaTable | None, write: DeltaWrite) -> None:
    if table is None:
        if write.table_id is not None:
            raise LostCommitError(f"the Delta table {write.folder} was deleted after the job had started")
        return
    if write.mode == "error":
        raise LostCommitError(
            f"{write.folder} has become a Delta table since the job started, and mode is error"
        )
    if write.table_id is not None and str(table.metadata().id) != write.table_id:
        raise LostCommitError(
            f"the Delta table {write.folder} was replaced by another after the job had started"
        )
    if write.mode != "ignore":
        require_columns(table, write.folder, write.schema, write.partition_by)
        require_writable(table, write.folder, write.mode)
        _require_newest_entry(table, write.folder)


def _require_newest_entry(table: DeltaTable, folder: str) -> None:
    """Raise ValueError if the newest version is only a checkpoint, which no library here can follow."""
    system, base = filesystem_of(folder)
    entry = posixpath.join(base, "_delta_log", f"{table.version():020}.json")
    if system.get_file_info(entry).type == fs.FileType.NotFound:
        raise ValueError(
            f"the Delta table {folder} cannot be written by this sink, because {posixpath.basename(entry)} "
            "is missing in its log: after a checkpoint alone, tables can be read but not written"
        )


def _require_files(write: DeltaWrite, committables: list[Committable]) -> None:
    system, base = filesystem_of(write.folder)
    if not committables:
        return
    for committable in committables:
        named = FILE_NAME.fullmatch(committable.target)
        if named is None or named[1] != write.write_id:
            raise ValueError(f"{committable.target} must be a data file of the write {write.write_id}")
    entries = system.get_file_info(fs.FileSelector(base, allow_not_found=True))
    sizes = {posixpath.basename(entry.path): entry.size for entry in entries}
    missing = sorted(
        committable.target
        for committable in committables
        if sizes.get(committable.target) != committable.size
    )
    if missing:
        raise LostFilesError(
            f"{len(missing)} of the {len(committables)} data files that the job wrote into the Delta table "
            f"{write.folder} are missing or shorter, the first is {missing[0]}"
        )
    force_folder(system, base)


def _require_log(folder: str) -> None:
    """Raise OSError if the log of a local table cannot take new files, by creating one."""
    system, base = filesystem_of(folder)
    log = posixpath.join(base, "_delta_log")
    if not isinstance(system, fs.LocalFileSystem) or not os.path.lexists(log):
        return
    tried = posixpath.join(log, f".{uuid.uuid4().hex}.tmp")
    os.close(create_private_file(tried))
    os.unlink(tried)


def _require_unchanged(table: DeltaTable | None, write: DeltaWrite, retries: int) -> None:
    if retries and write.mode == "overwrite" and table is not None and table.version() != write.version:
        raise LostCommitError(
            f"others have written the Delta table {write.folder} since the overwrite was prepared: it is at "
            f"version {table.version()}, then {write.version}; the overwrite would remove their rows"
        )


def _commit(table: DeltaTable | None, write: DeltaWrite, committables: list[Committable]) -> None:
    now = time.time_ns() // 1_000_000  # Spark forgets a transaction without a time
    once = CommitProperties(app_transactions=[Transaction(write.application, _TRANSACTION_VERSION, now)])
    if table is None:
        create_table_with_add_actions(
            delta_uri(write.folder),
            Schema.from_json(write.schema),
            _actions(committables, now),
            mode="error",
            partition_by=list(write.partition_by),
            storage_options=dict(write.storage_options) if write.storage_options else None,
            commit_properties=once,
        )
    elif committables or write.mode == "overwrite":
        table.create_write_transaction(
            [*_actions(committables, now)],
            write.mode,
            table.schema(),  # an overwrite replaces the table's columns by these
            partition_by=list(write.partition_by),
            commit_properties=once,
        )


def _actions(committables: list[Committable], now: int) -> list[AddAction]:
    return [
        AddAction(
            committable.target,
            committable.size,
            committable.details["partition"],
            now,
            True,
            committable.details["stats"],
        )
        for committable in sorted(
            committables, key=lambda committable: (committable.subtask, committable.target)
        )
    ]


def _force_log(folder: str) -> None:
    """Force the newest entries of the log to the disk, which deltalake does not do."""
    system, base = filesystem_of(folder)
    if not isinstance(system, fs.LocalFileSystem):
        return
    log = posixpath.join(base, "_delta_log")
    entries = system.get_file_info(fs.FileSelector(log))
    for entry in sorted(info.path for info in entries if info.path.endswith(".json"))[-_FORCED_ENTRIES:]:
        force_file(system, entry)
    force_folder(system, log)
    force_folder(system, base)


def _json_of(write: DeltaWrite) -> dict[str, Any]:
    """Return the journal's fields of a write besides folder and id; storage options may hold secrets."""
    return {
        "mode": write.mode,
        "schema": write.schema,
        "partition_by": list(write.partition_by),
        "table_id": write.table_id,
        "version": write.version,
    }


# A sink for Delta tables: files by the subtasks, one transaction by the driver


Mode = Literal["append", "overwrite", "error", "ignore"]


class DeltaSink(Sink):
    """Writes rows into a Delta table, which is made if missing; a job is one transaction.

    The commit holds an application transaction, so that repeating it has no effect. Rules of the table
    (mapped names, NOT NULL, lengths of varchar and char) are followed: a job whose rows break one fails.
    Columns that the stream lacks must be nullable and without default; they become null.

    Args:
        path: Path or URI of the table.
        type_info: A row or tuple type.
        mode: "append" (default), "overwrite" (replaces all rows), "error" or "ignore" (write only if there is
            no table yet).
        partition_by: Columns of a new table's partitions.
        storage_options: Options of deltalake, such as credentials.

    Raises:
        ValueError: Another mode; when the job starts, a table with other columns or partitions, or with a
            feature or constraint that the sink cannot honour; with "error", any table; when the job commits,
            a table that was deleted, replaced or changed so that the rows no longer fit.
        CommitFailedError: Other writers kept committing first (deltalake).
        TypeError: The type has no columns, or times of day, or partitions by bytes or nested values.
    """

    columnar = True
    table_id: str | None = None  #: the table's id when the run started; None if there was none
    version: int | None = None  #: the table's version when the commit was prepared
    prepared: bool = False
    schema: str = ""  #: `staged_schema` of the run; set by `start`

    def __init__(
        self,
        path: str,
        type_info: TypeInformation,
        mode: Mode = "append",
        *,
        partition_by: tuple[str, ...] | list[str] = (),
        storage_options: dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, got {mode!r}")
        self.path, self.type_info, self.mode = path, type_info, mode
        self.partition_by, self.storage_options = tuple(partition_by), storage_options
        columns = delta_schema(type_info)
        names = columns.names
        unknown = [name for name in self.partition_by if name not in names]
        if unknown or len(self.partition_by) == len(names):
            raise ValueError(
                f"partition_by must be some of the columns {names}, not all, got {self.partition_by}"
            )
        require_partitionable(columns, self.partition_by)

    def start(self, write_id: str | None = None, type_info: TypeInformation | None = None) -> Self:
        table = open_delta(self.path, self.storage_options)
        if table is not None and self.mode == "error":
            raise ValueError(f"{self.path} is already a Delta table, and mode is error")
        schema = staged_schema(table, delta_schema(self.type_info))
        if table is not None:
            require_columns(table, self.path, schema, self.partition_by)
            if self.mode != "ignore":
                require_writable(table, self.path, self.mode)
                _require_newest_entry(table, self.path)
        started = super().start(write_id, type_info)
        started.schema = schema
        started.table_id = None if table is None else str(table.metadata().id)
        return started

    def writer(self, context: OperatorContext) -> SinkWriter:
        columns = StagedColumns(self.schema, delta_schema(self.type_info), self.partition_by, self.path)
        return DeltaFilesWriter(self.path, self.write_id, self.type_info, columns, context)

    def prepare(self, committables: list[Committable]) -> list[Committable]:
        self.version = _prepare_delta(self._write, committables)
        self.prepared = True
        return committables

    def commit(self, committables: list[Committable]) -> None:
        if not self.prepared:
            try:
                self.prepare(committables)
            except ValueError:
                self.abort()
                raise
        commit_delta(self._write, committables, retries=self.commit_retries)

    def abort(self, committables: list[Committable] | None = None) -> None:
        abort_delta(self.path, self.write_id, self.storage_options)

    def recovery(self) -> Recovery:
        return Recovery("delta", self.path, _json_of(self._write))

    @property
    def _write(self) -> DeltaWrite:
        return DeltaWrite(
            self.path,
            self.write_id,
            self.mode,
            self.schema,
            self.partition_by,
            self.table_id,
            self.version if self.mode == "overwrite" else None,
            self.storage_options,
        )
