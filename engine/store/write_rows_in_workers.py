"""Rows of DataFrames to Parquet files of a local store, written by Spark's Python workers."""

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

# Re-plans a DataFrame in a session with other settings.


_BESIDE: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
"""A session to the one beside it: the Python workers of a session serve no other, by default."""

_LOCK = Lock()


def with_settings(rows: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    """`rows`, which are not planned yet, planned with `settings` over those of their session.

    The session stays as it is: Spark reads settings when it plans a query, and another thread may plan one of
    the same session then. All callers at a time must want the same settings.
    """
    java: Any = rows.sparkSession._jsparkSession
    jvm: Any = rows.sparkSession._jvm
    with _LOCK:
        if rows.sparkSession not in _BESIDE:
            _BESIDE[rows.sparkSession] = java.cloneSession()
        beside = _BESIDE[rows.sparkSession]
        wanted = jvm.java.util.HashMap(java.sessionState().conf().settings())
        wanted.putAll(dict(settings))
        settings_beside = beside.sessionState().conf().settings()
        settings_beside.putAll(wanted)
        settings_beside.keySet().retainAll(wanted.keySet())  # what the session had before and has no more
    dataset = getattr(jvm.org.apache.spark.sql.classic, "Dataset$").__getattr__("MODULE$")
    return DataFrame(dataset.ofRows(beside, rows._jdf.logicalPlan()), rows.sparkSession)


WRITTEN = "table string, path string, rows long"
"""One row per file: the table that it is of, its path in the table's folder, and how many rows it has."""

BYTES_OF_A_ROW_GROUP = 2**25
"""How much is kept before it is written, unless ROWS_OF_A_ROW_GROUP are fewer bytes."""

ROWS_OF_A_ROW_GROUP = 131_072

_WRITTEN = pa.schema([("table", pa.string()), ("path", pa.string()), ("rows", pa.int64())])


def write_rows(rows: DataFrame, table: str, folder: str, inside: str) -> DataFrame:
    """WRITTEN, one row for each partition of `rows` that is not empty; computing it writes the files.

    They are durable, and in the subfolder `inside` of the table's `folder`. A task that is run again leaves
    files that no row names. Raises SchemaError where columns are not those declared.
    """
    sent = without_null_lists(conform(rows, table), TABLES[table])
    return sent.mapInArrow(_write_batches(table, folder, inside), WRITTEN)


def write_packed(packed: PackedTables, folders: Mapping[str, str], inside: str) -> DataFrame:
    """As `write_rows`, for all tables in `folders` at once.

    The parts of a table become one file as long as they follow one another in a partition.
    """
    return packed.rows.mapInArrow(_write_packed(packed.parts, folders, inside), WRITTEN)


def write_part(
    folders: Mapping[str, str], inside: str, table: str, parts: Iterable[pa.Table]
) -> tuple[str, int]:
    """Write `parts` of a table to one file of it; its path in the table's folder, and how many rows it has.

    The file is durable. Raises OSError that says CANNOT_WRITE_TO_STORE.
    """
    (written,) = _written(((table, part) for part in parts), folders, inside)
    return written["path"][0].as_py(), written["rows"][0].as_py()


def _write_batches(table: str, folder: str, inside: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = (with_null_lists(batch, TABLES[table]) for batch in batches if len(batch))
        parts = ((table, pa.Table.from_batches([batch_of_rows])) for batch_of_rows in rows)
        yield from _written(parts, {table: folder}, inside)

    return run


def _write_packed(
    parts: Parts, folders: Mapping[str, str], inside: str
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from _written(parts(batches, folders.keys()), folders, inside)

    return run


def _written(
    parts: Iterable[tuple[str, pa.Table]], folders: Mapping[str, str], inside: str
) -> Iterator[pa.RecordBatch]:
    """Write parts, each of one table, to a file for each run of parts of the same table.

    Raises OSError that says CANNOT_WRITE_TO_STORE.
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
    """A file of `table`, and the rows that are not yet a row group of it."""

    def __init__(self, table: str, file: OpenFile) -> None:
        self.table = table
        self._file = file
        self._kept: list[pa.Table] = []
        self._kept_rows = self._kept_bytes = self._rows = 0

    def add(self, rows: pa.Table) -> None:
        require_rows(rows, self.table)
        self._kept.append(rows)
        self._kept_rows += len(rows)
        self._kept_bytes += int(rows.nbytes)
        if self._kept_rows >= ROWS_OF_A_ROW_GROUP or self._kept_bytes >= BYTES_OF_A_ROW_GROUP:
            self._write()

    def close(self) -> pa.RecordBatch:
        if self._kept:
            self._write()
        values = [[self.table], [self._file.close()], [self._rows]]
        return pa.RecordBatch.from_arrays([pa.array(value) for value in values], schema=_WRITTEN)

    def abandon(self) -> None:
        self._file.abandon()

    def _write(self) -> None:
        schema = in_files(self.table)
        self._file.write(pa.concat_tables(self._kept).select(schema.names).cast(schema).combine_chunks())
        self._rows += self._kept_rows
        self._kept, self._kept_rows, self._kept_bytes = [], 0, 0
