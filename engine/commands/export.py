"""The command `penstock export`, which writes plans as JSON lines in Penstock's or Flink's form."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import polars as pl
import typer

from penstock.engine.commands.reads_plan import PlansToRead, opened_plan
from penstock.engine.output.print_line import print_beside_output
from penstock.engine.output.write_lines import write_pieces
from penstock.engine.planning.memory_estimate import require_memory_to_export
from penstock.engine.store.plan_tables import BY_NAME, PlanTables
from penstock.plans.errors import StoreError
from penstock.plans.plan_json.to_plan_lines import (
    EDGE_KEYS,
    EXECUTION_PLAN_COLUMNS,
    FLINK_PLAN_COLUMNS,
    NODE_KEYS,
    SECTIONS,
    plan_line_in_pieces,
    to_execution_plan_lines,
    to_flink_plan_lines,
    to_plan_lines,
)
from penstock.plans.plan_json.to_topology_lines import (
    TOPOLOGY_COLUMNS,
    to_topology_lines,
    topology_line_in_pieces,
)
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

ROWS_PER_SLICE = 500_000
"""Rows of the largest tables that are in memory at a time, approximately; a topology is never divided."""

Columns = Mapping[str, tuple[str, ...]]


class ExportFormat(StrEnum):
    """The values of `--format`."""

    PLAN_JSON = "plan-json"
    FLINK_PLAN = "flink-plan"
    EXECUTION_PLAN = "execution-plan"
    TOPOLOGIES = "topologies"


class _LineFormat(NamedTuple):
    """The function that writes a format, and the tables and columns that it reads."""

    lines: Callable[[Mapping[str, pl.DataFrame]], pl.DataFrame]
    columns: Columns
    until: Layer | None  #: the layer that a plan must have; None: the format takes any layers
    pieces: Callable[[Mapping[str, pl.LazyFrame]], Iterator[str]] | None = None  #: writes a single plan


_COUNTED = ("stream_nodes", "stream_edges", "execution_edges", "execution_slot_sharing_groups")
_PLAN_JSON_COLUMNS: Columns = {
    **{table: tuple(TABLES[table].names) for section in SECTIONS for table in section.tables},
    "topologies": (TOPOLOGY, "name", "form"),
    "rejected": tuple(TABLES["rejected"].names),
    "stream_nodes": (TOPOLOGY, *NODE_KEYS),
    "stream_edges": (TOPOLOGY, "out_index", *EDGE_KEYS),
}
_FORMATS = {
    ExportFormat.PLAN_JSON: _LineFormat(to_plan_lines, _PLAN_JSON_COLUMNS, None, plan_line_in_pieces),
    ExportFormat.FLINK_PLAN: _LineFormat(to_flink_plan_lines, FLINK_PLAN_COLUMNS, Layer.JOB_GRAPH),
    ExportFormat.EXECUTION_PLAN: _LineFormat(
        to_execution_plan_lines, EXECUTION_PLAN_COLUMNS, Layer.STREAM_GRAPH
    ),
    ExportFormat.TOPOLOGIES: _LineFormat(to_topology_lines, TOPOLOGY_COLUMNS, None, topology_line_in_pieces),
}


def export_command(
    store: PlansToRead,
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="Only this topology.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    written_format: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="plan-json: all layers; flink-plan: as Flink's REST interface returns at /jobs/:id/plan; "
            "execution-plan: as getExecutionPlan() returns, for Flink's plan visualizer; topologies: the "
            "planned topologies, as penstock plan takes them.",
        ),
    ] = ExportFormat.PLAN_JSON,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Default: standard output; .gz is compressed.")
    ] = None,
) -> None:
    """Write the plan of each topology as a line of JSON, refused ones too, ordered by name.

    Examples:
        penstock export plans --to plans.jsonl
        penstock export plans --format topologies --to jobs.jsonl

    Exit codes:
        4: Not a store, no such version, or a damaged table.
    """
    with opened_plan(store, version, topology) as plan:
        _export(plan, written_format, to)


def _export(plan: PlanTables, written_format: ExportFormat, to: Path | None) -> None:
    refused = plan.rejected if plan.topology is None else 0
    if written_format is ExportFormat.TOPOLOGIES and refused:
        print_beside_output(f"{refused:,} rejected topologies are left out: a store keeps only their errors")
    written = _FORMATS[written_format]
    if written.until is not None and not plan.has(*written.columns):
        raise StoreError(
            f"{plan.label} has no {written.until}, which --format {written_format} needs",
            f"plan again without --until, or with --until {written.until}",
        )
    if written.until is not None and refused:
        _print_how_to_get_the_layer(plan, written.until, written_format)
    if plan.topology is None and plan.stored is not None:
        counted = [table for table in _COUNTED if table in written.columns and plan.has(table)]
        rows = sum(plan.stored.row.rows_of(table) or 0 for table in counted)
        require_memory_to_export(min(rows, ROWS_PER_SLICE))
    write_pieces(_pieces(plan, written_format), to)


def _print_how_to_get_the_layer(plan: PlanTables, until: Layer, written_format: ExportFormat) -> None:
    """Print that Flink has this view of topologies that it refuses only in later layers."""
    later = [str(layer) for layer in list(Layer)[list(Layer).index(until) + 1 :]]
    refused_later = plan.table("rejected").filter(pl.col("error_stage").is_in(later))
    if many := refused_later.select(pl.len()).collect().item():
        are = "topology is" if many == 1 else "topologies are"
        print_beside_output(
            f"{many:,} {are} refused after the {until}: plan with --until {until} to export them"
        )


def _pieces(plan: PlanTables, written_format: ExportFormat) -> Iterator[str]:
    """Yield lines and their line ends; a single plan's line, which may be long, in pieces."""
    written = _FORMATS[written_format]
    tables = _tables(plan, written)
    if written.pieces and [tables[name].select(pl.len()).collect().item() for name in BY_NAME] == [1, 0]:
        yield from written.pieces(tables)
        yield "\n"
        return
    for line in lines_of_plan(plan, written_format):
        yield line
        yield "\n"


def lines_of_plan(plan: PlanTables, written_format: ExportFormat) -> Iterator[str]:
    """Yield the lines that export writes, without line ends."""
    return _lines(plan, _FORMATS[written_format])


def _lines(plan: PlanTables, written: _LineFormat) -> Iterator[str]:
    """Yield lines by name, with only one slice in memory."""
    tables = _tables(plan, written)
    slices = _slices(tables)
    for chosen in slices:
        rows = pl.collect_all(_rows(frame, name, chosen, len(slices)) for name, frame in tables.items())
        lines = written.lines(dict(zip(tables, rows, strict=True)))
        yield from lines.sort("name", "line")["line"]


def _tables(plan: PlanTables, written: _LineFormat) -> dict[str, pl.LazyFrame]:
    return {
        name: plan.table(name).select(columns) for name, columns in written.columns.items() if plan.has(name)
    }


def _rows(frame: pl.LazyFrame, table: str, chosen: pl.DataFrame, slices: int) -> pl.LazyFrame:
    """Select the rows of the topologies of one slice."""
    if slices == 1:
        return frame
    if table in BY_NAME:
        return frame.join(chosen.lazy().select("name"), on="name", how="semi", nulls_equal=True)
    return frame.join(chosen.lazy().select(TOPOLOGY), on=TOPOLOGY, how="semi")


def _slices(tables: dict[str, pl.LazyFrame]) -> list[pl.DataFrame]:
    """Return (name, topology_id) of all topologies by name, null first, in slices of about ROWS_PER_SLICE."""
    counts = [
        tables[table].select(TOPOLOGY, rows=pl.lit(1, pl.Int64)) for table in _COUNTED if table in tables
    ]
    by_name = pl.concat([tables[table].select("name", TOPOLOGY) for table in BY_NAME])
    known = by_name.group_by("name").agg(pl.col(TOPOLOGY).max(), pl.len().alias("lines"))
    rows = pl.col("rows").fill_null(0) + pl.col("lines")
    if counts:
        known = known.join(
            pl.concat(counts).group_by(TOPOLOGY).agg(pl.col("rows").sum()), on=TOPOLOGY, how="left"
        )
    else:
        rows = pl.col("lines")
    in_order = known.sort("name").select("name", TOPOLOGY, part=rows.cum_sum() // ROWS_PER_SLICE)
    return in_order.collect(engine="streaming").partition_by("part", maintain_order=True, include_key=False)
