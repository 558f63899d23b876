"""What a plan leaves out: job edges between vertices, tasks of a vertex, slots that are required."""

from collections.abc import Mapping

import polars as pl

from plans.job_graph.columnar.is_chained import IS_CHAINED
from plans.policies.rules import Rule, violations
from plans.tables.column_types import TOPOLOGY


def edges_left_out(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """A violation for each stream edge that is neither chained nor a job edge, of operators in vertices."""
    edges = tables["stream_edges"].filter(~IS_CHAINED).select(TOPOLOGY, "source", "target", "in_index")
    given = tables["job_edges"].select(TOPOLOGY, "in_index", source="source_node", target="target_node")
    missing = edges.join(given, on=[TOPOLOGY, "source", "target", "in_index"], how="anti")
    for end in ("source", "target"):  # Flink makes no vertex of what no source leads to
        nodes = tables["chained_operators"].select(TOPOLOGY, pl.col("node").alias(end))
        missing = missing.join(nodes, on=[TOPOLOGY, end], how="semi")
    return violations(
        missing,
        Rule.DANGLING_REFERENCE,
        pl.format("edge {} to {}", "source", "target"),
        pl.lit("neither chained nor a job edge"),
        "one of both",
    )


def tasks_left_out(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """A violation for each vertex that does not have the tasks of its parallelism."""
    parallelism = tables["execution_job_vertices"].select(TOPOLOGY, "vertex", "parallelism")
    counted = (
        tables["execution_vertices"]
        .group_by(TOPOLOGY, "vertex")
        .agg(tasks=pl.len(), last=pl.col("subtask").max() + 1)
    )
    rows = parallelism.join(counted, on=[TOPOLOGY, "vertex"], how="full", coalesce=True)
    wrong = pl.col("parallelism").ne_missing(pl.col("tasks")) | pl.col("parallelism").ne_missing(
        pl.col("last")
    )
    return violations(
        rows.filter(wrong),
        Rule.DANGLING_REFERENCE,
        pl.format("vertex {}", "vertex"),
        pl.format(
            "{} tasks at parallelism {}", pl.col("tasks").fill_null(0), pl.col("parallelism").fill_null(0)
        ),
        "as many tasks as parallelism, numbered from 0",
    )


def slots_left_out(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """A violation for each slot sharing group that requires other slots than its tasks are in."""
    group = [TOPOLOGY, "slot_sharing_group"]
    taken = (
        tables["execution_slot_sharing_groups"]
        .join(tables["job_vertices"].select(*group, "vertex"), on=[TOPOLOGY, "vertex"], suffix=" of vertex")
        .group_by(TOPOLOGY, slot_sharing_group="slot_sharing_group of vertex")
        .agg(taken=pl.col("execution_slot_sharing_group").n_unique())
    )
    counted = taken.join(
        tables["required_slots"].select(*group, "slots"), on=group, how="full", coalesce=True
    )
    return violations(
        counted.filter(pl.col("slots").ne_missing(pl.col("taken"))),
        Rule.TASK_NOT_IN_ONE_SLOT,
        pl.format("slot sharing group {}", "slot_sharing_group"),
        pl.format("{} slots required, {} with tasks", *(pl.col(n).fill_null(0) for n in ("slots", "taken"))),
        "as many as have tasks",
    )
