"""Converts tables to the arrays of the walks over tasks, and back."""

import numpy as np
import polars as pl
import pyarrow as pa

from plans.arrow_walks import Ints
from plans.columnar.groups import ints
from plans.execution_graph.job_graph_arrays import JobGraphArrays
from plans.rows_in_order import rows_in_order
from plans.runs import runs
from plans.tables.column_types import TOPOLOGY


def job_graph_arrays(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> JobGraphArrays:
    """In: ordered_vertices (see order_job_vertices), placed_edges (see place_job_edges)."""
    topologies = ordered_vertices[TOPOLOGY].to_numpy()
    of_topologies = runs(topologies)
    first = of_topologies.starts[of_topologies.of_row]
    edges = runs(placed_edges[TOPOLOGY].to_numpy())
    first_of_edges = of_topologies.starts[
        np.searchsorted(topologies[of_topologies.starts], placed_edges[TOPOLOGY].to_numpy()[edges.starts])
    ][edges.of_row]
    targets = first_of_edges + placed_edges["target_rank"].to_numpy()
    by_target = rows_in_order(targets, placed_edges["input_index"].to_numpy())
    return JobGraphArrays(
        topologies=topologies,
        vertices=ints(ordered_vertices, "vertex"),
        first=first,
        parallelism=ints(ordered_vertices, "parallelism"),
        slot_sharing_group=ints(ordered_vertices, "slot_sharing_group"),
        co_location_group=ints(ordered_vertices, "co_location_group"),
        logical_region=first + ordered_vertices["pipelined_region"].to_numpy(),
        sources=(first_of_edges + placed_edges["source_rank"].to_numpy())[by_target],
        targets=targets[by_target],
        all_to_all=placed_edges["all_to_all"].to_numpy()[by_target],
        pipelined=placed_edges["pipelined"].to_numpy()[by_target],
    )


def with_task_numbers(ordered_vertices: pl.DataFrame, name: str, numbers: Ints) -> pl.DataFrame:
    """One row per job vertex: its `numbers`, which are those of all tasks in order, as the list `name`."""
    offsets = np.append(0, np.cumsum(ordered_vertices["parallelism"].to_numpy(), dtype=np.int64))
    lists = pa.LargeListArray.from_arrays(offsets, numbers.astype(np.int32))
    return ordered_vertices.select(TOPOLOGY, "vertex", pl.Series(name, lists))
