"""Run giants in blocks on Spark: few jobs, with an exchange of messages before each stage."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.blocks.giant import Giant, runs_of
from penstock.plans.blocks.messages import (
    DRIVER,
    MESSAGE_COLUMNS,
    PLAN,
    WALK,
    Batches,
    Message,
    blocks_stage,
    packed,
    parts_of,
    unpacked,
    walk_stage,
)
from penstock.plans.blocks.stages import (
    ROWS,
    Finished,
    Job,
    Jobs,
    Said,
    Step,
    kept_after,
    messages_to_driver,
)
from penstock.plans.frames.spark_frames import with_null_lists, without_null_lists
from penstock.plans.frames.spark_schemas import conform, free, keep_with_lineage
from penstock.plans.layers import LAYER_TABLES, layers_until
from penstock.plans.tables import TABLES

ROWS_AT_ONCE = 2**18
"""The number of rows of a partition that are divided at a time."""


class PlannedInBlocks(NamedTuple):
    """The result of a giant, and its tables, unless they were written. `kept` holds their storage."""

    finished: Finished
    tables: dict[str, DataFrame]
    kept: list[DataFrame]

    def free(self) -> None:
        """Release the storage."""
        for frame in self.kept:
            free(frame)


Given = Sequence[tuple[str, DataFrame, str, str]]
"""(kind of message, rows, their table, the column that decides the block) of rows to divide."""


def run_blocks(
    spark: SparkSession,
    giant: Giant,
    given: Given,
    jobs: Jobs,
    report: Callable[[str], None],
    cores: int,
) -> PlannedInBlocks:
    """Run the jobs of a giant.

    `given`: its rows, in any order; none if workers read files (see Giant.files). Tables that are not written
    have twice as many partitions as `cores`, or one for each block. A giant that is rejected leaves only
    files that nothing lists.
    """
    kept: list[DataFrame] = []
    first_plan: DataFrame | None = None
    tables: dict[str, DataFrame] = {}
    try:
        job = next(jobs)
        while True:
            report(job.name)
            if first_plan is None:  # `keep_with_lineage` needs its rows to be held until they are computed
                begun = _exchanged(_begun(spark, giant, given), giant)
                first_plan = _staged(begun, job.steps[0])
                kept.append(first := keep_with_lineage(first_plan))
                said = _said(first)
            else:
                said, frames = _run(job, first, giant, kept)
                tables = (
                    _tables([first, *frames], giant, cores) if job.plans and giant.write is None else tables
                )
            job = jobs.send(said)
    except StopIteration as ended:
        finished: Finished = ended.value
        if giant.write is None and len(finished.topologies) and not tables:
            tables = _tables([first], giant, cores)
        return PlannedInBlocks(finished, tables, kept)
    except BaseException:
        for frame in kept:
            free(frame)
        raise


def _run(job: Job, first: DataFrame, giant: Giant, kept: list[DataFrame]) -> tuple[Said, list[DataFrame]]:
    """Run a job after the first; return the messages to the driver, and the frames that hold tables."""
    plans, with_tables = [], []
    waits = kept_after(job.steps) if job.plans and giant.write is None else set[str]()
    frame = first.where((F.col("to") >= WALK) & (F.col("kind") != ROWS))
    for step in job.steps:
        if step.reads_rows:
            frame = frame.unionByName(first.where(F.col("kind") == ROWS))
        frame = _staged(_exchanged(frame, giant), step)
        if step.name in waits:
            plans.append(frame)
            kept.append(frame := keep_with_lineage(frame))
            with_tables.append(frame)
            frame = frame.where(F.col("to") != PLAN)
    said = _said(frame)
    del plans
    return said, with_tables


def _begun(spark: SparkSession, giant: Giant, given: Given) -> DataFrame:
    """The messages that the first job begins with."""
    if not given:
        return _begin(spark, giant)
    divided = [_divided(rows, giant, kind, table, key) for kind, rows, table, key in given]
    return reduce(DataFrame.unionByName, divided)


def _begin(spark: SparkSession, giant: Giant) -> DataFrame:
    """One message to each block."""
    return spark.range(0, giant.blocks, 1, giant.blocks).select(
        F.col("id").cast("int").alias("to"),
        F.lit("begin").alias("kind"),
        F.lit(0).alias("sender"),
        F.lit(0).alias("part"),
        F.lit(b"").alias("data"),
    )


def _divided(given: DataFrame, giant: Giant, kind: str, table: str, key: str) -> DataFrame:
    """Rows of `table` as messages to the blocks that have the ids in the column `key`."""
    schema = TABLES[table]

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for rows in _many(with_null_lists(batch, schema) for batch in batches):
            ids = pc.fill_null(rows[key], 0).to_numpy()
            blocks = np.clip(giant.owners(ids), 0, giant.blocks - 1)
            order = np.argsort(blocks, kind="stable")
            by_block = rows.take(pa.array(order))
            for block, start, end in runs_of(blocks[order]):
                yield from packed(Message(block, kind, by_block.slice(start, end - start)), 0)

    return without_null_lists(given, schema).mapInArrow(run, MESSAGE_COLUMNS)


def _many(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    together: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        together.append(batch)
        rows += len(batch)
        if rows >= ROWS_AT_ONCE:
            yield pa.Table.from_batches(together).combine_chunks()
            together, rows = [], 0
    if rows:
        yield pa.Table.from_batches(together).combine_chunks()


def _exchanged(frame: DataFrame, giant: Giant) -> DataFrame:
    """Put the messages to each block into a partition of its own, and all others into one more."""
    partition = F.when(F.col("to") < 0, giant.blocks).otherwise(F.col("to"))
    return frame.repartitionById(giant.blocks + 1, partition)


def _staged(frame: DataFrame, step: Step) -> DataFrame:
    run = walk_stage(step.stage) if step.walks else blocks_stage(step.stage)
    return frame.mapInArrow(run, MESSAGE_COLUMNS)


def _said(frame: DataFrame) -> Said:
    """Compute all rows and return the messages to the driver."""
    rows = frame.where(F.col("to") == DRIVER).toArrow()
    return messages_to_driver(
        (kind, unpacked(data)) for batch in rows.to_batches() for _, kind, _, _, data in parts_of(batch)
    )


def _tables(frames: list[DataFrame], giant: Giant, cores: int) -> dict[str, DataFrame]:
    """The tables in messages to PLAN; `frames`: of transformations, the stream graph, the rest."""
    names = [table for layer in layers_until(giant.options.until) for table in LAYER_TABLES[layer]]
    few = [frame.coalesce(min(2 * cores, giant.blocks + 1)) for frame in frames]
    return {
        table: _table(few[_FRAME_OF.get(table, -1)], table)
        for table in names
        if table not in ("topologies", "job_settings")
    }


_FRAME_OF = {"transformations": 0, "stream_nodes": 1, "stream_edges": 1}


def _table(frame: DataFrame, table: str) -> DataFrame:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _, _, _, _, data in parts_of(batch):
                yield from unpacked(data).to_batches()

    chosen = frame.where((F.col("to") == PLAN) & (F.col("kind") == table))
    return conform(chosen.mapInArrow(run, from_arrow_schema(TABLES[table])), table)
