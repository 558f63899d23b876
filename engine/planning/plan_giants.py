"""Topologies on Spark that no worker should hold whole, planned in blocks."""

import time
from collections.abc import Callable, Collection
from math import ceil
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.engine.planning.memory_estimate import (
    bytes_of_tasks,
    is_local,
    memory_of_workers,
    require_memory_for_blocks,
)
from penstock.engine.planning.plan_in_workers import Size
from penstock.engine.planning.planned_on_spark import Planned
from penstock.engine.planning.planning_settings import ROWS_OF_A_BLOCK, ROWS_PER_PARTITION, planning_settings
from penstock.plans.blocks.giant import Giant, RowGroups, Write
from penstock.plans.blocks.messages import Message, packed
from penstock.plans.blocks.run_blocks import PlannedInBlocks, run_blocks
from penstock.plans.blocks.stages import (
    Looked,
    fingerprint_of,
    looked,
    planned_otherwise,
    starts_of_blocks,
)
from penstock.plans.execution_graph.columnar.job_graph_arrays import TaskRows
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.frames.polars_refusals import reject_refused
from penstock.plans.frames.spark_frames import no_rows
from penstock.plans.frames.spark_schemas import conform, spark_schema
from penstock.plans.layers import LAYER_TABLES, Choices, layers_until
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.read_topology_tables import settings_of_topologies
from penstock.plans.topology.columnar.topologies_of_lines import row_errors, topology_holds
from penstock.plans.topology.joins.local_transformations import local_transformations
from penstock.plans.topology.joins.topologies_of_lines import GivenTables, TopologyTables
from penstock.plans.vocabulary import Layer

OF_GIANTS = Size(65_536, 2**29 // bytes_of_tasks(TaskRows(1, 1, 1)))
"""A larger topology is planned in blocks: a worker takes half a GiB for one of as many rows, or tasks."""

_TASKS_OF_A_BLOCK = 4 * OF_GIANTS.tasks

_MOST_READ = 1.5
"""How many times the rows of a giant may be read where files are read block by block."""


class Store(Protocol):
    """Where workers write the tables of a giant."""

    def writer(self, tables: Collection[str]) -> Write | None:
        """What writes rows of `tables`, from any process; None where workers cannot."""

    def take(self, files: list[tuple[str, str, int]]) -> None:
        """(table, path, rows) of what was written of this plan: it has all its tables."""

    def drop(self) -> None:
        """What was written is not of the plan."""


def plan_giant(
    spark: SparkSession,
    read: TopologyTables | GivenTables,
    topology: pl.DataFrame,
    size: Size,
    until: Layer,
    choices: Choices | None = None,
    report: Callable[[str], None] = lambda stage: None,
    store: Store | None = None,
    rows_of_a_block: int | None = None,
) -> Planned | str:
    """The plan of the only topology in `topology`, rows of TOPOLOGIES; or why blocks do not plan it.

    `read` may hold other topologies. `store` gets the tables if they are planned; without it they are
    DataFrames. Raises NotEnoughMemoryError before a job starts (see require_memory_for_blocks).
    """
    given = isinstance(read, GivenTables)
    chosen = choices or Choices()
    settings = _settings(read, topology)
    why = planned_otherwise(topology, settings, chosen)
    if why is not None:
        return why
    topology_id = int(topology[TOPOLOGY][0])
    cores = spark.sparkContext.defaultParallelism
    rows_of_one = rows_of_a_block or _rows_of_a_block(size, cores)
    if is_local(spark.sparkContext):  # on a cluster, memory is the executors'
        at_a_time = min(size.rows, cores * rows_of_one)
        require_memory_for_blocks(size.rows, size.tasks, at_a_time, lambda: memory_of_workers(spark))
    starts = starts_of_blocks(size.rows, rows_of_one, given=given)
    files = row_groups_of_blocks(read.folder, topology_id, starts) if isinstance(read, GivenTables) else None
    rows = read.transformations.where(F.col(TOPOLOGY) == topology_id) if files is None else None
    (batch,) = packed(Message(0, "", settings), 0)
    tables = [table for layer in layers_until(until) for table in LAYER_TABLES[layer]]
    write = None if store is None else store.writer([*tables, "rejected"])
    giant = Giant(
        topology_id,
        starts,
        batch.column("data")[0].as_py(),
        until,
        chosen,
        files,
        given,
        write,
        dynamic=bool(settings["dynamic"][0]),
    )
    finished = topology

    def look(giant: Giant, said: dict[str, pl.DataFrame]) -> Looked:
        nonlocal finished
        config = dict(topology["config"].to_arrow().to_pylist()[0])
        found = looked(giant, said, config)
        if given and found.otherwise is None:
            finished = topology.with_columns(fingerprint=pl.lit(fingerprint_of(topology, found.digests)))
        return found

    begun: list[tuple[str, float]] = []

    def begin(stage: str) -> None:
        begun.append((stage, time.monotonic()))
        report(stage)

    partitions = giant.blocks + 1
    with planning_settings(spark, max(2, partitions), ROWS_OF_A_BLOCK, alone=True):
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_ROWS_PER_BATCH))
        planned = run_blocks(spark, giant, rows, look, begin)
    ends = [*(since for _, since in begun[1:]), time.monotonic()]
    seconds = {stage.replace(" ", "_"): end - since for (stage, since), end in zip(begun, ends, strict=True)}
    if planned.outcome.otherwise is not None:
        planned.free()
        if store is not None:
            store.drop()
        return planned.outcome.otherwise
    few = {"topologies": finished, "job_settings": settings}
    return _result(spark, planned, few, seconds, tables, store, write)


def _result(
    spark: SparkSession,
    planned: PlannedInBlocks,
    few: dict[str, pl.DataFrame],
    seconds: dict[str, float],
    tables: list[str],
    store: Store | None,
    write: Write | None,
) -> Planned:
    """What became of a giant that blocks planned; `few`: its rows of topologies and job_settings."""
    rejected = reject_refused(planned.outcome.refused, few["topologies"], few["job_settings"])
    if len(rejected):
        few = {table: rows.clear() for table, rows in few.items()}
        planned.free()
        if store is not None:
            store.drop()
    elif store is not None and write is not None:
        written = [(table, *write(table, [to_arrow(rows, table)])) for table, rows in few.items()]
        store.take([*planned.outcome.files, *written])
    few["rejected"] = rejected
    result = {table: no_rows(spark, spark_schema(table)) for table in [*tables, "rejected"]}
    result |= {} if len(rejected) else planned.tables
    result |= {table: _local(spark, table, rows) for table, rows in few.items()}
    done = Planned(result, 1, seconds, [] if len(rejected) else planned.kept, ())
    done.planned, done.rejected, done.is_counted = 1 - len(rejected), len(rejected), True
    return done


_ROWS_PER_BATCH = 4_096
"""Of Arrow: given rows, or messages, which Spark limits by their bytes, too."""


def _rows_of_a_block(size: Size, cores: int) -> int:
    """As many blocks as cores, or a multiple of that where blocks got large."""
    blocks = max(1, ceil(size.rows / ROWS_PER_PARTITION), ceil(size.tasks / _TASKS_OF_A_BLOCK))
    return ceil(size.rows / (ceil(blocks / cores) * cores))


def _settings(read: TopologyTables | GivenTables, topology: pl.DataFrame) -> pl.DataFrame:
    """The row of job_settings, or none if the topology's own row may be wrong."""
    if isinstance(read, TopologyTables):
        of_it = read.job_settings.where(F.col(TOPOLOGY).isin(topology[TOPOLOGY].to_list()))
        return from_arrow(of_it.toArrow())
    nothing = from_arrow(pa.Table.from_batches([], TABLES["job_settings"]))
    wrong = row_errors(*(topology[name].to_list() for name in (TOPOLOGY, "name", "form")))
    if wrong or len(topology) != 1 or not topology.select(topology_holds()).item():
        return nothing
    no_transformations = from_arrow(pa.Table.from_batches([], TABLES["transformations"]))
    settings, refused = settings_of_topologies(topology, no_transformations)
    return nothing if refused else settings


def _local(spark: SparkSession, table: str, rows: pl.DataFrame) -> DataFrame:
    if rows.is_empty():
        return no_rows(spark, spark_schema(table))
    frame = spark.createDataFrame(to_arrow(rows, table), from_arrow_schema(TABLES[table]))
    return conform(frame, table)


def row_groups_of_blocks(
    folder: str | None, topology: int, starts: tuple[int, ...]
) -> tuple[tuple[RowGroups, ...], ...] | None:
    """The row groups of the table `transformations` in a local folder that may have rows of each block.

    None where Spark has to read them: files that this process does not read (see local_transformations), or
    whose rows are so far from the order of ids that blocks would read them again and again.
    """
    import pyarrow.parquet as pq

    tasks = None if folder is None else local_transformations(folder)
    if not tasks:
        return None
    blocks: list[list[RowGroups]] = [[] for _ in starts[1:]]
    first_ids = np.array(starts)
    read = 0
    for path in sorted({group.path for task in tasks for group in task}):
        metadata = pq.read_metadata(path)
        names = metadata.schema.to_arrow_schema().names
        places = [names.index(TOPOLOGY), names.index("id")]
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            of_topologies, of_ids = (_bounds(row_group, names[place]) for place in places)
            if of_topologies is None or of_ids is None:
                return None
            if not of_topologies[0] <= topology <= of_topologies[1]:
                continue
            first, last = np.searchsorted(first_ids, of_ids, "right") - 1
            for block in range(max(0, int(first)), min(len(blocks) - 1, int(last)) + 1):
                blocks[block].append(RowGroups(path, group, group + 1))
                read += row_group.num_rows
    if read > _MOST_READ * (starts[-1] - 1) + OF_GIANTS.rows or not all(blocks):
        return None
    return tuple(tuple(groups) for groups in blocks)


def _bounds(row_group: "pa.parquet.RowGroupMetaData", name: str) -> tuple[int, int] | None:
    for place in range(row_group.num_columns):
        column = row_group.column(place)
        if column.path_in_schema == name:
            known = column.statistics
            return None if known is None or not known.has_min_max else (known.min, known.max)
    return None
