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
    """Base of sources: bounded input, made on the driver, pickled, read in the subtasks.

    A subclass defines `splits`, `read` and `fingerprint`. It yields rows (`Chunk`) or, if `columnar` is true,
    record batches (`StampedBatch`) with one column per field, or the one column `value`. A source that can do
    both yields rows until `batches()` is called.
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
        """Return a text that differs whenever `read` would return other records.

        A run whose driver was killed right after its commit is not repeated if all sources have the same
        fingerprint as then. Data that changes, such as a file, must show in it.

        Returns:
            str | None: None if that is unknown; each run is then a new one.
        """

    @abstractmethod
    def splits(self, parallelism: int) -> list[list[Any]]:
        """Return the splits of each subtask.

        Args:
            parallelism: Number of subtasks.

        Returns:
            list[list]: One list per subtask, picklable, the same at each call.
        """
        raise NotImplementedError

    @abstractmethod
    def read(self, split: Any, context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        """Read a split.

        Args:
            split: One of `splits`.
            context: The OperatorContext of the subtask.

        Returns:
            Chunks of bounded size, none empty, in order.
        """
        raise NotImplementedError

    def rows(self) -> Self:
        """Return this source, yielding rows."""
        return self._with_columnar(columnar=False)

    def batches(self) -> Self:
        """Return this source, yielding record batches.

        Raises:
            ValueError: Its records have no columns.
        """
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
    """Generates integers; each subtask gets one range, in order.

    Batches have one column `value`. Range i is subtask i's; in Flink, a range goes to the subtask that asks
    first.

    Args:
        start: The first, an integer of 64 bits.
        end: The last, not below `start`.

    Raises:
        TypeError: Not integers.
        ValueError: Out of range.
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
        return f"{self.start} {self.end}"

    def splits(self, parallelism: int) -> list[list[tuple[int, int]]]:
        share, longer = divmod(self.end - self.start + 1, parallelism)
        ranges, first = [], self.start
        for subtask in range(parallelism):
            after = first + share + (subtask < longer)
            ranges.append([(first, after - 1)] if after > first else [])
            first = after
        return ranges

    def read(self, split: tuple[int, int], context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
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
