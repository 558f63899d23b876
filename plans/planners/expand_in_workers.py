"""Tables with several rows for each row of another: Python workers make them, by columns."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.plans.frames.packed_blocks import Batches, PackedTables
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.frames.spark_schemas import conform, spark_schema

ROWS_AT_A_TIME = 262_144
"""About how many rows are made at a time: one row may stand for some 30,000."""

BYTES_AT_A_TIME = 2**26
"""About how much is read for that at a time: a row may hold a list of as many numbers."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """How rows of `table` are derived from those of another one: `expand` gets some of these at a time, and
    `rows_of_each` estimates how many rows each one becomes."""

    table: str
    expand: Callable[[pl.DataFrame], pl.DataFrame]
    rows_of_each: Callable[[pl.DataFrame], pl.Series]


def expand_in_workers(rows: DataFrame, expansion: Expansion) -> DataFrame:
    """The declared table that `expansion` makes of `rows`; nothing is exchanged."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for table in _expanded(batch, expansion):
                yield from table.to_batches()

    return conform(rows.mapInArrow(run, spark_schema(expansion.table)), expansion.table)


def packed_expansions(rows: DataFrame, expansions: Iterable[Expansion]) -> PackedTables:
    """All `expansions` of the same rows, which are read once for all of them."""
    by_table = {expansion.table: expansion for expansion in expansions}
    return PackedTables(rows, frozenset(by_table), _parts(by_table))


def _parts(
    expansions: Mapping[str, Expansion],
) -> Callable[[Batches, Collection[str]], Iterator[tuple[str, pa.Table]]]:
    def parts(batches: Batches, tables: Collection[str]) -> Iterator[tuple[str, pa.Table]]:
        for rows in _together(batches):
            for table, expansion in expansions.items():
                if table in tables:
                    for part in _expanded(rows, expansion):
                        yield table, part

    return parts


def _together(batches: Batches) -> Iterator[pa.Table]:
    """Tables of at least ROWS_AT_A_TIME rows or BYTES_AT_A_TIME, except the last."""
    kept: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        kept.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= ROWS_AT_A_TIME or size >= BYTES_AT_A_TIME:
            yield pa.Table.from_batches(kept)
            kept, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(kept)


def _expanded(rows: pa.Table | pa.RecordBatch, expansion: Expansion) -> Iterator[pa.Table]:
    # A worker is one of several on its machine. polars reads this before it uses threads for the first time.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    frame = from_arrow(rows)
    ends = np.cumsum(expansion.rows_of_each(frame).to_numpy().astype(np.int64))
    starts = np.flatnonzero(np.diff((ends - 1) // ROWS_AT_A_TIME, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(frame)]):
        yield to_arrow(expansion.expand(frame.slice(start, end - start)), expansion.table)
