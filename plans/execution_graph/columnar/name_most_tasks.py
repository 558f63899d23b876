"""Names the topology and vertex with the most tasks, for the message that they do not fit."""

from collections.abc import Mapping

import polars as pl

from penstock.plans.printable import MOST_OF_A_NAME, limited
from penstock.plans.tables.column_types import TOPOLOGY


def name_most_tasks(tables: Mapping[str, pl.DataFrame]) -> str:
    """The topology with the most tasks and its widest vertex, in words.

    In: ordered_vertices, not empty; topologies and job_vertices, for names, if they are still there.
    """
    vertices = tables["ordered_vertices"].select(TOPOLOGY, "vertex", pl.col("parallelism").cast(pl.Int64))
    tasks = vertices.group_by(TOPOLOGY).agg(pl.col("parallelism").sum()).sort("parallelism", TOPOLOGY)
    topology, most = tasks.row(-1)
    of_topology = vertices.filter(pl.col(TOPOLOGY) == topology)
    widest = of_topology.sort("parallelism", "vertex").row(-1, named=True)
    name = _name(tables, "topologies", pl.col(TOPOLOGY) == topology) or f"id {topology}"
    here = (pl.col(TOPOLOGY) == topology) & (pl.col("vertex") == widest["vertex"])
    vertex = _name(tables, "job_vertices", here)
    named = f"vertex {widest['vertex']}" + (f" ({vertex})" if vertex else "")
    return (
        f"topology {name} has {most:,} tasks in {len(of_topology):,} vertices, "
        f"{widest['parallelism']:,} of them in {named}"
    )


def _name(tables: Mapping[str, pl.DataFrame], table: str, row: pl.Expr) -> str | None:
    names = tables[table].filter(row)["name"].to_list() if table in tables else []
    return limited(names[0], MOST_OF_A_NAME) if names else None
