"""A source for Delta tables, whose data files are the splits."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow.fs import LocalFileSystem

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.adapt_columns import as_arrow_type, match_fields
from penstock.operators.common.arrow_types import arrow_type, type_info_of_arrow
from penstock.operators.common.pickles import identify_value
from penstock.operators.common.typeinfo import RowTypeInfo
from penstock.operators.connectors.commit_delta import open_delta
from penstock.operators.connectors.delta_columns import (
    fields_of,
    holds_variant,
    mapping_mode,
    reasons_of_mode,
    stored_columns,
)
from penstock.operators.connectors.source import Source
from penstock.operators.exchange.blocks import values_of_batch
from penstock.operators.files.filesystem import filesystem_of
from penstock.operators.files.lines import FileSplit, balanced
from penstock.operators.formats.csv_files import CHUNK_VALUES, Chunk, StampedBatch, chunks_of
from penstock.operators.formats.data_types import as_row_type
from penstock.operators.formats.parquet_files import open_parquet, require_proleptic

#: The supported features that a table may require of its readers.
READABLE_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",  # deltalake declares it even for tables without such columns
        "variantType-preview",
    }
)


class DeltaFile(NamedTuple):
    """The details of a data file besides its bytes."""

    partition: pa.RecordBatch | None  #: one row with the values of the partition columns
    deleted: npt.NDArray[np.int64] | None  #: numbers of the rows that a deletion vector removes


class DeltaSource(Source):
    """Reads the rows of a Delta table, at one version.

    Rows that deletion vectors delete are omitted; columns that a file lacks are null.

    Args:
        path: Path or URI of the table.
        version: 0 or more; default: the newest when the source is made.
        storage_options: Options of deltalake, such as credentials.

    Raises:
        ValueError: The table uses an unsupported feature, has a column of variants, or its log cannot be
            read.
        TypeError: No type stands for a column.
        TableNotFoundError: There is no table (deltalake).
    """

    has_batches = True

    def __init__(
        self, path: str, *, version: int | None = None, storage_options: dict[str, str] | None = None
    ) -> None:
        super().__init__()
        table = self._open(path, version, storage_options)
        _require_readable(table, path)
        self.path, self.version, self.storage_options = path, table.version(), storage_options
        self.schema = pa.schema(table.schema().to_arrow())
        self.stored = stored_columns(table, self.schema)
        self.has_field_ids = mapping_mode(table) == "id"
        self.type_info: RowTypeInfo = as_row_type(type_info_of_arrow(self.schema))

    def fingerprint(self) -> str:
        """Return a text that differs for another table, version or list of data files."""
        table = self._table()
        files = sorted(pa.table(table.get_add_actions()).column("path").to_pylist())
        return identify_value([str(table.metadata().id), self.path, self.version, files])

    def splits(self, parallelism: int) -> list[list[FileSplit]]:
        table = self._table()
        files = pa.table(table.get_add_actions())
        partitioned = "partition" in files.column_names
        partition = files.column("partition").combine_chunks() if partitioned else None
        deleted = _deleted_rows(table)
        system, base = filesystem_of(self.path)
        root = base if isinstance(system, LocalFileSystem) else self.path
        splits = []
        for number, path in enumerate(files.column("path").to_pylist()):
            values = None
            if partition is not None:
                values = pa.RecordBatch.from_struct_array(partition[number : number + 1])
            place = _place(path, root)
            size = files.column("size_bytes")[number].as_py()
            gone = deleted.pop(_without_scheme(place), None)
            splits.append(FileSplit(place, 0, size, DeltaFile(values, gone)))
        if deleted:
            raise ValueError(
                f"the Delta table {self.path} has deletion vectors of files that it does not list, such as "
                f"{next(iter(deleted))}; read it with Spark and env.from_dataframe"
            )
        return balanced(sorted(splits, key=lambda split: split.path), parallelism)

    def read(self, split: FileSplit, context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        for batch in self._batches(split):
            if self.columnar:
                yield StampedBatch(batch)
            else:
                yield from chunks_of(values_of_batch(batch, self.type_info))

    def _table(self) -> DeltaTable:
        return self._open(self.path, self.version, self.storage_options)

    @staticmethod
    def _open(path: str, version: int | None, storage_options: dict[str, str] | None) -> DeltaTable:
        table = open_delta(path, storage_options, version)
        if table is None:
            raise TableNotFoundError(f"there is no Delta table {path}")
        return table

    def _batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        details: DeltaFile = split.details
        with open_parquet(split.path) as file:
            in_file = [field.name for field in self.stored if field.name in file.schema_arrow.names]
            if self.has_field_ids:
                _require_field_ids(file.schema_arrow, self.stored, split.path)
            start = 0
            for batch in file.iter_batches(CHUNK_VALUES, columns=in_file):
                require_proleptic(file, batch, split.path)
                remaining = _without(batch, details.deleted, start)
                start += batch.num_rows
                if remaining.num_rows:
                    yield self._typed(remaining, details.partition)

    def _typed(self, batch: pa.RecordBatch, partition: pa.RecordBatch | None) -> pa.RecordBatch:
        columns: list[Any] = []
        names = self.type_info.get_field_names()
        for name, stored, field_type in zip(
            names, self.stored, self.type_info.get_field_types(), strict=True
        ):
            expected = arrow_type(field_type)
            if partition is not None and name in partition.schema.names:
                values = pa.repeat(partition.column(name)[0], batch.num_rows)
                columns.append(as_arrow_type(values, expected))
            elif stored.name in batch.schema.names:
                columns.append(as_arrow_type(match_fields(batch.column(stored.name), stored.type), expected))
            else:
                columns.append(pa.nulls(batch.num_rows, expected))
        return pa.RecordBatch.from_arrays(columns, names)


def _place(path: str, root: str) -> str:
    """Return the local path or the URI of a file, from its path in the log.

    That is a URI, or relative to the table. Shallow clones list the files of other tables by URI.
    """
    if path.startswith("file:"):
        return unquote(re.sub("^file:(//[^/]*)?", "", path))
    scheme = re.match(r"[A-Za-z][\w+.-]*:(?=/)", path)
    if scheme is None:
        return posixpath.join(root, path if "://" in root else unquote(path))  # file systems decode URIs
    return path if path.startswith("//", scheme.end()) else f"{scheme[0]}//{path[scheme.end() :]}"


def _without_scheme(place: str) -> str:
    return re.sub(r"^[A-Za-z][\w+.-]*://", "", place)


def _require_field_ids(file: pa.Schema, stored: pa.Schema, path: str) -> None:
    """Raise ValueError if columns of a file lack the ids by which a table of mapping `id` finds them."""
    by_id = {(field.metadata or {}).get(b"PARQUET:field_id"): field.name for field in file}
    for field in stored:
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        if number is not None and by_id.get(number, field.name) != field.name:
            raise ValueError(
                f"{path} has the column {field.name!r} of its table under another name; read the table with "
                "Spark and env.from_dataframe"
            )


def _require_readable(table: DeltaTable, path: str) -> None:
    unknown = sorted(_features(table) - READABLE_FEATURES)
    unknown += sorted({"variantType"} if any(map(holds_variant, fields_of(table.schema()))) else ())
    unknown += reasons_of_mode(table)
    if unknown:
        raise ValueError(
            f"the Delta table {path} uses {', '.join(unknown)}, which is not supported; "
            "read it with Spark and env.from_dataframe"
        )


def _deleted_rows(table: DeltaTable) -> dict[str, npt.NDArray[np.int64]]:
    """Return the deleted rows by the file's place, without a scheme."""
    if "deletionVectors" not in _features(table):
        return {}
    rows_by_path = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for uri, selection in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            mask = selection.values.to_numpy(zero_copy_only=False)
            rows_by_path[_without_scheme(_place(uri, table.table_uri))] = np.flatnonzero(~mask).astype(
                np.int64
            )
    return rows_by_path


def _features(table: DeltaTable) -> set[str]:
    return set(table.protocol().reader_features or ())


def _without(batch: pa.RecordBatch, deleted: npt.NDArray[np.int64] | None, start: int) -> pa.RecordBatch:
    """Return the batch, whose first row is row `start` of the file, without deleted rows."""
    if deleted is None:
        return batch
    first, after = np.searchsorted(deleted, [start, start + batch.num_rows])
    if first == after:
        return batch
    selection = np.ones(batch.num_rows, bool)
    selection[deleted[first:after] - start] = False
    return batch.filter(pa.array(selection))
