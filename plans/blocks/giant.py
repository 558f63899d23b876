"""What every block of a giant knows."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.blocks.messages import DRIVER, PLAN, Message, unpacked
from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.polars_frames import arrow_parts
from penstock.plans.frames.polars_refusals import first_reasons
from penstock.plans.layers import LAYER_TABLES, Choices, layers_until
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

Write = Callable[[str, Iterable[pa.Table]], tuple[str, int]]
"""(table, parts of its rows) to the path of the file they are in now, and how many they are."""


class RowGroups(NamedTuple):
    """Row groups of a Parquet file, from `first` up to `end`."""

    path: str
    first: int
    end: int


class Traits(NamedTuple):
    """What the first job found out about the transformations of a giant."""

    unions: bool = False
    virtual: bool = False
    named_groups: bool = False  #: some operator names its slot sharing group
    cuts: bool = False  #: a legacy source may head a chain with an operator that yields


class Giant(NamedTuple):
    """A topology in blocks, its settings, and where its tables go.

    `starts`: the first id of each block, and the end. `files`: the row groups that may hold rows of each
    block; None if rows come as messages. `given`: its rows are not validated yet. `write`: keeps rows of the
    plan; None: they are messages to PLAN.
    """

    topology: int
    starts: tuple[int, ...]
    settings: bytes
    until: Layer
    choices: Choices
    files: tuple[tuple[RowGroups, ...], ...] | None = None
    given: bool = False
    write: Write | None = None
    traits: Traits = Traits()
    dynamic: bool = False

    @property
    def asks_for_uses(self) -> bool:
        """Whether sources are refused by who reads them: each needs a uid, or Flink refuses an option."""
        settings = self.job_settings
        return not settings["auto_generate_uids"][0] or len(settings["setting_refusals"][0]) > 0

    @property
    def blocks(self) -> int:
        """How many there are."""
        return len(self.starts) - 1

    @property
    def job_settings(self) -> pl.DataFrame:
        """The row of job_settings."""
        return _settings(self.settings)

    def has(self, layer: Layer) -> bool:
        """Whether the plan has that layer."""
        return layer in layers_until(self.until)

    def with_topology(self, rows: pl.DataFrame) -> pl.DataFrame:
        """`rows` and the column topology_id."""
        return rows.with_columns(pl.lit(self.topology, pl.Int64).alias(TOPOLOGY))

    def owners(self, ids: Ints) -> Ints:
        """The block of each id."""
        return np.searchsorted(np.array(self.starts), ids, "right") - 1

    def table(self, table: str, rows: pl.DataFrame) -> Iterator[Message]:
        """Keep rows of the plan's `table`, if the plan has it."""
        if rows.is_empty() or not any(table in LAYER_TABLES[layer] for layer in layers_until(self.until)):
            return
        parts = arrow_parts(rows, table, rows=_ROWS_OF_A_PART)
        if self.write is None:
            yield from (Message(PLAN, table, part) for part in parts)
        else:
            path, count = self.write(table, parts)
            yield Message(DRIVER, WRITTEN, pl.DataFrame({"table": [table], "path": [path], "rows": [count]}))


SUMMARY, REASONS, WRITTEN, OTHER_WAY, WAYS = "summary", "reasons", "written", "other_way", "ways"
"""Kinds of messages to the driver: what the first job found in a block; reasons to refuse the giant; a file;
that the giant has what blocks do not plan, in words; and how many edges a block's inputs stand for."""

_ROWS_OF_A_PART = 131_072


def reasons(rows: pl.DataFrame) -> Iterator[Message]:
    """Reasons to refuse the giant (see polars_refusals.refusals), for the driver."""
    if not rows.is_empty():
        yield Message(DRIVER, REASONS, first_reasons(rows))


def other_way(why: str) -> Message:
    """That the giant has to be planned in another way."""
    return Message(DRIVER, OTHER_WAY, pl.DataFrame({"why": [why]}))


@lru_cache(2)
def _settings(packed: bytes) -> pl.DataFrame:
    frame = pl.from_arrow(unpacked(pa.py_buffer(packed)))
    assert isinstance(frame, pl.DataFrame)
    return frame.rechunk()
