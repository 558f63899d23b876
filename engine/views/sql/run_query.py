"""Run one query that reads; its rows come while they are made."""

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.store.version_notes import PlanVersion
from penstock.engine.views.sql.open_views import Views, mentions
from penstock.plans.errors import ConfigurationError, NotEnoughMemoryError, PenstockError
from penstock.plans.tables import TABLES
from penstock.plans.tables.view_columns import view_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


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
        mentioned = [table for table in version.tables if mentions(query, table)]
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
