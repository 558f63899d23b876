"""What every block of a giant knows."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.blocks.messages import DRIVER, PLAN, Message, packed, unpacked
from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.polars_frames import arrow_parts
from penstock.plans.frames.polars_refusals import first_reasons
from penstock.plans.layers import LAYER_TABLES, PlanOptions, layers_until
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

Write = Callable[[str, Iterable[pa.Table]], tuple[str, int]]
"""Writes parts of a table's rows; returns the path of their file and their number."""


class RowGroups(NamedTuple):
    """Row groups of a Parquet file, from `first` up to `end`."""

    path: str
    first: int
    end: int


class Traits(NamedTuple):
    """Properties of a giant's rows that decide which stages plan it."""

    unions: bool = False
    virtual: bool = False
    named_groups: bool = False  #: some operator names its slot sharing group
    cuts: bool = False  #: a legacy source may head a chain with an operator that yields
    sinks: bool = False  #: some sinks become several operators
    highest_node_id: int = 0  #: the highest `node_id` of all rows; 0 if none has one


class Giant(NamedTuple):
    """A topology in blocks, its settings, and the destination of its tables.

    `starts`: the first id of each block, and the end. `files`: the row groups that may hold rows of each
    block; None if rows arrive as messages. `given`: its rows are not validated yet. `header`: the JSON of a
    given topology without its transformations. `graph`: it is given as a stream graph. `write` keeps rows of
    the plan; None: they are messages to PLAN. `settings`: its packed row of job_settings, once it is known.
    """

    topology: int
    starts: tuple[int, ...]
    options: PlanOptions
    files: tuple[tuple[RowGroups, ...], ...] | None = None
    given: bool = False
    header: bytes = b""
    graph: bool = False
    write: Write | None = None
    settings: bytes = b""
    traits: Traits = Traits()

    @property
    def refuses_by_use(self) -> bool:
        """Whether Flink may refuse a source, or a setting, when an operator first reads the source.

        Each needs a uid, or Flink refuses an option.
        """
        settings = self.job_settings
        return not settings["auto_generate_uids"][0] or len(settings["setting_refusals"][0]) > 0

    @property
    def dynamic(self) -> bool:
        """Whether Flink decides the parallelism of vertices at run time."""
        return bool(self.job_settings["dynamic"][0])

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.starts) - 1

    @property
    def job_settings(self) -> pl.DataFrame:
        """The row of job_settings."""
        return _settings(self.settings)

    def with_settings(self, settings: pl.DataFrame) -> "Giant":
        """Return the giant with its row of job_settings."""
        (batch,) = packed(Message(0, "", settings), 0)
        return self._replace(settings=batch.column("data")[0].as_py())

    def has(self, layer: Layer) -> bool:
        """Whether the plan has that layer."""
        return layer in layers_until(self.options.until)

    def with_topology(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return `rows` with the column topology_id."""
        return rows.with_columns(pl.lit(self.topology, pl.Int64).alias(TOPOLOGY))

    def owners(self, ids: Ints) -> Ints:
        """Return the block of each id."""
        return np.searchsorted(np.array(self.starts), ids, "right") - 1

    def by_owner(self, ids: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield each block with its ids, from sorted ids."""
        for owner, start, end in runs_of(self.owners(ids)):
            yield owner, ids[start:end]

    def table(self, table: str, rows: pl.DataFrame) -> Iterator[Message]:
        """Keep rows of the plan's `table`, if the plan has it."""
        layers = layers_until(self.options.until)
        if rows.is_empty() or not any(table in LAYER_TABLES[layer] for layer in layers):
            return
        parts = arrow_parts(rows, table, rows=_ROWS_OF_A_PART)
        if self.write is None:
            yield from (Message(PLAN, table, part) for part in parts)
        else:
            path, count = self.write(table, parts)
            yield Message(DRIVER, WRITTEN, pl.DataFrame({"table": [table], "path": [path], "rows": [count]}))


def runs_of(values: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield value, start and end of each run of equal values."""
    starts = np.flatnonzero(values[1:] != values[:-1]) + 1
    for start, end in pairwise([0, *starts.tolist(), len(values)]):
        if start < end:
            yield int(values[start]), start, end


SUMMARY, WRITTEN, REASONS, WAYS = "summary", "written", "reasons", "ways"
"""Kinds of messages to the driver: the properties of a block's rows; a file; reasons to refuse the giant; the
number of edges that the inputs of a block stand for."""

EXPLAINED, UNBOUNDED, EXCESS, TAKEN = "explained", "unbounded", "excess", "taken"
"""More of them: errors of a given topology; whether an operator reads an unbounded source; the transformation
at which unions expand to too many edges; whether two transformations have one stream node id."""

_ROWS_OF_A_PART = 131_072


def reasons(rows: pl.DataFrame) -> Iterator[Message]:
    """Reasons to refuse the giant (see polars_refusals.refusals), for the driver."""
    if not rows.is_empty():
        yield Message(DRIVER, REASONS, first_reasons(rows))


@lru_cache(2)
def _settings(packed: bytes) -> pl.DataFrame:
    frame = pl.from_arrow(unpacked(pa.py_buffer(packed)))
    assert isinstance(frame, pl.DataFrame)
    return frame.rechunk()
