"""Parallelism by selectivity: enough subtasks for the records that reach an operator.

    penstock plan topologies.jsonl --out store --planner penstock.engine.examples.parallelism_by_selectivity:scale
"""

import polars as pl

import penstock

BUSY = 0.8
"""The largest share of time that a subtask is busy."""


@penstock.decides("parallelism")
def scale(
    stream_nodes: pl.DataFrame, stream_edges: pl.DataFrame, operator_costs: pl.DataFrame
) -> pl.DataFrame:
    """Compute rates along the edges, level by level; their processor time determines the subtasks."""
    nodes = stream_nodes.join(operator_costs, on=["topology_id", "id"])
    arriving = nodes.select("topology_id", "id", rate="records_per_second")
    total = arriving
    out = arriving  # output of sources
    for _ in range(len(stream_nodes)):
        out = (
            stream_edges.join(out, left_on=["topology_id", "source"], right_on=["topology_id", "id"])
            .group_by("topology_id", id="target")
            .agg(pl.col("rate").sum())
        )
        if out.is_empty():
            break
        total = pl.concat([total, out.select(total.columns)])
        out = out.join(operator_costs, on=["topology_id", "id"]).select(
            "topology_id", "id", rate=pl.col("rate") * pl.col("selectivity")
        )
    rates = total.group_by("topology_id", "id").agg(pl.col("rate").sum())
    busy = pl.col("rate") * pl.col("cpu_nanoseconds_per_record") / 1e9
    most = pl.when(pl.col("max_parallelism") > 0).then("max_parallelism").otherwise(128)
    wanted = (busy / BUSY).ceil().clip(1, 1e6).cast(pl.Int32)
    # One parallelism for a whole topology preserves forward edges: the largest that an operator needs.
    wanted = pl.min_horizontal(wanted.max().over("topology_id"), most.min().over("topology_id"))
    scaled = nodes.join(rates, on=["topology_id", "id"]).filter(pl.col("parallelism_configured").not_())
    return scaled.select("topology_id", "id", parallelism=wanted.cast(pl.Int32))
