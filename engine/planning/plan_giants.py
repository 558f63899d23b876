"""Plan topologies on Spark that are too large for one worker (giants), in blocks."""

import time
from collections.abc import Collection, Sequence
from functools import partial
from math import ceil
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.engine.output.progress import SILENT, Report
from penstock.engine.planning.memory_estimate import (
    bytes_of_tasks,
    memory_of_workers,
    require_memory_for_blocks,
)
from penstock.engine.planning.plan_in_workers import Size
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planning_settings import ROWS_OF_A_BLOCK, ROWS_PER_PARTITION, planning_settings
from penstock.engine.spark.session import cores_of, is_connect
from penstock.plans.blocks.giant import Giant, RowGroups, Write
from penstock.plans.blocks.run_blocks import Given, PlannedInBlocks, run_blocks
from penstock.plans.blocks.stages import jobs_of_giant, starts_of_blocks
from penstock.plans.execution_graph.job_graph_arrays import TaskRows
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.frames.spark_frames import no_rows
from penstock.plans.frames.spark_schemas import conform, free, is_local, spark_schema
from penstock.plans.layers import LAYER_TABLES, PlanOptions, layers_until
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.on_spark.local_transformations import local_transformations
from penstock.plans.topology.on_spark.topologies_of_lines import GivenTables, TopologyTables
from penstock.plans.vocabulary import TopologyForm

OF_GIANTS = Size(65_536, 2**29 // bytes_of_tasks(TaskRows(1, 1, 1)))
"""A topology with more rows or tasks is planned in blocks; one of this size takes half a GiB in a worker."""

_TASKS_OF_A_BLOCK = 4 * OF_GIANTS.tasks

_MOST_READ = 4
"""How many times the rows of a giant may be read if workers read files block by block. Spark takes longer to
read and exchange them once."""


class Store(Protocol):
    """A store, into which workers write the tables of a giant."""

    def writer(self, tables: Collection[str]) -> Write | None:
        """Return a function that writes rows of `tables` from any process; None if workers cannot write."""

    def take(self, files: list[tuple[str, str, int]]) -> None:
        """Take (table, path, rows) of the files of all tables of the plan."""

    def drop(self) -> None:
        """Drop the written files, which are not part of the plan."""


def plan_in_blocks(
    spark: SparkSession,
    read: TopologyTables | GivenTables,
    topology: pl.DataFrame,
    topology_id: int,
    size: Size,
    options: PlanOptions,
    report: Report = SILENT,
    store: Store | None = None,
) -> PlanResult:
    """Plan the topology with this id, whose rows of TOPOLOGIES are `topology`.

    `read` may hold other topologies. `store` gets the tables of a plan; without it they are DataFrames.
    Raises NotEnoughMemoryError before a job starts (see require_memory_for_blocks).
    """
    cores = cores_of(spark)
    rows_of_a_block = _rows_of_a_block(size, cores)
    if not is_connect(spark) and is_local(spark.sparkContext):  # on a cluster, memory is the executors'
        at_a_time = min(size.rows, cores * rows_of_a_block)
        require_memory_for_blocks(size.rows, size.tasks, at_a_time, lambda: memory_of_workers(spark))
    giant, given = _giant(read, topology, topology_id, size, options, rows_of_a_block)
    tables = [table for layer in layers_until(options.until) for table in LAYER_TABLES[layer]]
    if store is not None:
        giant = giant._replace(write=store.writer([*tables, "rejected"]))
    settings = None
    if isinstance(read, TopologyTables):
        settings = from_arrow(read.job_settings.where(F.col(TOPOLOGY) == topology_id).toArrow())
    begun: list[tuple[str, float]] = []

    def begin(stage: str) -> None:
        begun.append((stage, time.monotonic()))
        report(stage)

    with planning_settings(spark, max(2, giant.blocks + 1), ROWS_OF_A_BLOCK):
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_ROWS_PER_BATCH))
        planned = run_blocks(spark, giant, given, jobs_of_giant(giant, topology, settings), begin, cores)
    ends = [*(since for _, since in begun[1:]), time.monotonic()]
    seconds = {stage.replace(" ", "_"): end - since for (stage, since), end in zip(begun, ends, strict=True)}
    return _result(spark, planned, max(1, len(topology)), seconds, tables, store, giant.write)


def _giant(
    read: TopologyTables | GivenTables,
    topology: pl.DataFrame,
    topology_id: int,
    size: Size,
    options: PlanOptions,
    rows_of_a_block: int,
) -> tuple[Giant, Given]:
    """Return the giant and its rows to divide (see run_blocks)."""
    here = F.col(TOPOLOGY) == topology_id
    if isinstance(read, GivenTables):
        starts = starts_of_blocks(size.rows, rows_of_a_block, given=True)
        files = row_groups_of_blocks(read.files, topology_id, starts)
        giant = Giant(topology_id, starts, options, files, given=True)
        rows = [] if files else [("given", read.transformations.where(here), "transformations", "id")]
        return giant, rows
    if topology["form"][0] == TopologyForm.TRANSFORMATIONS:
        starts = starts_of_blocks(size.rows, rows_of_a_block, given=False)
        rows = [("given", read.transformations.where(here), "transformations", "id")]
        return Giant(topology_id, starts, options), rows
    nodes, edges = read.stream_nodes.where(here), read.stream_edges.where(here)
    giant = Giant(topology_id, _starts_of_nodes(nodes, size.rows, rows_of_a_block), options, graph=True)
    return giant, [
        ("given", nodes, "stream_nodes", "id"),
        ("given_edges", edges, "stream_edges", "target"),
    ]


def _starts_of_nodes(nodes: DataFrame, rows: int, rows_of_a_block: int) -> tuple[int, ...]:
    """Return the first id of each block, and the end, for blocks of about as many nodes, whose ids may have
    gaps.
    """
    blocks = ceil(rows / rows_of_a_block)
    shares = F.array(*(F.lit(number / blocks) for number in range(1, blocks)))
    inner = F.percentile_approx("id", shares, 10 * blocks) if blocks > 1 else F.array().cast("array<int>")
    first, last, between = nodes.agg(F.min("id"), F.max("id"), inner).collect()[0]
    return tuple(sorted({first, *between, last + 1}))


def _result(
    spark: SparkSession,
    planned: PlannedInBlocks,
    inputs: int,
    seconds: dict[str, float],
    tables: list[str],
    store: Store | None,
    write: Write | None,
) -> PlanResult:
    rejected, topologies, job_settings, files = planned.finished
    few = {"topologies": topologies, "job_settings": job_settings, "rejected": rejected}
    if len(rejected):
        planned.free()
        if store is not None:
            store.drop()
    elif store is not None and write is not None:
        own = {"topologies": topologies, "job_settings": job_settings}
        written = [(table, *write(table, [to_arrow(rows, table)])) for table, rows in own.items()]
        store.take([*files, *written])
    result = {table: no_rows(spark, spark_schema(table)) for table in [*tables, "rejected"]}
    result |= {} if len(rejected) else planned.tables
    result |= {table: _local(spark, table, rows) for table, rows in few.items()}
    kept = [] if len(rejected) else planned.kept
    storage = tuple(partial(free, frame) for frame in kept)
    return PlanResult(result, inputs, len(topologies), len(rejected), seconds, storage=storage)


_ROWS_PER_BATCH = 4_096
"""The most rows of an Arrow batch; Spark limits batches of messages by their bytes, too."""


def _rows_of_a_block(size: Size, cores: int) -> int:
    """Return the rows of each block, for as many blocks as cores, or a multiple for large topologies."""
    blocks = max(1, ceil(size.rows / ROWS_PER_PARTITION), ceil(size.tasks / _TASKS_OF_A_BLOCK))
    return ceil(size.rows / (ceil(blocks / cores) * cores))


def _local(spark: SparkSession, table: str, rows: pl.DataFrame) -> DataFrame:
    if rows.is_empty():
        return no_rows(spark, spark_schema(table))
    frame = spark.createDataFrame(to_arrow(rows, table), from_arrow_schema(TABLES[table]))
    return conform(frame, table)


def row_groups_of_blocks(
    paths: Sequence[str], topology: int, starts: tuple[int, ...]
) -> tuple[tuple[RowGroups, ...], ...] | None:
    """Return the row groups of files of `transformations` that may have rows of each block.

    None if Spark has to read them: files that this process does not read (see local_transformations), or
    whose rows are so far from the order of ids that blocks would read them again and again. Rows without an
    id, or with one below or above those of all blocks, belong to the first or the last block.
    """
    import pyarrow.parquet as pq

    tasks = local_transformations(paths)
    if not tasks:
        return None
    blocks: list[list[RowGroups]] = [[] for _ in starts[1:]]
    read = 0
    for path in sorted({group.path for task in tasks for group in task}):
        metadata = pq.read_metadata(path)
        names = metadata.schema.to_arrow_schema().names
        places = [names.index(TOPOLOGY), names.index("id")]
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            topologies, ids = (_bounds(row_group, names[place]) for place in places)
            if topologies is None or ids is None:
                return None
            if not topologies[0] <= topology <= topologies[1]:
                continue
            ends = np.searchsorted(np.array(starts), ids, "right") - 1
            first, last = np.clip(ends, 0, len(blocks) - 1).tolist()
            for block in range(first, last + 1):
                blocks[block].append(RowGroups(path, group, group + 1))
                read += row_group.num_rows
    if read > _MOST_READ * (starts[-1] - 1) + OF_GIANTS.rows or not all(blocks):
        return None
    return tuple(tuple(groups) for groups in blocks)


def _bounds(row_group: "pa.parquet.RowGroupMetaData", name: str) -> tuple[int, int] | None:
    """Return the least and the largest value of a column; None if they are unknown or values are null."""
    for place in range(row_group.num_columns):
        column = row_group.column(place)
        if column.path_in_schema == name:
            known = column.statistics
            is_known = known is not None and known.has_min_max and known.null_count == 0
            return (known.min, known.max) if is_known else None
    return None
