"""Check the invariants of every plan over its tables, for all topologies at once."""

from collections.abc import Callable, Mapping
from enum import StrEnum

import polars as pl
import pyarrow as pa

from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.job_graph.choose_result_partition_types import IS_CHAINED
from penstock.plans.job_graph.create_vertices import parallelism_overrides
from penstock.plans.printable import limited
from penstock.plans.tables import REJECTED
from penstock.plans.tables.column_types import TOPOLOGY

# Omissions of a plan: job edges between vertices, tasks of a vertex, required slots.


STAGE = "planner"
"""`error_stage` of topologies that are rejected for a custom planner's answer."""


class Invariant(StrEnum):
    """A rule; its value is the `error` of a topology that is rejected for it."""

    PLANNER_RAISED = "PlannerRaised"  #: the planner raises no exception
    PLANNER_TIMED_OUT = "PlannerTimedOut"  #: the planner answers within its time limit
    PLANNER_SCHEMA = "PlannerSchema"  #: the answer has the required columns and types
    UNKNOWN_KEY = "UnknownKey"  #: every row concerns an operator, edge, vertex or task of the topology
    DECIDED_TWICE = "DecidedTwice"  #: nothing is decided twice
    VALUE_NOT_ALLOWED = "ValueNotAllowed"  #: values are allowed ones and not null
    PARALLELISM_OUT_OF_RANGE = "ParallelismOutOfRange"  #: 1 to the operator's max parallelism
    RESULT_CHANGING_PARTITIONER = "ResultChangingPartitioner"  #: hash, broadcast, global and custom stay
    NOT_CHAINABLE = "NotChainable"  #: edges that cannot be a call inside a task are not chained
    OPERATOR_NOT_IN_ONE_VERTEX = "OperatorNotInOneVertex"  #: every operator is in exactly one vertex
    CHAIN_NOT_CONNECTED = "ChainNotConnected"  #: chained edges connect the operators of a vertex
    NOT_ACYCLIC = "NotAcyclic"  #: data flows forward in chains and in the order of vertices
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
    """Return one violation per row of `rows`, which contain topology_id."""
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
"""Errors listed per topology."""


def reject_violations(broken_rules: pl.DataFrame, topologies: pl.DataFrame, planner: str) -> pl.DataFrame:
    """Return rows of the table rejected, one per topology with `broken_rules` (see VIOLATIONS)
    of `planner`.
    """
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
                "hint": f"planner {planner} made this decision; change the planner",
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


def _edges_left_out(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return a violation for each stream edge between operators in vertices that is neither chained nor a job
    edge.
    """
    edges = tables["stream_edges"].filter(~IS_CHAINED).select(TOPOLOGY, "source", "target", "in_index")
    job_edge_ends = tables["job_edges"].select(
        TOPOLOGY, "in_index", source="source_node", target="target_node"
    )
    missing = edges.join(job_edge_ends, on=[TOPOLOGY, "source", "target", "in_index"], how="anti")
    for end in ("source", "target"):  # Flink creates no vertex for operators that no source reaches
        nodes = tables["chained_operators"].select(TOPOLOGY, pl.col("node").alias(end))
        missing = missing.join(nodes, on=[TOPOLOGY, end], how="semi")
    return violations(
        missing,
        Invariant.DANGLING_REFERENCE,
        pl.format("edge {} to {}", "source", "target"),
        pl.lit("neither chained nor a job edge"),
        "one of both",
    )


def _tasks_left_out(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return a violation for each vertex whose number of tasks differs from its parallelism."""
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


def _slots_left_out(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return a violation for each slot sharing group whose required slots differ from the slots
    of its tasks.
    """
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


Tables = Mapping[str, pl.DataFrame]


def find_violations(tables: Tables) -> pl.DataFrame:
    """One row (see VIOLATIONS) for each operator, edge, vertex or task that breaks a rule.

    `tables`: a plan's tables, by the names of plans.tables.TABLES. Rules about missing layers are skipped.
    """
    problems = [check(tables) for needed, check in _CHECKS if needed <= tables.keys()]
    return pl.concat([NO_VIOLATION, *problems])


def _operators_in_vertices(tables: Tables) -> pl.DataFrame:
    nodes = tables["stream_nodes"].select(TOPOLOGY, "id", "name")
    operators = tables["chained_operators"].select(TOPOLOGY, "vertex", "node")
    counted = operators.group_by(TOPOLOGY, pl.col("node").alias("id")).agg(pl.len().alias("vertices"))
    counted = nodes.join(counted, on=[TOPOLOGY, "id"], how="left").with_columns(
        pl.col("vertices").fill_null(0)
    )
    # Flink creates no vertex for operators that no source reaches, such as a cycle of a given graph.
    fed = tables["stream_edges"].join(
        operators, left_on=[TOPOLOGY, "source"], right_on=[TOPOLOGY, "node"], how="semi"
    )
    sources = tables["stream_nodes"].filter(pl.col("source") | pl.col("legacy_source"))
    reached = pl.concat([fed.select(TOPOLOGY, id="target"), sources.select(TOPOLOGY, "id")])
    wrong = counted.filter(pl.col("vertices") != 1)
    wrong = pl.concat(
        [
            wrong.filter(pl.col("vertices") > 1),
            wrong.filter(pl.col("vertices") == 0).join(reached, on=[TOPOLOGY, "id"], how="semi"),
        ]
    )
    stray = operators.join(nodes, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "id"], how="anti")
    vertices = tables["job_vertices"].select(TOPOLOGY, "vertex")
    nowhere = operators.join(vertices, on=[TOPOLOGY, "vertex"], how="anti")
    return pl.concat(
        [
            violations(
                wrong, Invariant.OPERATOR_NOT_IN_ONE_VERTEX,
                pl.format("operator {} ({})", "id", "name"), pl.format("in {} vertices", "vertices"),
                "in one",
            ),
            violations(
                stray, Invariant.OPERATOR_NOT_IN_ONE_VERTEX, pl.format("operator {}", "node"),
                pl.lit("no such stream node"), "operators of the StreamGraph",
            ),
            violations(
                nowhere, Invariant.DANGLING_REFERENCE, pl.format("operator {}", "node"),
                pl.format("in vertex {}, which does not exist", "vertex"), "a job vertex",
            ),
        ]
    )  # fmt: skip


def _chains(tables: Tables) -> pl.DataFrame:
    operators = tables["chained_operators"].select(TOPOLOGY, "vertex", "node", "name", "chain_index")
    operators = operators.unique([TOPOLOGY, "node"], keep="first", maintain_order=True)
    edges = tables["stream_edges"].select(
        TOPOLOGY, "source", "target", chained=IS_CHAINED,
        from_source="chained_source",
    )  # fmt: skip
    edges = edges.filter("chained")
    for end in ("source", "target"):
        ends = operators.select(
            TOPOLOGY, pl.col("node").alias(end),
            pl.col("vertex").alias(f"{end}_vertex"), pl.col("chain_index").alias(f"{end}_index"),
        )  # fmt: skip
        edges = edges.join(ends, on=[TOPOLOGY, end], how="left", maintain_order="left")
    edge = pl.format("edge {} to {}", "source", "target")
    torn = edges.filter(pl.col("source_vertex") != pl.col("target_vertex"))
    inside = edges.filter(pl.col("source_vertex") == pl.col("target_vertex"))
    backwards = inside.filter(pl.col("source_index") >= pl.col("target_index"))
    connected = pl.concat(
        [
            inside.filter(~pl.col("from_source")).select(TOPOLOGY, pl.col("target").alias("node")),
            inside.filter("from_source").select(TOPOLOGY, pl.col("source").alias("node")),
        ]
    )
    loose = operators.filter(pl.col("node") != pl.col("vertex")).join(
        connected, on=[TOPOLOGY, "node"], how="anti"
    )
    return pl.concat(
        [
            violations(
                torn, Invariant.CHAIN_NOT_CONNECTED, edge,
                pl.format("chained, between vertices {} and {}", "source_vertex", "target_vertex"),
                "both ends in one vertex",
            ),
            violations(
                loose, Invariant.CHAIN_NOT_CONNECTED, pl.format("operator {} ({})", "node", "name"),
                pl.format("in vertex {} without a chained edge to it", "vertex"), "a chained edge",
            ),
            violations(
                backwards, Invariant.NOT_ACYCLIC, edge,
                pl.format("chain index {} to {}", "source_index", "target_index"), "indexes that increase",
            ),
        ]
    )  # fmt: skip


def _forward_in_chains(tables: Tables) -> pl.DataFrame:
    edges = tables["stream_edges"].filter("chainable").select(TOPOLOGY, "source", "target")
    nodes = tables["stream_nodes"].select(TOPOLOGY, "id", "parallelism")
    for end in ("source", "target"):
        ends = nodes.rename({"id": end, "parallelism": f"{end}_parallelism"})
        edges = edges.join(ends, on=[TOPOLOGY, end], how="left", maintain_order="left")
    return _unequal(edges, pl.format("edge {} to {}", "source", "target"))


def _forward_edges(tables: Tables) -> pl.DataFrame:
    forward = _with_ends(tables, "parallelism").filter("forward")
    # An override changes the parallelism of one end, which Flink accepts.
    overridden = parallelism_overrides(tables["job_settings"]).select(TOPOLOGY)
    edges = forward.join(overridden, on=TOPOLOGY, how="anti")
    return _unequal(edges, pl.format("edge {} to {}", "source_node", "target_node"))


def _unequal(edges: pl.DataFrame, where: pl.Expr) -> pl.DataFrame:
    return violations(
        edges.filter(pl.col("source_parallelism") != pl.col("target_parallelism")),
        Invariant.FORWARD_UNEQUAL_PARALLELISM,
        where,
        pl.format("parallelism {} and {}", "source_parallelism", "target_parallelism"),
        "equal parallelism",
    )


def _order_and_references(tables: Tables) -> pl.DataFrame:
    edges = _with_ends(tables, "topological_order")
    where = pl.format("edge {} to {}", "source_vertex", "target_vertex")
    nowhere = edges.filter(
        pl.any_horizontal(pl.col(f"{end}_topological_order").is_null() for end in ("source", "target"))
    )
    sets = tables["intermediate_data_sets"].select(TOPOLOGY, "data_set_id")
    unread = edges.join(sets, on=[TOPOLOGY, "data_set_id"], how="anti")
    return pl.concat(
        [
            violations(
                nowhere, Invariant.DANGLING_REFERENCE, where, pl.lit("no such vertex"), "job vertices"
            ),
            violations(
                unread, Invariant.DANGLING_REFERENCE, where,
                pl.format("data set {}, which does not exist", "data_set_id"), "an intermediate data set",
            ),
            violations(
                edges.filter(pl.col("source_topological_order") >= pl.col("target_topological_order")),
                Invariant.NOT_ACYCLIC, where,
                pl.format("order {} to {}", "source_topological_order", "target_topological_order"),
                "an order in which sources come first",
            ),
        ]
    )  # fmt: skip


def _with_ends(tables: Tables, column: str) -> pl.DataFrame:
    """Return job edges with a column of the vertices at both ends."""
    vertices = tables["job_vertices"].select(TOPOLOGY, "vertex", column)
    edges = tables["job_edges"]
    for end in ("source", "target"):
        ends = vertices.rename({"vertex": f"{end}_vertex", column: f"{end}_{column}"})
        edges = edges.join(ends, on=[TOPOLOGY, f"{end}_vertex"], how="left", maintain_order="left")
    return edges


def _ids(tables: Tables) -> pl.DataFrame:
    unique = (
        ("stream_nodes", ["id"]),
        ("stream_edges", ["target", "in_index"]),
        ("job_vertices", ["vertex"]),
        ("job_vertices", ["vertex_id"]),
        ("chained_operators", ["operator_id"]),
        ("intermediate_data_sets", ["data_set_id"]),
        ("job_edges", ["target_vertex", "input_index"]),
        ("execution_job_vertices", ["vertex"]),
        ("execution_vertices", ["vertex", "subtask"]),
    )
    return pl.concat(_repeated(tables[table], table, keys) for table, keys in unique if table in tables)


def _repeated(rows: pl.DataFrame, table: str, keys: list[str]) -> pl.DataFrame:
    key_rows = rows.select(TOPOLOGY, *keys)
    if not key_rows.is_duplicated().any():
        return NO_VIOLATION
    several = key_rows.filter(key_rows.is_duplicated()).unique(maintain_order=True)
    named = pl.concat_str(
        pl.lit(table), *(pl.concat_str(pl.lit(f" {key} "), pl.col(key).cast(pl.String)) for key in keys)
    )
    return violations(several, Invariant.ID_NOT_UNIQUE, named, pl.lit("several rows"), "one")


def _co_location(tables: Tables) -> pl.DataFrame:
    heads = tables["stream_nodes"].select(TOPOLOGY, "co_location_group", vertex="id")
    heads = heads.filter(pl.col("co_location_group").is_not_null()).rename({"co_location_group": "key"})
    vertices = tables["job_vertices"].select(TOPOLOGY, "vertex", "slot_sharing_group", "co_location_group")
    located = heads.join(vertices, on=[TOPOLOGY, "vertex"])
    group = [TOPOLOGY, "key"]
    counted = located.group_by(group).agg(
        pl.col("vertex").first(),
        numbers=pl.col("co_location_group").n_unique(),
        none=pl.col("co_location_group").null_count(),
        groups=pl.col("slot_sharing_group").n_unique(),
    )
    wrong = (pl.col("numbers") > 1) | (pl.col("none") > 0) | (pl.col("groups") > 1)
    return violations(
        counted.filter(wrong),
        Invariant.CO_LOCATION_BROKEN,
        pl.format("co-location group {} (vertex {})", "key", "vertex"),
        pl.format("{} slot sharing groups", "groups"),
        "vertices of one co-location group in one slot sharing group",
    )


def _slots(tables: Tables) -> pl.DataFrame:
    slots = tables["execution_slot_sharing_groups"]
    tasks = tables["execution_vertices"].select(TOPOLOGY, "vertex", "subtask")
    key, slot = [TOPOLOGY, "vertex", "subtask"], "execution_slot_sharing_group"
    where = pl.format("vertex {} subtask {}", "vertex", "subtask")
    problems = [
        violations(
            tasks.join(slots, on=key, how="anti"), Invariant.TASK_NOT_IN_ONE_SLOT, where,
            pl.lit("no slot"), "one slot",
        ),
        violations(
            slots.join(tasks, on=key, how="anti"), Invariant.TASK_NOT_IN_ONE_SLOT, where,
            pl.lit("no such task"), "tasks of the plan",
        ),
    ]  # fmt: skip
    several = slots.select(key)
    if several.is_duplicated().any():
        problems.append(
            violations(
                slots.filter(several.is_duplicated()).unique(key, maintain_order=True),
                Invariant.TASK_NOT_IN_ONE_SLOT, where, pl.lit("several slots"), "one slot",
            )
        )  # fmt: skip
    vertices = tables["job_vertices"].select(
        TOPOLOGY, "vertex", "co_location_group", own_group="slot_sharing_group"
    )
    placed = slots.join(vertices, on=[TOPOLOGY, "vertex"], how="left", maintain_order="left")
    slot_counts = placed.group_by(TOPOLOGY, slot).agg(
        pl.col("own_group").n_unique().alias("groups"),
        pl.len().alias("tasks"),
        pl.col("vertex").n_unique().alias("vertices"),
    )
    named = pl.format("slot {}", slot)
    problems += [
        violations(
            slot_counts.filter(pl.col("groups") > 1), Invariant.TASK_NOT_IN_ONE_SLOT, named,
            pl.format("tasks of {} slot sharing groups", "groups"), "of one",
        ),
        violations(
            slot_counts.filter((pl.col("tasks") > pl.col("vertices")) & (pl.col("groups") == 1)),
            Invariant.SUBTASKS_SHARE_SLOT, named,
            pl.format("{} tasks of {} vertices", "tasks", "vertices"), "one task of each vertex",
        ),
    ]  # fmt: skip
    located = placed.filter(pl.col("co_location_group").is_not_null())
    apart = located.group_by(TOPOLOGY, "co_location_group", "subtask").agg(
        pl.col(slot).n_unique().alias("slots"), pl.col("vertex").first()
    )
    problems.append(
        violations(
            apart.filter(pl.col("slots") > 1), Invariant.CO_LOCATION_BROKEN, where,
            pl.format("{} slots for one subtask of a co-location group", "slots"), "one",
        )
    )  # fmt: skip
    return pl.concat(problems)


_JOB_GRAPH = {"stream_nodes", "stream_edges", "job_vertices", "chained_operators", "job_edges"}
_TASKS = _JOB_GRAPH | {"execution_vertices", "execution_job_vertices"}
_CHECKS: tuple[tuple[set[str], Callable[[Tables], pl.DataFrame]], ...] = (
    ({"stream_nodes"}, _ids),
    ({"stream_nodes", "stream_edges"}, _forward_in_chains),
    (_JOB_GRAPH, _operators_in_vertices),
    (_JOB_GRAPH, _chains),
    (_JOB_GRAPH, _forward_edges),
    (_JOB_GRAPH, _order_and_references),
    (_JOB_GRAPH, _co_location),
    (_TASKS, _tasks_left_out),
    (_TASKS | {"execution_slot_sharing_groups"}, _slots),
    (_JOB_GRAPH, _edges_left_out),
    ({"job_vertices", "execution_slot_sharing_groups", "required_slots"}, _slots_left_out),
)
"""Tables that a check needs, and the check."""
