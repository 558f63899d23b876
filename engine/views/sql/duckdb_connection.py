"""A connection of DuckDB that reads the files that it is given, and nothing else."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.engine.machine.available_memory import available_memory
from penstock.engine.machine.temporary_folders import short_lived_folder
from penstock.plans.errors import ConfigurationError

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


@contextmanager
def duckdb_connection(memory_bytes: int | None = None) -> Iterator["DuckDBPyConnection"]:
    """A connection that is still open to all; see `close_to_all_but`.

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


def close_to_all_but(connection: "DuckDBPyConnection", paths: Iterable[str]) -> None:
    """From now on, only these files can be read; Python's variables and extensions are out of reach."""
    readable = sorted({*paths, *map(_without_globs, paths)})
    if readable:
        connection.execute(f"SET allowed_paths = [{', '.join(map(_text, readable))}]")
    for statement in _CLOSED:
        connection.execute(statement)


def parquet_files(paths: Sequence[str]) -> str:
    """The rows of these files, which have the same columns, in SQL."""
    return f"read_parquet([{_listed(paths)}], hive_partitioning = false)"


def parquet_files_by_name(paths: Sequence[str]) -> str:
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
