"""`penstock edges`: execution edges one by one."""

from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.commands.chosen_plan import chosen_plan
from engine.commands.write_lines import write_lines
from engine.session import get_session
from plans.errors import StoreError
from plans.execution_graph.expand_execution_edges import expand_execution_edges
from plans.frames import join_local, rename

_ORDER = ("consumer_order", "input_index", "subtask")
EDGES_PER_PARTITION = 250_000
"""About how many edges are in the driver's memory at a time."""


def command(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="A plan store that penstock plan has written.")
    ],
    topology: Annotated[str, typer.Option("--topology", metavar="NAME", help="Its edges.")],
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
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Default: standard output; .gz is compressed.")
    ] = None,
) -> None:
    """Write one JSON line for each execution edge: what is read, and the task that reads it.

    They are expanded while they are written: an all-to-all edge of 10,000 to 10,000 tasks has 100 million.
    """
    spark = get_session(app_name="penstock edges")
    tables = chosen_plan(spark, store, version, topology)
    if "execution_edges" not in tables:
        raise StoreError(
            f"{store} holds no execution graph", "plan with --until execution_graph or --until slots"
        )
    wanted = tables["job_edges"]
    if job_edge is not None:
        wanted = wanted.where(F.col("data_set_id") == job_edge)
        if wanted.isEmpty():
            known = [
                row["data_set_id"] for row in tables["job_edges"].select("data_set_id").limit(5).collect()
            ]
            raise StoreError(
                f"{topology} has no job edge {job_edge!r}",
                "some that it has: " + (", ".join(known) or "none"),
            )
    write_lines(_lines(tables, wanted), to)


def _lines(tables: dict[str, DataFrame], job_edges: DataFrame) -> DataFrame:
    """One row an edge: its line, by consumer in topological order, input, subtask and partition.

    Ranges are sorted, not edges: what a range expands to stays behind it.
    """
    edge = rename(
        job_edges,
        at_vertex="target_vertex",
        at_input="input_index",
        producer="source_vertex",
        data_set_id="data_set_id",
    )
    ids = tables["job_vertices"]
    sources = rename(ids, of_source="vertex", source="vertex_id")
    targets = rename(ids, of_target="vertex", target="vertex_id", consumer_order="topological_order")
    known = join_local(
        tables["execution_edges"], edge, {"target_vertex": "at_vertex", "input_index": "at_input"}
    )
    named = join_local(
        join_local(known, sources, {"producer": "of_source"}), targets, {"target_vertex": "of_target"}
    )
    row = named.agg(F.sum(F.expr("last_partition - first_partition + 1")).alias("edges")).first()
    partitions = 1 + (row["edges"] or 0 if row else 0) // EDGES_PER_PARTITION
    ordered = named.repartitionByRange(partitions, *_ORDER).sortWithinPartitions(*_ORDER)
    members = {
        "data_set": "data_set_id",
        "source": "source",
        "source_subtask": "partition",
        "target": "target",
        "target_subtask": "subtask",
        "input": "input_index",
        "first_subpartition": "first_subpartition",
        "last_subpartition": "last_subpartition",
    }
    line = F.to_json(F.struct(*(F.col(column).alias(name) for name, column in members.items())))
    return expand_execution_edges(ordered, "source", "target", "data_set_id").select(line.alias("line"))
