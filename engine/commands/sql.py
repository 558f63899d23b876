"""`penstock sql`: a query over the tables of a store."""

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.table import Column

from penstock.engine.commands.reads_plan import PlansToRead, called, chosen_plan, reads_plan
from penstock.engine.output.people import is_terminal, may_be_terminal, print_rows, print_table
from penstock.engine.output.print_line import print_line
from penstock.engine.output.progress import progress
from penstock.engine.output.write_lines import open_target, write_texts
from penstock.engine.store.open_plan import StoredPlan
from penstock.engine.store.plan_source import SourceKind, tables_of_results
from penstock.engine.store.plan_versions import find_version, tables_of
from penstock.engine.views.run_query import (
    QueryRows,
    columns_of_results,
    open_results,
    open_views,
    require_duckdb,
    require_one_select,
    run_query,
)
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.execution_graph.columnar.create_intermediate_results import expand_execution_edges
from penstock.plans.plan_json.to_topology_lines import json_object, values
from penstock.plans.printable import printable
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import COMMENT, type_name
from penstock.plans.tables.view_columns import view_columns

# Write Arrow batches to one Parquet file or to standard output, as they come.


def _write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], target: Path | None) -> None:
    """Write `batches` of that schema, each as a row group.

    `target`: a file as of replace_file; None is standard output, which must not be a terminal. Raises
    ConfigurationError, also for types that Parquet lacks, and MachineError.
    """
    if target is None and may_be_terminal(sys.stdout):
        raise ConfigurationError("Parquet is not for a terminal", "name a file with --to FILE.parquet")
    with open_target(target, compress=False) as file, pa.PythonFile(_Counted(file), mode="w") as sink:
        try:
            writer = pq.ParquetWriter(sink, schema, compression="zstd")
        except pa.ArrowNotImplementedError as error:
            raise ConfigurationError(f"Parquet cannot hold this: {error}", "cast it to text") from error
        with writer:
            for batch in batches:
                writer.write_batch(batch)
        sink.flush()


class _Counted:
    """A file that says how far it was written; Arrow asks, and a pipe cannot tell."""

    closed = False

    def __init__(self, file: object) -> None:
        self._write = file.write  # type: ignore[attr-defined]
        self._at = 0

    def write(self, data: bytes) -> int:
        self._write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Left to the one who opened the file."""

    def close(self) -> None:
        """Left to the one who opened the file."""


# Write rows of texts as CSV to one file or to standard output, as they come.


_CHARACTERS_AT_A_TIME = 1 << 16


def _write_csv(names: Sequence[str], rows: Iterable[Sequence[str | None]], target: Path | None) -> None:
    """A line of `names`, and one for each row, as RFC 4180 has them but for line feeds; None is empty.

    Texts are written as they are, but on a terminal printable. `target`: a file as of replace_file,
    gzip-compressed if it ends in .gz; None is standard output. Raises ConfigurationError and MachineError.
    """
    shown = target is None and may_be_terminal(sys.stdout)
    with open_target(target) as out:
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")

        def flush() -> None:
            out.write(lines.getvalue().encode(errors="backslashreplace"))
            lines.seek(0)
            lines.truncate()

        writer.writerow([printable(name) for name in names] if shown else names)
        for row in rows:
            writer.writerow([value and printable(value) for value in row] if shown else row)
            if lines.tell() > _CHARACTERS_AT_A_TIME:
                flush()
        flush()


# `penstock edges`: execution edges one by one.


EDGES_AT_A_TIME = 250_000
"""About how many edges are in memory."""

_MEMBERS = {
    "data_set": "data_set_id",
    "source": "source",
    "source_subtask": "partition",
    "target": "target",
    "target_subtask": "subtask",
    "input": "input_index",
    "first_subpartition": "first_subpartition",
    "last_subpartition": "last_subpartition",
}


@reads_plan()
def edges_command(
    store: PlansToRead,
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="The topology; needed without --all.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Edges of every topology, with its name, in any order.")
    ] = False,
    job_edge: Annotated[
        str | None,
        typer.Option(
            "--job-edge",
            metavar="ID",
            help="Only edges of this intermediate data set (32 hex digits, as export and show print them).",
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="json (lines), or with --all: parquet.")
    ] = "json",
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Default: standard output; .gz is compressed.")
    ] = None,
) -> None:
    """Write one JSON line or row for each execution edge: what is read, and the task that reads it.

    They are expanded while they are written: an all-to-all edge of 10,000 to 10,000 tasks has 100 million.
    """
    _require_one_of(topology, every, job_edge, format)
    plan = chosen_plan(store, version, topology)
    if not plan.has("execution_edges"):
        raise StoreError(
            f"{called(store)} holds no execution graph", "plan with --until execution_graph or --until slots"
        )
    if every:
        _write_all(store, plan.version.version, format, to)
        return
    job_edges = plan.table("job_edges").select("target_vertex", "input_index", "source_vertex", "data_set_id")
    wanted = job_edges if job_edge is None else job_edges.filter(pl.col("data_set_id") == job_edge)
    edges = wanted.collect()
    if job_edge is not None and edges.is_empty():
        known = job_edges.select("data_set_id").head(5).collect()["data_set_id"]
        raise StoreError(
            f"{topology} has no job edge {job_edge!r}", "some that it has: " + (", ".join(known) or "none")
        )
    write_texts(_texts(plan, edges), to)


def _require_one_of(topology: str | None, every: bool, job_edge: str | None, format: str) -> None:
    if every == (topology is not None):
        raise ConfigurationError("found both" if every else "found neither", "name --topology NAME or --all")
    if every and job_edge is not None:
        raise ConfigurationError("--job-edge and --all cannot go together", "name its --topology")
    if format not in ("json", "parquet"):
        raise ConfigurationError(f"--format {format}: there is no such format", "json or parquet")
    if format == "parquet" and not every:
        raise ConfigurationError("--format parquet is for --all", "penstock sql selects those of a topology")


def _write_all(store: str, version: int | None, format: str, to: Path | None) -> None:
    """Edges of all topologies as they are found, in memory that does not grow with the store."""
    from penstock.engine.views.run_query import (
        ALL_EXECUTION_EDGES,
        MEMORY_BYTES,
        open_views,
        require_duckdb,
        run_query,
    )

    require_duckdb()
    query = ALL_EXECUTION_EDGES
    with open_views(store, version, query, MEMORY_BYTES) as views, run_query(views, query) as rows:
        if format == "json":
            write_texts(rows.json_lines(), to)
        else:
            _write_parquet(*rows.arrow(), to)


def _texts(plan: StoredPlan, job_edges: pl.DataFrame) -> Iterator[str]:
    """The lines of many edges at a time, by consumer in topological order, input, subtask and partition.

    Ranges are sorted, not edges: the edges of a range stay together.
    """
    vertices = plan.table("job_vertices").select("vertex", "vertex_id", "topological_order").collect()
    sources = vertices.select(source_vertex="vertex", source="vertex_id")
    targets = vertices.select("topological_order", target_vertex="vertex", target="vertex_id")
    named = job_edges.join(sources, on="source_vertex").join(targets, on="target_vertex")
    edge = ["target_vertex", "input_index"]
    order = named.select(*edge, "topological_order").lazy()
    ranges = (
        plan.table("execution_edges")
        .join(order, on=edge)
        .sort("topological_order", "input_index", "subtask")
        .drop("topological_order")
        .collect()
    )
    for slice_of_ranges in _slices(ranges):
        known = slice_of_ranges.join(named, on=edge, maintain_order="left")
        rows = expand_execution_edges(known, "source", "target", "data_set_id")
        yield "\n".join(rows.select(json_object(values(rows, **_MEMBERS))).to_series())


def _slices(ranges: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Consecutive ranges of about EDGES_AT_A_TIME edges."""
    sizes = ranges.select(pl.col("last_partition") - pl.col("first_partition") + 1).to_series().cast(pl.Int64)
    parts = (sizes.cum_sum() - sizes).to_numpy() // EDGES_AT_A_TIME
    bounds = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(ranges)]
    for start, end in pairwise(bounds):
        if end > start:
            yield ranges[start:end]


FORMATS = ("table", "csv", "json", "parquet")

SHOWN = 1_000
"""Rows of a table on a terminal; a person reads no more, and widths follow from all of them."""

Row = TypeVar("Row")

_ENDINGS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}


@reads_plan(SourceKind.RESULTS)
def sql_command(
    store: PlansToRead,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="One SELECT in DuckDB's SQL; - is standard input.")
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="List tables and columns instead, as SQL names them.")
    ] = False,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="table (default; tabs between values where piped), csv, json (lines) or parquet.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="Default: standard output; .csv, .jsonl and .parquet say the format, .gz is compressed.",
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
) -> None:
    """Ask a store by SQL: each table of a version is a view of the same name. Nothing is written.

    For example, what keeps most edges from being chained:

    penstock sql STORE "select reason, count(*) as edges from (select unnest(not_chainable_reasons) as reason
    from stream_edges) group by all order by edges desc"
    """
    if tables == (query is not None):
        raise ConfigurationError(
            "name a QUERY" if query is None else "--tables takes no QUERY",
            'penstock sql STORE "select * from topologies"; penstock sql STORE --tables lists tables',
        )
    chosen = _format(format, to)
    if query is None:
        _list_tables(store, version)
        return
    _answer(store, sys.stdin.read() if query == "-" else query, version, chosen, to)


def _format(named: str | None, to: Path | None) -> str:
    if named is not None and named not in FORMATS:
        raise ConfigurationError(f"--format {named}: there is no such format", f"one of {', '.join(FORMATS)}")
    ending = next((s for s in reversed(to.suffixes) if s != ".gz"), "").lower() if to is not None else ""
    output_format = named or _ENDINGS.get(ending) or ("table" if to is None else None)
    if output_format is None or (to is not None and output_format == "table"):
        raise ConfigurationError(f"--to {to}: as which format?", "--format csv, json or parquet")
    return output_format


def _list_tables(store: str, version: int | None) -> None:
    """Each table of the version with its columns, their types and what they mean."""
    if tables_of_results(store):
        columns = [Column(name) for name in ("table", "column", "type", "meaning")]
        rows = columns_of_results(store)
        print_table(columns, [(t, name, _breakable(type_name(kind)), about) for t, name, kind, about in rows])
        return
    plan_version = find_version(tables_of(store), version)
    groups = [
        [
            (table, name, _breakable(type_name(field.type)), field.metadata[COMMENT].decode())
            for field, name in zip(TABLES[table], view_columns(table).values(), strict=True)
        ]
        for table in plan_version.tables
    ]
    if not is_terminal():
        print_table([Column(name) for name in ("table", "column", "type", "meaning")], *groups)
        return
    for rows in groups:
        print_line()
        print_line(rows[0][0])
        print_table([Column(name) for name in ("column", "type", "meaning")], [row[1:] for row in rows])


def _breakable(kind: str) -> str:
    """A type's name with spaces, so that it need not stand in one line."""
    return kind.replace(",", ", ").replace("<", " <").replace(":", ": ") if is_terminal() else kind


def _answer(store: str, query: str, version: int | None, chosen: str, to: Path | None) -> None:
    require_duckdb()
    statement = require_one_select(query)
    opened = open_results(store) if tables_of_results(store) else open_views(store, version, query)
    with opened as views, run_query(views, statement) as rows:
        if chosen == "table":
            _print(rows)
        elif chosen == "csv":
            _write_csv(rows.names, _with_progress(rows.texts()), to)
        elif chosen == "json":
            write_texts(_with_progress(rows.json_lines()), to)
        else:
            schema, batches = rows.arrow()
            _write_parquet(schema, _with_progress(batches), to)


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
    """`rows`; until the first one is there, a person at a terminal sees that the query runs."""
    with progress(1) as report:
        report("run the query")
        first = next(rows, None)
    if first is not None:
        yield first
        yield from rows
