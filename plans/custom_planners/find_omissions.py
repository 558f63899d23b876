"""Finds omissions of a plan: job edges between vertices, tasks of a vertex, required slots."""

from collections.abc import Mapping
from enum import StrEnum

import polars as pl
import pyarrow as pa

from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.job_graph.columnar.is_chained import IS_CHAINED
from penstock.plans.printable import limited
from penstock.plans.tables import REJECTED
from penstock.plans.tables.column_types import TOPOLOGY

STAGE = "planner"
"""`error_stage` of topologies that are rejected for what a custom planner returned."""


class Invariant(StrEnum):
    """A rule; its value is the `error` of a topology that is rejected for it."""

    PLANNER_RAISED = "PlannerRaised"  #: the planner raises no exception
    PLANNER_TIMED_OUT = "PlannerTimedOut"  #: the planner answers within its time limit
    PLANNER_SCHEMA = "PlannerSchema"  #: what it returns has the columns and types that it must have
    UNKNOWN_KEY = "UnknownKey"  #: every row is about an operator, edge, vertex or task of the topology
    DECIDED_TWICE = "DecidedTwice"  #: nothing is decided twice
    VALUE_NOT_ALLOWED = "ValueNotAllowed"  #: values are allowed ones and not null
    PARALLELISM_OUT_OF_RANGE = "ParallelismOutOfRange"  #: 1 to the operator's max parallelism
    RESULT_CHANGING_PARTITIONER = "ResultChangingPartitioner"  #: hash, broadcast, global and custom stay
    NOT_CHAINABLE = "NotChainable"  #: edges that cannot be a call inside a task are not chained
    OPERATOR_NOT_IN_ONE_VERTEX = "OperatorNotInOneVertex"  #: every operator is in exactly one vertex
    CHAIN_NOT_CONNECTED = "ChainNotConnected"  #: chained edges connect the operators of a vertex
    NOT_ACYCLIC = "NotAcyclic"  #: data goes forward in chains and in the order of vertices
    FORWARD_UNEQUAL_PARALLELISM = "ForwardUnequalParallelism"  #: forward edges join equal parallelism
    CO_LOCATION_BROKEN = "CoLocationBroken"  #: co-located vertices share a group, their subtasks a slot
    TASK_NOT_IN_ONE_SLOT = "TaskNotInOneSlot"  #: every task is in exactly one slot, of its own group
    SUBTASKS_SHARE_SLOT = "SubtasksShareSlot"  #: two subtasks of one vertex never share a slot
    ID_NOT_UNIQUE = "IdNotUnique"  #: ids of vertices, operators, data sets and tasks are unique, as are keys
    DANGLING_REFERENCE = "DanglingReference"  #: every edge names vertices and data sets that exist
    REFUSED_BY_FLINK = "RefusedByFlink"  #: Flink accepts the decision


VIOLATIONS = {
    TOPOLOGY: pl.Int64(),
    "error": pl.String(),
    "location": pl.String(),
    "found": pl.String(),
    "allowed": pl.String(),
    "hint": pl.String(),
}
"""Columns of a table of violations: one row each."""

NO_VIOLATION = pl.DataFrame(schema=VIOLATIONS)


def violations(
    rows: pl.DataFrame, rule: Invariant, location: pl.Expr, found: pl.Expr, allowed: str
) -> pl.DataFrame:
    """One violation per row of `rows`, which have topology_id."""
    if rows.is_empty():
        return NO_VIOLATION
    texts = {
        "error": pl.lit(rule.value),
        "location": location.fill_null("null"),
        "found": found.cast(pl.String).fill_null("null"),
        "allowed": pl.lit(allowed),
        "hint": pl.lit(""),
    }
    return rows.select(TOPOLOGY, **texts)


MOST_ERRORS = 20
"""Errors that are listed of one topology."""


def reject_violations(broken_rules: pl.DataFrame, topologies: pl.DataFrame, planner: str) -> pl.DataFrame:
    """Rows of the table rejected, one per topology with `broken_rules` (see VIOLATIONS) of `planner`."""
    if broken_rules.is_empty():
        return empty("rejected")
    places = topologies.select(TOPOLOGY, "name", "source_file", "source_line")
    rows = []
    for topology in (
        broken_rules.group_by(TOPOLOGY, maintain_order=True)
        .agg(pl.struct(pl.exclude(TOPOLOGY)).alias("errors"))
        .join(places, on=TOPOLOGY, maintain_order="left")
        .iter_rows(named=True)
    ):
        errors = [
            {
                **{key: limited(text) for key, text in error.items()},
                "hint": f"planner {planner} decided so; it is the planner that has to change",
            }
            for error in topology["errors"][:MOST_ERRORS]
        ]
        more = len(topology["errors"]) - len(errors)
        lines = [
            f"planner {planner}: {error['error']}: {error['location']}: found {error['found']}; "
            f"allowed: {error['allowed']}"
            for error in errors
        ]
        lines += [f"… and {more:,} more"] if more else []
        rows.append(
            {**topology, "errors": errors, "error_stage": STAGE, "error": errors[0]["error"],
             "message": "\n".join(lines)}
        )  # fmt: skip
    named = [{name: row[name] for name in REJECTED.names} for row in rows]
    return from_arrow(pa.Table.from_pylist(named, REJECTED))


def edges_left_out(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """A violation for each stream edge that is neither chained nor a job edge, of operators in vertices."""
    edges = tables["stream_edges"].filter(~IS_CHAINED).select(TOPOLOGY, "source", "target", "in_index")
    job_edge_ends = tables["job_edges"].select(
        TOPOLOGY, "in_index", source="source_node", target="target_node"
    )
    missing = edges.join(job_edge_ends, on=[TOPOLOGY, "source", "target", "in_index"], how="anti")
    for end in ("source", "target"):  # Flink creates no vertex for operators that no source leads to
        nodes = tables["chained_operators"].select(TOPOLOGY, pl.col("node").alias(end))
        missing = missing.join(nodes, on=[TOPOLOGY, end], how="semi")
    return violations(
        missing,
        Invariant.DANGLING_REFERENCE,
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
        Invariant.DANGLING_REFERENCE,
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
        Invariant.TASK_NOT_IN_ONE_SLOT,
        pl.format("slot sharing group {}", "slot_sharing_group"),
        pl.format("{} slots required, {} with tasks", *(pl.col(n).fill_null(0) for n in ("slots", "taken"))),
        "as many as have tasks",
    )
