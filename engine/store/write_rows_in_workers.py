"""Write rows of DataFrames to Parquet files of a local store, in Spark's Python workers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.spark.describe_spark_error import CANNOT_WRITE_TO_STORE
from penstock.engine.store.data_files import OpenFile
from penstock.engine.store.store_tables import in_files, require_rows
from penstock.plans.frames.packed_blocks import Batches, PackedTables, Parts
from penstock.plans.frames.spark_frames import with_null_lists, without_null_lists
from penstock.plans.frames.spark_schemas import conform
from penstock.plans.tables import TABLES

# Re-plan a DataFrame in a session with other settings.


_CLONES: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
"""A session to its clone: by default, the Python workers of a session serve no other session."""

_LOCK = Lock()


def with_settings(rows: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    """Re-plan `rows`, which are not planned yet, with `settings` over the session's.

    The session itself is unchanged: Spark reads settings when it plans a query, and another thread may be
    planning in the same session. Concurrent callers must want the same settings.
    """
    java: Any = rows.sparkSession._jsparkSession
    jvm: Any = rows.sparkSession._jvm
    with _LOCK:
        if rows.sparkSession not in _CLONES:
            _CLONES[rows.sparkSession] = java.cloneSession()
        clone = _CLONES[rows.sparkSession]
        wanted = jvm.java.util.HashMap(java.sessionState().conf().settings())
        wanted.putAll(dict(settings))
        clone_settings = clone.sessionState().conf().settings()
        clone_settings.putAll(wanted)
        clone_settings.keySet().retainAll(wanted.keySet())  # drop settings that the session no longer has
    dataset = getattr(jvm.org.apache.spark.sql.classic, "Dataset$").__getattr__("MODULE$")
    return DataFrame(dataset.ofRows(clone, rows._jdf.logicalPlan()), rows.sparkSession)


WRITTEN = "table string, path string, rows long"
"""One row per file: its table, its path in the table's folder, and its number of rows."""

BYTES_OF_A_ROW_GROUP = 2**25
"""Bytes buffered before they are written, unless ROWS_OF_A_ROW_GROUP are reached first."""

ROWS_OF_A_ROW_GROUP = 131_072

_WRITTEN = pa.schema([("table", pa.string()), ("path", pa.string()), ("rows", pa.int64())])


def write_rows(rows: DataFrame, table: str, folder: str, inside: str) -> DataFrame:
    """Return WRITTEN, one row for each partition of `rows` that is not empty; computing it writes the files.

    They are durable, and in the subfolder `inside` of the table's `folder`. A task that is run again leaves
    files that no row names. Raises SchemaError if the columns differ from the declared ones.
    """
    sent = without_null_lists(conform(rows, table), TABLES[table])
    return sent.mapInArrow(_write_batches(table, folder, inside), WRITTEN)


def write_packed(packed: PackedTables, folders: Mapping[str, str], inside: str) -> DataFrame:
    """Return WRITTEN for all tables in `folders` at once; see `write_rows`.

    Consecutive parts of a table in a partition become one file.
    """
    return packed.rows.mapInArrow(_write_packed(packed.parts, folders, inside), WRITTEN)


def write_part(
    folders: Mapping[str, str], inside: str, table: str, parts: Iterable[pa.Table]
) -> tuple[str, int]:
    """Write `parts` of a table to one file of it; its path in the table's folder, and how many rows it has.

    The file is durable. Raises OSError that says CANNOT_WRITE_TO_STORE.
    """
    (written,) = _write_parts(((table, part) for part in parts), folders, inside)
    return written["path"][0].as_py(), written["rows"][0].as_py()


def _write_batches(table: str, folder: str, inside: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = (with_null_lists(batch, TABLES[table]) for batch in batches if len(batch))
        parts = ((table, pa.Table.from_batches([batch])) for batch in rows)
        yield from _write_parts(parts, {table: folder}, inside)

    return run


def _write_packed(
    parts: Parts, folders: Mapping[str, str], inside: str
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from _write_parts(parts(batches, folders.keys()), folders, inside)

    return run


def _write_parts(
    parts: Iterable[tuple[str, pa.Table]], folders: Mapping[str, str], inside: str
) -> Iterator[pa.RecordBatch]:
    """Write parts, each of one table, to one file for each run of parts of the same table.

    Raises OSError whose text contains CANNOT_WRITE_TO_STORE.
    """
    file: _File | None = None
    try:
        for table, rows in parts:
            if file is not None and file.table != table:
                yield file.close()
                file = None
            if file is None:
                file = _File(table, OpenFile(folders[table], inside, in_files(table)))
            file.add(rows)
        if file is not None:
            yield file.close()
            file = None
    except OSError as error:
        raise OSError(error.errno, f"{CANNOT_WRITE_TO_STORE}: {error}") from error
    finally:
        if file is not None:
            file.abandon()


class _File:
    """A file of `table`, and buffered rows that are not yet a row group."""

    def __init__(self, table: str, file: OpenFile) -> None:
        self.table = table
        self._file = file
        self._buffer: list[pa.Table] = []
        self._buffered_rows = self._buffered_bytes = self._rows = 0

    def add(self, rows: pa.Table) -> None:
        require_rows(rows, self.table)
        self._buffer.append(rows)
        self._buffered_rows += len(rows)
        self._buffered_bytes += int(rows.nbytes)
        if self._buffered_rows >= ROWS_OF_A_ROW_GROUP or self._buffered_bytes >= BYTES_OF_A_ROW_GROUP:
            self._write()

    def close(self) -> pa.RecordBatch:
        if self._buffer:
            self._write()
        values = [[self.table], [self._file.close()], [self._rows]]
        return pa.RecordBatch.from_arrays([pa.array(value) for value in values], schema=_WRITTEN)

    def abandon(self) -> None:
        self._file.abandon()

    def _write(self) -> None:
        schema = in_files(self.table)
        self._file.write(pa.concat_tables(self._buffer).select(schema.names).cast(schema).combine_chunks())
        self._rows += self._buffered_rows
        self._buffer, self._buffered_rows, self._buffered_bytes = [], 0, 0
