"""The base of sources, with splits on the driver and chunks of records in the subtasks.

All sources are bounded, so the enumerator works once, on the driver, before anything runs: a subtask that
runs a second time reads the same splits again.

Source: org.apache.flink.api.connector.source.{Source,SplitEnumerator,SourceReader}.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.arguments import NoJavaError, require_integer
from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.formats.csv_files import CHUNK_VALUES, Chunk, StampedBatch

# The part of pyflink.datastream.utils that scripts can use without Flink's JVM


class ResultTypeQueryable(ABC):
    """An object, such as a source, that knows the type of its records."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Return the type."""


_NO_JAVA = (
    "Source: Penstock runs without Flink's JVM, so there are no sources of Java classes; supported are "
    "NumberSequenceSource, FileSource, collections and the other sources of penstock.operators.connectors"
)


class Source(ABC):
    """Bounded input of a job: made on the driver, pickled, read in the subtasks.

    A source gives rows (`Chunk`) or, where `columnar` is true, record batches (`StampedBatch`). One that can
    do both gives rows until `batches()` is asked for. A batch of rows has one column per field; a batch of
    values of another type has the one column `value`.

    A class of a user's defines `splits`, `read` and `fingerprint`.
    """

    #: Whether `read` yields record batches.
    columnar: bool = False
    #: Whether `batches()` works.
    has_batches: bool = False
    #: Type of the records; None: any Python values, which travel pickled.
    type_info: TypeInformation | None = None

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """NoJavaError for this class itself."""
        if cls is Source:
            raise NoJavaError(_NO_JAVA)
        return super().__new__(cls)

    def __init__(self, *java: Any) -> None:
        if java:
            raise NoJavaError(_NO_JAVA)

    @abstractmethod
    def fingerprint(self) -> str | None:
        """A text that differs whenever `read` would give other records; None if that is not known.

        A run whose driver was killed right after its commit is not repeated where all sources have the same
        fingerprint as then: data that changes, such as a file, must show in it. With None each run is new.
        """

    @abstractmethod
    def splits(self, parallelism: int) -> list[list[Any]]:
        """The splits of each of `parallelism` subtasks, picklable; the same at every call."""
        raise NotImplementedError

    @abstractmethod
    def read(self, split: Any, context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        """The records of a split in order, in chunks of bounded size; no chunk is empty."""
        raise NotImplementedError

    def rows(self) -> Self:
        """This source, giving rows."""
        return self._with_columnar(columnar=False)

    def batches(self) -> Self:
        """This source, giving record batches. ValueError if its records have no columns."""
        if not (self.has_batches or self.columnar):
            raise ValueError(f"{type(self).__name__} has no record batches: its schema is not declared")
        return self._with_columnar(columnar=True)

    def _with_columnar(self, *, columnar: bool) -> Self:
        if self.columnar == columnar:
            return self
        other = copy.copy(self)
        other.columnar = columnar
        return other


# A sequence of longs, cut over the subtasks as in Flink
#
# Source: org.apache.flink.api.connector.source.lib.NumberSequenceSource,
# org.apache.flink.util.NumberSequenceIterator.split.


_BATCH_ROWS = 65_536


class NumberSequenceSource(Source):
    """The longs from `start` to `end`, both inclusive; a subtask's own are one range, in order.

    TypeError if one of them is no int, ValueError if it is no long or `start` is above `end`. The
    record batches of `batches()` have one column `value`. Flink gives a range to whichever subtask asks
    first; here range i is subtask i's.
    """

    has_batches = True

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        require_integer(start, "'from'")
        require_integer(end, "'to'")
        if start > end:
            raise ValueError(f"'from' must be <= 'to', got {start} and {end}")
        self.start, self.end = start, end
        self.type_info = Types.LONG()

    def fingerprint(self) -> str:
        """Its first and its last number."""
        return f"{self.start} {self.end}"

    def splits(self, parallelism: int) -> list[list[tuple[int, int]]]:
        """One range (first, last) per subtask, none for those that would get no number; longer ones first."""
        share, longer = divmod(self.end - self.start + 1, parallelism)
        ranges, first = [], self.start
        for subtask in range(parallelism):
            after = first + share + (subtask < longer)
            ranges.append([(first, after - 1)] if after > first else [])
            first = after
        return ranges

    def read(self, split: tuple[int, int], context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        """The numbers of a range."""
        first, last = split
        after = last + 1
        if not self.columnar:
            for start in range(first, after, CHUNK_VALUES):
                yield Chunk(list(range(start, min(start + CHUNK_VALUES, after))))
            return
        for start in range(first, after, _BATCH_ROWS):
            # not arange(start, end): the end of the last range may exceed 64 bits
            numbers = np.arange(min(_BATCH_ROWS, after - start), dtype=np.int64) + start
            yield StampedBatch(pa.RecordBatch.from_arrays([pa.array(numbers)], ["value"]))
