"""DuckDB with the tables of a version of a store as views, and nothing else to read."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from penstock.engine.measure.sweep.results_table import ABOUT, ABOUT_QUALITY, QUALITY, RESULTS
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.manifest import MANIFEST, PlanVersion
from penstock.engine.store.open_plan import read_plan, require_intact
from penstock.engine.store.plan_versions import find_version
from penstock.engine.store.require_columns import require_columns_to_read
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.tables_of import tables_of
from penstock.engine.views.sql.duckdb_connection import (
    close_to_all_but,
    duckdb_connection,
    mentions,
    parquet_files,
    parquet_files_by_name,
)
from penstock.plans.tables import TABLES
from penstock.plans.tables.view_columns import view_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Views(NamedTuple):
    """A connection whose views are the tables of `version`, or other tables (None)."""

    connection: "DuckDBPyConnection"
    version: PlanVersion | None


@contextmanager
def open_views(
    store: str, version: int | None, query: str, memory_bytes: int | None = None
) -> Iterator[Views]:
    """Views of a version (None: the newest) for `query`: tables that it mentions are checked first.

    DuckDB may read the files of the version, and no others. `memory_bytes`: see duckdb_connection. Raises
    StoreError: not a store, no such version, damage.
    """
    delta = tables_of(store)
    plan_version = find_version(delta, version)
    mentioned = [table for table in plan_version.tables if mentions(query, table)]
    require_intact(delta, plan_version, mentioned)
    with duckdb_connection(memory_bytes) as connection:
        readable: list[str] = []
        if isinstance(delta, DeltaRsTables):
            require_columns_to_read(store, mentioned)
            with store_errors(store, "reading"):
                readable = _add_views(connection, delta, plan_version, mentioned)
        else:
            for table, rows in read_plan(delta, plan_version.version, mentioned).items() if mentioned else ():
                _add_table(connection, table, rows.toArrow())
        close_to_all_but(connection, readable)
        yield Views(connection, plan_version)


def _add_views(
    connection: "DuckDBPyConnection", delta: DeltaRsTables, version: PlanVersion, mentioned: Sequence[str]
) -> list[str]:
    """A view of each table over its files; the files. Tables that are damaged and not mentioned get none."""
    import duckdb

    readable: list[str] = []
    passed_over: tuple[type[BaseException], ...] = (duckdb.Error, *delta.errors)
    for table in version.tables:
        with suppress(*(passed_over if table not in mentioned else ())):
            recorded = version.files_of(table)
            files = delta.listed_files(table, version.write_id) if recorded is None else recorded
            folder = local_folder(delta.store, table)
            paths = [os.path.join(folder, file.path) for file in files or ()]
            if paths:
                connection.execute(
                    f"CREATE VIEW {table} AS SELECT {_selected(table)} FROM {parquet_files(paths)}"
                )
                readable += paths
            else:
                _add_table(connection, table, TABLES[table].empty_table())
    return readable


def _add_table(connection: "DuckDBPyConnection", table: str, rows: pa.Table) -> None:
    """A table with `rows`, which DuckDB holds and spills itself."""
    source = f"given_{table}"
    connection.register(source, rows)
    connection.execute(f"CREATE TABLE {table} AS SELECT {_selected(table)} FROM {source}")
    connection.unregister(source)


def _selected(table: str) -> str:
    return ", ".join(f'"{stored}" AS "{name}"' for stored, name in view_columns(table).items())


# DuckDB with the tables of results, of `penstock sweep` and `penstock bench`, as views.


_RESULTS = (RESULTS, QUALITY)
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
    columns = []
    for table in tables_of_results(folder):
        with store_errors(folder, "reading"):
            schema = pa.schema(DeltaTable(local_folder(folder, table)).schema().to_arrow())
        for field in schema:
            about = ABOUT if table == RESULTS else ABOUT_QUALITY
            _, meaning = about.get(field.name, (None, "")) if "cell" in schema.names else (None, "")
            columns.append((table, field.name, field.type, meaning))
    return columns
