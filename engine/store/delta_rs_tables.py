"""The Delta tables of a store through delta-rs (the `deltalake` package): Arrow tables, without a JVM."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from penstock.engine.store.delta_rs_logs import DeltaRsLogs, once
from penstock.engine.store.delta_rs_table import create_table, to_table
from penstock.engine.store.is_local import is_local, local_folder, table_path
from penstock.engine.store.store_tables import (
    WRITE_ID,
    Result,
    append_side_by_side,
    application_id,
    in_files,
    require_rows,
    retry_conflicts,
)
from penstock.engine.store.write_file import make_log_durable, write_file
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.tables import TABLES

_ROWS_AT_A_TIME = 250_000


@dataclass(frozen=True)
class DeltaRsTables(DeltaRsLogs):
    """StoreTables of Arrow tables."""

    def append_all(self, tables: Mapping[str, pa.Table], write_id: str, rows: Mapping[str, int]) -> None:
        """Append the rows of all `tables` under `write_id`. Raises SchemaError."""
        append_side_by_side(self, tables, write_id, rows)

    def append(self, table: str, rows: pa.Table, write_id: str, about_rows: int | None = None) -> None:
        """Append `rows` under `write_id` in one transaction. Raises SchemaError."""
        require_rows(rows, table)
        if is_local(self.store):
            self.append_parts(table, [rows], write_id)
            return
        path = table_path(self.store, table)
        delta_table = create_table(path, table)
        if len(rows) and delta_table.transaction_version(application_id(write_id)) is None:
            tagged = _tagged(rows, table, write_id)
            retry_conflicts(
                self,
                lambda: write_deltalake(path, tagged(), mode="append", commit_properties=once(write_id)),
                f"writing {path}",
            )

    def append_parts(self, table: str, parts: Iterable[pa.Table], write_id: str) -> int:
        """As `append`, of all `parts` in turn, to a table of a local store; how many rows they are."""
        folder, rows = local_folder(self.store, table), 0
        since, is_written = self.before_write(table, write_id)

        def stored_parts() -> Iterator[pa.Table]:
            nonlocal rows
            for part in parts:
                require_rows(part, table)
                rows += len(part)
                yield from as_stored(part, table)

        if not is_written:
            # Not write_deltalake: where the disk is full, it prints a Rust panic.
            stored = stored_parts()
            first = next(stored, None)
            if first is not None:
                inside = f"{WRITE_ID}={write_id}"
                file = write_file(folder, inside, chain([first], stored), in_files(table))
                self.commit_files(table, {file: rows}, write_id)
        make_log_durable(folder, since)
        return rows

    def read(self, table: str, write_id: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of one write, with the declared columns or some of them."""
        names = list(columns or TABLES[table].names)
        schema, path = in_files(table, names), table_path(self.store, table)
        files = self.listed_files(table, write_id) if is_local(self.store) else None
        if files is None:
            return to_table(DeltaTable(path).scan(names, f"{WRITE_ID} = '{write_id}'")).cast(schema)
        folder = local_folder(self.store, table)
        parts = (pq.ParquetFile(os.path.join(folder, file.path)).read(names) for file in files)
        return pa.concat_tables(
            [pa.Table.from_batches([], schema), *(part.select(names).cast(schema) for part in parts)]
        )

    def in_thread(self, action: Callable[..., Result]) -> Callable[..., Result]:
        """`action` as it is."""
        return action

    def count(self, rows: pa.Table) -> int:
        """How many rows there are."""
        return len(rows)

    @without_pandas()
    def among(self, rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
        """The part of `rows` whose key occurs in `others`."""
        known = _counted(others, key)
        keys = zip(*(rows[name].to_pylist() for name in key), strict=True)
        return rows.filter(pa.array([row_key in known for row_key in keys], pa.bool_()))

    def same(self, rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> bool:
        """Whether both have the same values in these columns, each as many times."""
        return _counted(rows, columns) == _counted(others, columns)


def as_stored(rows: pa.Table, table: str) -> Iterator[pa.Table]:
    """Rows with the types of the store, some at a time: casting copies."""
    schema = in_files(table)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        yield rows.slice(start, _ROWS_AT_A_TIME).select(schema.names).cast(schema)


def _tagged(rows: pa.Table, table: str, write_id: str) -> Callable[[], pa.RecordBatchReader]:
    """Rows with their write_id, as often as they are asked for."""
    schema = in_files(table).append(pa.field(WRITE_ID, pa.string(), False))

    def batches() -> Iterator[pa.RecordBatch]:
        for stored in as_stored(rows, table):
            for batch in stored.to_batches():
                columns = [*batch.columns, pa.repeat(write_id, len(batch))]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return lambda: pa.RecordBatchReader.from_batches(schema, batches())


def _counted(table: pa.Table, columns: Sequence[str]) -> Counter[tuple[object, ...]]:
    """Rows to how many of them there are."""
    return Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))
