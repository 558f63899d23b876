"""Read a custom planner's answer as the declared tables and check it before it takes effect."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.plans.custom_planners.decisions import ANSWERS, Decision, Tables
from penstock.plans.custom_planners.find_violations import NO_VIOLATION, Invariant, violations
from penstock.plans.errors import SchemaError
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.vocabulary import Layer, Partitioner

_SPREADING = [
    str(p).upper()
    for p in (Partitioner.FORWARD, Partitioner.REBALANCE, Partitioner.RESCALE, Partitioner.SHUFFLE)
]
"""Partitioners that only spread the load; exchanging one for another does not change results."""

NEVER_CHAINED = [reason.value for reason in NotChainableReason if not reason.record.is_preference]
"""Reasons that no planner can override, because a chain is calls inside one task. The others
are preferences."""


def as_frame(returned: Any) -> pl.DataFrame:
    """Convert a table of polars or Arrow, or an object that converts itself to Arrow (pandas, Spark), to a
    frame.

    Raises SchemaError for anything else.
    """
    if isinstance(returned, pl.LazyFrame):
        return returned.collect()
    if isinstance(returned, pl.DataFrame):
        return returned
    if not isinstance(returned, pa.Table | pa.RecordBatch) and hasattr(returned, "toArrow"):
        returned = returned.toArrow()
    if isinstance(returned, pa.Table | pa.RecordBatch) or hasattr(returned, "__arrow_c_stream__"):
        try:
            return pl.DataFrame(returned)
        except Exception as error:  # polars, Arrow and pandas have error classes of their own
            problem = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    else:
        problem = type(returned).__name__
    raise SchemaError(f"{problem} (must be a table of polars, Arrow, pandas or Spark)")


def read_answer(returned: Any, decision: Decision) -> pl.DataFrame:
    """Return the answer's columns in their declared types; the columns of an empty table do not matter.

    Raises SchemaError, which names all wrong columns.
    """
    frame, answer = as_frame(returned), ANSWERS[decision]
    kinds = {TOPOLOGY: pl.Int64(), **dict.fromkeys(answer.keys, pl.Int32()), answer.value: answer.kind}
    if frame.is_empty():
        return pl.DataFrame(schema=kinds)
    wrong = [
        f"column {name} of type {frame.schema[name]} (must be {kind})"
        if name in frame.columns
        else f"no column {name} ({kind})"
        for name, kind in kinds.items()
        if name not in frame.columns or not _fits(frame.schema[name], kind)
    ]
    if wrong:
        raise SchemaError("; ".join(wrong))
    try:
        return frame.select(pl.col(name).cast(kind) for name, kind in kinds.items())
    except pl.exceptions.PolarsError as error:
        raise SchemaError(f"a value out of range for its column: {str(error).splitlines()[0]}") from None


def read_tables(returned: Any) -> dict[str, pl.DataFrame]:
    """Return whole tables of a plan, by name, with their declared columns. Raises SchemaError."""
    allowed = [name for layer in list(Layer)[1:] for name in LAYER_TABLES[layer]]
    if not isinstance(returned, dict) or not set(returned) <= set(allowed):
        unknown = sorted(map(str, set(returned) - set(allowed))) if isinstance(returned, dict) else ""
        raise SchemaError(
            f"{type(returned).__name__} {', '.join(unknown)} (must be a dict of {', '.join(allowed)})"
        )
    tables = {}
    for name, rows in returned.items():
        frame = as_frame(rows)
        missing = [column for column in TABLES[name].names if column not in frame.columns]
        if missing:
            raise SchemaError(f"table {name} without column {missing[0]} (see docs/tables.md)")
        try:
            tables[name] = from_arrow(to_arrow(frame, name))
        except Exception as error:  # Arrow has several error classes
            raise SchemaError(f"table {name}: {str(error).splitlines()[0]}") from None
    return tables


def reader_of(decision: Decision) -> Callable[[Any], Any]:
    """Return the function that reads answers to this decision, as a frame or as frames by table."""
    return read_tables if decision is Decision.PLAN else partial(read_answer, decision=decision)


def _fits(column_type: pl.DataType, kind: pl.DataType) -> bool:
    if kind.is_integer():
        return column_type.is_integer()
    if kind == pl.String():
        return (
            column_type == pl.String()
            or column_type.is_integer()
            or isinstance(column_type, pl.Categorical | pl.Enum)
        )
    return column_type == kind


def check_answer(answer: pl.DataFrame, decision: Decision, tables: Tables) -> pl.DataFrame:
    """Return the violations of a decision, before it takes effect. `tables`: Flink's plan up to its layer."""
    answer_form = ANSWERS[decision]
    key = [TOPOLOGY, *answer_form.keys]
    known_keys = tables[answer_form.decided_table].select(*key, pl.lit(True).alias("known"))
    rows = answer.join(known_keys, on=key, how="left", maintain_order="left")
    unknown = rows.filter(pl.col("known").is_null())
    where = pl.concat_str(
        pl.lit(answer_form.decided_table),
        *(
            pl.concat_str(pl.lit(f" {name} "), pl.col(name).cast(pl.String).fill_null("null"))
            for name in answer_form.keys
        ),
    )
    known_rows = f"keys of {answer_form.decided_table}"
    problems = [
        violations(unknown, Invariant.UNKNOWN_KEY, where, pl.lit("a row about it"), known_rows),
        violations(
            answer.filter(answer.select(key).is_duplicated()).unique(key, keep="first", maintain_order=True),
            Invariant.DECIDED_TWICE, where, pl.lit("several rows about it"), "one",
        ),
        violations(
            answer.filter(pl.col(answer_form.value).is_null()),
            Invariant.VALUE_NOT_ALLOWED, where, pl.lit(f"{answer_form.value}: null"), "a value",
        ),
    ]  # fmt: skip
    whole = rows.filter(pl.col("known").is_not_null() & pl.col(answer_form.value).is_not_null()).drop("known")
    return pl.concat([*problems, _CHECKS.get(decision, _nothing)(whole, tables)])


def _nothing(answer: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    return NO_VIOLATION


def _parallelism(answer: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    nodes = tables["stream_nodes"].select(TOPOLOGY, "id", "name", "max_parallelism")
    rows = answer.join(nodes, on=[TOPOLOGY, "id"])
    most = pl.when(pl.col("max_parallelism") > 0).then("max_parallelism").otherwise(MAX_PARALLELISM)
    return violations(
        rows.filter((pl.col("parallelism") < 1) | (pl.col("parallelism") > most)),
        Invariant.PARALLELISM_OUT_OF_RANGE,
        _OPERATOR,
        pl.format("parallelism {}", "parallelism"),
        "1 to the operator's max parallelism",
    )


def _partitioners(answer: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    edges = _edges(tables).rename({"partitioner": "was"})
    rows = answer.join(edges, on=[TOPOLOGY, "target", "in_index"])
    known = [str(p).upper() for p in Partitioner]
    changed = rows.filter(pl.col("partitioner") != pl.col("was"))
    preserves_results = pl.col("was").is_in(_SPREADING) & pl.col("partitioner").is_in(_SPREADING)
    unequal = (pl.col("partitioner") == "FORWARD") & (pl.col("source_p") != pl.col("target_p"))
    return pl.concat(
        [
            violations(
                changed.filter(~pl.col("partitioner").is_in(known)),
                Invariant.VALUE_NOT_ALLOWED, _EDGE, pl.col("partitioner"), ", ".join(_SPREADING),
            ),
            violations(
                changed.filter(pl.col("partitioner").is_in(known) & ~preserves_results),
                Invariant.RESULT_CHANGING_PARTITIONER, _EDGE,
                pl.format("{} instead of {}", "partitioner", "was"),
                f"a change among {', '.join(_SPREADING)}",
            ),
            violations(
                changed.filter(unequal), Invariant.FORWARD_UNEQUAL_PARALLELISM, _EDGE,
                pl.format("parallelism {} and {}", "source_p", "target_p"), "equal parallelism",
            ),
        ]
    )  # fmt: skip


def _chaining(answer: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    edges = _edges(tables).drop("chainable")
    rows = answer.filter("chainable").join(edges, on=[TOPOLOGY, "target", "in_index"])
    against = pl.col("not_chainable_reasons").list.set_intersection(pl.lit(NEVER_CHAINED))
    rows = rows.filter(~pl.col("chained_source")).with_columns(against=against)
    return violations(
        rows.filter(pl.col("against").list.len() > 0),
        Invariant.NOT_CHAINABLE,
        _EDGE,
        pl.col("against").list.join(", "),
        "no such reason on a chained edge",
    )


def _execution_slots(answer: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    decided = answer.select(TOPOLOGY).unique()
    tasks = tables["execution_vertices"].join(decided, on=TOPOLOGY, how="semi")
    missing = tasks.join(answer, on=[TOPOLOGY, "vertex", "subtask"], how="anti")
    return violations(
        missing,
        Invariant.TASK_NOT_IN_ONE_SLOT,
        pl.format("vertex {} subtask {}", "vertex", "subtask"),
        pl.lit("no slot"),
        "a slot for every task of a topology that has any",
    )


def _edges(tables: Tables) -> pl.DataFrame:
    """Return stream edges with names and parallelism of their ends."""
    nodes = tables["stream_nodes"].select(TOPOLOGY, "id", "name", "parallelism")
    edges = tables["stream_edges"]
    for end in ("source", "target"):
        ends = nodes.rename({"id": end, "name": f"{end}_name", "parallelism": f"{end}_p"})
        edges = edges.join(ends, on=[TOPOLOGY, end], how="left", maintain_order="left")
    return edges


_OPERATOR = pl.format("operator {} ({})", "id", "name")
_EDGE = pl.format("edge {} ({}) to {} ({})", "source", "source_name", "target", "target_name")
_CHECKS = {
    Decision.PARALLELISM: _parallelism,
    Decision.PARTITIONERS: _partitioners,
    Decision.CHAINING: _chaining,
    Decision.EXECUTION_SLOT_SHARING_GROUPS: _execution_slots,
}


KEYS = {
    "stream_nodes": ("id",),
    "stream_edges": ("target", "in_index"),
    "job_vertices": ("vertex",),
    "chained_operators": ("node",),
    "job_edges": ("target_vertex", "input_index"),
    "intermediate_data_sets": ("vertex", "output_index"),
    "slot_sharing_groups": ("slot_sharing_group",),
    "co_location_groups": ("co_location_group",),
    "execution_job_vertices": ("vertex",),
    "execution_vertices": ("vertex", "subtask"),
    "intermediate_results": ("vertex", "output_index"),
    "intermediate_result_partitions": ("vertex", "output_index", "partition"),
    "execution_edges": ("target_vertex", "input_index", "subtask"),
    "execution_slot_sharing_groups": ("vertex", "subtask"),
    "required_slots": ("slot_sharing_group",),
    "network_buffers": ("vertex", "side", "index"),
    "managed_memory": ("node", "use_case"),
}
"""The columns that are unique in a topology, together with topology_id."""

_WITH_OTHER_RULES = {"chained_operators", "execution_slot_sharing_groups"}
"""Tables whose repeated keys have a rule of their own (see find_violations)."""


def check_tables(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the violations of tables (name to rows) that a planner returned, before they take effect."""
    problems = [check for name, rows in tables.items() for check in _check_table(name, rows)]
    return pl.concat([NO_VIOLATION, *problems])


def _check_table(name: str, rows: pl.DataFrame) -> list[pl.DataFrame]:
    key = [TOPOLOGY, *KEYS[name]]
    parts = [
        pl.format(f" {column} {{}}", pl.col(column).cast(pl.String).fill_null("null"))
        for column in KEYS[name]
    ]
    where = pl.concat_str(pl.lit(name), *parts)
    problems = [
        violations(rows.filter(pl.col(field.name).is_null()), Invariant.VALUE_NOT_ALLOWED, where,
                   pl.lit(f"{field.name}: null"), "a value")
        for field in TABLES[name]
        if not field.nullable and rows[field.name].null_count()
    ]  # fmt: skip
    if name not in _WITH_OTHER_RULES:
        several = rows.filter(rows.select(key).is_duplicated()).unique(key, keep="first", maintain_order=True)
        problems.append(violations(several, Invariant.ID_NOT_UNIQUE, where, pl.lit("several rows"), "one"))
    if {"parallelism", "max_parallelism"} <= set(rows.columns):
        most = pl.when(pl.col("max_parallelism") > 0).then("max_parallelism").otherwise(MAX_PARALLELISM)
        problems.append(
            violations(
                rows.filter((pl.col("parallelism") < 1) | (pl.col("parallelism") > most)),
                Invariant.PARALLELISM_OUT_OF_RANGE, where, pl.format("parallelism {}", "parallelism"),
                "1 to the row's max parallelism",
            )
        )  # fmt: skip
    return problems
