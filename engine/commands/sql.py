"""The command `penstock sql`, which queries the tables of a store."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.table import Column

from penstock.engine.commands.reads_plan import PlansToRead, opened_plan
from penstock.engine.output.people import is_terminal, print_rows, print_table
from penstock.engine.output.print_line import print_line
from penstock.engine.output.progress import progress
from penstock.engine.output.write_lines import write_texts
from penstock.engine.output.write_parquet import write_csv, write_parquet
from penstock.engine.store.plan_source import HOLDS_PLANS, PlanSource, SourceKind, require_kind
from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.store.store_location import store_errors
from penstock.engine.views.run_query import (
    QueryRows,
    Views,
    columns_of_results,
    columns_of_state,
    open_results,
    open_state_views,
    open_views,
    require_duckdb,
    require_one_select,
    run_query,
)
from penstock.plans.errors import ConfigurationError
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import COMMENT, type_name
from penstock.plans.tables.view_columns import view_columns

FORMATS = ("table", "csv", "json", "parquet")

SHOWN = 1_000
"""Rows of a table on a terminal. People read no more, and all rows are needed to set column widths."""

Row = TypeVar("Row")

_ENDINGS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}


def sql_command(
    store: PlansToRead,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="One SELECT in DuckDB's SQL; - is standard input.")
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="List the tables and columns that SQL can use.")
    ] = False,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="table (default; tab-separated if piped), csv, json (lines) or parquet.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="Default: standard output; .csv, .jsonl and .parquet set the format, .gz is compressed.",
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
) -> None:
    """Query a store with SQL: each table of a version is a view of the same name. Nothing is written.

    Of the state of a stream, each state is a view.

    Examples:
        penstock sql plans --tables
        penstock sql plans "select count(*) from job_vertices"
        penstock sql plans "from stream_edges" --format parquet --to edges.parquet
        penstock sql state "select key, value from counts"

    Exit codes:
        2: The query is wrong.
        4: Not a store, no such version, or a damaged table.
    """
    if tables == (query is not None):
        raise ConfigurationError(
            "a QUERY is required" if query is None else "--tables and a QUERY cannot be combined",
            'penstock sql STORE "select * from topologies"; penstock sql STORE --tables lists tables',
        )
    chosen = _format(format, to)
    source = require_kind(store, version, *HOLDS_PLANS, SourceKind.RESULTS, SourceKind.STATE)
    if source.kind in HOLDS_PLANS:
        with opened_plan(store, version) as plan:
            if query is None:
                _list_tables(plan)
            else:
                _answer(query, partial(open_views, plan), chosen, to)
        return
    with store_errors(source.path, "reading"):
        if source.kind is SourceKind.RESULTS:
            _query_results(source.path, query, chosen, to)
        else:
            _query_state(source, query, chosen, to)


def _query_results(folder: str, query: str | None, chosen: str, to: Path | None) -> None:
    if query is None:
        columns = [Column(name) for name in ("table", "column", "type", "meaning")]
        rows = columns_of_results(folder)
        print_table(columns, [(t, name, _breakable(type_name(kind)), about) for t, name, kind, about in rows])
    else:
        _answer(query, lambda statement: open_results(folder), chosen, to)


def _query_state(state: PlanSource, query: str | None, chosen: str, to: Path | None) -> None:
    if query is None:
        columns = [Column(name) for name in ("table", "column", "type")]
        print_table(columns, columns_of_state(state.path, state.version))
    else:
        _answer(query, partial(open_state_views, state.path, state.version), chosen, to)


def _format(named: str | None, to: Path | None) -> str:
    if named is not None and named not in FORMATS:
        raise ConfigurationError(f"--format must be one of {', '.join(FORMATS)}, got {named}")
    ending = next((s for s in reversed(to.suffixes) if s != ".gz"), "").lower() if to is not None else ""
    output_format = named or _ENDINGS.get(ending) or ("table" if to is None else None)
    if output_format is None or (to is not None and output_format == "table"):
        raise ConfigurationError(f"--to {to} needs a file format", "--format csv, json or parquet")
    return output_format


def _list_tables(plan: PlanTables) -> None:
    """Print each table of the plan with its columns, their types and meanings."""
    groups = [
        [
            (table, name, _breakable(type_name(field.type)), field.metadata[COMMENT].decode())
            for field, name in zip(TABLES[table], view_columns(table).values(), strict=True)
        ]
        for table in plan.tables
    ]
    if not is_terminal():
        print_table([Column(name) for name in ("table", "column", "type", "meaning")], *groups)
        return
    for rows in groups:
        print_line()
        print_line(rows[0][0])
        print_table([Column(name) for name in ("column", "type", "meaning")], [row[1:] for row in rows])


def _breakable(kind: str) -> str:
    """Add spaces to the name of a type, so that a terminal can break it into lines."""
    return kind.replace(",", ", ").replace("<", " <").replace(":", ": ") if is_terminal() else kind


def _answer(
    query: str, views_for: Callable[[str], AbstractContextManager[Views]], chosen: str, to: Path | None
) -> None:
    """Write the rows of a query (- is standard input) over the views that `views_for` opens for it."""
    require_duckdb()
    text = sys.stdin.read() if query == "-" else query
    statement = require_one_select(text)
    with views_for(text) as views, run_query(views, statement) as rows:
        if chosen == "table":
            _print(rows)
        elif chosen == "csv":
            write_csv(rows.names, _with_progress(rows.texts()), to)
        elif chosen == "json":
            write_texts(_with_progress(rows.json_lines()), to)
        else:
            schema, batches = rows.arrow()
            write_parquet(schema, _with_progress(batches), to)


def _print(rows: QueryRows) -> None:
    texts = (tuple("NULL" if value is None else value for value in row) for row in rows.texts())
    if not is_terminal():
        print_rows([rows.names])
        print_rows(texts)
        return
    shown = list(islice(_with_progress(texts), SHOWN + 1))
    columns = [Column(name) for name in rows.names]
    if len(rows.names) > 0 and shown:
        print_table(columns, shown[:SHOWN])
    more = len(shown) > SHOWN
    print_line(f"the first {SHOWN:,} rows; --format csv writes all" if more else _counted(len(shown)))


def _counted(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _with_progress(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield `rows`, and show on a terminal that the query is running until the first row arrives."""
    with progress(1) as report:
        report("run the query")
        first = next(rows, None)
    if first is not None:
        yield first
        yield from rows
