"""Whole tables that a planner returned: values that every row must have, and keys that are there once."""

from collections.abc import Mapping

import polars as pl

from plans.policies.rules import NO_VIOLATION, Rule, violations
from plans.tables import TABLES
from plans.tables.column_types import TOPOLOGY
from plans.topology.operator_rules import MAX_PARALLELISM

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
"""The columns that are unique in a topology, beside topology_id."""

_SAID_BY_OTHER_RULES = {"chained_operators", "execution_slot_sharing_groups"}
"""Tables whose repeated keys have a rule of their own (see find_violations)."""


def check_tables(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The violations of tables (name to rows) that a planner returned, before they count."""
    found = [check for name, rows in tables.items() for check in _of_table(name, rows)]
    return pl.concat([NO_VIOLATION, *found])


def _of_table(name: str, rows: pl.DataFrame) -> list[pl.DataFrame]:
    key = [TOPOLOGY, *KEYS[name]]
    parts = [
        pl.format(f" {column} {{}}", pl.col(column).cast(pl.String).fill_null("null"))
        for column in KEYS[name]
    ]
    where = pl.concat_str(pl.lit(name), *parts)
    found = [
        violations(rows.filter(pl.col(field.name).is_null()), Rule.VALUE_NOT_ALLOWED, where,
                   pl.lit(f"{field.name}: null"), "a value")
        for field in TABLES[name]
        if not field.nullable and rows[field.name].null_count()
    ]  # fmt: skip
    if name not in _SAID_BY_OTHER_RULES:
        several = rows.filter(rows.select(key).is_duplicated()).unique(key, keep="first", maintain_order=True)
        found.append(violations(several, Rule.ID_NOT_UNIQUE, where, pl.lit("several rows"), "one"))
    if {"parallelism", "max_parallelism"} <= set(rows.columns):
        most = pl.when(pl.col("max_parallelism") > 0).then("max_parallelism").otherwise(MAX_PARALLELISM)
        found.append(
            violations(
                rows.filter((pl.col("parallelism") < 1) | (pl.col("parallelism") > most)),
                Rule.PARALLELISM_OUT_OF_RANGE, where, pl.format("parallelism {}", "parallelism"),
                "1 to the max parallelism beside it",
            )
        )  # fmt: skip
    return found
