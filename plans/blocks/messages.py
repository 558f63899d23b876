"""Messages between the blocks of a giant: Arrow rows, packed."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.frames.polars_frames import from_arrow

WALK, DRIVER, PLAN = -1, -2, -3
"""Receivers besides blocks, which have numbers from 0: a walk, the driver, the plan's tables."""

MESSAGES = pa.schema(
    [
        pa.field("to", pa.int32(), False),
        pa.field("kind", pa.string(), False),
        pa.field("sender", pa.int32(), False),
        pa.field("part", pa.int32(), False),
        pa.field("data", pa.binary(), False),
    ]
)
MESSAGE_COLUMNS = "to int, kind string, sender int, part int, data binary"
"""The same for Spark. `data` is an Arrow stream; a large message has several parts.

Packed, a row of 11 integers takes 0.8 core-µs from block to block (8 blocks, 3 million rows). As a row of
Spark with 13 columns, four of them texts, it takes 1.2 core-µs to exchange and 3.1 to pass through Python.
"""

_MOST_BYTES = 2**28
"""The most bytes of a part, far below Arrow's limit of 2 GiB for a batch."""

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_OLDEST = pl.CompatLevel.oldest()

Batches = Iterable[pa.RecordBatch]


class Message(NamedTuple):
    """`rows` for a block, WALK or DRIVER; for PLAN they are rows of the plan's table `kind`."""

    to: int
    kind: str
    rows: "pl.DataFrame | pa.Table | Forwarded"


class Forwarded(NamedTuple):
    """A message that is sent on without being unpacked."""

    parts: list[pa.Buffer]


class Inbox:
    """The messages sent to one receiver; each can be taken once."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[int, int, pa.Buffer]]] = defaultdict(list)

    def add(self, kind: str, sender: int, part: int, data: pa.Buffer) -> None:
        """Keep a part of a message."""
        self._parts[kind].append((sender, part, data))

    def has(self, kind: str) -> bool:
        """Return whether a message of that kind is left."""
        return kind in self._parts

    def frames(self, kind: str) -> list[tuple[int, pl.DataFrame]]:
        """Return (sender, its rows), sorted by sender."""
        by_sender: dict[int, list[pa.Table]] = {}
        for sender, _, data in self._taken(kind):
            by_sender.setdefault(sender, []).append(_unpacked(data))
        return [(sender, _together(tables)) for sender, tables in by_sender.items()]

    def together(self, kind: str) -> pl.DataFrame | None:
        """Return the rows of all senders, sorted by sender; None without a message."""
        tables = [_unpacked(data) for _, _, data in self._taken(kind)]
        return _together(tables) if tables else None

    def each(self, kind: str) -> Iterator[pl.DataFrame]:
        """Yield rows of all senders, sorted by sender, one part at a time."""
        for _, _, data in self._taken(kind):
            yield from_arrow(_unpacked(data))

    def one(self, kind: str) -> pl.DataFrame:
        """As `together`, of a message that must be there."""
        rows = self.together(kind)
        assert rows is not None, kind
        return rows

    def forward(self, kind: str) -> Forwarded:
        """Return the message of the only sender, packed."""
        return Forwarded([data for _, _, data in self._taken(kind)])

    def _taken(self, kind: str) -> list[tuple[int, int, pa.Buffer]]:
        return sorted(self._parts.pop(kind, ()), key=lambda part: part[:2])


Stage = Callable[[int, Inbox], Iterator[Message]]
"""From a receiver, a block or WALK, and its messages to the messages it sends."""


def packed(message: Message, sender: int) -> Iterator[pa.RecordBatch]:
    """Return MESSAGES rows of a message, a batch for each part."""
    for part, data in enumerate(_parts(message.rows)):
        yield _row(message.to, message.kind, sender, part, data)


def _row(to: int, kind: str, sender: int, part: int, data: pa.Buffer) -> pa.RecordBatch:
    bounds = pa.array([0, data.size], pa.int32()).buffers()[1]
    columns = [
        pa.array([to], pa.int32()),
        pa.array([kind]),
        pa.array([sender], pa.int32()),
        pa.array([part], pa.int32()),
        pa.Array.from_buffers(pa.binary(), 1, [None, bounds, data]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)


def unpacked(data: pa.Buffer) -> pa.Table:
    """Return the rows of one part of a message."""
    return _unpacked(data)


def parts_of(batch: pa.RecordBatch) -> Iterator[tuple[int, str, int, int, pa.Buffer]]:
    """The rows of MESSAGES; `data` is not copied."""
    keys = [batch.column(name).to_pylist() for name in MESSAGES.names[:-1]]
    data = batch.column("data")
    _, offsets, values = data.buffers()
    width = np.int64 if pa.types.is_large_binary(data.type) else np.int32
    bounds = np.frombuffer(offsets, width)[data.offset : data.offset + len(data) + 1].tolist()
    for *key, start, end in zip(*keys, bounds[:-1], bounds[1:], strict=True):
        yield *key, values.slice(start, end - start)


def blocks_stage(stage: Stage) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow over MESSAGES of whole blocks, which runs `stage` for each block.

    Messages to other receivers are passed on.
    """
    return _run(stage, lambda to: to >= 0)


def walk_stage(walk: Stage) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow over MESSAGES, which runs `walk` over all messages to WALK.

    These are in one partition. Messages to other receivers are passed on.
    """
    return _run(walk, lambda to: to == WALK)


def _run(stage: Stage, is_read: Callable[[int], bool]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        # A worker is one of several on its machine. polars reads this when it first uses threads.
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        inboxes: dict[int, Inbox] = defaultdict(Inbox)
        for batch in batches:
            for to, kind, sender, part, data in parts_of(batch):
                if is_read(to):
                    inboxes[to].add(kind, sender, part, data)
                else:
                    yield _row(to, kind, sender, part, data)
        for to in sorted(inboxes):
            for message in stage(to, inboxes.pop(to)):
                yield from packed(message, to)

    return run


def _parts(rows: pl.DataFrame | pa.Table | Forwarded) -> Iterator[pa.Buffer]:
    if isinstance(rows, Forwarded):
        yield from rows.parts
        return
    table = rows.to_arrow(compat_level=_OLDEST) if isinstance(rows, pl.DataFrame) else rows
    at_once = max(1, _MOST_BYTES * len(table) // max(1, table.nbytes))
    for start in range(0, max(1, len(table)), at_once):
        part = table.slice(start, at_once)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema, options=_COMPRESSED) as stream:
            stream.write_table(part)
        yield sink.getvalue()


def _unpacked(data: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def _together(tables: list[pa.Table]) -> pl.DataFrame:
    together = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
    return from_arrow(together).rechunk()
