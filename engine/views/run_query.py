"""Run one query that reads; its rows come while they are made."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
from deltalake import DeltaTable

from penstock.engine.machine.available_memory import available_memory
from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.machine.state_folder import short_lived_folder
from penstock.engine.measure.sweep.results_table import ABOUT, ABOUT_QUALITY, RESULTS
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.is_local import local_folder
from penstock.engine.store.open_plan import read_plan, require_intact
from penstock.engine.store.plan_source import tables_of_results
from penstock.engine.store.plan_versions import find_version, tables_of
from penstock.engine.store.require_target import require_columns_to_read
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.version_notes import PlanVersion
from penstock.plans.errors import ConfigurationError, NotEnoughMemoryError, PenstockError
from penstock.plans.tables import TABLES
from penstock.plans.tables.view_columns import view_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


# DuckDB with the tables of a version of a store as views, and nothing else to read.


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


def _mentions(query: str, table: str) -> bool:
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
    mentioned = [table for table in plan_version.tables if _mentions(query, table)]
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


# Execution edges of all topologies, one by one, as a query over the views of a version.


MEMORY_BYTES = 2**30
"""Memory limit of joins, whatever the store's size; what exceeds it goes to a temporary folder."""

ALL_EXECUTION_EDGES = """
SELECT topology, data_set_id AS data_set, producer.vertex_id AS source,
    unnest(range(first_partition, last_partition + 1))::INTEGER AS source_subtask,
    reader.vertex_id AS target, subtask AS target_subtask, input_index AS input,
    first_subpartition, last_subpartition
FROM execution_edges
JOIN job_edges USING (topology_id, target_vertex, input_index)
JOIN (SELECT topology_id, vertex AS source_vertex, vertex_id FROM job_vertices) producer
    USING (topology_id, source_vertex)
JOIN (SELECT topology_id, vertex AS target_vertex, vertex_id FROM job_vertices) reader
    USING (topology_id, target_vertex)
JOIN topologies USING (topology_id)
"""
"""The members of `penstock edges` and the topology's name; in any order."""


ROWS_AT_A_TIME = 20_000

_FLOATS = ("DOUBLE", "FLOAT")
_TEXT_OR_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN').sub


class QueryRows(NamedTuple):
    """A query's columns by name, and functions that run it and yield its rows, each in one form."""

    names: list[str]
    texts: Callable[
        [], Iterator[tuple[str | None, ...]]
    ]  #: a row: values as DuckDB writes them, None for NULL
    json_lines: Callable[[], Iterator[str]]  #: a row: a JSON object
    arrow: Callable[[], tuple[pa.Schema, Iterator[pa.RecordBatch]]]


def require_one_select(query: str) -> str:
    """The text of the one statement in `query`, which reads. Raises ConfigurationError."""
    import duckdb

    with query_errors(query):
        statements = duckdb.extract_statements(query)
    if len(statements) != 1:
        raise ConfigurationError(f"found {len(statements)} statements", "give one SELECT")
    (statement,) = statements
    if statement.type != duckdb.StatementType.SELECT:
        raise ConfigurationError(
            f"penstock sql only reads: found a statement of type {statement.type.name}", "give one SELECT"
        )
    return str(statement.query)


@contextmanager
def run_query(views: Views, query: str) -> Iterator[QueryRows]:
    """The rows of `query`, one SELECT. Raises what query_errors raises, here and while rows are taken.

    A signal stops the query.
    """
    connection = views.connection
    with in_thread(connection) as run, query_errors(query, views.version):
        relation: DuckDBPyRelation = run(lambda: connection.sql(query))
        names = list(relation.columns)

        def batches(sql: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
            def start() -> Any:
                return connection.execute(sql).to_arrow_reader(ROWS_AT_A_TIME)

            reader = run(start)

            def taken() -> Iterator[pa.RecordBatch]:
                while (batch := run(lambda: next(reader, None))) is not None:
                    yield batch

            return reader.schema, taken()

        def texts() -> Iterator[tuple[str | None, ...]]:
            wanted = ", ".join(f"#{i}::VARCHAR AS c{i}" for i in range(1, len(names) + 1))
            for batch in batches(relation.project(wanted).sql_query())[1]:
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

        def json_lines() -> Iterator[str]:
            _require_different(names)
            members = [
                _sql_text(f"{', ' if i > 1 else ''}{json.dumps(name, ensure_ascii=False)}: ")
                + f" || coalesce(to_json(#{i})::VARCHAR, 'null')"
                for i, name in enumerate(names, 1)
            ]
            line = f"'{{' || {' || '.join(members)} || '}}' AS line"
            floats = any(name in str(kind) for kind in relation.types for name in _FLOATS)
            for batch in batches(relation.project(line).sql_query())[1]:
                lines = batch.column(0).to_pylist()
                yield from map(_as_json, lines) if floats else lines

        def arrow() -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
            _require_different(names)
            return batches(relation.sql_query())

        yield QueryRows(names, texts, json_lines, arrow)


def _as_json(line: str) -> str:
    """With null for infinity and NaN, in lists and structs too: DuckDB writes them, and JSON has neither."""
    if "NaN" not in line and "Infinity" not in line:
        return line
    return _TEXT_OR_NO_NUMBER(lambda match: match[0] if match[0].startswith('"') else "null", line)


def _require_different(names: list[str]) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ConfigurationError(f"two columns are called {twice!r}", "name them apart with AS")


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# DuckDB in a thread, so that Ctrl-C and SIGTERM stop what runs there.


Result = TypeVar("Result")
_SECONDS_BETWEEN_INTERRUPTS = 0.05


@contextmanager
def in_thread(connection: "DuckDBPyConnection") -> Iterator[Callable[[Callable[[], Result]], Result]]:
    """Yield a function that runs an action of `connection` in a thread, and waits for it.

    A signal that comes meanwhile interrupts the connection: DuckDB itself looks for signals only
    now and then.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="penstock-sql") as pool:

        def run(action: Callable[[], Result]) -> Result:
            future = pool.submit(action)
            try:
                return future.result()
            except BaseException:
                future.cancel()
                # Again and again: an interrupt that comes before DuckDB has begun is lost.
                while not future.done():
                    connection.interrupt()
                    wait([future], _SECONDS_BETWEEN_INTERRUPTS)
                raise

        yield run


# DuckDB's errors as errors that a user can act on, with the closest names.


_TABLE = re.compile(r"Table with name (.+?) does not exist")
_COLUMN = re.compile(r'(?:[Rr]eferenced column|column named|[Cc]olumn) "(.+?)"')
_GUESS = re.compile(r'\nDid you mean ".*?"\?')
"""DuckDB looks through its own catalogue, too."""

_WRAPPED = "unnamed_relation_"
"""In the text that DuckDB runs, which is not the user's."""

_LISTED = "penstock sql STORE --tables lists tables and columns"


@contextmanager
def query_errors(query: str, version: PlanVersion | None = None) -> Iterator[None]:
    """Raise ConfigurationError for what is wrong with a query, NotEnoughMemoryError, or MachineError.

    `version`: the one whose tables the query reads, once it is known.
    """
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise NotEnoughMemoryError(
            f"the query does not fit in memory: {_first_line(error)}",
            "select fewer rows or columns, or free memory; sums and joins spill to TMPDIR, lists do not",
        ) from error
    except duckdb.Error as error:
        if refused := machine_error_in_text(error, "running the query"):
            raise refused from error
        if isinstance(error, duckdb.InternalException | duckdb.FatalException):
            raise PenstockError(f"DuckDB failed: {_first_line(error)}", "please report it") from error
        said = str(error).strip()
        if _WRAPPED in said:
            said = said.partition("\n\nLINE ")[0]
        hint = None if version is None else _hint(said, query, version)
        raise ConfigurationError(_GUESS.sub("", said) if hint else said, hint) from error


def _hint(said: str, query: str, version: PlanVersion) -> str | None:
    if match := _TABLE.search(said):
        named = match[1].strip('"').lower()
        if named in TABLES:
            until = version.options.get("until")
            planned = f" was planned until {until} and" if until else ""
            return f"version {version.version}{planned} has no table {named}; {_LISTED}"
        close = get_close_matches(named, version.tables, n=3, cutoff=0.5)
        return f"tables with close names: {', '.join(close)}" if close else _LISTED
    if match := _COLUMN.search(said):
        named = match[1].lower()
        mentioned = [table for table in version.tables if _mentions(query, table)]
        columns = {table: view_columns(table) for table in mentioned}
        renamed = [
            f"{table}.{known[named]}" for table, known in columns.items() if known.get(named, named) != named
        ]
        if renamed:
            return f"in SQL it is {', '.join(renamed)}; {_LISTED}"
        every = sorted({name for known in columns.values() for name in known.values()})
        close = get_close_matches(named, every, n=3, cutoff=0.6)
        places = [f"{t}.{c}" for c in close for t, known in columns.items() if c in known.values()]
        return f"columns with close names: {', '.join(places[:6])}" if places else _LISTED
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
