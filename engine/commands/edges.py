"""The command `penstock edges`, which writes the execution edges of topologies."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer

from penstock.engine.commands.reads_plan import PlansToRead, opened_plan
from penstock.engine.output.write_lines import write_texts
from penstock.engine.store.plan_tables import PlanTables
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.execution_graph.create_intermediate_results import expand_execution_edges
from penstock.plans.plan_json.to_topology_lines import json_object, values

EDGES_AT_A_TIME = 250_000
"""Edges in memory at a time, approximately."""

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


def edges_command(
    store: PlansToRead,
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="The topology; required without --all.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Edges of all topologies, with their names, in any order.")
    ] = False,
    job_edge: Annotated[
        str | None,
        typer.Option(
            "--job-edge",
            metavar="ID",
            help="Only edges of this intermediate data set (32 hex digits, as printed by export and show).",
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
    """Write one JSON line or row per execution edge: the partition that is read, and the task that reads it.

    Edges are expanded while they are written: an all-to-all edge of 10,000 to 10,000 tasks has 100 million.

    Examples:
        penstock edges plans --topology word-count --to edges.jsonl
        penstock edges plans --all --format parquet --to edges

    Exit codes:
        4: Not a store, or no such version or topology.
    """
    _require_one_of(topology, every, job_edge, format)
    with opened_plan(store, version, topology) as plan:
        if not plan.has("execution_edges"):
            raise StoreError(
                f"{plan.label} holds no execution graph",
                "plan with --until execution_graph or --until slots",
            )
        if every:
            _write_all(plan, format, to)
        else:
            write_texts(_texts(plan, _job_edges(plan, job_edge)), to)


def _job_edges(plan: PlanTables, job_edge: str | None) -> pl.DataFrame:
    job_edges = plan.table("job_edges").select("target_vertex", "input_index", "source_vertex", "data_set_id")
    wanted = job_edges if job_edge is None else job_edges.filter(pl.col("data_set_id") == job_edge)
    edges = wanted.collect()
    if job_edge is not None and edges.is_empty():
        known = job_edges.select("data_set_id").head(5).collect()["data_set_id"]
        raise StoreError(
            f"{plan.topology} has no job edge {job_edge!r}",
            "it has, among others: " + (", ".join(known) or "none"),
        )
    return edges


def _require_one_of(topology: str | None, every: bool, job_edge: str | None, format: str) -> None:
    if every == (topology is not None):
        problem = "--topology and --all cannot be combined" if every else "--topology or --all is required"
        raise ConfigurationError(problem, "--all covers all topologies")
    if every and job_edge is not None:
        raise ConfigurationError("--job-edge and --all cannot be combined", "use its --topology")
    if format not in ("json", "parquet"):
        raise ConfigurationError(f"--format must be json or parquet, got {format}", "parquet needs --all")
    if format == "parquet" and not every:
        raise ConfigurationError(
            "--format parquet needs --all", "penstock sql selects the edges of a topology"
        )


def _write_all(plan: PlanTables, format: str, to: Path | None) -> None:
    """Write the edges of all topologies in any order, in memory that does not grow with the store."""
    from penstock.engine.views.run_query import (
        ALL_EXECUTION_EDGES,
        MEMORY_BYTES,
        open_views,
        require_duckdb,
        run_query,
    )

    require_duckdb()
    query = ALL_EXECUTION_EDGES
    with open_views(plan, query, MEMORY_BYTES) as views, run_query(views, query) as rows:
        if format == "json":
            write_texts(rows.json_lines(), to)
        else:
            from penstock.engine.output.write_parquet import write_parquet

            write_parquet(*rows.arrow(), to)


def _texts(plan: PlanTables, job_edges: pl.DataFrame) -> Iterator[str]:
    """Yield lines of many edges at a time, by consumer in topological order, input, subtask and partition.

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
    """Yield consecutive ranges of about EDGES_AT_A_TIME edges."""
    sizes = ranges.select(pl.col("last_partition") - pl.col("first_partition") + 1).to_series().cast(pl.Int64)
    parts = (sizes.cum_sum() - sizes).to_numpy() // EDGES_AT_A_TIME
    bounds = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(ranges)]
    for start, end in pairwise(bounds):
        if end > start:
            yield ranges[start:end]
