"""Run a query that reads, and stream its rows."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
from deltalake import DeltaTable

from penstock.engine.machine.available_memory import available_memory
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.measure.sweep.results_table import ABOUT, ABOUT_QUALITY, RESULTS
from penstock.engine.run.streams.open_state import manifest_of, read_state, views_of
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.delta_table import require_columns_to_read
from penstock.engine.store.open_plan import read_plan, require_intact
from penstock.engine.store.plan_source import tables_of_results
from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.store.store_location import locate, store_errors
from penstock.engine.store.store_tables import PlanVersion
from penstock.plans.errors import ConfigurationError, NotEnoughMemoryError, PenstockError
from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.tables import TABLES
from penstock.plans.tables.view_columns import view_columns
from penstock.plans.vocabulary import Layer

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


# DuckDB connections that can read only the given files.


_LEAST_BYTES = 2**28
"""Least memory: DuckDB holds a few blocks for each thread, whatever the query."""

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
    """Open a connection without restrictions; see `_close_to_all_but`.

    Data beyond `memory_bytes` (None: half of the available memory) spills to a temporary folder, which is
    removed at the end.
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
    """Restrict the connection to these files; Python's variables and extensions are out of reach too."""
    readable = sorted({*paths, *map(_without_globs, paths)})
    if readable:
        connection.execute(f"SET allowed_paths = [{', '.join(map(_text, readable))}]")
    for statement in _CLOSED:
        connection.execute(statement)


def _parquet_files(paths: Sequence[str]) -> str:
    """Return SQL that reads the rows of these files, which have equal columns."""
    return f"read_parquet([{_listed(paths)}], hive_partitioning = false)"


def _parquet_files_by_name(paths: Sequence[str]) -> str:
    """Return SQL that reads the rows of these files; columns missing in a file are null."""
    return f"read_parquet([{_listed(paths)}], hive_partitioning = false, union_by_name = true)"


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(_text(_without_globs(path)) for path in paths)


def _without_globs(path: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Tables that a query mentions.


def _mentions(query: str, table: str) -> bool:
    """Return whether a query contains the name of a table, as a table or otherwise."""
    return re.search(rf"\b{table}\b", query, re.IGNORECASE) is not None


# DuckDB may be missing in an older installation in place.


def require_duckdb() -> None:
    """Raise ConfigurationError if DuckDB is not installed."""
    try:
        import duckdb  # noqa: F401
    except ImportError as error:
        raise ConfigurationError("DuckDB is not installed", "pip install 'duckdb>=1.5,<2'") from error


class Views(NamedTuple):
    """A connection with views of tables: of a plan, of results, or the states of a version (plan None)."""

    connection: "DuckDBPyConnection"
    plan: PlanTables | None
    tables: Sequence[str]  #: every name, also of states that the query does not mention


@contextmanager
def open_views(plan: PlanTables, query: str, memory_bytes: int | None = None) -> Iterator[Views]:
    """Open views of a plan's tables for `query`; tables of a store are checked first.

    DuckDB may read only the files of the version. `memory_bytes`: see _duckdb_connection. Raises StoreError
    if a table is damaged.
    """
    if plan.stored is None:
        with _duckdb_connection(memory_bytes) as connection:
            for table in plan.tables:
                _add_table(connection, table, to_arrow(plan.table(table).collect(), table))
            _close_to_all_but(connection, [])
            yield Views(connection, plan, plan.tables)
        return
    delta, plan_version = plan.stored
    mentioned = [table for table in plan_version.tables if _mentions(query, table)]
    require_intact(delta, plan_version, mentioned)
    with _duckdb_connection(memory_bytes) as connection:
        readable: list[str] = []
        if isinstance(delta, DeltaRsTables):
            require_columns_to_read(delta.store, mentioned)
            with store_errors(delta.store, "reading"):
                readable = _add_views(connection, delta, plan_version, mentioned)
        else:
            for table, rows in read_plan(delta, plan_version.version, mentioned).items() if mentioned else ():
                _add_table(connection, table, rows.toArrow())
        _close_to_all_but(connection, readable)
        yield Views(connection, plan, plan.tables)


def _add_views(
    connection: "DuckDBPyConnection", delta: DeltaRsTables, version: PlanVersion, mentioned: Sequence[str]
) -> list[str]:
    """Add a view of each table over its files; return the files. Damaged tables not in the query get none."""
    import duckdb

    readable: list[str] = []
    passed_over: tuple[type[BaseException], ...] = (duckdb.Error, *delta.errors)
    for table in version.tables:
        with suppress(*(passed_over if table not in mentioned else ())):
            recorded = version.files_of(table)
            files = delta.listed_files(table, version.write_id) if recorded is None else recorded
            paths = [delta.store.join(table, file.path) for file in files or ()]
            if paths:
                connection.execute(
                    f"CREATE VIEW {table} AS SELECT {_selected(table)} FROM {_parquet_files(paths)}"
                )
                readable += paths
            else:
                _add_table(connection, table, TABLES[table].empty_table())
    return readable


def _add_table(connection: "DuckDBPyConnection", table: str, rows: pa.Table) -> None:
    """Add a table with `rows`, which DuckDB holds and spills itself."""
    source = f"given_{table}"
    connection.register(source, rows)
    connection.execute(f"CREATE TABLE {table} AS SELECT {_selected(table)} FROM {source}")
    connection.unregister(source)


def _selected(table: str) -> str:
    return ", ".join(f'"{stored}" AS "{name}"' for stored, name in view_columns(table).items())


# DuckDB views of the tables of results of `penstock sweep` and `penstock bench`.


@contextmanager
def open_results(folder: str) -> Iterator[Views]:
    """Open a view of each table in a folder of results. Raises StoreError for damage."""
    tables = tables_of_results(folder)
    with _duckdb_connection() as connection:
        readable: list[str] = []
        with store_errors(folder, "reading"):
            for table in tables:
                place = locate(folder).join(table)
                uris = DeltaTable(place).get_add_actions(flatten=True)
                paths = [os.path.join(place, path) for path in pa.table(uris)["path"].to_pylist()]
                if paths:
                    connection.execute(
                        f"CREATE VIEW {table} AS SELECT * FROM {_parquet_files_by_name(paths)}"
                    )
                    readable += paths
        _close_to_all_but(connection, readable)
        yield Views(connection, None, tables)


@contextmanager
def open_state_views(folder: str, version: int | None, query: str) -> Iterator[Views]:
    """Open a table of each state of a version that the query mentions. Raises StoreError for damage."""
    manifest = manifest_of(folder, version)
    with _duckdb_connection() as connection:
        states = views_of(manifest)
        for name, (state, operator) in states.items():
            if _mentions(query, re.escape(name)):
                connection.register("given", read_state(folder, manifest, state, operator))
                quoted = name.replace('"', '""')
                connection.execute(f'CREATE TABLE "{quoted}" AS SELECT * FROM given')
                connection.unregister("given")
        _close_to_all_but(connection, [])
        yield Views(connection, None, list(states))


def columns_of_state(folder: str, version: int | None) -> list[tuple[str, str, str]]:
    """Return table, column and type of every state of a version."""
    manifest = manifest_of(folder, version)
    return [
        (name, field.name, str(field.type))
        for name, (state, operator) in views_of(manifest).items()
        for field in read_state(folder, manifest, state, operator).schema
    ]


def columns_of_results(folder: str) -> list[tuple[str, str, pa.DataType, str]]:
    """Return table, column, type and meaning of every column in a folder of results."""
    columns = []
    for table in tables_of_results(folder):
        with store_errors(folder, "reading"):
            schema = pa.schema(DeltaTable(locate(folder).join(table)).schema().to_arrow())
        for field in schema:
            about = ABOUT if table == RESULTS else ABOUT_QUALITY
            _, meaning = about.get(field.name, (None, "")) if "cell" in schema.names else (None, "")
            columns.append((table, field.name, field.type, meaning))
    return columns


# Query for the execution edges of all topologies over the views of a version.


MEMORY_BYTES = 2**30
"""Memory limit of joins, independent of the store's size; the rest spills to a temporary folder."""

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
"""Selects the members of `penstock edges` and the topology's name, in any order."""


ROWS_AT_A_TIME = 20_000

_FLOATS = ("DOUBLE", "FLOAT")
_TEXT_OR_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN').sub


class QueryRows(NamedTuple):
    """Columns of a query by name, and functions that run it and yield its rows, each in one form."""

    names: list[str]
    texts: Callable[
        [], Iterator[tuple[str | None, ...]]
    ]  #: yields values of each row as DuckDB writes them, None for NULL
    json_lines: Callable[[], Iterator[str]]  #: yields a JSON object per row
    arrow: Callable[[], tuple[pa.Schema, Iterator[pa.RecordBatch]]]


def require_one_select(query: str) -> str:
    """Return the text of the only statement in `query`, a SELECT. Raises ConfigurationError."""
    import duckdb

    with query_errors(query):
        statements = duckdb.extract_statements(query)
    if len(statements) != 1:
        raise ConfigurationError(f"QUERY must be one SELECT, got {len(statements)} statements")
    (statement,) = statements
    if statement.type != duckdb.StatementType.SELECT:
        raise ConfigurationError(f"QUERY must be a SELECT, got a statement of type {statement.type.name}")
    return str(statement.query)


@contextmanager
def run_query(views: Views, query: str) -> Iterator[QueryRows]:
    """Run `query`, one SELECT, and yield access to its rows. Raises the errors of query_errors, also later.

    A signal stops the query.
    """
    connection = views.connection
    with in_thread(connection) as run, query_errors(query, views):
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
    """Replace infinity and NaN, which DuckDB writes, by null, in lists and structs too: JSON has neither."""
    if "NaN" not in line and "Infinity" not in line:
        return line
    return _TEXT_OR_NO_NUMBER(lambda match: match[0] if match[0].startswith('"') else "null", line)


def _require_different(names: list[str]) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ConfigurationError(f"two columns are called {twice!r}", "rename one with AS")


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# DuckDB in a thread, so that Ctrl-C and SIGTERM stop it.


Result = TypeVar("Result")
_SECONDS_BETWEEN_INTERRUPTS = 0.05


@contextmanager
def in_thread(connection: "DuckDBPyConnection") -> Iterator[Callable[[Callable[[], Result]], Result]]:
    """Yield a function that runs an action of `connection` in a thread, and waits for it.

    A signal interrupts the connection: DuckDB itself checks for signals only now and then.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="penstock-sql") as pool:

        def run(action: Callable[[], Result]) -> Result:
            future = pool.submit(action)
            try:
                return future.result()
            except BaseException:
                future.cancel()
                # Repeatedly, because an interrupt before DuckDB has begun is lost.
                while not future.done():
                    connection.interrupt()
                    wait([future], _SECONDS_BETWEEN_INTERRUPTS)
                raise

        yield run


# DuckDB's errors as errors that a user can act on, with the closest names.


_TABLE = re.compile(r"Table with name (.+?) does not exist")
_COLUMN = re.compile(r'(?:[Rr]eferenced column|column named|[Cc]olumn) "(.+?)"')
_FIELD = re.compile(r"Cannot extract field '(.+?)' from expression \"(.+?)\"")
_GUESS = re.compile(r'\nDid you mean ".*?"\?')
"""DuckDB's own suggestions, which include names of its catalogue."""

_WRAPPED = "unnamed_relation_"
"""Appears in text that DuckDB runs and the user did not write."""

_LISTED = "penstock sql STORE --tables lists tables and columns"


@contextmanager
def query_errors(query: str, views: Views | None = None) -> Iterator[None]:
    """Raise ConfigurationError for an invalid query, NotEnoughMemoryError, or MachineError.

    `views`: the tables that the query reads, once they are known; hints name the closest.
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
        message = str(error).strip()
        if _WRAPPED in message:
            message = message.partition("\n\nLINE ")[0]
        hint = None if views is None else _hint(message, query, views)
        raise ConfigurationError(_GUESS.sub("", message) if hint else message, hint) from error


def _hint(message: str, query: str, views: Views) -> str | None:
    if match := _TABLE.search(message):
        return _tables_like(match[1].strip('"').lower(), views)
    if match := _FIELD.search(message):
        field, column = match[1].lower(), match[2].lower()
        table = next(iter(_closest(column, views.tables)), column)
        return (
            f"{column} is a column: write {table}.COLUMN for the table; {_columns_like(field, query, views)}"
        )
    if match := _COLUMN.search(message):
        return _columns_like(match[1].lower(), query, views)
    return None


def _tables_like(named: str, views: Views) -> str:
    """Return the tables closest to `named` or of the layer `named`, or why the version lacks the closest."""
    in_layer = [] if named not in _LAYERS else [t for t in views.tables if t in LAYER_TABLES[Layer(named)]]
    if in_layer and views.plan is not None:
        return f"{named} is a layer, with the tables {', '.join(in_layer)}"
    known = views.tables if views.plan is None else TABLES
    close = [named] if named in known else _closest(named, known)
    present = [table for table in close if table in views.tables]
    if present:
        return f"tables with close names: {', '.join(present[:_MOST_NAMES])}"
    if not close or views.plan is None:
        return _LISTED
    version, until = views.plan.version, views.plan.options.get("until")
    plan = "the plan" if version is None else f"version {version}"
    planned = f" was planned until {until} and" if until else ""
    return f"{plan}{planned} has no table {close[0]}; {_LISTED}"


def _columns_like(named: str, query: str, views: Views) -> str:
    """Return the columns of the query's tables closest to `named`, or other tables that have it."""
    columns = _columns_of(views)
    mentioned = [table for table in columns if _mentions(query, re.escape(table))]
    renamed = [f"{t}.{columns[t][named]}" for t in mentioned if columns[t].get(named, named) != named]
    if renamed:
        return f"in SQL it is {', '.join(renamed)}; {_LISTED}"
    others = [f"{table}.{named}" for table, known in columns.items() if named in known.values()]
    if others:
        return f"other tables have it: {', '.join(others[:_MOST_NAMES])}"
    every = {spelling for t in mentioned for column in columns[t].items() for spelling in column}
    places = dict.fromkeys(
        f"{table}.{columns[table].get(close, close)}"
        for close in _closest(named, sorted(every))
        for table in mentioned
        if close in columns[table] or close in columns[table].values()
    )
    if places:
        return f"columns with close names: {', '.join(list(places)[: 2 * _MOST_NAMES])}"
    if f'"{named}"' in query.lower():
        return f"a text is in single quotes: '{named}'; {_LISTED}"
    return _LISTED


def _columns_of(views: Views) -> dict[str, dict[str, str]]:
    """Return the stored columns of each table, with their names in SQL."""
    if views.plan is not None:
        return {table: view_columns(table) for table in views.plan.tables}
    columns: dict[str, dict[str, str]] = {table: {} for table in views.tables}
    listed = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal ORDER BY column_index"
    for table, column in views.connection.execute(listed).fetchall():
        columns.setdefault(table, {})[column] = column
    return columns


_LAYERS = list(map(str, Layer))[1:]
_MOST_NAMES = 3
_LEAST_RATIO = 0.6
_NEARLY_AS_CLOSE = 0.15


def _closest(named: str, names: Iterable[str]) -> list[str]:
    """Return the names about as close to `named` as the closest, as a whole or in one of their words."""

    def ratio(name: str) -> float:
        matcher = SequenceMatcher(b=named, autojunk=False)
        ratios = []
        for text, weight in ((name.lower(), 1.0), *((word, 0.9) for word in name.lower().split("_"))):
            matcher.set_seq1(text)
            ratios.append(weight * matcher.ratio())
        return max(ratios)

    ratios = {name: ratio(name) for name in names}
    least = max(_LEAST_RATIO, max(ratios.values(), default=0.0) - _NEARLY_AS_CLOSE)
    return sorted((name for name in ratios if ratios[name] >= least), key=lambda name: -ratios[name])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
