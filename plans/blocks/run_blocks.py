"""Giants in blocks on Spark: two jobs, an exchange of messages before each stage, and nothing in between."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.blocks.giant import Giant
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
    READ_AGAIN,
    ROWS,
    Looked,
    Outcome,
    Step,
    first_step,
    kept_after,
    outcome,
    said_to_driver,
    steps,
)
from penstock.plans.frames.spark_frames import with_null_lists, without_null_lists
from penstock.plans.frames.spark_schemas import conform, free, keep_with_lineage
from penstock.plans.layers import LAYER_TABLES, layers_until
from penstock.plans.tables import TABLES

ROWS_AT_ONCE = 2**18
"""Rows of a partition that are divided at once."""


class PlannedInBlocks(NamedTuple):
    """What became of a giant, and its tables, where they were not written. `kept` holds their storage."""

    outcome: Outcome
    tables: dict[str, DataFrame]
    kept: list[DataFrame]

    def free(self) -> None:
        """Give the storage back."""
        for frame in self.kept:
            free(frame)


Look = Callable[[Giant, dict[str, pl.DataFrame]], Looked]


def run_blocks(
    spark: SparkSession,
    giant: Giant,
    given: DataFrame | None,
    look: Look,
    report: Callable[[str], None] = lambda stage: None,
) -> PlannedInBlocks:
    """Plan a giant: one job reads it, and one plans what `look` gives for what that found.

    `given`: its TRANSFORMATIONS, in any order; None: workers read files (see Giant.files). Writes nothing of
    a giant that is to be planned otherwise but files that nobody lists.
    """
    kept: list[DataFrame] = []

    def keep_rows(rows: DataFrame) -> DataFrame:
        kept.append(keep_with_lineage(rows))
        return kept[-1]

    try:
        report("read blocks")
        begun = _begin(spark, giant) if given is None else _exchanged(_divided(given, giant), giant)
        first_plan = _staged(begun, first_step(giant))
        first = keep_rows(first_plan)
        said = _said(first)
        found = look(giant, said)
        if found.otherwise is not None:
            return PlannedInBlocks(outcome(giant, said)._replace(otherwise=found.otherwise), {}, kept)
        giant = giant._replace(traits=found.traits)
        report("plan blocks")
        plans = [first_plan]  # `keep_with_lineage` wants its rows to be held until they are computed
        with_tables = [first]
        frame = first.where((F.col("to") >= WALK) & (F.col("kind") != ROWS))
        chosen = steps(giant)
        waits = kept_after(chosen) if giant.write is None else set[str]()
        for step in chosen:
            if step.name == READ_AGAIN:
                frame = frame.unionByName(first.where(F.col("kind") == ROWS))
            frame = _staged(_exchanged(frame, giant), step)
            if step.name in waits:
                plans.append(frame)
                with_tables.append(frame := keep_rows(frame))
                frame = frame.where(F.col("to") != PLAN)
        for kind, rows in _said(frame).items() if chosen else ():
            said[kind] = pl.concat([said[kind], rows]) if kind in said else rows
        del plans
        tables = {} if giant.write is not None else _tables(with_tables, giant)
        return PlannedInBlocks(outcome(giant, said), tables, kept)
    except BaseException:
        for frame in kept:
            free(frame)
        raise


def _begin(spark: SparkSession, giant: Giant) -> DataFrame:
    """A message to each block."""
    return spark.range(0, giant.blocks, 1, giant.blocks).select(
        F.col("id").cast("int").alias("to"),
        F.lit("begin").alias("kind"),
        F.lit(0).alias("sender"),
        F.lit(0).alias("part"),
        F.lit(b"").alias("data"),
    )


def _divided(given: DataFrame, giant: Giant) -> DataFrame:
    """The rows as messages to the blocks that have their ids."""
    schema = TABLES["transformations"]
    starts = np.array(giant.starts)

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for rows in _many(with_null_lists(batch, schema) for batch in batches):
            ids = pc.fill_null(rows["id"], 0).to_numpy()
            blocks = np.clip(np.searchsorted(starts, ids, "right") - 1, 0, giant.blocks - 1)
            order = np.argsort(blocks, kind="stable")
            by_block, blocks = rows.take(pa.array(order)), blocks[order]
            begin = np.flatnonzero(np.diff(blocks, prepend=-1)).tolist()
            for start, end in pairwise([*begin, len(rows)]):
                yield from packed(Message(int(blocks[start]), "given", by_block.slice(start, end - start)), 0)

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
    """Messages to a block in a partition of its own, and those to others in one more."""
    partition = F.when(F.col("to") < 0, giant.blocks).otherwise(F.col("to"))
    return frame.repartitionById(giant.blocks + 1, partition)


def _staged(frame: DataFrame, step: Step) -> DataFrame:
    run = walk_stage(step.stage) if step.walks else blocks_stage(step.stage)
    return frame.mapInArrow(run, MESSAGE_COLUMNS)


def _said(frame: DataFrame) -> dict[str, pl.DataFrame]:
    """What was sent to the driver, which all is computed for."""
    rows = frame.where(F.col("to") == DRIVER).toArrow()
    return said_to_driver(
        (kind, unpacked(data)) for batch in rows.to_batches() for _, kind, _, _, data in parts_of(batch)
    )


def _tables(frames: list[DataFrame], giant: Giant) -> dict[str, DataFrame]:
    """The tables that workers made; `frames`: of transformations, the stream graph, the rest."""
    names = [table for layer in layers_until(giant.until) for table in LAYER_TABLES[layer]]
    at_once = 2 * frames[0].sparkSession.sparkContext.defaultParallelism
    few = [frame.coalesce(min(at_once, giant.blocks + 1)) for frame in frames]
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
