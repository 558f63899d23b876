"""DuckDB with the tables of results, of `penstock sweep` and `penstock bench`, as views."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable

from penstock.engine.sql.duckdb_connection import close_to_all_but, duckdb_connection, parquet_files_by_name
from penstock.engine.sql.open_views import Views
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.manifest import MANIFEST
from penstock.engine.store.store_errors import store_errors
from penstock.engine.sweep.results_table import RESULTS, SCHEMA
from penstock.plans.tables.column_types import COMMENT

_RESULTS = (RESULTS, "quality")
"""Tables that sweeps and benchmarks write."""


def tables_of_results(folder: str) -> list[str]:
    """The tables in a folder of results; none if it is something else."""
    if not is_local(folder):
        return []
    place = local_folder(folder)
    if os.path.isdir(os.path.join(place, MANIFEST)):
        return []
    return [table for table in _RESULTS if os.path.isdir(os.path.join(place, table, "_delta_log"))]


@contextmanager
def open_results(folder: str) -> Iterator[Views]:
    """A view of each table in a folder of results. Raises StoreError for damage."""
    with duckdb_connection() as connection:
        readable: list[str] = []
        with store_errors(folder, "reading"):
            for table in tables_of_results(folder):
                place = local_folder(folder, table)
                uris = DeltaTable(place).get_add_actions(flatten=True)
                paths = [os.path.join(place, path) for path in pa.table(uris)["path"].to_pylist()]
                if paths:
                    connection.execute(f"CREATE VIEW {table} AS SELECT * FROM {parquet_files_by_name(paths)}")
                    readable += paths
        close_to_all_but(connection, readable)
        yield Views(connection, None)


def columns_of_results(folder: str) -> list[tuple[str, str, pa.DataType, str]]:
    """Table, column, type and meaning of all that a folder of results holds."""
    found = []
    for table in tables_of_results(folder):
        with store_errors(folder, "reading"):
            schema = pa.schema(DeltaTable(local_folder(folder, table)).schema().to_arrow())
        for field in schema:
            known = (
                SCHEMA.field(field.name).metadata
                if field.name in SCHEMA.names and "cell" in schema.names
                else {}
            )
            found.append((table, field.name, field.type, known.get(COMMENT, b"").decode()))
    return found
