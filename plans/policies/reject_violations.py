"""Topologies for which a planner broke a rule leave the plan, and are listed with what was wrong."""

import polars as pl
import pyarrow as pa

from plans.columnar.frames import empty, from_arrow
from plans.message_limits import limited
from plans.policies.rules import STAGE
from plans.tables import REJECTED
from plans.tables.column_types import TOPOLOGY

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
