"""Sort job vertices, and find the positions of the ends of job edges, the basis of all tables of tasks.

The walks over tasks get both as arrays.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.frames.arrays import Ints, missing_node, rows_in_order, runs
from penstock.plans.frames.polars_frames import NONE, Places, ints, look_up, places, rename
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import MUST_BE_PIPELINED_TYPES, DistributionPattern

# Job graphs of whole topologies as flat arrays, for the walks over tasks.


Flags = npt.NDArray[np.bool_]
NO_GROUP = -1


class JobGraphArrays(NamedTuple):
    """Vertices of all topologies in one numbering (by topology, then topological order), and their input
    edges.

    Tasks are numbered in the order of vertices, then subtasks.
    """

    topologies: Ints  #: topology_id per vertex
    vertices: Ints  #: vertex per vertex
    first: Ints  #: per vertex, the first vertex of its topology
    parallelism: Ints
    slot_sharing_group: Ints
    co_location_group: Ints  #: NO_GROUP without a group
    logical_region: Ints  #: per vertex, the first vertex of its logical pipelined region
    sources: Ints  #: per edge, by target and input index
    targets: Ints
    all_to_all: Flags  #: per edge; pointwise otherwise
    pipelined: Flags  #: per edge; must be consumed while it is produced


CARRIED = (
    "source_vertex",
    "target_vertex",
    "input_index",
    "output_index",
    "consumer_index",
    "result_partition_type",
)
"""Columns of connected_edges in placed_edges."""


def job_graph_arrays(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> JobGraphArrays:
    """Build the arrays from ordered_vertices (see order_job_vertices) and placed_edges (see
    place_job_edges).
    """
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
    """Add to each job vertex its part of `numbers`, one per task in order, as the list `name`."""
    offsets = np.append(0, np.cumsum(ordered_vertices["parallelism"].to_numpy(), dtype=np.int64))
    lists = pa.LargeListArray.from_arrays(offsets, numbers.astype(np.int32))
    return ordered_vertices.select(TOPOLOGY, "vertex", pl.Series(name, lists))


def place_job_edges(connected_edges: pl.DataFrame, ordered_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row per job edge (key topology_id, target_vertex, input_index), in the order of connected_edges.

    In: connected_edges (see connect_vertices), ordered_vertices (see order_job_vertices). Out: pipelined
    (must be consumed while it is produced); all_to_all (pointwise otherwise); source_rank and target_rank,
    the number of the topology's vertices before each end in ordered_vertices; the parallelism of the ends as
    producers and consumers. Raises ValueError for an edge without its vertices.
    """
    sources = _places(connected_edges, "source_vertex", ordered_vertices)
    targets = _places(connected_edges, "target_vertex", ordered_vertices)
    ranks = runs(ordered_vertices[TOPOLOGY].to_numpy()).numbers().astype(np.int32)
    parallelism = ordered_vertices["parallelism"].to_numpy()
    return connected_edges.select(
        TOPOLOGY,
        *CARRIED,
        pl.col("result_partition_type").is_in(MUST_BE_PIPELINED_TYPES).alias("pipelined"),
        (pl.col("distribution") == DistributionPattern.ALL_TO_ALL.value).alias("all_to_all"),
        pl.Series("source_rank", ranks[sources]),
        pl.Series("target_rank", ranks[targets]),
        pl.Series("producers", parallelism[sources]),
        pl.Series("consumers", parallelism[targets]),
    )


def _places(edges: pl.DataFrame, end: str, ordered_vertices: pl.DataFrame) -> Places:
    end_places = places(edges, ordered_vertices.select(TOPOLOGY, "vertex"), {end: "vertex"})
    if (end_places == NONE).any():
        raise missing_node()
    return end_places


def order_job_vertices(job_vertices: pl.DataFrame, execution_job_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex), by topology_id and then in topological order.

    In: job_vertices (see number_co_location_groups), execution_job_vertices. Out: parallelism (effective),
    slot_sharing_group, co_location_group (NO_GROUP without a group), pipelined_region. Other tables refer to
    these rows by position.
    """
    topologies = runs(job_vertices[TOPOLOGY].to_numpy())
    distinct = np.unique(job_vertices[TOPOLOGY].to_numpy()[topologies.starts], return_inverse=True)[1]
    rows = rows_in_order(distinct[topologies.of_row], job_vertices["topological_order"].to_numpy())
    ordered = job_vertices.select(
        pl.col(TOPOLOGY, "vertex", "slot_sharing_group", "co_location_group", "pipelined_region").gather(
            pl.Series(values=rows.astype(np.uint32))
        )
    ).with_columns(pl.col("co_location_group").fill_null(NO_GROUP))
    return look_up(
        ordered,
        rename(execution_job_vertices, of_vertex="vertex", parallelism="parallelism"),
        {"vertex": "of_vertex"},
    )


MOST_ROWS = 2**32 - 1
"""The most rows of a table that polars can number."""


class TaskRows(NamedTuple):
    """Row counts of execution_vertices, intermediate_result_partitions and execution_edges."""

    tasks: int
    partitions: int
    edges: int


def count_task_rows(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> TaskRows:
    """Count the rows of the tables of tasks before any of them is created.

    In: ordered_vertices (see order_job_vertices), placed_edges (see place_job_edges). Raises
    NotEnoughMemoryError if a table would have more than MOST_ROWS.
    """
    first_consumers = placed_edges.filter(pl.col("consumer_index") == 0)
    rows = TaskRows(
        _sum(ordered_vertices["parallelism"]),
        _sum(first_consumers["producers"]),
        _sum(placed_edges["consumers"]),
    )
    if max(rows) > MOST_ROWS:
        raise NotEnoughMemoryError(
            f"{rows.tasks:,} tasks with {rows.edges:,} inputs: a table must have at most {MOST_ROWS:,} rows, "
            f"got {max(rows):,}",
            "plan the input in smaller parts, or with --until job_graph, which has no tasks",
        )
    return rows


def _sum(counts: pl.Series) -> int:
    return int(counts.cast(pl.Int64).sum())
