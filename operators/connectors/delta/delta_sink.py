"""Writes a Delta table: files by the subtasks, one transaction by the driver."""

from __future__ import annotations

from typing import Literal, Self, get_args

from deltalake.exceptions import DeltaError

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.delta.commit_delta import (
    DeltaWrite,
    abort_delta,
    commit_delta,
    json_of,
    open_delta,
    prepare_delta,
)
from penstock.operators.connectors.delta.delta_files import (
    DeltaFilesWriter,
    delta_schema,
    require_partitionable,
)
from penstock.operators.connectors.delta.table_columns import (
    StagedColumns,
    require_columns,
    require_writable,
    staged_schema,
)
from penstock.operators.connectors.sink import Committable, Recovery, Sink, SinkWriter

Mode = Literal["append", "overwrite", "error", "ignore"]


class DeltaSink(Sink):
    """Rows into a Delta table, made if it is not there; a job is one transaction of the table.

    `mode`: append; overwrite (all that was there goes, the columns stay); error or ignore (write only if
    there is no table yet). The commit holds the write's id as an application transaction, so that repeating
    it does nothing. Spark and every other reader of Delta can read the table.

    Names of mapped columns, NOT NULL and the lengths of `varchar` and `char` are followed: a job whose rows
    break a rule fails. Columns that the table has besides must be nullable, without a default, and are null.

    ValueError for another mode, and when a job starts for a table with other columns or partition columns,
    with a feature or a constraint that the sink cannot honour (`table_columns.WRITABLE_FEATURES`), or (error)
    for any; TypeError for types without columns, for times of day, and for partition columns that are bytes
    or nested.
    """

    columnar = True
    table_id: str | None = None  #: of the table when the run started; None: there was none
    version: int | None = None  #: of the table when the commit was prepared
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
            raise ValueError(f"found mode {mode!r}; allowed are {', '.join(get_args(Mode))}")
        self.path, self.type_info, self.mode = path, type_info, mode
        self.partition_by, self.storage_options = tuple(partition_by), storage_options
        columns = delta_schema(type_info)
        names = columns.names
        unknown = [name for name in self.partition_by if name not in names]
        if unknown or len(self.partition_by) == len(names):
            raise ValueError(f"partition columns {self.partition_by} of a table of the columns {names}")
        require_partitionable(columns, self.partition_by)

    def start(self, write_id: str | None = None, type_info: TypeInformation | None = None) -> Self:
        """The sink for one run; see the class for what is checked."""
        try:
            table = open_delta(self.path, self.storage_options)
        except DeltaError as error:
            raise ValueError(f"the Delta table {self.path} cannot be read: {error}") from error
        if table is not None and self.mode == "error":
            raise ValueError(f"{self.path} is a Delta table already, and mode is error")
        schema = staged_schema(table, delta_schema(self.type_info))
        if table is not None:
            require_columns(table, self.path, schema, self.partition_by)
            if self.mode != "ignore":
                require_writable(table, self.path, self.mode)
        started = super().start(write_id, type_info)
        started.schema = schema
        started.table_id = None if table is None else str(table.metadata().id)
        return started

    def writer(self, context: OperatorContext) -> SinkWriter:
        """A writer of data files."""
        columns = StagedColumns(self.schema, delta_schema(self.type_info), self.partition_by, self.path)
        return DeltaFilesWriter(self.path, self.write_id, self.type_info, columns, context)

    def prepare(self, committables: list[Committable]) -> list[Committable]:
        """Check that the table is as it was when the job started, and that all files are there.

        ValueError otherwise.
        """
        self.version = prepare_delta(self._write, committables)
        self.prepared = True
        return committables

    def commit(self, committables: list[Committable]) -> None:
        """One transaction with all files; nothing if this write is already in the table.

        deltalake's CommitFailedError if other writers keep winning.
        """
        if not self.prepared:
            try:
                self.prepare(committables)
            except ValueError:
                self.abort()
                raise
        commit_delta(self._write, committables, retries=self.commit_retries)

    def abort(self, committables: list[Committable] | None = None) -> None:
        """Delete the files of this write, unless its transaction is in the table."""
        abort_delta(self.path, self.write_id, self.storage_options)

    def recovery(self) -> Recovery:
        """By the transaction; storage options are left out."""
        return Recovery("delta", self.path, json_of(self._write))

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
