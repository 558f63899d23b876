"""DuckDB with the tables of a version of a store as views, and nothing else to read."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from penstock.engine.machine.available_memory import available_memory
from penstock.engine.machine.temporary_folders import short_lived_folder
from penstock.engine.measure.sweep.results_table import ABOUT, ABOUT_QUALITY, RESULTS
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.is_local import local_folder
from penstock.engine.store.open_plan import read_plan, require_intact
from penstock.engine.store.plan_source import tables_of_results
from penstock.engine.store.plan_versions import find_version, tables_of
from penstock.engine.store.require_target import require_columns_to_read
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.version_notes import PlanVersion
from penstock.plans.errors import ConfigurationError
from penstock.plans.tables import TABLES
from penstock.plans.tables.view_columns import view_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# A connection of DuckDB that reads the files that it is given, and nothing else.


_LEAST_BYTES = 2**28
"""DuckDB holds a few blocks for each thread, whatever the query."""

_CLOSED = (
    "SET TimeZone = 'UTC'",
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET lock_configuration = true",
)


@contextmanager
def _duckdb_connection(memory_bytes: int | None = None) -> Iterator["DuckDBPyConnection"]:
    """A connection that is still open to all; see `_close_to_all_but`.

    What does not fit into `memory_bytes` (None: half of what is available) is kept in a temporary folder,
    which is removed in the end.
    """
    import duckdb

    limit = memory_bytes or max(available_memory().size_bytes // 2, _LEAST_BYTES)
    with short_lived_folder("sql") as folder:
        connection = duckdb.connect(config={"memory_limit": f"{limit // 2**20}MiB", "temp_directory": folder})
        try:
            yield connection
        finally:
            connection.close()


def _close_to_all_but(connection: "DuckDBPyConnection", paths: Iterable[str]) -> None:
    """From now on, only these files can be read; Python's variables and extensions are out of reach."""
    readable = sorted({*paths, *map(_without_globs, paths)})
    if readable:
        connection.execute(f"SET allowed_paths = [{', '.join(map(_text, readable))}]")
    for statement in _CLOSED:
        connection.execute(statement)


def _parquet_files(paths: Sequence[str]) -> str:
    """The rows of these files, which have the same columns, in SQL."""
    return f"read_parquet([{_listed(paths)}], hive_partitioning = false)"


def _parquet_files_by_name(paths: Sequence[str]) -> str:
    """The rows of these files, in SQL; what a file has no column for is null."""
    return f"read_parquet([{_listed(paths)}], hive_partitioning = false, union_by_name = true)"


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(_text(_without_globs(path)) for path in paths)


def _without_globs(path: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Which tables a query names.


def mentions(query: str, table: str) -> bool:
    """Whether a query has the name of a table in it: as a table, or as something else of that name."""
    return re.search(rf"\b{table}\b", query, re.IGNORECASE) is not None


# Whether DuckDB can be imported; an installation in place that is older lacks it.


def require_duckdb() -> None:
    """ConfigurationError without DuckDB."""
    try:
        import duckdb  # noqa: F401
    except ImportError as error:
        raise ConfigurationError("DuckDB is not installed", "pip install 'duckdb>=1.5,<2'") from error


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
    with _duckdb_connection(memory_bytes) as connection:
        readable: list[str] = []
        if isinstance(delta, DeltaRsTables):
            require_columns_to_read(store, mentioned)
            with store_errors(store, "reading"):
                readable = _add_views(connection, delta, plan_version, mentioned)
        else:
            for table, rows in read_plan(delta, plan_version.version, mentioned).items() if mentioned else ():
                _add_table(connection, table, rows.toArrow())
        _close_to_all_but(connection, readable)
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
                    f"CREATE VIEW {table} AS SELECT {_selected(table)} FROM {_parquet_files(paths)}"
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


@contextmanager
def open_results(folder: str) -> Iterator[Views]:
    """A view of each table in a folder of results. Raises StoreError for damage."""
    with _duckdb_connection() as connection:
        readable: list[str] = []
        with store_errors(folder, "reading"):
            for table in tables_of_results(folder):
                place = local_folder(folder, table)
                uris = DeltaTable(place).get_add_actions(flatten=True)
                paths = [os.path.join(place, path) for path in pa.table(uris)["path"].to_pylist()]
                if paths:
                    connection.execute(
                        f"CREATE VIEW {table} AS SELECT * FROM {_parquet_files_by_name(paths)}"
                    )
                    readable += paths
        _close_to_all_but(connection, readable)
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
