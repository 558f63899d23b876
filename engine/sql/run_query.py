"""Run one query that reads; its rows come while they are made."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from penstock.engine.sql.in_thread import in_thread
from penstock.engine.sql.open_views import Views
from penstock.engine.sql.query_errors import query_errors
from penstock.plans.errors import ConfigurationError

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

ROWS_AT_A_TIME = 20_000

_FLOATS = ("DOUBLE", "FLOAT")
_TEXT_OR_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN').sub


class Rows(NamedTuple):
    """What a query gives: names of columns, and functions that run it and give its rows, each in one form."""

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
def run_query(views: Views, query: str) -> Iterator[Rows]:
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

        yield Rows(names, texts, json_lines, arrow)


def _as_json(line: str) -> str:
    """With null for infinity and NaN, in lists and structs too: DuckDB writes them, and JSON has neither."""
    if "NaN" not in line and "Infinity" not in line:
        return line
    return _TEXT_OR_NO_NUMBER(lambda found: found[0] if found[0].startswith('"') else "null", line)


def _require_different(names: list[str]) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ConfigurationError(f"two columns are called {twice!r}", "name them apart with AS")


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
