"""The format of Parquet files for the file source, and PyFlink's names for it and for the sink.

Source: pyflink.datastream.formats.parquet,
org.apache.flink.formats.parquet.{ParquetColumnarRowInputFormat,row.ParquetRowDataBuilder}.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from penstock.operators.common.adapt_columns import as_arrow_type, match_fields, share_fields
from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.arrow_types import arrow_type, type_info_of_arrow
from penstock.operators.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.operators.files.filesystem import FileEntry, filesystem_of
from penstock.operators.files.lines import FileSplit
from penstock.operators.formats.csv_files import BulkFormat, check_rows
from penstock.operators.formats.data_types import as_row_type
from penstock.operators.formats.part_formats import ParquetFormat, PartFormat, RowDataBulkWriterFactory

_BATCH_ROWS = 4096


class ParquetRows(BulkFormat):
    """Rows of Parquet files, with the columns named by `type_info` as values of its types.

    Fields of structs are matched by name as well, and are null if a file lacks them; structs that share no
    name are matched in order. INT96 timestamps are read to the microsecond. Big files are cut between row
    groups. With `missing_as_null`, a column that a file lacks is null, instead of a ValueError. Raises
    ValueError, TypeError or ArrowInvalid if a column has other values than the type.
    """

    def __init__(
        self,
        type_info: RowTypeInfo,
        *,
        batch_size: int = _BATCH_ROWS,
        case_sensitive: bool = True,
        missing_as_null: bool = False,
    ) -> None:
        super().__init__()
        self.type_info: RowTypeInfo = as_row_type(type_info)
        self.batch_size, self.case_sensitive = batch_size, case_sensitive
        self.missing_as_null = missing_as_null

    def cut(self, file: FileEntry, piece: int) -> list[FileSplit]:
        if file.size <= piece:
            return [FileSplit(file.path, 0, file.size)]
        splits: list[FileSplit] = []
        groups: list[int] = []
        start = size = 0
        with open_parquet(file.path) as opened:
            metadata = opened.metadata
            for number in range(metadata.num_row_groups):
                groups.append(number)
                size += _stored_bytes(metadata.row_group(number))
                if size >= piece or number + 1 == metadata.num_row_groups:
                    splits.append(FileSplit(file.path, start, size, tuple(groups)))
                    start, size, groups = start + size, 0, []
        return splits

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        names = self.type_info.get_field_names()
        with open_parquet(split.path) as opened:
            columns = self._columns(opened.schema_arrow.names, split.path)
            groups = None if split.details is None else list(split.details)
            wanted = [column for column in columns if column is not None]
            for batch in opened.iter_batches(self.batch_size, row_groups=groups, columns=wanted):
                if batch.num_rows:
                    require_proleptic(opened, batch, split.path)
                    yield as_typed(batch, columns, names, self.type_info.get_field_types())

    def _columns(self, file_columns: list[str], path: str) -> list[str | None]:
        """Return the file's column of each field, None if it has none."""
        by_name = {name if self.case_sensitive else name.lower(): name for name in file_columns}
        columns = [
            by_name.get(name if self.case_sensitive else name.lower())
            for name in self.type_info.get_field_names()
        ]
        if None in columns and not self.missing_as_null:
            lacking = self.type_info.get_field_names()[columns.index(None)]
            raise ValueError(f"{path} must have the column {lacking!r}, got {file_columns}")
        return columns


def as_typed(
    batch: pa.RecordBatch, columns: list[str | None], names: list[str], types: list[TypeInformation]
) -> pa.RecordBatch:
    """Return a batch of the fields `names`, each from a column of the batch, or nulls for None."""
    arrays = []
    for column, field_type in zip(columns, types, strict=True):
        expected = arrow_type(field_type)
        if column is None:
            arrays.append(pa.nulls(batch.num_rows, expected))
        else:
            values = batch.column(column)
            # fields of other names are matched by their order
            if share_fields(values.type, expected):
                values = match_fields(values, expected)
            arrays.append(as_arrow_type(values, expected))
    return pa.RecordBatch.from_arrays(arrays, names)


def type_of_parquet(path: str) -> RowTypeInfo:
    """Return the type of a file's rows. Raises TypeError for columns without a corresponding type."""
    with open_parquet(path) as opened:
        return as_row_type(type_info_of_arrow(opened.schema_arrow))


class ParquetColumnarRowInputFormat(ParquetRows):
    """PyFlink's name of the format. A column that a file lacks is null.

    `hadoop_config` is accepted and not used. Timestamps are read unchanged, whatever the value of
    `is_utc_timestamp`; timestamps with a time zone become UTC if the type has none.
    """

    def __init__(
        self,
        row_type: RowTypeInfo,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        super().__init__(
            row_type, batch_size=batch_size, case_sensitive=is_case_sensitive, missing_as_null=True
        )


class ParquetRowsFormat(ParquetFormat):
    """Parquet files of rows."""

    def for_type(self, type_info: TypeInformation | None) -> PartFormat:
        """Return this format. Raises TypeError for streams other than rows with as many fields."""
        check_rows(type_info, len(self.schema))
        return self


class ParquetBulkWriters:
    """Creates the factory of Parquet files for FileSink.for_bulk_format."""

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo, hadoop_config: Any = None, utc_timestamp: bool = False
    ) -> RowDataBulkWriterFactory:
        """Make the factory of Parquet files, compressed by Snappy.

        Args:
            row_type: Type of the rows.
            hadoop_config: Without effect.
            utc_timestamp: Without effect: timestamps are written unchanged, and instants in UTC.

        Returns:
            RowDataBulkWriterFactory: For `FileSink.for_bulk_format`.

        Raises:
            TypeError: Not a row type.
        """
        return RowDataBulkWriterFactory(ParquetRowsFormat(as_row_type(row_type)), row_type)


class AvroParquetReaders:
    """Not supported: Avro's records are Java objects."""

    @staticmethod
    def for_generic_record(schema: Any) -> NoReturn:
        """Refuse Avro records, which are Java objects.

        Args:
            schema: Not read.

        Raises:
            NoJavaError: Always; ParquetColumnarRowInputFormat is supported.
        """
        raise NoJavaError(
            "AvroParquetReaders.for_generic_record requires Avro's Java classes; supported is "
            "ParquetColumnarRowInputFormat"
        )


class AvroParquetWriters:
    """Not supported: Avro's records are Java objects."""

    @staticmethod
    def for_generic_record(schema: Any) -> NoReturn:
        """Refuse Avro records, which are Java objects.

        Args:
            schema: Not read.

        Raises:
            NoJavaError: Always; `ParquetBulkWriters.for_row_type` is supported.
        """
        raise NoJavaError(
            "AvroParquetWriters.for_generic_record requires Avro's Java classes; supported is "
            "ParquetBulkWriters.for_row_type"
        )


def open_parquet(path: str) -> pq.ParquetFile:
    """Open a Parquet file, with its INT96 timestamps, Spark's default, to the microsecond.

    In nanoseconds, Arrow's default, times before 1677 and after 2262 would be wrong.
    """
    system, inside = filesystem_of(path)
    return pq.ParquetFile(system.open_input_file(inside), pre_buffer=False, coerce_int96_timestamp_unit="us")


_LEGACY_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Keys of Spark's files whose old times are in the Julian calendar, and in the time zones of that era."""
_FIRST_DATE = datetime.date(1582, 10, 15)
_FIRST_TIMESTAMP = datetime.date(1900, 1, 1)


def require_proleptic(file: pq.ParquetFile, batch: pa.RecordBatch, path: str) -> None:
    """Raise ValueError for old times that Spark has written in the Julian calendar.

    Source: org.apache.spark.sql.execution.datasources.DataSourceUtils of Spark.
    """
    if any(key in (file.metadata.metadata or {}) for key in _LEGACY_CALENDAR):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if any(map(_is_old, _leaves(column))):
                raise ValueError(
                    f"{path}: the column {name!r} has dates before {_FIRST_DATE} or timestamps before "
                    f"{_FIRST_TIMESTAMP} that Spark has written with rebase mode LEGACY; read the file with "
                    "Spark and env.from_dataframe"
                )


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    if kinds.is_struct(column.type):
        for at in range(column.type.num_fields):
            yield from _leaves(column.field(at))
    elif kinds.is_map(column.type):
        yield from _leaves(column.keys)
        yield from _leaves(column.items)
    elif kinds.is_list(column.type):
        yield from _leaves(column.flatten())
    else:
        yield column


def _is_old(column: pa.Array) -> bool:
    if kinds.is_timestamp(column.type):
        limit = pa.scalar(_FIRST_TIMESTAMP).cast(column.type)
    elif kinds.is_date(column.type):
        limit = pa.scalar(_FIRST_DATE).cast(column.type)
    else:
        return False
    first = pc.min(column)
    return first.is_valid and bool(pc.less(first, limit).as_py())


def _stored_bytes(row_group: Any) -> int:
    return sum(row_group.column(at).total_compressed_size for at in range(row_group.num_columns))
