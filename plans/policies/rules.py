"""What holds for every plan: the rules by name, and how a violation is written down."""

from enum import StrEnum

import polars as pl
import pyarrow as pa

from plans.columnar.frames import empty, from_arrow
from plans.printable import limited
from plans.tables import REJECTED
from plans.tables.column_types import TOPOLOGY

STAGE = "planner"
"""`error_stage` of topologies that are rejected for what a planner of others returned."""


class Rule(StrEnum):
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
    rows: pl.DataFrame, rule: Rule, location: pl.Expr, found: pl.Expr, allowed: str
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


def reject_violations(found: pl.DataFrame, topologies: pl.DataFrame, planner: str) -> pl.DataFrame:
    """Rows of the table rejected: one per topology of `found` (see VIOLATIONS), which `planner` broke."""
    if found.is_empty():
        return empty("rejected")
    places = topologies.select(TOPOLOGY, "name", "source_file", "source_line")
    rows = []
    for one in (
        found.group_by(TOPOLOGY, maintain_order=True)
        .agg(pl.struct(pl.exclude(TOPOLOGY)).alias("errors"))
        .join(places, on=TOPOLOGY, maintain_order="left")
        .iter_rows(named=True)
    ):
        errors = [
            {
                **{key: limited(text) for key, text in error.items()},
                "hint": f"planner {planner} decided so; it is the planner that has to change",
            }
            for error in one["errors"][:MOST_ERRORS]
        ]
        more = len(one["errors"]) - len(errors)
        lines = [
            f"planner {planner}: {error['error']}: {error['location']}: found {error['found']}; "
            f"allowed: {error['allowed']}"
            for error in errors
        ]
        lines += [f"… and {more:,} more"] if more else []
        rows.append(
            {**one, "errors": errors, "error_stage": STAGE, "error": errors[0]["error"],
             "message": "\n".join(lines)}
        )  # fmt: skip
    named = [{name: row[name] for name in REJECTED.names} for row in rows]
    return from_arrow(pa.Table.from_pylist(named, REJECTED))
