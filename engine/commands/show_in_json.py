"""What `penstock show` tells, as one line of JSON for programs."""

from typing import Any

import polars as pl

from penstock.engine.commands.show_fleet import COUNTED
from penstock.engine.store.open_plan import StoredPlan
from penstock.plans.job_graph.columnar.is_chained import IS_CHAINED
from penstock.plans.tables.column_types import TOPOLOGY

_VERTEX = (
    *("vertex", "vertex_id", "name", "parallelism", "max_parallelism", "invokable", "slot_sharing_group"),
    "topological_order",
)
_INPUT = ("target_vertex", "input_index", "source_vertex", "data_set_id", "distribution", "ship_strategy")
_REFUSAL = ("name", "error_stage", "error", "message")


def show_in_json(store: str, plan: StoredPlan, topology: str | None) -> dict[str, Any]:
    """The version with its counts; and for a fleet counts by reason and error, for one topology its plan.

    `plan`: with the rows of that topology only, if one is named.
    """
    version = plan.version
    said = {
        "store": store,
        "version": version.version,
        "published_at": version.published_at.isoformat(),
        "planner_version": version.planner_version,
        "options": dict(version.options),
        "counts": _counts(plan),
    }
    return said | (_fleet(plan) if topology is None else {"topology": topology, **_topology(plan)})


def _counts(plan: StoredPlan) -> dict[str, int]:
    counted = {"planned": "topologies", "refused": "rejected"} | {
        label.replace(" ", "_"): table for label, table in COUNTED if plan.has(table)
    }
    found = pl.collect_all([plan.table(table).select(pl.len()) for table in counted.values()])
    return {label: count.item() for label, count in zip(counted, found, strict=True)}


def _fleet(plan: StoredPlan) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if plan.has("chained_operators"):
        lengths = plan.table("chained_operators").group_by(TOPOLOGY, "vertex").len("operators")
        by_length = lengths.group_by("operators").len("job_vertices").sort("operators")
        said["chain_lengths"] = by_length.collect(engine="streaming").to_dicts()
    if plan.has("stream_edges"):
        edges = plan.table("stream_edges")
        said["chained_edges"] = edges.select(IS_CHAINED.sum()).collect().item()
        reasons = (
            edges.filter(~IS_CHAINED).select(reason="not_chainable_reasons").explode("reason").drop_nulls()
        )
        said["not_chainable_reasons"] = _by_count(reasons, ["reason"], "stream_edges")
    if plan.has("required_slots"):
        said["slots"] = (
            plan.table("required_slots").select(pl.col("slots").cast(pl.Int64).sum()).collect().item()
        )
    errors = plan.table("rejected").select("error_stage", "error")
    said["refusals"] = _by_count(errors, ["error_stage", "error"], "topologies")
    return said


def _by_count(rows: pl.LazyFrame, by: list[str], counted: str) -> list[dict[str, Any]]:
    found = rows.group_by(by).len(counted).sort(counted, *by, descending=[True, *[False] * len(by)])
    return found.collect(engine="streaming").to_dicts()


def _topology(plan: StoredPlan) -> dict[str, Any]:
    refusals = plan.table("rejected").select(_REFUSAL).collect().to_dicts()
    if not plan.has("job_vertices"):
        return {"refusals": refusals}
    vertices = plan.table("job_vertices").select(_VERTEX).sort("topological_order").collect()
    operators = plan.table("chained_operators").select("vertex", "node", "operator_id", "name", "chain_index")
    inputs = plan.table("job_edges").select(_INPUT).sort("target_vertex", "input_index").collect()
    chains = _by(operators.sort("vertex", "chain_index", "node").collect(), "vertex")
    reads = _by(inputs, "target_vertex")
    said: dict[str, Any] = {
        "refusals": refusals,
        "vertices": [
            {**row, "operators": chains.get(row["vertex"], []), "inputs": reads.get(row["vertex"], [])}
            for row in vertices.iter_rows(named=True)
        ],
    }
    if plan.has("required_slots"):
        slots = plan.table("required_slots").drop(TOPOLOGY).sort("slot_sharing_group")
        said["slot_sharing_groups"] = slots.collect().to_dicts()
    return said


def _by(rows: pl.DataFrame, key: str) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        found.setdefault(row.pop(key), []).append(row)
    return found
