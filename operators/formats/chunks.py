"""Records on their way from a source to its operator, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from penstock.operators.chain.operator import Timestamps, Values

#: Values in a chunk, about; sources whose values may be large also keep chunks below CHUNK_BYTES.
CHUNK_VALUES = 4096
CHUNK_BYTES = 1 << 20


class Chunk(NamedTuple):
    """Some records of a split: values, at least one, and a parallel list of timestamps (milliseconds)."""

    values: Values
    timestamps: Timestamps = None


class StampedBatch(NamedTuple):
    """Some records of a split that never became Python objects, with timestamps (int64, milliseconds)."""

    batch: pa.RecordBatch
    timestamps: pa.Int64Array | None = None


def chunks_of(values: Values, timestamps: Timestamps = None) -> Iterator[Chunk]:
    """`values` cut into chunks of CHUNK_VALUES."""
    if len(values) <= CHUNK_VALUES:
        if values:
            yield Chunk(values, timestamps)
        return
    for start in range(0, len(values), CHUNK_VALUES):
        end = start + CHUNK_VALUES
        yield Chunk(values[start:end], None if timestamps is None else timestamps[start:end])
