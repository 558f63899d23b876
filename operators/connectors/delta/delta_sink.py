"""Writes a Delta table: files by the subtasks, one transaction by the driver."""

from __future__ import annotations

import posixpath
import time
from typing import Literal, Self, get_args

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow import fs

from operators.chain.operator import OperatorContext
from operators.common.typeinfo import TypeInformation
from operators.connectors.delta.delta_files import DeltaFilesWriter, delta_schema
from operators.connectors.files.filesystem import filesystem_of
from operators.connectors.sink import Committable, Sink, SinkWriter

Mode = Literal["append", "overwrite", "error", "ignore"]
_TRANSACTION_VERSION = 1


class DeltaSink(Sink):
    """Rows into a Delta table, made if it is not there; a job is one transaction of the table.

    `mode`: append; overwrite (all that was there goes, the columns stay); error or ignore (write only if
    there is no table yet). The commit holds the write's id as an application transaction, so that repeating
    it does nothing. Spark and every other reader of Delta can read the table.

    ValueError for another mode, and when a job starts for a table with other columns or partition columns, or
    (error) for any; TypeError for types without columns, and for times of day.
    """

    columnar = True

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
            raise ValueError(f"found mode {mode!r}; allowed are {', '.join(get_args(Mode))}")
        self.path, self.type_info, self.mode = path, type_info, mode
        self.partition_by, self.storage_options = tuple(partition_by), storage_options
        names = delta_schema(type_info).names
        unknown = [name for name in self.partition_by if name not in names]
        if unknown or len(self.partition_by) == len(names):
            raise ValueError(f"partition columns {self.partition_by} of a table of the columns {names}")

    def start(self, write_id: str | None = None, type_info: TypeInformation | None = None) -> Self:
        """The sink for one run; see the class for what is checked."""
        table = self._table()
        if table is not None:
            self._check(table)
        return super().start(write_id, type_info)

    def writer(self, context: OperatorContext) -> SinkWriter:
        """A writer of data files."""
        return DeltaFilesWriter(self.path, self.write_id, self.type_info, self.partition_by, context)

    def commit(self, committables: list[Committable]) -> None:
        """One transaction with all files; nothing if this write is already in the table.

        deltalake's CommitFailedError where other writers keep winning.
        """
        added = self._create(committables) or self._add(committables)
        self._delete_files(keep={one.target for one in committables} if added else set())

    def abort(self, committables: list[Committable] | None = None) -> None:
        """Delete the files of this write, unless its transaction is in the table."""
        table = self._table()
        if table is None or table.transaction_version(self._application) is None:
            self._delete_files(keep=set())

    @property
    def _application(self) -> str:
        return f"penstock-{self.write_id}"

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.path, storage_options=self.storage_options)
        except TableNotFoundError:
            return None

    def _check(self, table: DeltaTable) -> None:
        if self.mode == "error":
            raise ValueError(f"{self.path} is a Delta table already, and mode is error")
        if tuple(table.metadata().partition_columns) != self.partition_by:
            raise ValueError(
                f"the Delta table {self.path} is partitioned by {table.metadata().partition_columns}, "
                f"not by {list(self.partition_by)}"
            )
        theirs = {field.name: field.type for field in table.schema().fields}
        ours = {field.name: field.type for field in self._schema().fields}
        if theirs != ours:
            raise ValueError(f"the Delta table {self.path} has the columns {theirs}, the sink's are {ours}")

    def _schema(self) -> Schema:
        return Schema.from_arrow(delta_schema(self.type_info))

    def _create(self, committables: list[Committable]) -> bool:
        """Make the table with the files in it; False if there is one already."""
        if self._table() is not None:
            return False
        try:
            create_table_with_add_actions(
                self.path,
                self._schema(),
                self._actions(committables),
                mode="error",
                partition_by=list(self.partition_by),
                storage_options=self.storage_options,
                commit_properties=self._once(),
            )
        except DeltaError:
            if self._table() is None:
                raise
            return False  # another writer was quicker
        return True

    def _add(self, committables: list[Committable]) -> bool:
        """Add the files to the table that is there; False if the mode forbids it."""
        table = DeltaTable(self.path, storage_options=self.storage_options)
        if table.transaction_version(self._application) is not None:
            return True
        if self.mode == "error":
            self._delete_files(keep=set())
            raise ValueError(f"{self.path} has become a Delta table meanwhile, and mode is error")
        if self.mode == "ignore":
            return False
        if committables or self.mode == "overwrite":
            table.create_write_transaction(
                [*self._actions(committables)],
                self.mode,
                self._schema(),
                partition_by=list(self.partition_by),
                commit_properties=self._once(),
            )
        return True

    def _once(self) -> CommitProperties:
        now = time.time_ns() // 1_000_000  # Spark forgets a transaction without a time
        return CommitProperties(app_transactions=[Transaction(self._application, _TRANSACTION_VERSION, now)])

    def _actions(self, committables: list[Committable]) -> list[AddAction]:
        now = time.time_ns() // 1_000_000
        return [
            AddAction(one.target, one.size, one.details["partition"], now, True, one.details["stats"])
            for one in sorted(committables, key=lambda one: (one.subtask, one.target))
        ]

    def _delete_files(self, keep: set[str]) -> None:
        """Delete the data files of this write except those named `keep`."""
        system, base = filesystem_of(self.path)
        for one in system.get_file_info(fs.FileSelector(base, allow_not_found=True)):
            name = posixpath.basename(one.path)
            if f"-{self.write_id}-" in name and name.endswith(".parquet") and name not in keep:
                system.delete_file(one.path)
