"""DuckDB with the tables of a version of a store as views, and nothing else to read."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from engine.machine.available_memory import available_memory
from engine.sql.mentions import mentions
from engine.store.delta_rs_tables import DeltaRsTables
from engine.store.is_local import local_folder
from engine.store.manifest import PlanVersion
from engine.store.plan_versions import find_version
from engine.store.read_plan import read_plan, require_intact
from engine.store.require_columns import require_columns_to_read
from engine.store.store_errors import store_errors
from engine.store.tables_of import tables_of
from plans.tables import TABLES
from plans.tables.view_columns import view_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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


class Views(NamedTuple):
    """A connection whose views are the tables of `version`."""

    connection: "DuckDBPyConnection"
    version: PlanVersion


@contextmanager
def open_views(
    store: str, version: int | None, query: str, memory_bytes: int | None = None
) -> Iterator[Views]:
    """Views of a version (None: the newest) for `query`: tables that it mentions are checked first.

    What does not fit into `memory_bytes` (None: half of what is available) is kept in a temporary folder,
    which is removed in the end. DuckDB may read the files of the version, and no others; Python's variables
    and extensions are out of reach. Raises StoreError: not a store, no such version, damage.
    """
    import duckdb

    delta = tables_of(store)
    found = find_version(delta, version)
    mentioned = [table for table in found.tables if mentions(query, table)]
    require_intact(delta, found, mentioned)
    limit = memory_bytes or max(available_memory().size_bytes // 2, _LEAST_BYTES)
    with TemporaryDirectory(prefix="penstock-sql-", ignore_cleanup_errors=True) as folder:
        connection = duckdb.connect(config={"memory_limit": f"{limit // 2**20}MiB", "temp_directory": folder})
        try:
            if isinstance(delta, DeltaRsTables):
                require_columns_to_read(store, mentioned)
                with store_errors(store, "reading"):
                    _add_views(connection, delta, found, mentioned)
            else:
                for table, rows in read_plan(delta, found.version, mentioned).items() if mentioned else ():
                    _add_table(connection, table, rows.toArrow())
            for statement in _CLOSED:
                connection.execute(statement)
            yield Views(connection, found)
        finally:
            connection.close()


def _add_views(
    connection: "DuckDBPyConnection", delta: DeltaRsTables, version: PlanVersion, mentioned: Sequence[str]
) -> None:
    """A view of each table over its files; tables that are not mentioned, and damaged, get none."""
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
                listed = ", ".join(_text(_without_globs(path)) for path in paths)
                connection.execute(
                    f"CREATE VIEW {table} AS SELECT {_selected(table)} "
                    f"FROM read_parquet([{listed}], hive_partitioning = false)"
                )
                readable += {*paths, *map(_without_globs, paths)}
            else:
                _add_table(connection, table, TABLES[table].empty_table())
    allowed = ", ".join(_text(path) for path in readable)
    connection.execute(f"SET allowed_paths = [{allowed}]")


def _add_table(connection: "DuckDBPyConnection", table: str, rows: pa.Table) -> None:
    """A table with `rows`, which DuckDB holds and spills itself."""
    given = f"given_{table}"
    connection.register(given, rows)
    connection.execute(f"CREATE TABLE {table} AS SELECT {_selected(table)} FROM {given}")
    connection.unregister(given)


def _selected(table: str) -> str:
    return ", ".join(f'"{stored}" AS "{name}"' for stored, name in view_columns(table).items())


def _without_globs(path: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
