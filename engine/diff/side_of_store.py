"""A version of a store as one side of a comparison."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from penstock.engine.diff.rows_of_slices import rows_of_slices
from penstock.engine.diff.side import PLAN_COLUMNS, Plans, Side, count_left_out, known_topologies
from penstock.engine.store.open_plan import BY_NAME, StoredPlan
from penstock.plans.errors import StoreError
from penstock.plans.tables.column_types import TOPOLOGY

_OPTIONAL = ("required_slots",)


def side_of_store(store: str, plan: StoredPlan, folder: Path) -> Side:
    """All topologies of a version; `folder` keeps plans until they are compared.

    Raises StoreError if its plans end before the execution graph.
    """
    tables = [table for table in PLAN_COLUMNS if table not in _OPTIONAL or plan.has(table)]
    if missing := [table for table in tables if not plan.has(table)]:
        raise StoreError(
            f"version {plan.version.version} of {store} has no {', '.join(missing)}",
            "diff compares plans through the execution graph: plan again without --until",
        )

    def plans(chosen: pl.DataFrame, slices: int) -> Iterator[Plans]:
        frames = {table: plan.table(table).select(PLAN_COLUMNS[table]) for table in tables}
        return rows_of_slices(frames, chosen, slices, folder)

    topologies, rejected = (plan.table(table) for table in BY_NAME)
    version, known = plan.version, known_topologies(topologies, rejected)
    return Side(
        f"{store} version {version.version}",
        known,
        plan.table("stream_nodes").select(TOPOLOGY),
        plans,
        (version.planner_version, *sorted(version.options.items())),
        count_left_out(known, rejected),
    )
