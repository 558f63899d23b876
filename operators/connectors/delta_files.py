"""Data files of a Delta table, written by the subtasks and described in the log.

Files lie in the table's own folder from the start: until the log names them, no reader sees them. Their names
hold the write's id, by which an abort finds them.

Source: the Delta transaction log protocol, "Add File".
"""

from __future__ import annotations

import json
import math
import posixpath
import re
import uuid
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from penstock.operators.chain.operator import OperatorContext, Timestamps, Values
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.delta_columns import StagedColumns
from penstock.operators.connectors.sink import Committable, SinkWriter
from penstock.operators.files.durable_files import force_file
from penstock.operators.files.filesystem import filesystem_of
from penstock.operators.formats.part_formats import stored_batch, stored_schema, stored_values

_GROUP_ROWS = 131_072
_MOMENT_LENGTH = len("2024-01-01 00:00:00.000000")
_LONGEST_TEXT = 32  #: longer texts have no minimum and maximum in the log


def delta_schema(type_info: TypeInformation | None) -> pa.Schema:
    """Return `stored_schema` in types of Delta. Raises TypeError for times of day, which Delta lacks."""
    return pa.schema([pa.field(field.name, _delta_type(field.type)) for field in stored_schema(type_info)])


def file_name(write_id: str, context: OperatorContext) -> str:
    """Return a name for one data file, with the write's id and unique among all attempts."""
    return f"part-{context.subtask:05d}-{write_id}-{context.attempt_number}-{uuid.uuid4().hex[:12]}.parquet"


#: Pattern of `file_name`; the group is the write's id.
FILE_NAME = re.compile(r"part-\d{5,}-(.+)-\d+-[0-9a-f]{12}\.parquet")


class DeltaFilesWriter(SinkWriter):
    """Writes one file for each combination of values of the partition columns."""

    def __init__(
        self,
        path: str,
        write_id: str,
        type_info: TypeInformation,
        columns: StagedColumns,
        context: OperatorContext,
    ) -> None:
        self._system, self._base = filesystem_of(path)
        self._write_id, self._type_info, self._context = write_id, type_info, context
        self._columns = columns
        self._schema = columns.schema
        self._partition_by = columns.partition_by
        in_file = [field for field in self._schema if field.name not in self._partition_by]
        self._file_schema = pa.schema(in_file)
        self._files: dict[tuple[str | None, ...], _DataFile] = {}
        self._names: list[str] = []

    def write(self, values: Values, timestamps: Timestamps) -> None:
        """Write records of the sink's type."""
        self._write(stored_values(values, self._type_info, self._schema))

    def write_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Write columns of the sink's type."""
        self._write(stored_batch(batch, self._schema))

    def finish(self) -> list[Committable]:
        """Close all files."""
        return [
            self._files[partition].finish(
                self._context.subtask, dict(zip(self._partition_by, partition, strict=True))
            )
            for partition in list(self._files)
        ]

    def abort(self) -> None:
        """Close and delete all files."""
        for file in self._files.values():
            file.close()
        for name in self._names:
            self._system.delete_file(posixpath.join(self._base, name))

    def _write(self, batch: pa.RecordBatch) -> None:
        batch = self._columns.checked(batch)
        if not self._partition_by:
            self._file(()).write(batch)
            return
        for partition, rows in _by_partition(batch, self._partition_by):
            self._file(partition).write(rows.select(self._file_schema.names))

    def _file(self, partition: tuple[str | None, ...]) -> _DataFile:
        file = self._files.get(partition)
        if file is None:
            name = file_name(self._write_id, self._context)
            self._system.create_dir(self._base, recursive=True)
            self._names.append(name)
            target = posixpath.join(self._base, name)
            file = self._files[partition] = _DataFile(self._system, target, name, self._file_schema)
        return file


class _DataFile:
    """An open Parquet file."""

    def __init__(self, system: Any, target: str, name: str, schema: pa.Schema) -> None:
        self._system, self._target, self._name, self._schema = system, target, name, schema
        self._stream = system.open_output_stream(target, compression=None, buffer_size=1 << 20)
        self._metadata: list[Any] = []
        self._writer = pq.ParquetWriter(
            self._stream, schema, compression="snappy", metadata_collector=self._metadata
        )
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        if self._pending_rows >= _GROUP_ROWS:
            self._flush()

    def finish(self, subtask: int, partition: dict[str, str | None]) -> Committable:
        self._flush()
        self._writer.close()
        self._stream.close()
        force_file(self._system, self._target)
        size = self._system.get_file_info(self._target).size
        details = {"partition": partition, "stats": _statistics(self._metadata[0], self._schema)}
        return Committable(self._target, self._name, size, subtask, details)

    def close(self) -> None:
        # otherwise the writer would be closed later, after its stream
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._stream.close()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._pending, self._schema), _GROUP_ROWS)
            self._pending, self._pending_rows = [], 0


def _delta_type(data_type: pa.DataType) -> pa.DataType:
    if kinds.is_time(data_type):
        raise TypeError("Delta has no columns of times of day")
    if kinds.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    if kinds.is_struct(data_type):
        return pa.struct([pa.field(field.name, _delta_type(field.type)) for field in data_type])
    if kinds.is_list(data_type):
        return pa.list_(_delta_type(data_type.value_type))
    if kinds.is_map(data_type):
        return pa.map_(_delta_type(data_type.key_type), _delta_type(data_type.item_type))
    return data_type


def _by_partition(
    batch: pa.RecordBatch, columns: tuple[str, ...]
) -> list[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Return the rows of a batch by the partition columns' values, in the form of the log."""
    texts = [_partition_texts(batch.column(name)) for name in columns]
    codes = np.zeros(batch.num_rows, np.int64)
    for column_texts in texts:
        codes = (
            codes * (len(column_texts.dictionary) + 1)
            + column_texts.indices.fill_null(len(column_texts.dictionary)).to_numpy()
        )
        codes = np.unique(codes, return_inverse=True)[1]  # dense, so that many columns do not overflow
    order = np.argsort(codes, kind="stable")
    rows = batch.take(pa.array(order))
    _, starts = np.unique(codes[order], return_index=True)
    ends = [*starts[1:].tolist(), batch.num_rows]
    return [
        (
            tuple(column_texts[int(order[start])].as_py() for column_texts in texts),
            rows.slice(start, end - start),
        )
        for start, end in zip(starts.tolist(), ends, strict=True)
    ]


def require_partitionable(columns: pa.Schema, partition_by: tuple[str, ...]) -> None:
    """Raise TypeError for partition columns of types whose values the log cannot hold as texts."""
    for name in partition_by:
        kind = columns.field(name).type
        if kinds.is_binary(kind) or kinds.is_nested(kind):
            raise TypeError(f"a Delta table cannot be partitioned by {name!r}, a column of {kind}")


def _partition_texts(column: pa.Array) -> pa.DictionaryArray:
    """Return values in the protocol's form; an empty text is null. Raises ValueError for years above 9999."""
    if kinds.is_timestamp(column.type):
        texts = _moments(column)
    elif kinds.is_floating(column.type):
        texts = pa.array(
            [None if value is None else _number(value) for value in column.to_pylist()], pa.string()
        )
    elif kinds.is_decimal(column.type):
        # Arrow writes small ones with an exponent
        texts = pa.array(
            [None if value is None else f"{value:f}" for value in column.to_pylist()], pa.string()
        )
    else:
        texts = pc.cast(column, pa.string())
    return pc.if_else(pc.equal(texts, ""), None, texts).dictionary_encode()


def _moments(column: pa.TimestampArray) -> pa.StringArray:
    """Return timestamps without a zone unchanged, others in UTC with its `Z`."""
    texts = pc.cast(column.cast(pa.timestamp("us")), pa.string())
    if pc.any(pc.not_equal(pc.utf8_length(texts), _MOMENT_LENGTH)).as_py():
        raise ValueError("a Delta table cannot be partitioned by timestamps outside of the years 1 to 9999")
    if column.type.tz is None:
        return texts
    return pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T"), "Z", "")


def _number(value: float) -> str:
    """Return a floating-point number in Java's notation."""
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"


def _statistics(metadata: Any, schema: pa.Schema) -> str:
    """Return the file's `stats`: rows; for columns that are not nested, nulls and range of values."""
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(metadata.num_columns):
        name = metadata.schema.column(at).path
        # the column "a.b" has the same path as the field "b" in the column "a"
        if (
            name != metadata.schema.column(at).name
            or name not in schema.names
            or kinds.is_nested(schema.field(name).type)
        ):
            continue
        parts = [metadata.row_group(group).column(at).statistics for group in range(metadata.num_row_groups)]
        if all(part is not None and part.has_null_count for part in parts):
            nulls[name] = sum(part.null_count for part in parts)
        if _is_ordered(schema.field(name).type) and all(
            part is not None and part.has_min_max for part in parts
        ):
            low, high = min(part.min for part in parts), max(part.max for part in parts)
            if _is_short(low) and _is_short(high):
                smallest[name], largest[name] = low, high
    return json.dumps(
        {"numRecords": metadata.num_rows, "minValues": smallest, "maxValues": largest, "nullCount": nulls},
        default=str,
    )


def _is_ordered(data_type: pa.DataType) -> bool:
    # not of floating-point numbers: Parquet ignores NaN, which is Spark's largest number
    kind = (kinds.is_integer, kinds.is_string, kinds.is_date)
    return any(matches(data_type) for matches in kind)


def _is_short(value: Any) -> bool:
    return not isinstance(value, str) or len(value) <= _LONGEST_TEXT
