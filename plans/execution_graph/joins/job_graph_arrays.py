"""Job graphs of whole topologies as flat arrays: what the walks over tasks run over."""

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.execution_graph.columnar.job_graph_arrays import CARRIED, NO_GROUP, Flags, JobGraphArrays
from penstock.plans.frames.arrays import Ints, positions, rows_in_order, runs, topologies_of
from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.frames.spark_walks import Part
from penstock.plans.tables.column_types import INT, LONG, TOPOLOGY
from penstock.plans.vocabulary import MUST_BE_PIPELINED_TYPES, DistributionPattern

_INTS = pa.list_(pa.field("element", pa.int32(), nullable=False))


def job_graph_rows(
    job_vertices: DataFrame, execution_job_vertices: DataFrame, connected_edges: DataFrame
) -> tuple[Part, Part]:
    """Rows of vertices and of edges (vertex is the source), for job_graph_arrays."""
    effective = rename(execution_job_vertices, of_vertex="vertex", effective_parallelism="parallelism")
    vertices = join_local(job_vertices, effective, {"vertex": "of_vertex"}).select(
        TOPOLOGY,
        "vertex",
        F.col("topological_order").alias("order"),
        F.col("effective_parallelism").alias("parallelism"),
        "slot_sharing_group",
        F.coalesce("co_location_group", F.lit(NO_GROUP)).alias("co_location_group"),
        "pipelined_region",
    )
    edges = connected_edges.select(
        TOPOLOGY,
        F.col("source_vertex").alias("vertex"),
        F.col("target_vertex").alias("target"),
        F.col("input_index").alias("order"),
        (F.col("distribution") == DistributionPattern.ALL_TO_ALL.value).alias("all_to_all"),
        F.col("result_partition_type").isin(*MUST_BE_PIPELINED_TYPES).alias("pipelined"),
    )
    return Part(vertices, "vertex"), Part(edges, "vertex")


OF_VERTICES = ("parallelism", "slot_sharing_group", "co_location_group", "pipelined_region")


def job_graph_arrays(vertices: pa.Table, edges: pa.Table) -> JobGraphArrays:
    """Arrays of job_graph_rows of whole topologies, sorted by topology.

    Raises ValueError for an edge without its vertices (see positions).
    """
    topologies = topologies_of(vertices)
    of_topologies = runs(topologies)
    by_order = rows_in_order(of_topologies.of_row, _ints(vertices, "order"))
    ids = _ints(vertices, "vertex")[by_order]
    first = of_topologies.starts[of_topologies.of_row]
    parallelism, slot_sharing_group, co_location_group, region = (
        _ints(vertices, name)[by_order] for name in OF_VERTICES
    )
    position = positions(topologies, ids)
    of_edges = topologies_of(edges)
    targets = position(of_edges, _ints(edges, "target"))
    by_target = rows_in_order(targets, _ints(edges, "order"))
    return JobGraphArrays(
        topologies=topologies,
        vertices=ids,
        first=first,
        parallelism=parallelism,
        slot_sharing_group=slot_sharing_group,
        co_location_group=co_location_group,
        logical_region=first + region,
        sources=position(of_edges, _ints(edges, "vertex"))[by_target],
        targets=targets[by_target],
        all_to_all=_flags(edges, "all_to_all")[by_target],
        pipelined=_flags(edges, "pipelined")[by_target],
    )


def _ints(rows: pa.Table, name: str) -> Ints:
    values: Ints = rows.column(name).to_numpy().astype(np.int64)
    return values


def _flags(rows: pa.Table, name: str) -> Flags:
    return np.asarray(rows.column(name), dtype=np.bool_)


def task_numbers(name: str) -> pa.Schema:
    """Columns of a table with one row per job vertex: its key, and `name`, an int for each subtask."""
    return pa.schema(
        [
            pa.field(TOPOLOGY, LONG, False),
            pa.field("vertex", INT, False),
            pa.field(name, _INTS, False),
        ]
    )


def task_numbers_batch(graph: JobGraphArrays, name: str, numbers: Ints) -> pa.RecordBatch:
    """A batch of task_numbers(name); `numbers` are those of all tasks in order."""
    offsets = np.concatenate(([0], np.cumsum(graph.parallelism)))
    lists = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.array(numbers.astype(np.int32)),
        type=_INTS,
    )
    return pa.RecordBatch.from_arrays(
        [pa.array(graph.topologies), pa.array(graph.vertices, pa.int32()), lists],
        names=[TOPOLOGY, "vertex", name],
    )


def place_job_edges(connected_edges: DataFrame, execution_job_vertices: DataFrame) -> DataFrame:
    """One row per job edge (key topology_id, target_vertex, input_index): what execution edges follow from.

    In: connected_edges (see connect_vertices), execution_job_vertices. Out: source_vertex, output_index,
    consumer_index, result_partition_type, all_to_all (pointwise otherwise), and the parallelism of both ends
    as producers and consumers.
    """
    of_source = rename(execution_job_vertices, producer="vertex", producers="parallelism")
    of_target = rename(execution_job_vertices, consumer="vertex", consumers="parallelism")
    edges = connected_edges.select(
        TOPOLOGY,
        *CARRIED,
        (F.col("distribution") == DistributionPattern.ALL_TO_ALL.value).alias("all_to_all"),
    )
    known = join_local(edges, of_source, {"source_vertex": "producer"})
    return join_local(known, of_target, {"target_vertex": "consumer"})
