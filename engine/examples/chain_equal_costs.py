"""Chaining: operators whose costs differ tenfold or more get separate tasks.

    penstock plan topologies.jsonl --out store --planner penstock.engine.examples.chain_equal_costs:chain
"""

import polars as pl

import penstock


@penstock.decides("chaining")
def chain(stream_edges: pl.DataFrame, operator_costs: pl.DataFrame) -> pl.DataFrame:
    """Chain the edges that Flink chains, but only between operators of similar cost."""
    cost = operator_costs.select("topology_id", "id", cost="cpu_nanoseconds_per_record")
    edges = stream_edges.filter("chainable")
    for end in ("source", "target"):
        edges = edges.join(cost.rename({"id": end, "cost": f"{end}_cost"}), on=["topology_id", end])
    larger = pl.max_horizontal("source_cost", "target_cost")
    similar = larger < 10 * pl.min_horizontal("source_cost", "target_cost")
    return edges.select("topology_id", "target", "in_index", chainable=similar)
