"""Planners whose plans the validation of the cost model runs: never chain, chain half, isolate slots."""

import polars as pl

import penstock


@penstock.decides("chaining")
def never(stream_edges: pl.DataFrame) -> pl.DataFrame:
    """Chain no operator."""
    edges = stream_edges.filter("chainable")
    return edges.select("topology_id", "target", "in_index", chainable=False)


@penstock.decides("chaining")
def half(stream_edges: pl.DataFrame) -> pl.DataFrame:
    """Unchain every other edge that Flink would chain, in the order of their readers."""
    edges = stream_edges.filter("chainable").sort("topology_id", "target", "in_index")
    place = pl.int_range(pl.len()).over("topology_id")
    apart = edges.filter(place % 2 == 0)
    return apart.select("topology_id", "target", "in_index", chainable=False)


@penstock.decides("slot_sharing_groups")
def isolated(job_vertices: pl.DataFrame) -> pl.DataFrame:
    """Give every vertex its own slots."""
    own_groups = job_vertices["vertex"]
    return job_vertices.select("topology_id", "vertex", slot_sharing_group=own_groups)
