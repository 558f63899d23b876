"""A sequence of longs, cut over the subtasks as Flink cuts it.

Source: org.apache.flink.api.connector.source.lib.NumberSequenceSource,
org.apache.flink.util.NumberSequenceIterator.split.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.arguments import require_integer
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.source import Source
from penstock.operators.formats.chunks import CHUNK_VALUES, Chunk, StampedBatch

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
            raise ValueError(f"'from' must be <= 'to': found {start} and {end}")
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
            # not arange(start, end): the end of the last range of longs is no long
            numbers = np.arange(min(_BATCH_ROWS, after - start), dtype=np.int64) + start
            yield StampedBatch(pa.RecordBatch.from_arrays([pa.array(numbers)], ["value"]))
