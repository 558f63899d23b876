"""Slots packed by managed memory: vertices share a slot as long as their managed memory fits.

    penstock plan topologies.jsonl --out store --planner penstock.engine.examples.pack_managed_memory:pack
"""

import polars as pl

import penstock

WEIGHT_OF_A_SLOT = 4


@penstock.decides("slot_sharing_groups")
def pack(
    job_vertices: pl.DataFrame, chained_operators: pl.DataFrame, stream_nodes: pl.DataFrame
) -> pl.DataFrame:
    """Fill groups with vertices in topological order; a new group begins when weights exceed a slot's.

    Jobs with co-location groups are left unchanged.
    """
    used = pl.col("managed_memory").map.values().list.sum()
    weights = stream_nodes.select("topology_id", node="id", weight=used + pl.col("slot_scope").list.len())
    vertex_weights = (
        chained_operators.join(weights, on=["topology_id", "node"])
        .group_by("topology_id", "vertex")
        .agg(pl.col("weight").sum())
    )
    located = job_vertices.filter(pl.col("co_location_group").is_not_null())
    vertices = job_vertices.join(located, on="topology_id", how="anti").join(
        vertex_weights, on=["topology_id", "vertex"]
    )
    before = pl.col("weight").cum_sum() - pl.col("weight")
    number = (before // WEIGHT_OF_A_SLOT).over(["topology_id", "slot_sharing_group"], order_by="topological_order")
    group = pl.format("{}-{}", "slot_sharing_group", number)
    return vertices.select("topology_id", "vertex", slot_sharing_group=group)
